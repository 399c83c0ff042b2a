"""One-dimensional workloads with closed forms, and explicit matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.workload.base import Workload, check_size
from noisewright.workload.linear.gram import (
    DenseGram,
    Gram,
    IdentityGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    XorGram,
    from_each_on,
)
from noisewright.workload.linear.linear_map import check_order
from noisewright.workload.linear.maps import Dense
from noisewright.workload.linear.tensor import DENSE_LIMIT, corner_sums, walsh_hadamard

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_IMAGE_ENTRIES = 2**23  # of products that are held at a time


@dataclass(frozen=True)
class Atom(Workload):
    """A closed-form workload over `cells` ordered cells."""

    cells: int

    def __post_init__(self) -> None:
        check_size("cells", self.cells)

    def text(self) -> str:
        return f"{type(self).__name__.lower()}:{self.cells}"

    def label(self, row: int) -> str:
        """Name of one query by the cells it sums."""
        first, last = self.span(row)
        return f"[{first}]" if first == last else f"[{first}..{last}]"

    def span(self, row: int) -> tuple[int, int]:
        """First and last cell that query `row` sums."""
        raise NotImplementedError

    # Entries are zeros and ones: powers of them, and of their differences, add up to the same.

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.matvec(x), dtype=np.float64)

    def column_norms(self, order: int = 2) -> FloatArray:
        return np.asarray(self.gram().diagonal() ** (1 / check_order(order)))

    def _largest_distance(self, order: int) -> float:
        return float(self.gram().largest_distance_squared() ** (1 / order))


class Identity(Atom):
    """The histogram: one query per cell."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells, self.cells

    def matvec(self, x: Array) -> Array:
        return x.copy()

    def rmatvec(self, y: Array) -> Array:
        return y.copy()

    def gram(self) -> Gram:
        return IdentityGram(self.cells)

    def span(self, row: int) -> tuple[int, int]:
        return row, row

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return [f"{name} = {value}" for value in values]

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return np.array(np.diagonal(matrix))

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        return np.diag(weights)


class Total(Atom):
    """The number of people: one query over all cells."""

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.cells

    def matvec(self, x: Array) -> Array:
        return np.asarray(x.sum(axis=0, keepdims=True))

    def rmatvec(self, y: Array) -> Array:
        return np.repeat(y, self.cells, axis=0)

    def gram(self) -> Gram:
        return OnesGram(self.cells)

    def span(self, row: int) -> tuple[int, int]:
        return 0, self.cells - 1

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return [""]

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return np.array([matrix.sum()])

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        return np.full((self.cells, self.cells), weights[0])


class Prefix(Atom):
    """Cumulative counts: query i sums cells 0 to i."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells, self.cells

    def matvec(self, x: Array) -> Array:
        return np.cumsum(x, axis=0)

    def rmatvec(self, y: Array) -> Array:
        return from_each_on(y)

    def gram(self) -> Gram:
        return PrefixGram(self.cells)

    def span(self, row: int) -> tuple[int, int]:
        return 0, row

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        return [f"{name} up to {value}" for value in values]

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        return np.array(np.diagonal(corner_sums(matrix)))[1:]

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        after = np.cumsum(weights[::-1])[::-1]
        cells = np.arange(self.cells)
        return after[np.maximum.outer(cells, cells)]


class Ranges(Atom):
    """All intervals of cells, by first and then by last cell."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells * (self.cells + 1) // 2, self.cells

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        first, last = np.triu_indices(self.cells)
        return first, last

    def matvec(self, x: Array) -> Array:
        """Answers on `x`: differences of cumulative counts."""
        first, last = self._ends
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        return np.asarray(sums[last + 1] - sums[first])

    def rmatvec(self, y: Array) -> Array:
        """Transpose on `y`: +y where an interval begins, −y after it ends, then a running sum."""
        first, last = self._ends
        edges = np.zeros((self.cells + 1, *y.shape[1:]), dtype=y.dtype)
        np.add.at(edges, first, y)
        np.subtract.at(edges, last + 1, y)
        return np.cumsum(edges[:-1], axis=0)

    def gram(self) -> Gram:
        return RangesGram(self.cells)

    def span(self, row: int) -> tuple[int, int]:
        n = self.cells

        def first_row(cell: int) -> int:
            """The first interval that starts at a cell."""
            return cell * n - cell * (cell - 1) // 2

        low = 0
        high = n - 1
        while low < high:
            middle = (low + high + 1) // 2
            if first_row(middle) <= row:
                low = middle
            else:
                high = middle - 1

        return low, low + row - first_row(low)

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        spans = (self.span(row) for row in range(self.queries))
        return [f"{name} from {values[a]} to {values[b]}" for a, b in spans]

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        first, last = self._ends
        sums = corner_sums(matrix)
        squares = np.diagonal(sums)
        ends = squares[last + 1] + squares[first]
        return np.asarray(ends - 2 * sums[first, last + 1])

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        # Entry (u, v) sums the weights of the intervals that begin at or before u and end after v.
        table = np.zeros((self.cells, self.cells))
        table[np.triu_indices(self.cells)] = weights
        begun = np.cumsum(table, axis=0)
        upper = np.triu(np.cumsum(begun[:, ::-1], axis=1)[:, ::-1])
        return upper + np.triu(upper, 1).T


_MOST_CHARACTERS = 2**20  # listed one by one


@dataclass(frozen=True)
class Parity(Workload):
    """Characters (−1)^{⟨χ,u⟩} of `lowest` to `highest` of `bits` binary attributes."""

    bits: int
    lowest: int
    highest: int

    def __post_init__(self) -> None:
        if check_size("bits", self.bits) > 62:
            raise TooLarge(
                f"parity over {self.bits} bits; cells are numbered up to 2^62"
            )
        if not 0 <= self.lowest <= self.highest <= self.bits:
            raise InvalidParameter(
                "degree",
                (self.lowest, self.highest),
                f"must lie between 0 and the number of bits, {self.bits}",
                "lower the degree or add bits",
            )

    @property
    def _degrees(self) -> range:
        return range(self.lowest, self.highest + 1)

    @property
    def shape(self) -> tuple[int, int]:
        return sum(comb(self.bits, degree) for degree in self._degrees), 2**self.bits

    @cached_property
    def attributes(self) -> tuple[tuple[int, ...], ...]:
        """The bits of each character asked, by degree."""
        if self.queries > _MOST_CHARACTERS:
            raise TooLarge(
                f"workload {self.text()} has {self.queries} queries; they are listed up to "
                f"{_MOST_CHARACTERS}; ask about fewer bits, or lower the degree"
            )

        bits = range(self.bits)
        by_degree = (combinations(bits, degree) for degree in self._degrees)
        return tuple(chain.from_iterable(by_degree))

    @cached_property
    def characters(self) -> Array:
        """The characters asked, as bit masks over cells, by degree."""
        if self.size > DENSE_LIMIT:
            raise TooLarge(
                f"workload {self.text()} has {self.size} cells; its characters are transformed up "
                f"to {DENSE_LIMIT}; ask about fewer bits"
            )

        masks = [
            sum(1 << (self.bits - 1 - i) for i in chosen) for chosen in self.attributes
        ]
        return np.array(masks, dtype=np.int64)

    def matvec(self, x: Array) -> Array:
        return walsh_hadamard(x)[self.characters]

    def rmatvec(self, y: Array) -> Array:
        spectrum = np.zeros((self.size, *y.shape[1:]), dtype=y.dtype)
        spectrum[self.characters] = y
        return walsh_hadamard(spectrum)

    def rows(self, start: int, stop: int) -> FloatArray:
        cells = np.arange(self.size)
        masks = self.characters[start:stop, None]
        return np.asarray(1.0 - 2.0 * (np.bitwise_count(cells & masks) & 1))

    def gram(self) -> Gram:
        """Gram matrix: every asked character has eigenvalue n."""
        chosen = self.characters
        eigenvalues = np.zeros(self.size)
        eigenvalues[chosen] = self.size
        return XorGram(eigenvalues)

    def text(self) -> str:
        if self.lowest == self.highest:
            return f"parity:{self.bits}:{self.highest}"
        if self.lowest == 0:
            return f"parity:{self.bits}:<={self.highest}"
        return f"parity:{self.bits}:{self.lowest}-{self.highest}"

    def label(self, row: int) -> str:
        mask = int(self.characters[row])
        chosen = [str(i) for i in range(self.bits) if mask >> (self.bits - 1 - i) & 1]
        return "parity(" + ",".join(chosen) + ")"

    def column_norms(self, order: int = 2) -> FloatArray:
        return np.full(self.size, float(self.queries) ** (1 / check_order(order)))

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.full(self.queries, x.sum())

    def _largest_distance(self, order: int) -> float:
        square = self.gram().largest_distance_squared()
        # Columns of ±1 entries: an ℓ1 distance is half the squared ℓ2 distance.
        return float(np.sqrt(square)) if order == 2 else square / 2


def _is_real(kind: np.dtype[Any]) -> bool:
    """Whether numbers of a kind lose at most digits as floats: complex ones lose a part."""
    return kind.kind in "biufO"


def _real(matrix: Any) -> FloatArray | None:
    """A copy in floats; None of what holds no real numbers, or rows that differ in length."""
    try:
        given = np.asarray(matrix)
        return np.array(given, dtype=np.float64) if _is_real(given.dtype) else None
    except (TypeError, ValueError):
        return None


def _entries(matrix: Any) -> Any:
    """A matrix in floats, sparse where it was given so; None where it is none of real numbers."""
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        return _real(matrix)
    sparse = cast(Any, matrix)
    return csr_array(sparse, dtype=np.float64) if _is_real(sparse.dtype) else None


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

        squares = product if isinstance(product, np.ndarray) else product.toarray()
        if not np.isfinite(squares).all():
            rule = "must have entries whose squares are floats"
            raise InvalidParameter("workload", "matrix", rule, "count in another unit")

        return DenseGram(squares)

    def gram(self) -> Gram:
        return self._gram

    def rows(self, start: int, stop: int) -> FloatArray:
        block = self.matrix[start:stop]
        return np.array(block if isinstance(block, np.ndarray) else block.toarray())

    def dense(self, limit: int = 2**62) -> FloatArray:
        return self.rows(0, self.queries)

    def column_norms(self, order: int = 2) -> FloatArray:
        powers = abs(self.matrix) if check_order(order) == 1 else self.matrix**2
        return np.asarray(np.ravel(powers.sum(axis=0)) ** (1 / order))

    def row_squares(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.matrix**2 @ x)

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        if self.sparse is None:
            return super().row_quadratics(matrix)
        images = self._images(matrix)
        parts = [np.ravel(rows.multiply(image).sum(axis=1)) for rows, image in images]
        return np.asarray(np.concatenate(parts), dtype=np.float64)

    def image_squares(self, matrix: FloatArray) -> FloatArray:
        """Squared lengths of the rows of W·matrix: twice the digits of a quadratic form."""
        images = (image for _, image in self._images(matrix))
        return np.concatenate([np.einsum("ij,ij->i", image, image) for image in images])

    def _images(self, matrix: FloatArray) -> Iterator[tuple[Any, FloatArray]]:
        """Rows and their products with a matrix, in blocks that are dense one at a time."""
        step = max(1, _IMAGE_ENTRIES // max(1, matrix.shape[1]))
        for start in range(0, self.queries, step):
            rows = self.matrix[start : start + step]
            yield rows, np.asarray(rows @ matrix)

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        if self.sparse is None:
            return np.asarray(self.matrix.T @ (weights[:, None] * self.matrix))
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
