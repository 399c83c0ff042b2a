"""Products along the axes of a tensor of cells: the workhorse of Kronecker structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.workload.linear.interactions import Table

DENSE_LIMIT = 2**26
"""Entries (half a gigabyte of doubles) above which `dense()` refuses."""

_RADIX = 16
"""Cells that one small matrix transforms at once."""

Sizes = tuple[int, ...]
"""Number of values of each attribute."""

AxisMap = tuple[int, int, Callable[[Array], Array]]
"""Rows, columns and the product of one factor; the product takes `(columns, k)` arrays."""


def apply_along_axes(maps: Sequence[AxisMap], x: Array) -> Array:
    """Apply ⊗ maps to `x` of shape `(Π columns,)` or `(Π columns, k)`."""
    batch = x.shape[1:]
    shape = [columns for _, columns, _ in maps]
    work = x.reshape([*shape, prod(batch)])

    for axis, (rows, columns, product) in enumerate(maps):
        moved = np.moveaxis(work, axis, 0)
        others = moved.shape[1:]
        columns_first = np.ascontiguousarray(moved).reshape(columns, -1)
        mapped = product(columns_first).reshape(rows, *others)
        work = np.moveaxis(mapped, 0, axis)

    return np.ascontiguousarray(work).reshape(-1, *batch)


def column_kron(vectors: Sequence[FloatArray]) -> FloatArray:
    """Kronecker product of vectors."""
    result = np.ones(1)
    for vector in vectors:
        result = np.multiply.outer(result, vector).ravel()

    return result


def kron_all(matrices: Sequence[FloatArray]) -> FloatArray:
    """Kronecker product of matrices, dense."""
    result: FloatArray = np.ones((1, 1))
    for matrix in matrices:
        rows = len(result) * len(matrix)
        columns = result.shape[1] * matrix.shape[1]
        outer = result[:, None, :, None]
        products = outer * matrix[None, :, None, :]
        result = products.reshape(rows, columns)

    return result


def sum_out(
    tensor: Array, sizes: Sequence[int], keep: Sequence[int], keepdims: bool = False
) -> Array:
    """Sum a tensor with axes `sizes` (and any after them) over all of these not in `keep`."""
    axes = tuple(i for i in range(len(sizes)) if i not in keep)
    return np.asarray(tensor.sum(axis=axes, keepdims=keepdims))


def marginal_tables(
    cells: Array, sizes: Sequence[int], wanted: Iterable[Table]
) -> Iterator[tuple[Table, Array]]:
    """Marginal tables of `cells`, of shape `(Π sizes,)` or `(Π sizes, k)`, each table once.

    Attributes are kept or summed out one at a time, the first ones first, and tables share all sums
    until they part: a hundred of them cost little more than a few.
    """
    batch = cells.shape[1:]
    tables = list(dict.fromkeys(wanted))
    waiting = [(0, cells.reshape(1, -1), tables)]

    while waiting:
        axis, work, left = waiting.pop()
        if axis == len(sizes):
            yield left[0], work.reshape(-1, *batch)
            continue

        holding = [table for table in left if axis in table]
        without = [table for table in left if axis not in table]
        if holding:
            kept = work.reshape(len(work) * sizes[axis], -1)
            waiting.append((axis + 1, kept, holding))
        if without:
            by_value = work.reshape(len(work), sizes[axis], -1)
            rest = by_value.sum(axis=1)
            waiting.append((axis + 1, rest, without))


def onto_table(cells: Array, sizes: Sequence[int], attributes: Sequence[int]) -> Array:
    """The marginal table of some attributes, flattened: the transpose of `spread`."""
    batch = cells.shape[1:]
    tensor = cells.reshape(*sizes, *batch)
    table = sum_out(tensor, sizes, attributes)

    return table.reshape(-1, *batch)


def spread(values: Array, sizes: Sequence[int], attributes: Sequence[int]) -> Array:
    """Repeat values on a marginal table over the other attributes: the transpose of summing."""
    batch = values.shape[1:]
    shape = [n if i in attributes else 1 for i, n in enumerate(sizes)]
    tensor = values.reshape((*shape, *batch))
    repeated = np.broadcast_to(tensor, (*sizes, *batch))

    return repeated.reshape(-1, *batch)


def along_rows(values: Array, x: Array) -> Array:
    """A value for each row of a vector or matrix, in the shape in which they multiply."""
    return values.reshape((-1,) + (1,) * (x.ndim - 1))


def corner_sums(matrix: FloatArray) -> FloatArray:
    """Sums of the matrix over [0, i) × [0, j)."""
    ends = len(matrix) + 1
    sums = np.zeros((ends, ends))
    above = np.cumsum(matrix, axis=0)
    np.cumsum(above, axis=1, out=sums[1:, 1:])

    return sums


def mean_error(
    errors: FloatArray, norm: float, counts: FloatArray | None = None
) -> float:
    """The p-th mean of errors, each counted that many times, without overflow."""
    largest = float(errors.max(initial=0.0))
    if np.isinf(norm) or largest == 0:
        return largest

    powers = (errors / largest) ** norm
    mean = np.average(powers, weights=counts)

    return largest * float(mean ** (1 / norm))


def walsh_hadamard(x: Array) -> Array:
    """Unnormalised Walsh–Hadamard transform over the first axis, whose length is a power of two.

    Integers stay integers, so that a transform of counts is exact.
    """
    n = x.shape[0]
    work = np.ascontiguousarray(x).reshape(n, -1)
    step = 1

    # Few products with small matrices are five times as fast as many sums and differences.
    if work.dtype == np.float64:
        while step < n:
            signs = _signs(min(_RADIX, n // step))
            blocks = work.reshape(step, len(signs), -1)
            work = np.matmul(signs, blocks)
            step *= len(signs)

        return work.reshape(x.shape)

    while step < n:
        pairs = work.reshape(n // (2 * step), 2, step, -1)
        first = pairs[:, 0]
        second = pairs[:, 1]
        work = np.stack([first + second, first - second], axis=1)
        step *= 2

    return work.reshape(x.shape)


@cache
def _signs(size: int) -> FloatArray:
    """The transform of so many cells as a matrix."""
    matrix: FloatArray = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])

    return matrix
