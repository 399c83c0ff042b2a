"""Gram matrices WᵀW as structured operators: all that most optimisers need of a workload."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.workload.linear.linear_map import LinearMap, Shape
from noisewright.workload.linear.maps import Dense, Kronecker, Scaled
from noisewright.workload.linear.tensor import (
    along_rows,
    column_kron,
    walsh_hadamard,
)

Coefficients = tuple[float, float]
"""(w, c) of the matrix wI + c·11ᵀ."""


class Gram(LinearMap):
    """A symmetric positive semidefinite matrix over cells, by structure."""

    def rmatvec(self, y: Array) -> Array:
        return self.matvec(y)

    @abstractmethod
    def diagonal(self) -> FloatArray:
        """Squared ℓ2 norm of every column of the workload."""

    def trace(self) -> float:
        """Squared Frobenius norm of the workload."""
        return float(self.diagonal().sum())

    def mean_square(self) -> float:
        """Σ_u M_uu/n, however many cells there are."""
        return self.trace() / self.size

    def identity_and_ones(self) -> Coefficients | None:
        """What the matrix is of I and 11ᵀ, where its structure says so: histograms and totals."""
        return None

    def normal_form(self) -> Gram:
        """The same matrix with factors brought out of products, and without parts of zero."""
        return self

    def split(self) -> tuple[float, Gram]:
        """A factor, and the matrix without it."""
        return 1.0, self

    def scaled(self, factor: float) -> Gram:
        """A non-negative multiple of the matrix."""
        own, inner = self.split()
        factor *= own
        if factor == 0.0:
            return zero_gram(self.size)

        return inner if factor == 1.0 else ScaledGram(factor, inner)

    def largest_distance_squared(self) -> float:
        """Largest squared ℓ2 distance between two columns of the workload."""
        d = self.diagonal()
        lengths = d[:, None] + d[None, :]
        squares = lengths - 2 * self.dense()

        return max(0.0, float(squares.max()))  # rounding may leave less than nothing


@dataclass(frozen=True, eq=False)
class DenseGram(Dense, Gram):
    """An explicit matrix."""

    matrix: FloatArray

    def diagonal(self) -> FloatArray:
        return np.array(np.diagonal(self.matrix))


@dataclass(frozen=True)
class _AtomGram(Gram):
    """A closed form over a number of cells."""

    cells: int

    @property
    def shape(self) -> Shape:
        return self.cells, self.cells


@dataclass(frozen=True)
class IdentityGram(_AtomGram):
    """Identity: every cell on its own."""

    def matvec(self, x: Array) -> Array:
        return x.copy()

    def diagonal(self) -> FloatArray:
        return np.ones(self.cells)

    def largest_distance_squared(self) -> float:
        return 2.0 if self.cells > 1 else 0.0

    def identity_and_ones(self) -> Coefficients | None:
        return 1.0, 0.0


@dataclass(frozen=True)
class OnesGram(_AtomGram):
    """All ones: the total."""

    def matvec(self, x: Array) -> Array:
        total = x.sum(axis=0)
        return np.broadcast_to(total, x.shape).copy()

    def diagonal(self) -> FloatArray:
        return np.ones(self.cells)

    def largest_distance_squared(self) -> float:
        return 0.0

    def identity_and_ones(self) -> Coefficients | None:
        return 0.0, 1.0


@dataclass(frozen=True)
class PrefixGram(_AtomGram):
    """M[u,v] = n − max(u,v): cumulative counts."""

    def matvec(self, x: Array) -> Array:
        """Product with `x`, as two cumulative sums."""
        answers = np.cumsum(x, axis=0)
        return from_each_on(answers)

    def diagonal(self) -> FloatArray:
        return np.arange(self.cells, 0, -1, dtype=np.float64)

    def largest_distance_squared(self) -> float:
        """The first and the last column differ in all but one query."""
        return float(self.cells - 1)


@dataclass(frozen=True)
class RangesGram(_AtomGram):
    """M[u,v] = (min(u,v)+1)(n − max(u,v)): all intervals."""

    def matvec(self, x: Array) -> Array:
        """Product with `x`: the part below and the part above each cell, by cumulative sums."""
        n = self.cells
        up = along_rows(np.arange(1, n + 1), x)
        down = n + 1 - up
        below = np.cumsum(up * x, axis=0)
        above = from_each_on(down * x) - down * x

        return np.asarray(down * below + up * above)

    def diagonal(self) -> FloatArray:
        up = np.arange(1.0, self.cells + 1)
        return up * (self.cells + 1 - up)

    def largest_distance_squared(self) -> float:
        """Intervals that hold exactly one of two cells, at the worst pair of cells."""
        # For cells u < v: u+1 starts and n-v ends, so the count is
        # (u+1)(n-u) + (v+1)(n-v) - 2(u+1)(n-v). It is concave in each of a = u+1 and b = n-v with
        # maximiser a = b = n/3 on the real line; scanning a with the best b is exact and O(n).
        n = self.cells
        if n == 1:
            return 0.0

        a = np.arange(1, n, dtype=np.int64)[:, None]
        middle = (n + 1 - 2 * a) // 2
        near = middle + np.arange(-1, 2)
        b = np.clip(near, 1, n - a)

        counts = a * (n + 1 - a) + b * (n + 1 - b)
        counts -= 2 * a * b

        return float(counts.max())


@dataclass(frozen=True, eq=False)
class XorGram(Gram):
    """Invariant under XOR translations of binary cells: diagonal in the Walsh–Hadamard basis."""

    eigenvalues: FloatArray

    @property
    def shape(self) -> Shape:
        return len(self.eigenvalues), len(self.eigenvalues)

    def matvec(self, x: Array) -> Array:
        """Product with `x`, by two transforms."""
        eigenvalues = along_rows(self.eigenvalues, x)
        waves = eigenvalues * walsh_hadamard(x)

        return np.asarray(walsh_hadamard(waves) / self.size)

    def diagonal(self) -> FloatArray:
        return np.full(self.size, self.eigenvalues.mean())

    def trace(self) -> float:
        return float(self.eigenvalues.sum())

    def largest_distance_squared(self) -> float:
        """The first column against all others; every other pair is a translate."""
        column = walsh_hadamard(self.eigenvalues) / self.size
        return 2.0 * float(column[0] - column.min())


@dataclass(frozen=True, eq=False)
class ScaledGram(Scaled, Gram):
    """A non-negative multiple of another Gram matrix."""

    inner: Gram

    def diagonal(self) -> FloatArray:
        return self.weight * self.inner.diagonal()

    def largest_distance_squared(self) -> float:
        square = self.inner.largest_distance_squared()
        return self.weight * square

    def mean_square(self) -> float:
        return self.weight * self.inner.mean_square()

    def identity_and_ones(self) -> Coefficients | None:
        inner = self.inner.identity_and_ones()
        if inner is None:
            return None

        identity, ones = inner
        return self.weight * identity, self.weight * ones

    def normal_form(self) -> Gram:
        return self.inner.normal_form().scaled(self.weight)

    def split(self) -> tuple[float, Gram]:
        return self.weight, self.inner


@dataclass(frozen=True, eq=False)
class SumGram(Gram):
    """A sum: the Gram matrix of stacked workloads."""

    parts: tuple[Gram, ...]

    @property
    def shape(self) -> Shape:
        return self.parts[0].shape

    def matvec(self, x: Array) -> Array:
        products = [part.matvec(x) for part in self.parts]
        return np.asarray(sum(products))

    def diagonal(self) -> FloatArray:
        diagonals = [part.diagonal() for part in self.parts]
        return np.asarray(sum(diagonals))

    def mean_square(self) -> float:
        return sum(part.mean_square() for part in self.parts)

    def identity_and_ones(self) -> Coefficients | None:
        known = [part.identity_and_ones() for part in self.parts]
        pairs = [pair for pair in known if pair is not None]
        if len(pairs) < len(known):
            return None

        identity, ones = zip(*pairs, strict=True)
        return sum(identity), sum(ones)

    def normal_form(self) -> Gram:
        parts = [part.normal_form() for part in self.parts]
        parts = [part for part in parts if part.split()[0] > 0]
        if not parts:
            return zero_gram(self.size)

        return parts[0] if len(parts) == 1 else SumGram(tuple(parts))


@dataclass(frozen=True, eq=False)
class KronGram(Kronecker, Gram):
    """A Kronecker product of Gram matrices."""

    factors: tuple[Gram, ...]

    def diagonal(self) -> FloatArray:
        return column_kron([factor.diagonal() for factor in self.factors])

    def trace(self) -> float:
        return prod(factor.trace() for factor in self.factors)

    def mean_square(self) -> float:
        return prod(factor.mean_square() for factor in self.factors)

    def normal_form(self) -> Gram:
        pairs = [factor.normal_form().split() for factor in self.factors]
        weights, factors = zip(*pairs, strict=True)

        return KronGram(factors).scaled(prod(weights))


def from_each_on(x: Array) -> Array:
    """Sums over each cell and all after it: the adjoint of cumulative counts."""
    backwards = np.cumsum(np.flip(x, 0), axis=0)
    return np.flip(backwards, 0)


def zero_gram(cells: int) -> Gram:
    """The Gram matrix of questions whose answers are known."""
    return ScaledGram(0.0, OnesGram(cells))
