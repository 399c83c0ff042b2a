"""Noisy matrices of second moments, brought back to what second moments can be.

Standard errors of means, second moments and covariances that follow from one noisy matrix.

Measured is M = Σyyᵀ + N over people whose rows are y = (x, s), s the constant entry: x in units of
the radius, so that no x is longer than one. Entries of N are uncorrelated. Where the number of
people is protected it is n̂ = M_ss/s², and its noise ν = N_ss/(s²n) is in all that is divided by it.
To first order, with a = Σxxᵀ/n and b = Σx/n:

- second moments err by N_ij/n − a_ij·ν,
- means by N_is/(sn) − b_i·ν,
- covariances a − bbᵀ by N_ij/n − (b_j·N_is + b_i·N_js)/(sn) − (a_ij − 2b_i·b_j)·ν.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.estimate.nearest import Possible

_BEYOND = 1.02  # of the noise's largest simulated eigenvalue
_TURNS = 8  # half as many are .08 % worse at 40 columns of 3 factors, twice as many no better
_MOST_TURNS = 1000  # of the descent, which ends by its gradient


def possible_moments(
    matrix: FloatArray,
    trace: float,
) -> FloatArray:
    """The nearest symmetric matrix with no negative direction and at most this trace.

    Second moments of rows no longer than √trace are such; the noisy ones need not be.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(
        (vectors * Possible(trace, at_most=True).nearest(values)) @ vectors.T
    )


def _beyond(
    values: FloatArray,
    spectrum: FloatArray,
) -> FloatArray:
    """What is left of eigenvalues λ beyond those of the noise, ν; zero of all others.

    It is -g/g', g(λ) the mean of 1/(λ - ν): nearest on average when the direction, too, is known
    only roughly (√(λ² - edge²) for Gaussian noise).
    """
    kept = np.zeros_like(values)
    beyond = values > _BEYOND * spectrum.max(initial=0.0)
    distances = 1.0 / (values[beyond, None] - spectrum)
    kept[beyond] = distances.mean(axis=1) / (distances**2).mean(axis=1)
    return kept


def above_noise(
    matrix: FloatArray,
    spectrum: FloatArray,
    trace: float,
) -> FloatArray:
    """Directions whose moments stand out of noise whose eigenvalues are about `spectrum`.

    What is left of the trace is spread evenly over the others, where it does least harm.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = _beyond(values, spectrum)
    others = kept == 0.0
    if others.any():
        left = max(
            0.0,
            min(trace, float(values.sum())) - float(kept.sum()),
        )
        kept = np.where(others, left / others.sum(), kept)

    return np.asarray(
        (vectors * Possible(trace, at_most=True).nearest(kept)) @ vectors.T
    )


def beyond_noise(
    matrix: FloatArray,
    spectrum: FloatArray,
) -> FloatArray:
    """A symmetric matrix less noise whose eigenvalues are about `spectrum`: nearest on average.

    Directions that noise alone explains are dropped.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * _beyond(values, spectrum)) @ vectors.T)


def nearest_correlation(matrix: FloatArray) -> FloatArray:
    """The nearest symmetric matrix of ones on the diagonal with no negative direction.

    By its dual, one number per column: the positive part of a matrix with another diagonal. The
    last step makes the diagonal exact, which leaves a matrix of the set whatever the steps did.
    """
    from scipy.optimize import minimize

    target = (matrix + matrix.T) / 2

    def positive(diagonal: FloatArray) -> FloatArray:
        values, vectors = np.linalg.eigh(target + np.diag(diagonal))
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def dual(diagonal: FloatArray) -> tuple[float, FloatArray]:
        part = positive(diagonal)
        return float((part**2).sum() / 2 - diagonal.sum()), np.diag(part) - 1.0

    best = minimize(
        dual,
        1.0 - np.diag(target),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _MOST_TURNS,
            "ftol": 1e-15,
            "gtol": 1e-10,
        },
    )
    part = positive(best.x)
    lengths = np.sqrt(np.maximum(np.diag(part), 1e-12))
    result = part / np.outer(lengths, lengths)
    np.fill_diagonal(result, 1.0)

    return np.asarray(result)


def common_factors(
    matrix: FloatArray,
    spectrum: FloatArray,
) -> FloatArray:
    """What few directions explain of the entries off the diagonal of a noisy covariance matrix.

    The diagonal holds what each column varies by itself and says nothing of the others: in turns it
    is taken from the directions, and they from the matrix.
    """
    explained = np.zeros_like(matrix)
    for _ in range(_TURNS):
        off = matrix.copy()
        np.fill_diagonal(off, np.diagonal(explained))
        explained = beyond_noise(off, spectrum)
    return explained


def possible_pairs(
    covariance: FloatArray,
    means: FloatArray,
) -> FloatArray:
    """Shares with both of two attributes, within what the shares with each of them allow."""
    lowest = np.maximum(0.0, means[:, None] + means - 1.0)
    highest = np.minimum(means[:, None], means)
    result = (covariance + np.outer(means, means)).clip(lowest, highest)
    np.fill_diagonal(result, means)
    return result


@dataclass(frozen=True)
class MomentErrors:
    """Errors times the number of people, in radii, of so many columns.

    `on` and `off` are the variances of an entry of the noise on and off the diagonal; `counted`
    says whether people are counted from the same matrix, and not public.
    """

    columns: int
    on: float
    off: float
    share: float
    counted: bool

    @property
    def of_people(self) -> float:
        """The variance of the number of people, where it is noisy."""
        return self.on / self.share**4 if self.counted else 0.0

    @property
    def of_sum(self) -> float:
        """The variance of a column's sum."""
        return self.off / self.share**2

    @property
    def _entries(self) -> FloatArray:
        """Variances of the noise on Σxxᵀ."""
        return np.where(np.eye(self.columns, dtype=bool), self.on, self.off)

    # --- at what was measured, or is assumed ----------------------------------------------------

    def second_moment(self, second: FloatArray) -> FloatArray:
        """Of every second moment, where they are these."""
        return np.sqrt(self._entries + second**2 * self.of_people)

    def mean(self, mean: FloatArray) -> FloatArray:
        """Of every mean, where they are these."""
        return np.sqrt(self.of_sum + mean**2 * self.of_people)

    def covariance(
        self,
        second: FloatArray,
        mean: FloatArray,
    ) -> FloatArray:
        """Of every covariance, where second moments and means are these."""
        squares = mean**2
        products = squares[:, None] + squares + 2 * np.diag(squares)
        counted = (second - 2 * np.outer(mean, mean)) ** 2 * self.of_people
        return np.sqrt(self._entries + products * self.of_sum + counted)

    # --- at worst, whatever the people ----------------------------------------------------------

    @property
    def largest(self) -> FloatArray:
        """What second moments of rows within the radius can be: a product is 1/2 at most."""
        return np.where(np.eye(self.columns, dtype=bool), 1.0, 0.5)

    def worst_entries(self) -> FloatArray:
        """Of every second moment at most."""
        return self.second_moment(self.largest)

    def worst(self) -> dict[str, float]:
        """The root of summed squares at most, all entries together.

        Each is attained where all people have the same row of full length: ‖a‖, ‖b‖ and
        ‖a − 2bbᵀ‖ are at most one, the last since a − bbᵀ has no negative direction and at most
        the trace 1 − ‖b‖².
        """
        d = self.columns
        second = d * self.on + d * (d - 1) * self.off
        result = {"second_moment": sqrt(second + self.of_people)}
        if self.share:
            # ‖beᵀ + ebᵀ‖² is 2(d + 1)·‖b‖² on average where the entries of e vary by one.
            products = 2 * (d + 1) * self.of_sum
            result |= {
                "mean": sqrt(d * self.of_sum + self.of_people),
                "covariance": sqrt(second + products + self.of_people),
            }

        return result
