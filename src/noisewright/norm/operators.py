"""Linear maps kept in their structure: what a strategy measures and how answers come back.

A strategy over 10^9 cells is a Kronecker product of small arrays, or a spectrum; none of these
classes builds the full matrix unless `dense()` asks for it by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.errors import TooLarge
from noisewright.workload.base import DENSE_LIMIT, FloatArray, Workload
from noisewright.workload.marginals import spread
from noisewright.workload.tensor import apply_along_axes, column_kron, sum_out


class Operator(ABC):
    """A linear map with its adjoint; `x` may be a vector or a matrix of columns."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns (Python integers: products can exceed 64 bits)."""

    @abstractmethod
    def matvec(self, x: FloatArray) -> FloatArray:
        """The map applied to a vector or to each column."""

    @abstractmethod
    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The adjoint applied to a vector or to each column."""

    def column_norms(self) -> FloatArray:
        """Euclidean length of every column."""
        matrix = self.dense()
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)))

    def sensitivity(self) -> float:
        """Largest Euclidean length of a column: the L2 sensitivity to one person more or less."""
        return float(self.column_norms().max(initial=0.0))

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The matrix itself; refused above `limit` entries."""
        rows, columns = self.shape
        if rows * columns > limit:
            raise TooLarge(
                f"dense() of a {rows} x {columns} operator needs {rows * columns} entries, "
                f"the limit is {limit}; use matvec and rmatvec, or raise `limit`"
            )
        return self.matvec(np.eye(columns))


@dataclass(frozen=True, eq=False)
class Dense(Operator):
    """A map held as its matrix."""

    matrix: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def matvec(self, x: FloatArray) -> FloatArray:
        """Matrix times vector or columns."""
        return np.asarray(self.matrix @ x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Transposed matrix times vector or columns."""
        return np.asarray(self.matrix.T @ y)

    def column_norms(self) -> FloatArray:
        """Euclidean length of every column."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", self.matrix, self.matrix)))


@dataclass(frozen=True, eq=False)
class Scaled(Operator):
    """A number times another map: the identity and fast transforms need no copy to be scaled."""

    factor: float
    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.inner.shape

    def matvec(self, x: FloatArray) -> FloatArray:
        """The scaled image."""
        return self.factor * self.inner.matvec(x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The scaled adjoint image."""
        return self.factor * self.inner.rmatvec(y)

    def column_norms(self) -> FloatArray:
        """Euclidean length of every column."""
        return abs(self.factor) * self.inner.column_norms()

    def sensitivity(self) -> float:
        """Largest Euclidean length of a column."""
        return abs(self.factor) * self.inner.sensitivity()


@dataclass(frozen=True, eq=False)
class Eye(Operator):
    """The identity map."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.size, self.size

    def matvec(self, x: FloatArray) -> FloatArray:
        """`x` itself."""
        return np.array(x, dtype=np.float64)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """`y` itself."""
        return np.array(y, dtype=np.float64)

    def column_norms(self) -> FloatArray:
        """All ones."""
        return np.ones(self.size)

    def sensitivity(self) -> float:
        """One."""
        return 1.0


@dataclass(frozen=True, eq=False)
class Kronecker(Operator):
    """The Kronecker product of its factors; cells in C order, last factor fastest."""

    factors: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Products of the factors' rows and columns."""
        return prod(f.shape[0] for f in self.factors), prod(f.shape[1] for f in self.factors)

    def matvec(self, x: FloatArray) -> FloatArray:
        """Each factor applied along its own axis."""
        return apply_along_axes([(*f.shape, f.matvec) for f in self.factors], x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Each adjoint factor applied along its own axis."""
        return apply_along_axes([(*f.shape[::-1], f.rmatvec) for f in self.factors], y)

    def column_norms(self) -> FloatArray:
        """Products of the factors' column lengths."""
        return column_kron([factor.column_norms() for factor in self.factors])

    def sensitivity(self) -> float:
        """Product of the factors' sensitivities."""
        return prod(factor.sensitivity() for factor in self.factors)


@dataclass(frozen=True, eq=False)
class OnTable(Operator):
    """A map applied to the marginal table of some attributes; the others are summed out."""

    sizes: tuple[int, ...]
    attributes: tuple[int, ...]
    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the inner map, cells of the whole domain."""
        return self.inner.shape[0], prod(self.sizes)

    def matvec(self, x: FloatArray) -> FloatArray:
        """The table, then the inner map."""
        table = sum_out(x.reshape(*self.sizes, *x.shape[1:]), self.sizes, self.attributes)
        return self.inner.matvec(table.reshape(-1, *x.shape[1:]))

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The inner adjoint, repeated over the attributes that were summed out."""
        return spread(self.inner.rmatvec(y), self.sizes, self.attributes)

    def column_norms(self) -> FloatArray:
        """Those of the inner map, repeated."""
        return spread(self.inner.column_norms(), self.sizes, self.attributes)

    def sensitivity(self) -> float:
        """That of the inner map."""
        return self.inner.sensitivity()


@dataclass(frozen=True, eq=False)
class Adjoint(Operator):
    """The adjoint of another map."""

    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and rows of the inner map."""
        return self.inner.shape[1], self.inner.shape[0]

    def matvec(self, x: FloatArray) -> FloatArray:
        """The inner adjoint."""
        return self.inner.rmatvec(x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The inner map."""
        return self.inner.matvec(y)


@dataclass(frozen=True, eq=False)
class Reconstruction(Operator):
    """Answers from measurements, R = W·A⁺: the strategy's inverse, then the workload."""

    workload: Workload
    inverse: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and measurements."""
        return self.workload.queries, self.inverse.shape[1]

    def matvec(self, x: FloatArray) -> FloatArray:
        """Answers to all queries."""
        return np.asarray(self.workload.matvec(self.inverse.matvec(x)), dtype=np.float64)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Adjoint."""
        return self.inverse.rmatvec(np.asarray(self.workload.rmatvec(y), dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Stacked(Operator):
    """Maps over the same columns, one below the other."""

    parts: tuple[Operator, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows add up."""
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def matvec(self, x: FloatArray) -> FloatArray:
        """The images, one after the other."""
        return np.concatenate([part.matvec(x) for part in self.parts])

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """The sum of the adjoint images."""
        ends = np.cumsum([part.shape[0] for part in self.parts])
        pieces = zip(self.parts, np.split(y, ends[:-1]), strict=True)
        return np.asarray(sum(part.rmatvec(piece) for part, piece in pieces))

    def column_norms(self) -> FloatArray:
        """Squares add up."""
        return np.asarray(np.sqrt(sum(part.column_norms() ** 2 for part in self.parts)))


@dataclass(frozen=True, eq=False)
class Repeated(Operator):
    """One column that holds each value a number of times: weights that are equal within a table."""

    values: FloatArray
    counts: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """As many rows as repetitions."""
        return sum(self.counts), 1

    def _column(self) -> FloatArray:
        return np.repeat(self.values, self.counts)

    def matvec(self, x: FloatArray) -> FloatArray:
        """The column times a number, or times a row of numbers."""
        return np.asarray(np.multiply.outer(self._column(), x[0]))

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Inner products with the column."""
        return np.asarray(self._column() @ y)[None]


@dataclass(frozen=True, eq=False)
class Measured(Operator):
    """A workload's own queries as a strategy, scaled."""

    workload: Workload
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and cells."""
        return self.workload.shape

    def matvec(self, x: FloatArray) -> FloatArray:
        """Scaled answers."""
        return np.asarray(self.scale * self.workload.matvec(x))

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Scaled adjoint."""
        return np.asarray(self.scale * self.workload.rmatvec(y))

    def column_norms(self) -> FloatArray:
        """Scaled lengths of the workload's columns."""
        return self.scale * self.workload.column_norms()

    def sensitivity(self) -> float:
        """Scaled sensitivity of the workload."""
        return self.scale * self.workload.sensitivity()


def uniform(size: int, total_power: float) -> Operator:
    """The weight size^-total_power on every coordinate."""
    return Scaled(float(size) ** -total_power, Adjoint(OnTable((size,), (), Eye(1))))
