"""The vectors that people hold: columns of a factorization of the workload, as whole numbers.

The number of people is public, so a workload is factorized up to a shift of every query, and only
differences between columns matter (replace-one neighbours).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.strategy import DENSE_SIZE, IntArray
from noisewright.norm.factorize import factorize
from noisewright.workload.base import FloatArray, Workload

RESOLUTION = 2**28
"""Grid steps to the largest distance between columns: what rounding leaves out of reach of the
workload is then a few billionths of it, below what double precision would lose anyway."""

_SHIFTED, _FACTORIZED = 128, 1024
"""Cells up to which free shifts are used, and up to which a factorization is sought at all."""


@lru_cache(maxsize=4)  # several mechanisms over one workload are built one after the other
def factor_columns(workload: Workload) -> FloatArray:
    """Columns of a least-error strategy, centred; read only."""
    n = workload.size
    if n > DENSE_SIZE:
        raise TooLarge(f"vectors over {n} cells are too many; the limit is {DENSE_SIZE}")
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
    kept = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    if not kept.any() or values[-1] <= 1e-20 * float(np.abs(columns).max()) ** 2:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "asks for totals only, which follow from the number of people",
            "ask for something that differs between people",
        )
    result = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    result.setflags(write=False)
    return np.asarray(result)


def _fourth_root(workload: Workload) -> FloatArray:
    """(PMP)^{1/4}: the optimum when all cells are alike, and near it when they are not."""
    m = workload.gram().dense()
    m -= m.mean(axis=0)
    m -= m.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh((m + m.T) / 2)
    kept = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return np.asarray(values[kept, None] ** 0.25 * vectors[:, kept].T)


def whole_columns(columns: FloatArray, largest: float, resolution: int = RESOLUTION) -> IntArray:
    """Columns on a grid that gives `largest` (a distance between columns) that many steps."""
    return np.rint(columns * (resolution / largest)).astype(np.int64)


def largest_distance(columns: FloatArray, order: int) -> float:
    """Largest ℓ1 or ℓ2 distance between two columns, never understated."""
    values = np.asarray(columns, dtype=np.float64)
    if order == 2:
        squares = (values**2).sum(axis=0)
        gram = values.T @ values
        largest = float((squares[:, None] + squares[None, :] - 2 * gram).max())
        return float(np.sqrt(max(largest, 0.0)) * (1 + 1e-9))
    largest = 0.0
    for u in range(values.shape[1]):
        largest = max(largest, float(np.abs(values - values[:, [u]]).sum(axis=0).max()))
    return largest * (1 + 1e-12)
