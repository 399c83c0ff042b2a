"""Workloads as the solver sees them: one spectral evaluation per step, on the smaller side.

Each class turns dual weights into the spectrum of D_a^½ W D_b^½ by the cheapest exact route its
structure allows, and builds the factorization that belongs to chosen weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.norm.kernel.certificate import EPSILON
from noisewright.norm.kernel.solver import Spectrum, Weights
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Ranges

LARGEST_EIGENPROBLEM = 8192  # cells; 0.5 GB per matrix, minutes per step
# ratio of eigenvalues below which squaring would blur directions
WELL_CONDITIONED = 1e-10
_SPLIT_FROM = 32  # cells; smaller matrices are taken apart slower than they are solved


@dataclass(frozen=True)
class Factors:
    """A strategy A (r × n, sensitivity one) and its inverse on W's row space: R = W·inverse."""

    strategy: FloatArray
    inverse: FloatArray


def unit_factors(strategy: FloatArray, inverse: FloatArray) -> Factors:
    """The same pair scaled so that the longest column of the strategy is exactly one."""
    squares = np.einsum("ij,ij->j", strategy, strategy)
    longest = float(np.sqrt(squares.max()))
    return Factors(strategy / longest, inverse * longest)


def gram_root(gram: FloatArray) -> FloatArray:
    """A matrix with this Gram matrix and as many rows as it has rank."""
    values, vectors = np.linalg.eigh(gram)
    largest = max(float(values[-1]), 0.0)
    keep = values > values.size * EPSILON * largest
    return np.asarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T)


def _right_singular(matrix: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values and right singular vectors of a full-rank matrix times D_b^½."""
    _, s, vt = np.linalg.svd(matrix * np.sqrt(b), full_matrices=False)
    return s, vt.T


def row_basis(matrix: FloatArray) -> FloatArray:
    """Orthonormal rows that span those of a matrix, found with all of them alike in size.

    A factorization in these coordinates multiplies back to every query, however small beside
    others: their sizes decide about weights, not about the row space.
    """
    columns = matrix.shape[1]
    largest = np.abs(matrix).max(axis=1)
    used = largest > 0
    alike = matrix[used] / largest[used, None]
    _, s, vt = np.linalg.svd(alike, full_matrices=False)
    rank = int(np.count_nonzero(s > max(alike.shape) * EPSILON * s[0]))
    return np.eye(columns) if rank == columns else np.asarray(vt[:rank])


@dataclass(frozen=True, eq=False)
class GramProblem:
    """Norm 2 from the Gram matrix alone: an n × n eigenproblem, however many queries."""

    gram: FloatArray

    @property
    def rows(self) -> int:
        return 0

    @property
    def columns(self) -> int:
        return len(self.gram)

    @cached_property
    def _root(self) -> FloatArray:
        return gram_root(self.gram)

    def _eigen(self, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        root = np.sqrt(b)
        values, vectors = np.linalg.eigh(root[:, None] * self.gram * root)
        if values[0] > WELL_CONDITIONED * values[-1]:
            return np.sqrt(values), vectors
        return _right_singular(self._root, b)

    def spectrum(self, weights: Weights) -> Spectrum:
        """Eigenvalues of D_b^½ M D_b^½."""
        s, v = self._eigen(weights.b)
        return Spectrum(float(s.sum()), None, (v * v) @ s / weights.b)

    def factors(self, weights: Weights) -> Factors:
        s, v = self._eigen(weights.b)
        return column_side_factors(s, v, weights.b)


def column_side_factors(s: FloatArray, v: FloatArray, b: FloatArray) -> Factors:
    """The factorization from singular values and right singular vectors."""
    root = np.sqrt(b)
    half = np.sqrt(s)
    return unit_factors(half[:, None] * v.T / root, root[:, None] * v / half)


@dataclass(frozen=True, eq=False)
class DenseProblem:
    """An explicit matrix: eigenproblem on the smaller side, SVD when it is ill-conditioned."""

    matrix: FloatArray

    @property
    def rows(self) -> int:
        return len(self.matrix)

    @property
    def columns(self) -> int:
        """Domain size."""
        return int(self.matrix.shape[1])

    @cached_property
    def _gram(self) -> FloatArray:
        return self.matrix.T @ self.matrix

    @cached_property
    def basis(self) -> FloatArray:
        """Orthonormal rows that span the queries, however much these differ in size."""
        return row_basis(self.matrix)

    @property
    def rank(self) -> int:
        """Number of directions the queries use."""
        return len(self.basis)

    @cached_property
    def _delicate(self) -> bool:
        s = np.linalg.svd(self.matrix, compute_uv=False)
        return bool(s[-1] ** 2 < WELL_CONDITIONED * s[0] ** 2)

    def singular(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Left singular vectors, singular values and right singular vectors of D_a^½ W D_b^½."""
        scaled = weights.scaled(self.matrix * np.sqrt(weights.b))
        u, s, vt = np.linalg.svd(scaled, full_matrices=False)
        # Weights are positive, so they leave the rank as it is, however small they are.
        rank = self.rank
        return u[:, :rank], s[:rank], vt[:rank].T

    def spectrum(self, weights: Weights) -> Spectrum:
        """Singular values, and the squared lengths of rows and columns of the factorization."""
        if not self._delicate:
            side = self._row_side if self.rows < self.columns else self._column_side
            spectrum = side(weights)
            if spectrum is not None:
                return spectrum

        u, s, v = self.singular(weights)
        rows = None if weights.a is None else (u * u) @ s / weights.a
        return Spectrum(float(s.sum()), rows, (v * v) @ s / weights.b)

    def _column_side(self, weights: Weights) -> Spectrum | None:
        a, b = weights.a, weights.b
        w = self.matrix
        root = np.sqrt(b)
        gram = self._gram if a is None else w.T @ (a[:, None] * w)
        values, v = np.linalg.eigh(root[:, None] * gram * root)
        if values[0] < WELL_CONDITIONED * values[-1]:
            return None

        s = np.sqrt(values)
        rows = None
        if a is not None:
            inverse = w @ (root[:, None] * v)
            rows = (inverse * inverse) @ (1 / s)

        return Spectrum(float(s.sum()), rows, (v * v) @ s / b)

    def _row_side(self, weights: Weights) -> Spectrum | None:
        a, b = weights.a, weights.b
        w = self.matrix
        root = np.ones(self.rows) if a is None else np.sqrt(a)
        gram = (w * b) @ w.T
        values, u = np.linalg.eigh(root[:, None] * gram * root)
        if values[0] < WELL_CONDITIONED * values[-1]:
            return None

        s = np.sqrt(values)
        images = w.T @ (root[:, None] * u)
        columns = (images * images) @ (1 / s)
        rows = None if a is None else (u * u) @ s / a
        return Spectrum(float(s.sum()), rows, columns)

    def factors(self, weights: Weights) -> Factors:
        """The factorization at these weights, by SVD: done once, so accuracy comes first.

        With W = Z·Q in coordinates of the basis and Q·D_b^½ = C·O, the singular vectors of
        D_a^½ Z C give A = S^½ Vᵀ C⁻¹ Q, which spans the queries whatever their sizes.
        """
        if self.rank == self.columns:
            _, s, v = self.singular(weights)
            return column_side_factors(np.maximum(s, EPSILON * s[0]), v, weights.b)

        q = self.basis
        upper = np.asarray(np.linalg.qr((q * np.sqrt(weights.b)).T, mode="r"))
        z = weights.scaled(self.matrix @ q.T)
        _, s, vt = np.linalg.svd(z @ upper.T, full_matrices=False)

        half = np.sqrt(np.maximum(s, EPSILON * s[0]))
        solved = np.linalg.solve(upper, vt.T).T
        strategy = half[:, None] * solved @ q
        inverse = q.T @ (upper.T @ vt.T / half)
        return unit_factors(strategy, inverse)


@dataclass(frozen=True, eq=False)
class RowwiseProblem:
    """Any workload whose rows are reached only through its weighted Gram matrix and row lengths."""

    workload: Workload

    @property
    def rows(self) -> int:
        return self.workload.queries

    @property
    def columns(self) -> int:
        return self.workload.size

    def _eigen(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        a = np.ones(self.rows) if weights.a is None else weights.a
        root = np.sqrt(weights.b)
        gram = self.workload.weighted_gram(a)

        values, vectors = eigen(root[:, None] * gram * root)
        if values[0] > WELL_CONDITIONED * values[-1]:
            return np.sqrt(values), vectors
        return _right_singular(gram_root(gram), weights.b)

    def spectrum(self, weights: Weights) -> Spectrum:
        b = weights.b
        s, v = self._eigen(weights)
        half = np.sqrt(b)[:, None] * v / np.sqrt(s)
        rows = np.maximum(self.workload.row_quadratics(half @ half.T), 0.0)
        columns = (v * v) @ s / b
        if self._mirror is not None:
            rows = (rows + rows[self._mirror]) / 2
            columns = (columns + columns[::-1]) / 2

        return Spectrum(float(s.sum()), rows, columns)

    @cached_property
    def _mirror(self) -> IndexArray | None:
        """Where each interval goes when the domain is reversed: keeps weights exactly symmetric."""
        if not isinstance(self.workload, Ranges):
            return None

        n = self.workload.size
        first, last = np.triu_indices(n)
        begin = n - 1 - last
        end = n - 1 - first
        return np.asarray(begin * n - begin * (begin - 1) // 2 + end - begin)

    def factors(self, weights: Weights) -> Factors:
        s, v = self._eigen(weights)
        return column_side_factors(s, v, weights.b)


def eigen(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues in ascending order and eigenvectors of a symmetric matrix.

    A matrix that equals its own reversal (ranges, with symmetric weights) splits into an even and
    an odd half: a quarter of the work.
    """
    n = len(matrix)
    away = np.abs(matrix - matrix[::-1, ::-1]).max()
    if n < _SPLIT_FROM or away > 1e-12 * np.abs(matrix).max():
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors

    half, odd = divmod(n, 2)
    corner = matrix[:half, :half]
    across = matrix[:half, n - half :][:, ::-1]
    even = np.empty((half + odd, half + odd))
    even[:half, :half] = corner + across
    if odd:
        even[half, :half] = even[:half, half] = np.sqrt(2) * matrix[half, :half]
        even[half, half] = matrix[half, half]

    even_values, even_vectors = np.linalg.eigh(even)
    odd_values, odd_vectors = np.linalg.eigh(corner - across)

    # The first half of each vector, and its mirror image with either sign.
    even_half = even_vectors[:half] / np.sqrt(2)
    odd_half = odd_vectors / np.sqrt(2)
    middle = np.concatenate([even_vectors[half:], np.zeros((odd, half))], axis=1)
    first = np.concatenate([even_half, odd_half], axis=1)
    last = np.concatenate([even_half, -odd_half], axis=1)[::-1]
    vectors = np.concatenate([first, middle, last])

    values = np.concatenate([even_values, odd_values])
    order = np.argsort(values)
    return values[order], vectors[:, order]
