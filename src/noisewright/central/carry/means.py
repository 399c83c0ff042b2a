"""Carries for other means of errors than squares: p-th means, and the largest error.

Least squares with queries weighed by w have the least p-th mean where w_i is the derivative of that
mean by the variance of query i. Weighing anew finds who takes cores back; how wide the cores are is
found by descent on the mean itself, since every variance is a sum of smooth functions of one core
each. For the largest error the mean is one of ever higher powers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.law import CoreMoments
from noisewright.central.carry.search import best_carries

_ROUNDS = 3  # of weights given carries, and carries given weights
_EVERY = 2  # rounds after which widths are found by descent
_PACE = 2.0  # power of the variances by which the largest are weighed up
_POWERS = (8.0, 64.0, 512.0)  # of variances, for the largest
_STEPS = 40  # of descent at each power
_FLOOR = 1e-6  # of the largest weight: a query without any would be forgotten
_WIDEST = 400.0  # scales of the noise
_TINY = 1e-300  # budgets of hundreds leave no variances that a float holds


@dataclass(frozen=True, eq=False)
class CoreWidths:
    """The variances of queries where carries keep their shares, and cores are as wide as asked."""

    queries: FloatArray
    carries: Carries
    scale: float

    @cached_property
    def _coefficients(
        self,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What E s², E[sr] and E r² of every row count for in every query."""
        cores = np.maximum(self.carries.cores, 1).astype(np.float64)
        excess = self.queries
        inside = np.asarray(self.queries @ self.carries.full_cores) / cores
        return excess**2, 2 * excess * inside, inside**2

    @property
    def cores(self) -> FloatArray:
        """In scales of the noise."""
        return np.asarray(self.carries.cores / self.scale)

    def mean(self, cores: FloatArray, power: float) -> tuple[float, FloatArray]:
        """ln of the mean of this power of the variances, and its slopes, for cores in scales."""
        moments = CoreMoments(cores * self.scale, self.scale)
        beyond, cross, inside = self._coefficients
        variances = (
            beyond @ moments.beyond + cross @ moments.cross + inside @ moments.inside
        )
        value, shares = log_mean(variances, power)

        slopes = np.zeros_like(cores)

        for part, slope in zip(self._coefficients, moments.slopes, strict=True):
            slopes += (shares @ part) * slope

        return value, slopes * self.scale

    def descended(self, power: float) -> Carries:
        """With the best widths."""
        from scipy.optimize import Bounds, minimize

        # A core that nobody takes back, as a row without one has it, stays as it is.
        most = np.where(self.carries.cores > 0, _WIDEST, 0.0)
        result = minimize(
            self.mean,
            np.minimum(self.cores, most),
            args=(power,),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(np.zeros_like(most), most),
            options={"maxiter": _STEPS},
        )

        return self.carries.with_cores(result.x * self.scale)


def carries_for_mean(
    queries: FloatArray,
    order: IntArray,
    scale: float,
    norm: float,
    cancelled: bool = False,
) -> Iterator[Carries]:
    """Carries worth comparing by their exact errors."""
    weights = np.ones(len(queries))
    for number in range(_ROUNDS):
        gram = queries.T @ (weights[:, None] * queries)
        carries = best_carries(gram, order, scale, cancelled)[1]
        yield carries

        variances = np.einsum(
            "ij,ij->i",
            queries @ carries.covariance(scale),
            queries,
        )
        weights = _weighed_anew(weights, variances, norm)
        if number % _EVERY == 0:
            for power in powers(norm):
                carries = CoreWidths(queries, carries, scale).descended(power)
            yield carries


def powers(norm: float) -> tuple[float, ...]:
    """Of variances, whose means are made small in turn to make this mean of errors small."""
    return _POWERS if np.isinf(norm) else (norm / 2,)


def log_mean(variances: FloatArray, power: float) -> tuple[float, FloatArray]:
    """ln of the mean of this power, up to a constant, and its derivatives by the variances."""
    variances = np.maximum(variances, _TINY)
    largest = float(variances.max())
    shares = (variances / largest) ** (power - 1)
    total = float(shares @ variances)
    value = np.log(largest) + np.log(total / largest) / power
    return float(value), shares / total


def _weighed_anew(
    weights: FloatArray,
    variances: FloatArray,
    norm: float,
) -> FloatArray:
    """Towards the derivatives of the mean; for the largest error, ever more for large ones."""
    shares = np.maximum(variances / max(variances.max(), _TINY), _FLOOR)
    if np.isinf(norm):
        after = weights * shares**_PACE
    else:
        after = np.sqrt(weights * shares ** (norm / 2 - 1))
    return np.asarray(np.maximum(after / after.max(), _FLOOR))
