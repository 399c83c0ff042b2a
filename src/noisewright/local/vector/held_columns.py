"""The vectors that people hold: columns of a factorization of the workload, as whole numbers.

The number of people is public, so a workload is factorized up to a shift of every query, and only
differences between columns matter (replace-one neighbours).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.strategy import DENSE_SIZE
from noisewright.norm.factorize import factorize
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.workload.base import Workload

RESOLUTION = 2**28
"""Grid steps to the largest distance between columns: what rounding leaves out of reach of the
workload is then a few billionths of it, below what double precision would lose anyway."""

_MARGIN = 1 + Fraction(1, 10**9)
"""Above the rounding of squared distances: 4(r + 3)·2^-53 of the largest, for r ≤ 2^19 rows."""

_SHIFTED = 128
_FACTORIZED = 1024
"""Cells up to which free shifts are used, and up to which a factorization is sought at all."""


# several mechanisms over one workload are built one after the other
@lru_cache(maxsize=4)
def factor_columns(workload: Workload) -> FloatArray:
    """Columns of a least-error strategy, centred; read only."""
    n = workload.size
    if n > DENSE_SIZE:
        raise TooLarge(
            f"vectors over {n} cells are too many; the limit is {DENSE_SIZE}"
        )

    if n <= _FACTORIZED:
        neighbours = "replace-one" if n <= _SHIFTED else "add-remove"
        columns = factorize(
            workload, norm=2, neighbours=neighbours, tolerance=1e-3
        ).strategy.dense()
    else:
        columns = _fourth_root(workload)

    centred = columns - columns.mean(axis=1, keepdims=True)
    # An orthonormal basis of what the columns span: fewer coordinates, same distances.
    values, vectors = np.linalg.eigh(centred.T @ centred)
    support = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    if not support.any() or values[-1] <= 1e-20 * float(np.abs(columns).max()) ** 2:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "asks for totals only, which follow from the number of people",
            "ask for something that differs between people",
        )

    result = np.sqrt(values[support])[:, None] * vectors[:, support].T
    result.setflags(write=False)
    return np.asarray(result)


def _fourth_root(workload: Workload) -> FloatArray:
    """(PMP)^{1/4}: the optimum when all cells are alike, and near it when they are not."""
    m = workload.gram().dense()
    m -= m.mean(axis=0)
    m -= m.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh((m + m.T) / 2)
    support = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return np.asarray(values[support, None] ** 0.25 * vectors[:, support].T)


def whole_columns(
    columns: FloatArray, largest: float, resolution: int = RESOLUTION
) -> IntArray:
    """Columns on a grid that gives `largest` (a distance between columns) that many steps."""
    return np.rint(columns * (resolution / largest)).astype(np.int64)


def largest_distance(columns: FloatArray | IntArray, order: int) -> float:
    """Largest ℓ1 or ℓ2 distance between two columns; of whole numbers never understated.

    Columns are taken from the first one: what all of them share costs no digits then, for none is
    longer than the largest distance, and rounding is a share of that. ℓ1 of whole numbers is exact.
    """
    moved = columns - columns[:, :1]
    if order == 2:
        values = moved.astype(np.float64)  # exact: whole numbers here are below 2^50
        squares = (values**2).sum(axis=0)
        largest = float(
            (squares[:, None] + squares[None, :] - 2 * values.T @ values).max()
        )
        return root_above(Fraction(max(largest, 0.0)) * _MARGIN)

    if moved.dtype.kind == "i" and 2 * len(moved) * int(np.abs(moved).max()) >= 2**62:
        moved = moved.astype(object)

    each = (
        np.abs(moved - moved[:, [u]]).sum(axis=0).max() for u in range(moved.shape[1])
    )
    return float_above(Fraction(max(each)))
