"""w G wᵀ for every query w: variances of all answers from a covariance over cells, without W."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from noisewright.workload.algebra import Stack, Weighted
from noisewright.workload.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.base import FloatArray, Workload

_BLOCK_ENTRIES = 2**24


@singledispatch
def row_quadratics(workload: Workload, matrix: FloatArray) -> FloatArray:
    """The quadratic form of a symmetric `matrix` over cells at every query, by blocks of rows."""
    result = np.empty(workload.queries)
    step = max(1, _BLOCK_ENTRIES // max(1, workload.size))
    for start in range(0, workload.queries, step):
        rows = workload.rows(start, start + step)
        result[start : start + len(rows)] = np.einsum("ij,ij->i", rows @ matrix, rows)
    return result


@row_quadratics.register
def _(workload: Identity, matrix: FloatArray) -> FloatArray:
    return np.array(np.diagonal(matrix))


@row_quadratics.register
def _(workload: Total, matrix: FloatArray) -> FloatArray:
    return np.array([matrix.sum()])


@row_quadratics.register
def _(workload: Prefix, matrix: FloatArray) -> FloatArray:
    return np.array(np.diagonal(_corner_sums(matrix)))[1:]


@row_quadratics.register
def _(workload: Ranges, matrix: FloatArray) -> FloatArray:
    sums = _corner_sums(matrix)
    first, last = np.triu_indices(workload.cells)
    diagonal = np.diagonal(sums)
    return np.asarray(diagonal[last + 1] + diagonal[first] - 2 * sums[first, last + 1])


@row_quadratics.register
def _(workload: Stack, matrix: FloatArray) -> FloatArray:
    return np.concatenate([row_quadratics(part, matrix) for part in workload.parts])


@row_quadratics.register
def _(workload: Weighted, matrix: FloatArray) -> FloatArray:
    return workload.weight**2 * row_quadratics(workload.inner, matrix)


def _corner_sums(matrix: FloatArray) -> FloatArray:
    """Sums of the matrix over [0, i) × [0, j)."""
    sums = np.zeros((len(matrix) + 1, len(matrix) + 1))
    np.cumsum(np.cumsum(matrix, axis=0), axis=1, out=sums[1:, 1:])
    return sums
