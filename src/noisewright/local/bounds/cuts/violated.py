"""Cuts that moments violate: whole vectors b with Var(bᵀx) < f(1 − f), the deepest first.

No x of zeros and ones has such moments, f being the fractional part of the mean of bᵀx. A cut takes
off the more of a relaxation the further its moments are beyond it, as a distance between matrices:
by (f(1 − f) − Var bᵀx)/‖b‖², about. So sparse vectors come first; cuts with many entries say much
less for the same breach, and hold up those who weigh them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.work import pass_over


@dataclass(frozen=True)
class Tries:
    """From where vectors are looked for, and which are taken."""

    starts: int = 2000
    """Half as many prove as much."""
    entries: tuple[float, ...] = (2.0, 3.0, 4.0, 6.0, 8.0)
    """Mean numbers of them in a start: all twos prove as much."""
    least_breach: float = 1e-3
    """Ten times more loses little, ten times less gains nothing."""
    least_gain: float = 1e-6
    """Of a change in depth: below it is rounding."""
    constant: float = 2.0
    """Added to ‖b‖²: a cut has a constant too."""


_TRIES = Tries()

_CHANGES = 6
"""Of a vector in the mean: for counting operations."""

_PASSES = 30
"""Over all neighbours of a vector, for a change: for counting operations."""


def cut_search_work(cells: int) -> float:
    """Operations of a search for cuts, about."""
    return _CHANGES * _PASSES * pass_over(2 * _TRIES.starts * cells)


def violated_cuts(
    mean: FloatArray,
    covariance: FloatArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Vectors b and whole numbers c, those of the mean of bᵀx: the deepest first."""
    n = len(mean)
    shape = (_TRIES.starts, n)
    draws = rng.random(shape)
    entries = rng.choice(_TRIES.entries, (_TRIES.starts, 1))
    signs = rng.choice([-1.0, 1.0], shape)
    starts = np.where(draws < entries / n, signs, 0.0)
    b = _descended(starts, mean, covariance)

    # A single cell's cut is zero for every set, and b and −b are one cut.
    b = b[np.abs(b).sum(axis=1) > 1]
    first = np.argmax(b != 0, axis=1)
    leading = b[np.arange(len(b)), first]
    b = np.unique(b * np.sign(leading)[:, None], axis=0)

    variances = np.einsum("bi,bi->b", b @ covariance, b)
    breach = -_excess(variances, b @ mean)
    deep = np.flatnonzero(breach > _TRIES.least_breach)
    depth = breach[deep] / _squares(b[deep])
    order = deep[np.argsort(-depth)]
    whole = b[order].astype(np.int64)
    offsets = np.floor(whole @ mean)
    return whole, offsets.astype(np.int64)


def _excess(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Var − f(1 − f): negative where no whole number has this variance and mean."""
    part = mean - np.floor(mean)
    return variance - part * (1 - part)


def _squares(b: FloatArray) -> FloatArray:
    """‖b‖² and a constant."""
    return np.asarray(np.square(b).sum(axis=1) + _TRIES.constant)


def _descended(
    b: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
) -> FloatArray:
    """Where vectors end whose best entry changes by one, until none gets deeper."""
    n = len(mean)
    ended = []
    for _ in range(3 * n):
        # (Var − f(1 − f))/‖b‖², the least being the deepest.
        covariances = b @ covariance
        variances = np.einsum("bi,bi->b", covariances, b)
        depths = _excess(variances, b @ mean) / _squares(b)

        neighbours = []
        for sign in (1.0, -1.0):
            moved = variances[:, None] + 2 * sign * covariances
            moved += np.diagonal(covariance)
            squares = _squares(b)[:, None] + (2 * sign * b + 1.0)
            means = (b @ mean)[:, None] + sign * mean
            neighbours.append(_excess(moved, means) / squares)

        changed = np.hstack(neighbours)
        choice = changed.argmin(axis=1)
        falling = changed.min(axis=1) < depths - _TRIES.least_gain
        ended.append(b[~falling])
        b = b[falling]
        if not len(b):
            break

        place = choice[falling]
        step = np.where(place < n, 1.0, -1.0)
        b[np.arange(len(b)), place % n] += step

    return np.concatenate([*ended, b])
