"""w G wᵀ for every query w: variances of all answers from a covariance over cells, without W."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from noisewright.workload.algebra import Kron, Stack, Weighted, kron
from noisewright.workload.atoms import Explicit, Identity, Parity, Prefix, Ranges, Total
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.marginals import Marginals, OnAttributes
from noisewright.workload.tensor import apply_along_axes, sum_out

_BLOCK_ENTRIES = 2**24
_SMALL_PRODUCT = 64  # cells up to which rows are quicker than recursion


@singledispatch
def row_quadratics(workload: Workload, matrix: FloatArray) -> FloatArray:
    """The quadratic form of a symmetric `matrix` over cells at every query, by blocks of rows."""
    return _by_rows(workload, matrix)


def _by_rows(workload: Workload, matrix: FloatArray) -> FloatArray:
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


@row_quadratics.register
def _(workload: Kron, matrix: FloatArray) -> FloatArray:
    """In halves: the form of w₁ ⊗ w₂ is that of w₁ on what the form of w₂ leaves."""
    factors = workload.factors
    if len(factors) == 1:
        return row_quadratics(factors[0], matrix)
    if workload.size <= _SMALL_PRODUCT:
        return _by_rows(workload, matrix)
    sizes = np.cumprod([float(factor.size) for factor in factors[:-1]])
    split = 1 + int(np.argmin(np.abs(np.log(sizes) - np.log(workload.size) / 2)))
    first, rest = kron(list(factors[:split])), kron(list(factors[split:]))
    blocks = matrix.reshape(first.size, rest.size, first.size, rest.size)
    left = np.empty((rest.queries, first.size, first.size))
    for u, v in np.ndindex(first.size, first.size):
        if u <= v:
            block = blocks[u, :, v]
            left[:, u, v] = left[:, v, u] = row_quadratics(rest, (block + block.T) / 2)
    return np.concatenate([row_quadratics(first, part)[:, None] for part in left], axis=1).ravel()


def _corner_sums(matrix: FloatArray) -> FloatArray:
    """Sums of the matrix over [0, i) × [0, j)."""
    sums = np.zeros((len(matrix) + 1, len(matrix) + 1))
    np.cumsum(np.cumsum(matrix, axis=0), axis=1, out=sums[1:, 1:])
    return sums


@singledispatch
def row_squares(workload: Workload, x: FloatArray) -> FloatArray:
    """(W∘W)x: every entry of the workload squared, then applied to `x`."""
    result = np.empty(workload.queries)
    step = max(1, _BLOCK_ENTRIES // max(1, workload.size))
    for start in range(0, workload.queries, step):
        rows = workload.rows(start, start + step)
        result[start : start + len(rows)] = rows**2 @ x
    return result


@row_squares.register(Identity)
@row_squares.register(Total)
@row_squares.register(Prefix)
@row_squares.register(Ranges)
def _(workload: Workload, x: FloatArray) -> FloatArray:
    return np.asarray(workload.matvec(x), dtype=np.float64)  # zeros and ones are their own squares


@row_squares.register
def _(workload: Parity, x: FloatArray) -> FloatArray:
    return np.full(workload.queries, x.sum())


@row_squares.register
def _(workload: Explicit, x: FloatArray) -> FloatArray:
    return np.asarray(workload.matrix**2 @ x)


@row_squares.register
def _(workload: Stack, x: FloatArray) -> FloatArray:
    return np.concatenate([row_squares(part, x) for part in workload.parts])


@row_squares.register
def _(workload: Weighted, x: FloatArray) -> FloatArray:
    return workload.weight**2 * row_squares(workload.inner, x)


@row_squares.register
def _(workload: Kron, x: FloatArray) -> FloatArray:
    def squares(factor: Workload, block: FloatArray) -> FloatArray:
        return np.stack([row_squares(factor, column) for column in block.T], axis=1)

    maps = [(*f.shape, lambda block, f=f: squares(f, block)) for f in workload.factors]
    return apply_along_axes(maps, x)


@row_squares.register
def _(workload: OnAttributes, x: FloatArray) -> FloatArray:
    table = sum_out(x.reshape(workload.sizes), workload.sizes, workload.attributes)
    return row_squares(workload.inner, table.ravel())


@row_squares.register
def _(workload: Marginals, x: FloatArray) -> FloatArray:
    weights = enumerate(workload.weights)
    return np.concatenate([w**2 * row_squares(workload.part(i), x) for i, w in weights])
