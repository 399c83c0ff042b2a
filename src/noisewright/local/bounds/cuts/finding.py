"""Cuts that given moments violate, found by changes of one entry of a whole vector at a time.

A cut b takes off the more of a relaxation the further its moments are beyond it, as a distance
between matrices: by (f(1 − f) − Var bᵀx)/‖b‖², about. So sparse vectors come first; cuts with many
entries say much less for the same breach, and hold up those who weigh them.
"""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.work import touched

_STARTS = 2000
_FILLED = (2.0, 3.0, 4.0, 6.0, 8.0)
_LEAST_BREACH = 1e-3
_LEAST_RISE = 1e-6
# of a vector in the mean, and over all its neighbours at each
_CHANGES = 6
_PASSES = 30
_SHIFT = 2.0  # a cut has a constant too


def finding(cells: int) -> float:
    """Operations of a search for cuts, about."""
    return _CHANGES * _PASSES * touched(2 * _STARTS * cells)


def violated(
    mean: FloatArray, covariance: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Whole vectors b with Var(bᵀx) < f(1 − f), f the fractional part of the mean of bᵀx.

    No x of zeros and ones has such moments. The deepest come first; c is the whole part of the
    mean.
    """
    n = len(mean)
    filled = rng.random((_STARTS, n)) < rng.choice(_FILLED, (_STARTS, 1)) / n
    starts = np.where(filled, rng.choice([-1.0, 1.0], (_STARTS, n)), 0.0)
    b = _Descent.of(starts, mean, covariance).ended()
    b = b[np.abs(b).sum(axis=1) > 1]  # a single cell's cut is zero for every set
    leading = b[np.arange(len(b)), np.argmax(b != 0, axis=1)]
    b = np.unique(np.where(leading[:, None] < 0, -b, b), axis=0)
    breach = -_excess(np.einsum("bi,bi->b", b @ covariance, b), b @ mean)
    b = b[breach > _LEAST_BREACH]
    breach = breach[breach > _LEAST_BREACH]
    depth = breach / (np.square(b).sum(axis=1) + _SHIFT)
    whole = b[np.argsort(-depth)].astype(np.int64)

    return whole, np.floor(whole @ mean).astype(np.int64)


def _excess(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Var − f(1 − f): negative where no whole number has this variance and mean."""
    part = mean - np.floor(mean)
    return np.asarray(variance - part * (1 - part))


class _Descent:
    """Vectors that still change: the best entry of each by one, until none gets deeper."""

    def __init__(
        self, mean: FloatArray, covariance: FloatArray, *parts: FloatArray
    ) -> None:
        self.mean = mean
        self.covariance = covariance
        self.b, self.pulled, self.middle, self.spread, self.squares, self.worth = parts

    @classmethod
    def of(cls, b: FloatArray, mean: FloatArray, covariance: FloatArray) -> _Descent:
        """All vectors at their start."""
        pulled = b @ covariance
        middle = b @ mean
        spread = np.einsum("bi,bi->b", pulled, b)
        squares = np.square(b).sum(axis=1) + _SHIFT
        worth = _excess(spread, middle) / squares
        return cls(mean, covariance, b, pulled, middle, spread, squares, worth)

    def _worths(self, sign: float) -> FloatArray:
        """What each becomes with an entry changed by `sign`, for every entry."""
        spread = 2 * sign * self.pulled
        spread += self.spread[:, None]
        spread += np.diagonal(self.covariance)
        squares = 2 * sign * self.b
        squares += self.squares[:, None] + 1.0
        worths = _excess(spread, self.middle[:, None] + sign * self.mean)
        worths /= squares

        return worths

    def ended(self) -> FloatArray:
        """Where all of them end."""
        n = len(self.mean)
        done = []
        for _ in range(3 * n):
            worths = np.hstack([self._worths(1.0), self._worths(-1.0)])
            choice = worths.argmin(axis=1)
            best = worths[np.arange(len(choice)), choice]
            falling = best < self.worth - _LEAST_RISE
            done.append(self.b[~falling])
            if not falling.any():
                break
            self._change(falling, choice[falling], best[falling])
        else:
            done.append(self.b)

        return np.concatenate(done)

    def _change(self, falling: FloatArray, choice: IntArray, worth: FloatArray) -> None:
        """Go on with those that fall, each by its best change."""
        n = len(self.mean)
        sign = np.where(choice < n, 1.0, -1.0)
        cell = choice % n
        row = np.arange(len(choice))
        b = self.b[falling]
        pulled = self.pulled[falling]
        self.spread = self.spread[falling] + 2 * sign * pulled[row, cell]
        self.spread += np.diagonal(self.covariance)[cell]
        self.middle = self.middle[falling] + sign * self.mean[cell]
        self.squares = self.squares[falling] + 2 * sign * b[row, cell] + 1.0
        pulled += sign[:, None] * self.covariance[cell]
        b[row, cell] += sign
        self.b = b
        self.pulled = pulled
        self.worth = worth
