"""Standard errors of means, second moments and covariances that follow from one noisy matrix.

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

    def covariance(self, second: FloatArray, mean: FloatArray) -> FloatArray:
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
