"""Workloads with far more rows than columns at norms above 2, without ever holding the rows.

The solver needs two things of the rows: Σ a_i w_i w_iᵀ, and w_iᵀ S w_i for all i. Ranges have both
by two-dimensional cumulative sums, stacks by parts, and anything else by blocks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.norm.problems import (
    WELL_CONDITIONED,
    Factors,
    column_side_factors,
    gram_root,
    right_singular,
)
from noisewright.norm.solver import Spectrum, Weights
from noisewright.workload.atoms import Ranges
from noisewright.workload.base import FloatArray, Workload


@dataclass(frozen=True, eq=False)
class RowwiseProblem:
    """Any workload whose rows are reached only through the two functions above."""

    workload: Workload

    @property
    def rows(self) -> int:
        """Number of queries."""
        return self.workload.queries

    @property
    def columns(self) -> int:
        """The domain size."""
        return self.workload.size

    def _eigen(self, a: FloatArray | None, b: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = np.ones(self.rows) if a is None else a
        root = np.sqrt(b)
        gram = self.workload.weighted_gram(a)
        values, vectors = eigen(root[:, None] * gram * root)
        if values[0] > WELL_CONDITIONED * values[-1]:
            return np.sqrt(values), vectors
        return right_singular(gram_root(gram), b)

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """One n × n eigenproblem."""
        s, v = self._eigen(a, b)
        half = np.sqrt(b)[:, None] * v / np.sqrt(s)
        rows = np.maximum(self.workload.row_quadratics(half @ half.T), 0.0)
        columns = (v * v) @ s / b
        if self._mirror is not None:
            rows, columns = (rows + rows[self._mirror]) / 2, (columns + columns[::-1]) / 2
        return Spectrum(float(s.sum()), rows, columns)

    @cached_property
    def _mirror(self) -> npt.NDArray[np.intp] | None:
        """Where each interval goes when the domain is reversed: keeps weights exactly symmetric."""
        if not isinstance(self.workload, Ranges):
            return None
        n = self.workload.size
        first, last = np.triu_indices(n)
        begin, end = n - 1 - last, n - 1 - first
        return np.asarray(begin * n - begin * (begin - 1) // 2 + end - begin)

    def factors(self, weights: Weights) -> Factors:
        """A = diag(s)^½ Vᵀ D_b^-½ and its inverse."""
        s, v = self._eigen(weights.a, weights.b)
        return column_side_factors(s, v, weights.b)


def eigen(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues in ascending order and eigenvectors of a symmetric matrix.

    A matrix that equals its own reversal (ranges, with symmetric weights) splits into an even and
    an odd half: a quarter of the work.
    """
    n = len(matrix)
    reversed_ = matrix[::-1, ::-1]
    if n < 32 or np.abs(matrix - reversed_).max() > 1e-12 * np.abs(matrix).max():
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    half, odd = divmod(n, 2)
    corner, across = matrix[:half, :half], matrix[:half, n - half :][:, ::-1]
    even = np.empty((half + odd, half + odd))
    even[:half, :half] = corner + across
    if odd:
        even[half, :half] = even[:half, half] = np.sqrt(2) * matrix[half, :half]
        even[half, half] = matrix[half, half]
    plus_values, plus = np.linalg.eigh(even)
    minus_values, minus = np.linalg.eigh(corner - across)
    vectors = np.zeros((n, n))
    vectors[:half, : half + odd] = plus[:half] / np.sqrt(2)
    vectors[half : n - half, : half + odd] = plus[half:]
    vectors[n - half :, : half + odd] = plus[:half][::-1] / np.sqrt(2)
    vectors[:half, half + odd :] = minus / np.sqrt(2)
    vectors[n - half :, half + odd :] = -minus[::-1] / np.sqrt(2)
    values = np.concatenate([plus_values, minus_values])
    order = np.argsort(values)
    return values[order], vectors[:, order]
