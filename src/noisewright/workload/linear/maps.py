"""Linear maps kept in their structure: what is asked, what a strategy measures, how answers return.

A map over 10^9 cells is a Kronecker product of small arrays, or a spectrum; the full matrix is
built only when `dense()` asks for it by name. Workloads and their Gram matrices are such maps.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np

from noisewright.arrays import Array, FloatArray, IndexArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload.linear.array_protocol import ArrayProtocol
from noisewright.workload.linear.tensor import (
    DENSE_LIMIT,
    apply_along_axes,
    column_kron,
    spread,
    sum_out,
    walsh_hadamard,
)

Neighbours = Literal["add-remove", "replace-one"]

_PAIRS_BLOCK = 2**22  # entries of differences of columns that are held at a time


class LinearMap(ArrayProtocol):
    """A linear map with its adjoint; `x` may be a vector or a matrix of columns."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns (Python integers: products can exceed 64 bits)."""

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.shape[1]

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """The map applied to a vector or to each column."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """The adjoint applied to a vector or to each column."""

    def column_norms(self, order: int = 2) -> FloatArray:
        """The ℓ1 or ℓ2 norm of every column."""
        return np.asarray(np.linalg.norm(self.dense(), check_order(order), axis=0))

    def sensitivity(self, order: int = 2, neighbours: str = "add-remove") -> float:
        """Largest change of the image, in ℓ1 or ℓ2, when one person is added or replaced."""
        check_order(order)
        if check_neighbours(neighbours) == "add-remove":
            return self._largest_norm(order)
        return self._largest_distance(order)

    def _largest_norm(self, order: int) -> float:
        return float(self.column_norms(order).max(initial=0.0))

    def _largest_distance(self, order: int) -> float:
        """Largest distance between two columns; subclasses with a closed form override this."""
        columns = self.dense().T
        block = max(1, _PAIRS_BLOCK // max(1, columns.size))
        largest = 0.0

        for start in range(0, len(columns), block):
            differences = columns[start : start + block, None, :] - columns[None, :, :]
            largest = max(
                largest, float(np.linalg.norm(differences, order, axis=2).max())
            )

        return largest

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The matrix itself, for small maps."""
        rows, columns = self.shape
        if rows * columns > limit:
            raise TooLarge(
                f"{self.brief()} has {rows} x {columns} = {rows * columns:.3g} entries, more than "
                f"the limit of {limit} for a dense matrix; use matvec and rmatvec, or pass a "
                f"larger limit"
            )
        if 0 < rows < columns:  # the smaller identity is the one to transform
            return np.array(self.rmatvec(np.eye(rows)).T, dtype=np.float64, order="C")

        return np.asarray(self.matvec(np.eye(columns)), dtype=np.float64)

    def brief(self) -> str:
        """What it is, for messages."""
        return type(self).__name__


def check_order(order: int) -> int:
    """Refuse norms other than ℓ1 and ℓ2."""
    if order not in (1, 2):
        remedy = "choose the L1 or the L2 norm"
        raise InvalidParameter("order", order, "must be 1 or 2", remedy)
    return order


def check_neighbours(neighbours: str) -> str:
    """Refuse unknown neighbour relations."""
    if neighbours not in ("add-remove", "replace-one"):
        rule = "must be 'add-remove' or 'replace-one'"
        raise InvalidParameter("neighbours", neighbours, rule, "choose one of them")
    return neighbours


@dataclass(frozen=True, eq=False)
class Dense(LinearMap):
    """A map held as its matrix."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

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
    def shape(self) -> tuple[int, int]:
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
    def shape(self) -> tuple[int, int]:
        return prod(f.shape[0] for f in self.factors), prod(
            f.shape[1] for f in self.factors
        )

    def matvec(self, x: Array) -> Array:
        return apply_along_axes([(*f.shape, f.matvec) for f in self.factors], x)

    def rmatvec(self, y: Array) -> Array:
        return apply_along_axes([(*f.shape[::-1], f.rmatvec) for f in self.factors], y)

    def column_norms(self, order: int = 2) -> FloatArray:
        return column_kron([factor.column_norms(order) for factor in self.factors])

    def _largest_norm(self, order: int) -> float:
        return prod(factor.sensitivity(order) for factor in self.factors)


@dataclass(frozen=True, eq=False)
class OnTable(LinearMap):
    """A map applied to the marginal table of some attributes; the others are summed out."""

    sizes: tuple[int, ...]
    attributes: tuple[int, ...]
    inner: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        table = sum_out(
            x.reshape(*self.sizes, *x.shape[1:]), self.sizes, self.attributes
        )
        return self.inner.matvec(table.reshape(-1, *x.shape[1:]))

    def rmatvec(self, y: Array) -> Array:
        return spread(self.inner.rmatvec(y), self.sizes, self.attributes)

    def column_norms(self, order: int = 2) -> FloatArray:
        return spread(self.inner.column_norms(order), self.sizes, self.attributes)

    def _largest_norm(self, order: int) -> float:
        return self.inner.sensitivity(order)

    def _largest_distance(self, order: int) -> float:
        return self.inner.sensitivity(order, "replace-one")


@dataclass(frozen=True, eq=False)
class Stacked(LinearMap):
    """Maps over the same columns, one below the other."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First row of each part, and the number of rows at the end."""
        starts = [0]
        for part in self.parts:
            starts.append(starts[-1] + part.shape[0])
        return tuple(starts)

    def matvec(self, x: Array) -> Array:
        return np.concatenate([part.matvec(x) for part in self.parts])

    def rmatvec(self, y: Array) -> Array:
        pieces = zip(self.parts, np.split(y, self.starts[1:-1]), strict=True)
        products = [part.rmatvec(piece) for part, piece in pieces]
        return np.asarray(sum(products[1:], start=products[0]))

    def column_norms(self, order: int = 2) -> FloatArray:
        powers = [part.column_norms(order) ** order for part in self.parts]
        return np.asarray(sum(powers[1:], start=powers[0]) ** (1 / check_order(order)))


@dataclass(frozen=True, eq=False)
class BlockDiagonal(LinearMap):
    """Maps over separate columns, one after the other."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(part.shape[0] for part in self.parts), sum(
            p.shape[1] for p in self.parts
        )

    def matvec(self, x: Array) -> Array:
        pieces = zip(self.parts, self._split(x, 1), strict=True)
        return np.concatenate([part.matvec(piece) for part, piece in pieces])

    def rmatvec(self, y: Array) -> Array:
        pieces = zip(self.parts, self._split(y, 0), strict=True)
        return np.concatenate([part.rmatvec(piece) for part, piece in pieces])

    def _split(self, x: Array, side: int) -> list[Array]:
        return np.split(x, np.cumsum([part.shape[side] for part in self.parts])[:-1])

    def column_norms(self, order: int = 2) -> FloatArray:
        return np.concatenate([part.column_norms(order) for part in self.parts])


@dataclass(frozen=True, eq=False)
class Adjoint(LinearMap):
    """The adjoint of another map."""

    inner: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[1], self.inner.shape[0]

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
    def shape(self) -> tuple[int, int]:
        return self.outer.shape[0], self.inner.shape[1]

    def matvec(self, x: Array) -> Array:
        return self.outer.matvec(self.inner.matvec(x))

    def rmatvec(self, y: Array) -> Array:
        return self.inner.rmatvec(self.outer.rmatvec(y))


@dataclass(frozen=True, eq=False)
class Folded(LinearMap):
    """Column j is `scale[j]` times column `index[j]` of the inner map."""

    inner: LinearMap
    index: IndexArray
    scale: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], self.index.size

    def matvec(self, x: Array) -> Array:
        gathered = np.zeros((self.inner.shape[1], *x.shape[1:]))
        np.add.at(gathered, self.index, (self.scale * x.T).T)
        return self.inner.matvec(gathered)

    def rmatvec(self, y: Array) -> Array:
        return np.asarray((self.scale * self.inner.rmatvec(y)[self.index].T).T)

    def column_norms(self, order: int = 2) -> FloatArray:
        return np.asarray(
            np.abs(self.scale) * self.inner.column_norms(order)[self.index]
        )


@dataclass(frozen=True, eq=False)
class Repeated(LinearMap):
    """One column that holds each value a number of times: weights that are equal within a table."""

    values: FloatArray
    counts: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self.counts), 1

    def matvec(self, x: Array) -> Array:
        return np.asarray(np.multiply.outer(np.repeat(self.values, self.counts), x[0]))

    def rmatvec(self, y: Array) -> Array:
        return np.asarray(np.repeat(self.values, self.counts) @ y)[None]


@dataclass(frozen=True, eq=False)
class Invariant(LinearMap):
    """A symmetric map that commutes with cyclic shifts along every axis of a product domain.

    It is diagonal in the characters: Walsh–Hadamard over bits, Fourier over longer cycles.
    `spectrum` holds one eigenvalue per character, over the same axes.
    """

    sizes: tuple[int, ...]
    spectrum: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return prod(self.sizes), prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        spectrum = self.spectrum.reshape((-1,) + (1,) * (x.ndim - 1))
        if set(self.sizes) <= {2}:
            return np.asarray(
                walsh_hadamard(spectrum * walsh_hadamard(x)) / self.shape[0]
            )

        from scipy.fft import fftn, ifftn

        axes = tuple(range(len(self.sizes)))
        waves = fftn(x.reshape(*self.sizes, *x.shape[1:]), axes=axes)
        scaled = spectrum.reshape(*self.sizes, *spectrum.shape[1:]) * waves

        return np.ascontiguousarray(ifftn(scaled, axes=axes).real).reshape(x.shape)

    def rmatvec(self, y: Array) -> Array:
        return self.matvec(y)

    def column_norms(self, order: int = 2) -> FloatArray:
        if order == 1:
            return super().column_norms(order)
        return np.full(self.shape[1], np.sqrt(np.mean(self.spectrum**2)))


def characters(sizes: tuple[int, ...], column: FloatArray) -> FloatArray:
    """Eigenvalues of the shift-invariant symmetric map whose first column is given."""
    if set(sizes) <= {2}:
        return walsh_hadamard(column)
    from scipy.fft import fftn

    return np.ascontiguousarray(fftn(column.reshape(sizes)).real).ravel()


def uniform(size: int, total_power: float) -> LinearMap:
    """The weight size^-total_power on every coordinate."""
    return Repeated(np.array([float(size) ** -total_power]), (size,))
