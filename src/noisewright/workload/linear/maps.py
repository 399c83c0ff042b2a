"""Linear maps kept in their structure: what is asked, what a strategy measures, how answers return.

A map over 10^9 cells is a Kronecker product of small arrays, or a spectrum; the full matrix is
built only when `dense()` asks for it by name. Workloads and their Gram matrices are such maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import Array, FloatArray, IndexArray
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.linear_map import LinearMap, Shape, check_order
from noisewright.workload.linear.tensor import (
    DENSE_LIMIT,
    Sizes,
    along_rows,
    apply_along_axes,
    column_kron,
    onto_table,
    spread,
    walsh_hadamard,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Dense(LinearMap):
    """A map held as its matrix."""

    matrix: FloatArray | csr_array[np.float64]

    @property
    def shape(self) -> Shape:
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def matvec(self, x: Array) -> Array:
        return np.asarray(self.matrix @ x)

    def rmatvec(self, y: Array) -> Array:
        return np.asarray(self.matrix.T @ y)

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        return np.array(self.matrix)


@dataclass(frozen=True, eq=False)
class Scaled(LinearMap):
    """A number times another map: the identity and fast transforms need no copy to be scaled."""

    weight: float
    inner: LinearMap

    @property
    def shape(self) -> Shape:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        return np.asarray(self.weight * self.inner.matvec(x))

    def rmatvec(self, y: Array) -> Array:
        return np.asarray(self.weight * self.inner.rmatvec(y))

    def column_norms(self, order: int = 2) -> FloatArray:
        return abs(self.weight) * self.inner.column_norms(order)

    def _largest_norm(self, order: int) -> float:
        return abs(self.weight) * self.inner.sensitivity(order)

    def _largest_distance(self, order: int) -> float:
        return abs(self.weight) * self.inner.sensitivity(order, "replace-one")


@dataclass(frozen=True, eq=False)
class Kronecker(LinearMap):
    """The Kronecker product of its factors; cells in C order, last factor fastest."""

    factors: tuple[LinearMap, ...]

    @property
    def shape(self) -> Shape:
        shapes = [factor.shape for factor in self.factors]
        rows, columns = zip(*shapes, strict=True)

        return prod(rows), prod(columns)

    def matvec(self, x: Array) -> Array:
        maps = [(*factor.shape, factor.matvec) for factor in self.factors]
        return apply_along_axes(maps, x)

    def rmatvec(self, y: Array) -> Array:
        maps = [(*factor.T.shape, factor.rmatvec) for factor in self.factors]
        return apply_along_axes(maps, y)

    def column_norms(self, order: int = 2) -> FloatArray:
        norms = [factor.column_norms(order) for factor in self.factors]
        return column_kron(norms)

    def _largest_norm(self, order: int) -> float:
        return prod(factor.sensitivity(order) for factor in self.factors)


@dataclass(frozen=True, eq=False)
class OnTable(LinearMap):
    """A map applied to the marginal table of some attributes; the others are summed out."""

    sizes: Sizes
    attributes: Table
    inner: LinearMap

    @property
    def shape(self) -> Shape:
        return self.inner.shape[0], prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        table = onto_table(x, self.sizes, self.attributes)
        return self.inner.matvec(table)

    def rmatvec(self, y: Array) -> Array:
        table = self.inner.rmatvec(y)
        return spread(table, self.sizes, self.attributes)

    def column_norms(self, order: int = 2) -> FloatArray:
        norms = self.inner.column_norms(order)
        return spread(norms, self.sizes, self.attributes)

    def _largest_norm(self, order: int) -> float:
        return self.inner.sensitivity(order)

    def _largest_distance(self, order: int) -> float:
        return self.inner.sensitivity(order, "replace-one")


@dataclass(frozen=True, eq=False)
class Stacked(LinearMap):
    """Maps over the same columns, one below the other."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> Shape:
        columns = self.parts[0].size
        return self.starts[-1], columns

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First row of each part, and the number of rows at the end."""
        rows = (part.shape[0] for part in self.parts)
        return tuple(accumulate(rows, initial=0))

    def matvec(self, x: Array) -> Array:
        answers = [part.matvec(x) for part in self.parts]
        return np.concatenate(answers)

    def rmatvec(self, y: Array) -> Array:
        pieces = np.split(y, self.starts[1:-1])
        pairs = zip(self.parts, pieces, strict=True)
        products = [part.rmatvec(piece) for part, piece in pairs]

        return np.asarray(sum(products[1:], start=products[0]))

    def column_norms(self, order: int = 2) -> FloatArray:
        powers = [part.column_norms(order) ** order for part in self.parts]
        total = sum(powers[1:], start=powers[0])

        return np.asarray(total ** (1 / check_order(order)))


@dataclass(frozen=True, eq=False)
class BlockDiagonal(LinearMap):
    """Maps over separate columns, one after the other."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> Shape:
        shapes = [part.shape for part in self.parts]
        rows, columns = zip(*shapes, strict=True)

        return sum(rows), sum(columns)

    def matvec(self, x: Array) -> Array:
        pairs = zip(self.parts, self._split(x, 1), strict=True)
        answers = [part.matvec(piece) for part, piece in pairs]

        return np.concatenate(answers)

    def rmatvec(self, y: Array) -> Array:
        pairs = zip(self.parts, self._split(y, 0), strict=True)
        products = [part.rmatvec(piece) for part, piece in pairs]

        return np.concatenate(products)

    def _split(self, x: Array, side: int) -> list[Array]:
        lengths = [part.shape[side] for part in self.parts]
        ends = np.cumsum(lengths)

        return np.split(x, ends[:-1])

    def column_norms(self, order: int = 2) -> FloatArray:
        norms = [part.column_norms(order) for part in self.parts]
        return np.concatenate(norms)


@dataclass(frozen=True, eq=False)
class Adjoint(LinearMap):
    """The adjoint of another map."""

    inner: LinearMap

    @property
    def shape(self) -> Shape:
        rows, columns = self.inner.shape
        return columns, rows

    def matvec(self, x: Array) -> Array:
        return self.inner.rmatvec(x)

    def rmatvec(self, y: Array) -> Array:
        return self.inner.matvec(y)


@dataclass(frozen=True, eq=False)
class Product(LinearMap):
    """One map after another."""

    outer: LinearMap
    inner: LinearMap

    @property
    def shape(self) -> Shape:
        return self.outer.shape[0], self.inner.shape[1]

    def matvec(self, x: Array) -> Array:
        middle = self.inner.matvec(x)
        return self.outer.matvec(middle)

    def rmatvec(self, y: Array) -> Array:
        middle = self.outer.rmatvec(y)
        return self.inner.rmatvec(middle)


@dataclass(frozen=True, eq=False)
class Folded(LinearMap):
    """Column j is `scale[j]` times column `index[j]` of the inner map."""

    inner: LinearMap
    index: IndexArray
    scale: FloatArray

    @property
    def shape(self) -> Shape:
        return self.inner.shape[0], self.index.size

    def matvec(self, x: Array) -> Array:
        batch = x.shape[1:]
        gathered = np.zeros((self.inner.size, *batch))
        scaled = (self.scale * x.T).T
        np.add.at(gathered, self.index, scaled)  # an index may stand twice

        return self.inner.matvec(gathered)

    def rmatvec(self, y: Array) -> Array:
        columns = self.inner.rmatvec(y)[self.index]
        return np.asarray((self.scale * columns.T).T)

    def column_norms(self, order: int = 2) -> FloatArray:
        norms = self.inner.column_norms(order)[self.index]
        return np.asarray(np.abs(self.scale) * norms)


@dataclass(frozen=True, eq=False)
class Repeated(LinearMap):
    """One column that holds each value a number of times: weights that are equal within a table."""

    values: FloatArray
    counts: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        return sum(self.counts), 1

    def matvec(self, x: Array) -> Array:
        column = np.repeat(self.values, self.counts)
        return np.asarray(np.multiply.outer(column, x[0]))

    def rmatvec(self, y: Array) -> Array:
        column = np.repeat(self.values, self.counts)
        return np.asarray(column @ y)[None]


@dataclass(frozen=True, eq=False)
class Invariant(LinearMap):
    """A symmetric map that commutes with cyclic shifts along every axis of a product domain.

    It is diagonal in the characters: Walsh–Hadamard over bits, Fourier over longer cycles.
    `spectrum` holds one eigenvalue per character, over the same axes.
    """

    sizes: Sizes
    spectrum: FloatArray

    @property
    def shape(self) -> Shape:
        return prod(self.sizes), prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        batch = x.shape[1:]
        spectrum = along_rows(self.spectrum, x)
        if set(self.sizes) <= {2}:
            waves = spectrum * walsh_hadamard(x)
            product = walsh_hadamard(waves)
            return np.asarray(product / self.size)

        from scipy.fft import fftn, ifftn

        axes = tuple(range(len(self.sizes)))
        tensor = x.reshape(self.sizes + batch)
        scales = spectrum.reshape(self.sizes + (1,) * len(batch))
        scaled = scales * fftn(tensor, axes=axes)
        answers = ifftn(scaled, axes=axes).real

        return np.ascontiguousarray(answers).reshape(x.shape)

    def rmatvec(self, y: Array) -> Array:
        return self.matvec(y)

    def column_norms(self, order: int = 2) -> FloatArray:
        if order == 1:
            return super().column_norms(order)

        # All columns are alike: Σ of squared eigenvalues over their number (Parseval).
        length = np.sqrt(np.mean(self.spectrum**2))
        return np.full(self.size, length)


def characters(sizes: Sizes, column: FloatArray) -> FloatArray:
    """Eigenvalues of the shift-invariant symmetric map whose first column is given."""
    if set(sizes) <= {2}:
        return walsh_hadamard(column)

    from scipy.fft import fftn

    spectrum = fftn(column.reshape(sizes)).real
    return np.ascontiguousarray(spectrum).ravel()


def uniform(size: int, total_power: float) -> LinearMap:
    """The weight size^-total_power on every coordinate."""
    weight = float(size) ** -total_power
    return Repeated(np.array([weight]), (size,))
