"""How far means of bounded numbers stray from what they estimate: Bennett's form of Bernstein.

For independent X_k with variance at most v on average and X_k − E X_k ≤ b,
Pr[mean − E ≥ t] ≤ exp(−N (v/b²) h(bt/v)), h(u) = (1 + u)ln(1 + u) − u. It implies Bernstein's
exp(−Nt²/(2(v + bt/3))) and holds for people drawn from a population as for people as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.privacy.exact.rounding import positive, probability

_STEPS = 60  # halvings of an interval: beyond, doubles do not tell its ends apart
_MOST_PEOPLE = 2**62
# squares of it and of its inverse, and weights beside them, are floats
_LEAST_ERROR = 1e-50


@dataclass(frozen=True)
class MaxError:
    """All answers, as shares of people, within `error` of the truth but with probability `beta`."""

    error: float
    beta: float = 0.05

    def __post_init__(self) -> None:
        positive("max_error", self.error, "0.05 is 5 in a hundred")
        if not _LEAST_ERROR <= self.error <= 1 / _LEAST_ERROR:
            rule = f"must lie between {_LEAST_ERROR:g} and {1 / _LEAST_ERROR:g}"
            raise InvalidParameter(
                "max_error", self.error, rule, "0.05 is 5 in a hundred"
            )

        check_beta(self.beta)


@dataclass(frozen=True, eq=False)
class Tails:
    """Per query: the variance of one report's number, its range both ways, and the bias both ways.

    `above` limits how far one number exceeds its mean, `below` how far it falls short of it;
    `over` and `under` are how far the mean itself can lie above and below the truth.
    """

    variance: FloatArray
    above: FloatArray
    below: FloatArray
    over: FloatArray
    under: FloatArray

    @property
    def bias(self) -> FloatArray:
        """The largest bias of every query."""
        return np.maximum(self.over, self.under)

    def failure(self, error: float, people: int) -> float:
        """A bound on the chance that any query is further than `error` from the truth."""
        return float(sum(side.sum() for side in self.chances(error, people)))

    def chances(self, error: float, people: int) -> tuple[FloatArray, FloatArray]:
        """Bounds on the chances that each query is `error` above, and below, the truth."""
        up = self._exceed(error - self.over, self.above, people)
        return up, self._exceed(error - self.under, self.below, people)

    def _exceed(self, room: FloatArray, reach: FloatArray, people: int) -> FloatArray:
        known = reach <= 0  # one number that never moves
        v = np.where(known, 1.0, self.variance)
        b = np.where(known, 1.0, reach)
        v = np.maximum(v, 1e-300)
        u = np.maximum(room, 0.0) * b / v
        exponent = people * (v / b**2) * ((1 + u) * np.log1p(u) - u)
        chance = np.exp(-exponent)
        chance[known & (room >= 0)] = 0.0

        return np.asarray(chance)

    def error(self, people: int, beta: float) -> float:
        """With probability 1 − β at least, all queries are this near the truth."""
        check_beta(beta)
        require(people >= 1, "people", people, "must be a whole number >= 1")

        low = 0.0
        high = float(
            np.max(self.bias + np.maximum(self.above, self.below), initial=0.0)
        )
        if self.failure(high, people) > beta:
            return high  # no mean strays further than one number can

        return _least(lambda error: self.failure(error, people) <= beta, low, high)

    def people_for(self, error: float, beta: float) -> int:
        """The fewest people for which `error` holds."""
        check_beta(beta)
        if not error > float(self.bias.max(initial=0.0)):
            raise InvalidParameter(
                "error",
                error,
                f"must be above the bias {self.bias.max():.4g}",
                "allow a larger one",
            )

        low = 0
        high = 1
        while self.failure(error, high) > beta:
            low = high
            high = 2 * high
            if high > _MOST_PEOPLE:
                raise TooLarge(
                    f"an error of {error:g} needs more than {_MOST_PEOPLE:.1e} people"
                )

        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.failure(error, middle) <= beta else (middle, high)
            )

        return high


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def biases(targets: FloatArray, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far targets lie above and below a matrix, at most, in every row."""
    away = targets - matrix
    return np.maximum(away.max(axis=1), 0.0), np.maximum(-away.min(axis=1), 0.0)


def check_beta(beta: float) -> float:
    """Refuse chances of failure outside (0, 1)."""
    probability("beta", beta, "0.05 is customary")
    return float(beta)
