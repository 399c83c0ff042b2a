"""The information matrix X of a strategy, as an operator that can be solved with.

X = E_π[s sᵀ], where s(o) = q_o / (q_oᵀπ) is the score of report o: its chances under every type,
divided by its chance under the prior. A histogram is estimated by X⁺ Σ s, and whatever X maps to
zero is what the strategy cannot see.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import OutOfReach, TooLarge
from noisewright.workload.base import Workload

REACH_TOLERANCE = 1e-7
"""Relative residual above which a query lies outside the row space of a strategy."""

_RANK_TOLERANCE = 1e-11
"""Of the largest eigenvalue: below it lies the rounding of sums over many reports."""

_BLOCK_ENTRIES = 2**22
"""Of queries that are looked at together: 32 MiB."""

_SAFE_PIVOT = 1e-9
"""Of the largest pivot: a hundred times what counts as lost, so that both ways agree on rank."""


def inverse_where_seen(eigenvalues: FloatArray, least: float = 0.0) -> FloatArray:
    """Eigenvalues of the pseudo-inverse; those that are at most `least` count as lost."""
    seen = eigenvalues > least
    regular = np.where(seen, eigenvalues, 1.0)
    return np.where(seen, 1.0 / regular, 0.0)


def along_first(values: FloatArray, x: FloatArray) -> FloatArray:
    """One value for every row of `x`, be it a vector or a matrix."""
    return values.reshape(-1, *(1 for _ in x.shape[1:]))


def centred(matrix: FloatArray) -> FloatArray:
    """P M P with P = I − 11ᵀ/n: what a matrix says of vectors that sum to zero."""
    half = matrix - matrix.mean(axis=0)
    means = half.mean(axis=1)
    return np.asarray(half - means[:, None])


class Information(ABC):
    """A symmetric positive semidefinite matrix over types, by structure."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of types."""

    @abstractmethod
    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with a vector or with the columns of a matrix."""

    @abstractmethod
    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to a vector or to the columns of a matrix."""

    @property
    def full_rank(self) -> bool:
        """Whether every query is within reach."""
        return False

    def beyond_reach(self, rows: FloatArray) -> FloatArray:
        """For each query (row), the relative size of the part that the strategy cannot see."""
        seen = self.matvec(self.solve(rows.T))
        missed = np.linalg.norm(rows.T - seen, axis=0)
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(missed / np.maximum(lengths, np.finfo(float).tiny))

    def dense(self) -> FloatArray:
        """The matrix itself, for small domains."""
        return self.matvec(np.eye(self.size))


@dataclass(frozen=True, eq=False)
class DenseInformation(Information):
    """An explicit matrix."""

    matrix: FloatArray

    @property
    def size(self) -> int:
        """Number of types."""
        return int(self.matrix.shape[0])

    @cached_property
    def _symmetric(self) -> FloatArray:
        return (self.matrix + self.matrix.T) / 2

    @cached_property
    def _triangle(self) -> FloatArray | None:
        """The Cholesky factor, where the matrix is safely of full rank: far quicker than eigen."""
        try:
            lower = np.asarray(np.linalg.cholesky(self._symmetric), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

        pivots = np.diagonal(lower) ** 2
        safe = pivots.min() > _SAFE_PIVOT * pivots.max()
        return lower if safe else None

    @cached_property
    def _eigen(self) -> tuple[FloatArray, FloatArray]:
        values, vectors = np.linalg.eigh(self._symmetric)
        seen = values > _RANK_TOLERANCE * max(values[-1], 0.0)
        return values[seen], vectors[:, seen]

    @property
    def full_rank(self) -> bool:
        """Whether no direction is lost."""
        if self._triangle is not None:
            return True

        values, _ = self._eigen
        return len(values) == self.size

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        return self.matrix @ x

    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to `x`."""
        if self._triangle is not None:
            from scipy.linalg import cho_solve

            return cho_solve((self._triangle, True), x, check_finite=False)

        values, vectors = self._eigen
        turned = vectors.T @ x
        return vectors @ (turned / along_first(values, turned))


@dataclass(frozen=True)
class CentredInformation(Information):
    """X = a(I − 11ᵀ/n) + 11ᵀ: all cells alike, as for the histogram mechanisms.

    One number says it all: a is the information on differences between cells. The total is known.
    """

    cells: int
    contrast: float

    @property
    def size(self) -> int:
        """Number of types."""
        return self.cells

    @property
    def full_rank(self) -> bool:
        """Whether differences between cells can be seen."""
        return self.contrast > 0

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        mean = x.mean(axis=0)
        return np.asarray(self.contrast * (x - mean) + self.cells * mean)

    def solve(self, x: FloatArray) -> FloatArray:
        """Inverse applied to `x`."""
        mean = x.mean(axis=0)
        return np.asarray((x - mean) / self.contrast + mean / self.cells)


@dataclass(frozen=True)
class UnformedInformation(Information):
    """An information matrix of full rank that the strategy's own formulas make unnecessary."""

    cells: int

    @property
    def size(self) -> int:
        """Number of types."""
        return self.cells

    @property
    def full_rank(self) -> bool:
        """Every query is within reach."""
        return True

    def matvec(self, x: FloatArray) -> FloatArray:
        """Never formed."""
        raise TooLarge(f"the information matrix over {self.cells} types is not formed")

    def solve(self, x: FloatArray) -> FloatArray:
        """Never formed."""
        return self.matvec(x)


# --- reach ----------------------------------------------------------------------------------------


def check_rows(kind: str, information: Information, workload: Workload) -> None:
    """Raise `OutOfReach` naming the first query that the information matrix cannot see."""
    block = max(1, _BLOCK_ENTRIES // workload.size)
    for start in range(0, workload.queries, block):
        rows = workload.rows(start, min(start + block, workload.queries))
        lost = information.beyond_reach(rows)
        if lost.max(initial=0.0) > REACH_TOLERANCE:
            row = int(np.argmax(lost > REACH_TOLERANCE))
            raise out_of_reach(kind, workload, start + row, float(lost[row]))


def out_of_reach(kind: str, workload: Workload, row: int, share: float) -> OutOfReach:
    """The error that names a query and what to do about it."""
    return OutOfReach(
        f"query {row} ({workload.label(row)}) is out of reach of the strategy {kind}: a share of "
        f"{share:.2g} of it lies outside its row space; choose another mechanism or leave it out"
    )
