"""One-dimensional workloads with closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.workload.base import Workload, check_size
from noisewright.workload.linear.gram import (
    Gram,
    IdentityGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    from_each_on,
)
from noisewright.workload.linear.linear_map import Shape, check_order
from noisewright.workload.linear.tensor import Sizes, corner_sums


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
        ones = self.gram().diagonal()
        return np.asarray(ones ** (1 / check_order(order)))

    def _largest_distance(self, order: int) -> float:
        return float(self.gram().largest_distance_squared() ** (1 / order))


class _Unordered(Atom):
    """What no permutation of the cells changes but for the order of its queries."""

    @property
    def invariant_axes(self) -> Sizes:
        return (self.cells,)

    @property
    def ignores_order(self) -> bool:
        return True


class Identity(_Unordered):
    """The histogram: one query per cell."""

    @property
    def shape(self) -> Shape:
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


class Total(_Unordered):
    """The number of people: one query over all cells."""

    @property
    def shape(self) -> Shape:
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
    def shape(self) -> Shape:
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
    def shape(self) -> Shape:
        return self.cells * (self.cells + 1) // 2, self.cells

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        first, last = np.triu_indices(self.cells)
        return first, last

    def matvec(self, x: Array) -> Array:
        """Answers on `x`: differences of cumulative counts."""
        first, last = self._ends
        nobody = np.zeros_like(x[:1])
        sums = np.concatenate([nobody, np.cumsum(x, axis=0)])

        return np.asarray(sums[last + 1] - sums[first])

    def rmatvec(self, y: Array) -> Array:
        """Transpose on `y`: +y where an interval begins, −y after it ends, then a running sum."""
        first, last = self._ends
        batch = y.shape[1:]
        edges = np.zeros((self.cells + 1, *batch), y.dtype)
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
        open_ = np.cumsum(begun[:, ::-1], axis=1)
        upper = np.triu(open_[:, ::-1])

        return upper + np.triu(upper, 1).T
