"""Queries given as the rows of a matrix, and random ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.workload.base import Workload, check_size
from noisewright.workload.linear.gram import DenseGram, Gram
from noisewright.workload.linear.linear_map import check_order
from noisewright.workload.linear.maps import Dense
from noisewright.workload.linear.tensor import DENSE_LIMIT

if TYPE_CHECKING:
    from scipy.sparse import csr_array, sparray

    Matrix = FloatArray | csr_array[np.float64]

_IMAGE_ENTRIES = 2**23  # of products that are held at a time


def _is_real(kind: np.dtype[np.generic]) -> bool:
    """Whether numbers of a kind lose at most digits as floats: complex ones lose a part."""
    return kind.kind in "biufO"


def _real(matrix: object) -> FloatArray | None:
    """A copy in floats; None of what holds no real numbers, or rows that differ in length."""
    try:
        given = np.asarray(matrix)
        if _is_real(given.dtype):
            return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass

    return None


def _written_out(matrix: Matrix) -> FloatArray:
    """Sparse entries as an array, zeros among them."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def _entries(matrix: npt.ArrayLike | sparray) -> Matrix | None:
    """A matrix in floats, sparse where it was given so; None where it is none of real numbers."""
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        return _real(matrix)
    if not _is_real(matrix.dtype):
        return None

    return csr_array(matrix, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Explicit(Dense, Workload):
    """Queries given as the rows of a matrix, dense or SciPy sparse."""

    matrix: Any
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        matrix = _entries(self.matrix)
        if matrix is None:
            raise InvalidParameter(
                "workload",
                f"matrix of {type(self.matrix).__name__}",
                "must hold real numbers, as many in every row",
                "give one row per query and one column per cell",
            )

        require(
            matrix.ndim == 2 and 0 not in matrix.shape,
            "workload",
            f"array of shape {matrix.shape}",
            "must be a matrix with at least one row and one column",
            "give one row per query and one column per cell",
        )

        values = matrix if isinstance(matrix, np.ndarray) else matrix.data
        require(
            np.isfinite(values).all(),
            "workload",
            "matrix with NaN or infinite entries",
            "must have finite entries only",
            "replace or drop the queries that hold them",
        )
        queries = matrix.shape[0]
        require(
            self.names is None or len(self.names) == queries,
            "names",
            len(self.names or ()),
            f"must be one per query ({queries})",
            "add names",
        )

        object.__setattr__(self, "matrix", matrix)

    @property
    def sparse(self) -> csr_array[Any] | None:
        """The matrix when it is stored sparse."""
        return None if isinstance(self.matrix, np.ndarray) else self.matrix

    @cached_property
    def _gram(self) -> Gram:
        with np.errstate(over="ignore", invalid="ignore"):
            product = self.matrix.T @ self.matrix

        squares = _written_out(product)
        if not np.isfinite(squares).all():
            rule = "must have entries whose squares are floats"
            raise InvalidParameter("workload", "matrix", rule, "count in another unit")

        return DenseGram(squares)

    def gram(self) -> Gram:
        return self._gram

    def magnitudes(self) -> tuple[float, float]:
        largest = abs(self.matrix).max(axis=1)
        sizes = np.ravel(_written_out(largest))
        logs = np.log10(sizes[sizes > 0])

        return float(logs.min(initial=0.0)), float(logs.max(initial=0.0))

    def rows(self, start: int, stop: int) -> FloatArray:
        block = self.matrix[start:stop]
        return np.array(_written_out(block))

    def dense(self, limit: int = 2**62) -> FloatArray:
        return self.rows(0, self.queries)

    def column_norms(self, order: int = 2) -> FloatArray:
        check_order(order)
        powers = abs(self.matrix) if order == 1 else self.matrix**2
        sums = np.ravel(powers.sum(axis=0))

        return np.asarray(sums ** (1 / order))

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.matrix**2 @ x)

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        if self.sparse is None:
            return super().row_quadratics(matrix)

        quadratics = np.empty(self.queries)
        for where, image in self._images(matrix):
            products = self.matrix[where].multiply(image)
            quadratics[where] = np.ravel(products.sum(axis=1))

        return quadratics

    def image_squares(self, matrix: FloatArray) -> FloatArray:
        """Squared lengths of the rows of W·matrix: twice the digits of a quadratic form."""
        squares = [
            np.einsum("ij,ij->i", image, image) for _, image in self._images(matrix)
        ]
        return np.concatenate(squares)

    def _images(self, matrix: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Products of rows with a matrix, dense one block at a time, and where each stands."""
        step = max(1, _IMAGE_ENTRIES // max(1, matrix.shape[1]))
        for start in range(0, self.queries, step):
            where = slice(start, start + step)
            yield where, np.asarray(self.matrix[where] @ matrix)

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        if self.sparse is None:
            weighted = weights[:, None] * self.matrix
            return np.asarray(self.matrix.T @ weighted)

        scaled = self.sparse.multiply(weights[:, None]).tocsr()
        return np.asarray((self.sparse.T @ scaled).toarray())

    @cached_property
    def _digest(self) -> str:
        """Of the entries that are not zero, by row and column: the same sparse and dense."""
        from hashlib import sha256

        from scipy.sparse import csr_array

        entries: Any = csr_array(self.matrix, copy=True)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        digest = sha256()

        for places in (entries.indptr, entries.indices):
            digest.update(places.astype("<i8").tobytes())

        digest.update(np.ascontiguousarray(entries.data).tobytes())
        return digest.hexdigest()[:16]

    def text(self) -> str:
        """A digest: an explicit matrix has no short form that parses back."""
        return f"explicit:{self.queries}x{self.size}:{self._digest}"

    def label(self, row: int) -> str:
        return self.names[row] if self.names is not None else f"query {row}"

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return self.labels()


@dataclass(frozen=True, eq=False)
class Random(Explicit):
    """Random 0/1 queries from a public seed, for tests and benchmarks."""

    seed: int = 0

    @classmethod
    def make(cls, queries: int, cells: int, seed: int) -> Random:
        """Each entry is 1 with probability one half."""
        check_size("queries", queries)
        check_size("cells", cells)
        if queries * cells > DENSE_LIMIT:
            raise TooLarge(
                f"random:{queries}x{cells} has {queries * cells} entries, more than {DENSE_LIMIT}"
            )

        generator = np.random.default_rng(seed)
        bits = generator.integers(0, 2, size=(queries, cells))

        return cls(bits.astype(np.float64), None, seed)

    def text(self) -> str:
        return f"random:{self.queries}x{self.size}:{self.seed}"
