"""Workloads as the solver sees them: one spectral evaluation per step, on the smaller side.

Each class turns dual weights into the spectrum of D_a^½ W D_b^½ by the cheapest exact route its
structure allows, and builds the factorization that belongs to chosen weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.norm.rounding import EPSILON
from noisewright.norm.solver import Spectrum, Weights

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Factors:
    """A strategy A (r × n, sensitivity one) and its inverse on W's row space: R = W·inverse."""

    strategy: FloatArray
    inverse: FloatArray


def unit_factors(strategy: FloatArray, inverse: FloatArray) -> Factors:
    """The same pair scaled so that the longest column of the strategy is exactly one."""
    longest = float(np.sqrt(np.einsum("ij,ij->j", strategy, strategy).max()))
    return Factors(strategy / longest, inverse * longest)


def _positive(values: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Square roots of the eigenvalues that are not rounding, with their eigenvectors."""
    keep = values > values.size * EPSILON * max(float(values[-1]), 0.0)
    return np.sqrt(values[keep]), vectors[:, keep]


@dataclass(frozen=True, eq=False)
class GramProblem:
    """Norm 2 from the Gram matrix alone: an n × n eigenproblem, however many queries."""

    gram: FloatArray

    @property
    def rows(self) -> int:
        """No row carries a weight at norm 2."""
        return 0

    @property
    def columns(self) -> int:
        """The domain size."""
        return len(self.gram)

    def _eigen(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        root = np.sqrt(b)
        values, vectors = np.linalg.eigh(root[:, None] * self.gram * root)
        return _positive(values, vectors)

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """Eigenvalues of D_b^½ M D_b^½."""
        s, v = self._eigen(b)
        return Spectrum(float(s.sum()), None, (v * v) @ s / b)

    def factors(self, weights: Weights) -> Factors:
        """A = diag(s)^½ Vᵀ D_b^-½ and its inverse."""
        s, v = self._eigen(weights.b)
        return column_side_factors(s, v, weights.b)


def column_side_factors(s: FloatArray, v: FloatArray, b: FloatArray) -> Factors:
    """The factorization from singular values and right singular vectors."""
    root, half = np.sqrt(b), np.sqrt(s)
    return unit_factors(half[:, None] * v.T / root, root[:, None] * v / half)


@dataclass(frozen=True, eq=False)
class DenseProblem:
    """An explicit matrix: eigenproblem on the smaller side, SVD when it is ill-conditioned."""

    matrix: FloatArray

    @property
    def rows(self) -> int:
        """Number of queries."""
        return len(self.matrix)

    @property
    def columns(self) -> int:
        """Domain size."""
        return int(self.matrix.shape[1])

    @cached_property
    def _gram(self) -> FloatArray:
        return self.matrix.T @ self.matrix

    @cached_property
    def _delicate(self) -> bool:
        """Whether squaring the matrix would lose directions (singular values below 1e-5)."""
        w = self.matrix
        small = w @ w.T if self.rows < self.columns else self._gram
        values = np.linalg.eigvalsh(small)
        return bool(values[0] < 1e-10 * values[-1])

    def singular(self, a: FloatArray | None, b: FloatArray) -> tuple[FloatArray, ...]:
        """Left vectors (None when only the Gram was used), values, right vectors."""
        root = np.sqrt(b)
        scaled = self.matrix * root if a is None else np.sqrt(a)[:, None] * self.matrix * root
        u, s, vt = np.linalg.svd(scaled, full_matrices=False)
        keep = s > max(scaled.shape) * EPSILON * s[0]
        return u[:, keep], s[keep], vt[keep].T

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """Singular values, and the squared lengths of rows and columns of the factorization."""
        if self._delicate:
            u, s, v = self.singular(a, b)
            rows = None if a is None else (u * u) @ s / a
            return Spectrum(float(s.sum()), rows, (v * v) @ s / b)
        if self.rows < self.columns:
            return self._row_side(a, b)
        return self._column_side(a, b)

    def _column_side(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        w, root = self.matrix, np.sqrt(b)
        gram = self._gram if a is None else w.T @ (a[:, None] * w)
        values, vectors = np.linalg.eigh(root[:, None] * gram * root)
        s, v = _positive(values, vectors)
        rows = None
        if a is not None:
            inverse = w @ (root[:, None] * v)
            rows = (inverse * inverse) @ (1 / s)
        return Spectrum(float(s.sum()), rows, (v * v) @ s / b)

    def _row_side(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        w = self.matrix
        root = np.ones(self.rows) if a is None else np.sqrt(a)
        values, vectors = np.linalg.eigh(root[:, None] * ((w * b) @ w.T) * root)
        s, u = _positive(values, vectors)
        images = w.T @ (root[:, None] * u)
        rows = None if a is None else (u * u) @ s / a
        return Spectrum(float(s.sum()), rows, (images * images) @ (1 / s))

    def factors(self, weights: Weights) -> Factors:
        """The factorization at these weights, by SVD: done once, so accuracy comes first."""
        _, s, v = self.singular(weights.a, weights.b)
        return column_side_factors(s, v, weights.b)


@dataclass(frozen=True, eq=False)
class TridiagonalProblem:
    """Norm 2 when the inverse of the Gram matrix is tridiagonal (prefix sums, all ranges).

    D_b^-½ M⁻¹ D_b^-½ stays tridiagonal, so a step costs O(n²) in practice instead of O(n³):
    n = 4096 takes two seconds on one core where the dense eigenproblem takes half a minute.
    """

    diagonal: FloatArray
    off_diagonal: FloatArray

    @property
    def rows(self) -> int:
        """No row carries a weight at norm 2."""
        return 0

    @property
    def columns(self) -> int:
        """The domain size."""
        return self.diagonal.size

    def _eigen(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        scale = 1 / np.sqrt(b)
        return _inverse_roots(
            self.diagonal * scale * scale, self.off_diagonal * scale[1:] * scale[:-1]
        )

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """Eigenvalues of the tridiagonal inverse."""
        s, v = self._eigen(b)
        return Spectrum(float(s.sum()), None, (v * v) @ s / b)

    def factors(self, weights: Weights) -> Factors:
        """A = diag(s)^½ Vᵀ D_b^-½ and its inverse."""
        s, v = self._eigen(weights.b)
        return column_side_factors(s, v, weights.b)


def _inverse_roots(diagonal: FloatArray, off_diagonal: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues^-½ and eigenvectors of a positive definite tridiagonal matrix."""
    from scipy.linalg import eigh_tridiagonal

    if diagonal.size == 1:
        return diagonal**-0.5, np.ones((1, 1))
    # SciPy chooses divide and conquer: as quick as MRRR, and orthogonal to 1e-14, not 1e-11.
    values, vectors = eigh_tridiagonal(diagonal, off_diagonal)
    roots = np.maximum(values, np.finfo(np.float64).tiny) ** -0.5
    return np.asarray(roots, np.float64), np.asarray(vectors, np.float64)


def prefix_gram_inverse(size: int) -> TridiagonalProblem:
    """Norm 2 of the prefix sums: M⁻¹ is the second difference with one free end."""
    diagonal = np.full(size, 2.0)
    diagonal[0] = 1.0
    return TridiagonalProblem(diagonal, np.full(size - 1, -1.0))


def ranges_gram_inverse(size: int) -> TridiagonalProblem:
    """Norm 2 of all ranges: M⁻¹ is the second difference with fixed ends, over n + 1."""
    return TridiagonalProblem(np.full(size, 2.0) / (size + 1), np.full(size - 1, -1.0) / (size + 1))


@dataclass(frozen=True, eq=False)
class PrefixProblem:
    """Prefix sums at any norm: (D_a^½ W D_b Wᵀ D_a^½)⁻¹ is tridiagonal as well."""

    size: int

    @property
    def rows(self) -> int:
        """Number of queries."""
        return self.size

    @property
    def columns(self) -> int:
        """The domain size."""
        return self.size

    def _eigen(self, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        scale, steps = 1 / np.sqrt(a), 1 / b
        s, u = _inverse_roots(
            (steps + np.append(steps[1:], 0.0)) * scale * scale, -steps[1:] * scale[1:] * scale[:-1]
        )
        images = np.cumsum((np.sqrt(a)[:, None] * u)[::-1], axis=0)[::-1]
        return s, u, images

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """Left singular vectors from the tridiagonal inverse, right ones by cumulative sums."""
        a = np.ones(self.size) if a is None else a
        s, u, images = self._eigen(a, b)
        return Spectrum(float(s.sum()), (u * u) @ s / a, (images * images) @ (1 / s))

    def factors(self, weights: Weights) -> Factors:
        """A = diag(s)^-½ Uᵀ D_a^½ W and its inverse."""
        a = np.ones(self.size) if weights.a is None else weights.a
        s, _, images = self._eigen(a, weights.b)
        return unit_factors((images / np.sqrt(s)).T, weights.b[:, None] * images / s**1.5)


@dataclass(frozen=True, eq=False)
class RangesProblem:
    """All ranges at norms above 2: n(n+1)/2 row weights, handled by two-dimensional sums."""

    size: int

    @property
    def rows(self) -> int:
        """Number of intervals."""
        return self.size * (self.size + 1) // 2

    @property
    def columns(self) -> int:
        """The domain size."""
        return self.size

    @cached_property
    def _ends(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        return np.triu_indices(self.size)

    def weighted_gram(self, a: FloatArray) -> FloatArray:
        """Wᵀ D_a W: entry (u, v) sums the weights of the intervals that hold both cells."""
        table = np.zeros((self.size, self.size))
        table[self._ends] = a
        table = np.cumsum(np.cumsum(table, axis=0)[:, ::-1], axis=1)[:, ::-1]
        upper = np.triu(table)
        return upper + np.triu(upper, 1).T

    def quadratic(self, matrix: FloatArray) -> FloatArray:
        """wᵀ S w for every interval w: sums over diagonal blocks of S."""
        first, last = self._ends
        sums = np.zeros((self.size + 1, self.size + 1))
        sums[1:, 1:] = np.cumsum(np.cumsum(matrix, axis=0), axis=1)
        corner = np.diagonal(sums)
        return np.asarray(corner[last + 1] - 2 * sums[first, last + 1] + corner[first])

    def _eigen(self, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        root = np.sqrt(b)
        values, vectors = np.linalg.eigh(root[:, None] * self.weighted_gram(a) * root)
        return _positive(values, vectors)

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """One n × n eigenproblem; rows and Gram by cumulative sums."""
        a = np.ones(self.rows) if a is None else a
        s, v = self._eigen(a, b)
        half = np.sqrt(b)[:, None] * v / np.sqrt(s)
        rows = np.maximum(self.quadratic(half @ half.T), 0.0)
        return Spectrum(float(s.sum()), rows, (v * v) @ s / b)

    def factors(self, weights: Weights) -> Factors:
        """A = diag(s)^½ Vᵀ D_b^-½ and its inverse."""
        a = np.ones(self.rows) if weights.a is None else weights.a
        s, v = self._eigen(a, weights.b)
        return column_side_factors(s, v, weights.b)
