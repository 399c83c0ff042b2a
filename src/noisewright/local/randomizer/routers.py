"""The three routers: draw, view and project are public, so as private as what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Annotated, ClassVar, TypeVar

import numpy as np
from msgspec import Meta

from noisewright.arrays import IntArray
from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import (
    MOST_CELLS,
    Count,
    Digits,
    Natural,
    Node,
    Part,
    Shape,
    cells_of,
    check_weights,
    numbers,
)

Cell = TypeVar("Cell", int, IntArray)
"""A cell, or many."""


class Draw(Node, tag="draw", frozen=True):
    """One child by public chances; the report's number says which."""

    weights: tuple[Digits, ...]
    of: tuple[Natural, ...]

    def __post_init__(self) -> None:
        if not len(self.of) == len(self.weights) > 0:
            raise InvalidParameter("of", len(self.of), "need a weight each")

        check_weights(numbers(self.weights))

    @property
    def children(self) -> tuple[int, ...]:
        """All that may be drawn."""
        return self.of

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """Cumulative weights."""
        return tuple(accumulate(numbers(self.weights)))

    def shape(self, below: Sequence[Shape]) -> Shape:
        """As many values as all children have together."""
        first = below[0]
        if any(shape.cells != first.cells for shape in below):
            raise InvalidParameter("of", self.of[:4], "must share cells")

        outcomes = sum(shape.outcomes for shape in below)
        payload = max(shape.payload for shape in below)

        return Shape(first.cells, outcomes, payload)


class Axes(Part, tag_field="by", tag="axes", frozen=True):
    """The cell of the table of some attributes; cells count the last attribute fastest."""

    sizes: tuple[Count, ...]
    keep: tuple[Natural, ...]

    def __post_init__(self) -> None:
        axes = set(self.keep)
        known = self.cells > 0 and axes <= set(range(len(self.sizes)))
        if not known or len(axes) < len(self.keep):
            raise InvalidParameter("keep", self.keep, "must be axes, each once")

    @cached_property
    def cells(self) -> int:
        """Number of cells seen."""
        return cells_of(self.sizes)

    @property
    def everything(self) -> bool:
        """Whether all cells are seen in their order."""
        return self.keep == tuple(range(len(self.sizes)))

    def fits(self, cells: int) -> bool:
        """Whether a table of that many cells results."""
        return prod(self.sizes[axis] for axis in self.keep) == cells

    def seen(self, cell: Cell) -> Cell:
        """What is seen of a cell, or of each of many."""
        result = 0 * cell
        for axis in self.keep:
            stride = prod(self.sizes[axis + 1 :])
            size = self.sizes[axis]
            result = result * size + cell // stride % size

        return result


class Blocks(Part, tag_field="by", tag="blocks", frozen=True):
    """The block of `width` neighbours that a cell lies in."""

    domain: Digits
    width: Count

    @cached_property
    def cells(self) -> int:
        """Number of cells seen."""
        return int(self.domain)

    @property
    def everything(self) -> bool:
        """Whether all cells are seen in their order."""
        return self.width == 1

    def fits(self, cells: int) -> bool:
        """Whether that many blocks result."""
        return 0 < self.cells <= MOST_CELLS and -(-self.cells // self.width) == cells

    def seen(self, cell: Cell) -> Cell:
        """What is seen of a cell, or of each of many."""
        return cell // self.width


class Listed(Part, tag_field="by", tag="table", frozen=True):
    """What a table says of the cell."""

    table: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    everything: ClassVar[bool] = False
    """A table is written out, whatever it says."""

    @property
    def cells(self) -> int:
        """Number of cells seen."""
        return len(self.table)

    def fits(self, cells: int) -> bool:
        """Whether the table names no other cells than that many."""
        return max(self.table) < cells

    @cached_property
    def _entries(self) -> IntArray:
        return np.array(self.table, dtype=np.int64)

    def seen(self, cell: Cell) -> Cell:
        """What is seen of a cell, or of each of many."""
        entry: Cell = self._entries[cell]
        return entry


class View(Node, tag="view", frozen=True):
    """The child sees a function of the cell."""

    of: Natural
    through: Axes | Blocks | Listed

    @property
    def children(self) -> tuple[int, ...]:
        """The one that sees."""
        return (self.of,)

    def shape(self, below: Sequence[Shape]) -> Shape:
        """The child's, for other cells."""
        (child,) = below
        if not self.through.fits(child.cells):
            raise InvalidParameter("through", self.of, "must fit the child's cells")

        return child._replace(cells=self.through.cells)


class Project(Node, tag="project", frozen=True):
    """The child sees Σ a_j u_j mod base for a public random vector a, lowest digits first.

    Without a list a is uniform among all but zero, and its own number in the report; otherwise its
    place in the list is.
    """

    cells: Digits
    base: Annotated[int, Meta(ge=2, lt=1 << 31)]
    digits: Annotated[int, Meta(ge=1, le=64)]
    of: Natural
    vectors: tuple[Digits, ...] | None = None
    weights: tuple[Digits, ...] | None = None

    def __post_init__(self) -> None:
        reach = self.base**self.digits
        within = 0 < int(self.cells) <= min(reach, MOST_CELLS)
        if not within:
            rule = "must be at most base^digits and 2^62"
            raise InvalidParameter("cells", self.cells, rule)
        if self.vectors is None and self.weights is None:
            return

        vectors = self.vectors or ()
        weights = self.weights or ()
        if not len(vectors) == len(weights) > 0:
            raise InvalidParameter("vectors", len(vectors), "need a weight each")
        if max(self.listed) >= reach:
            rule = "must be below base^digits"
            raise InvalidParameter("vectors", len(vectors), rule)

        check_weights(numbers(weights))

    @property
    def children(self) -> tuple[int, ...]:
        """The one that sees."""
        return (self.of,)

    @cached_property
    def listed(self) -> tuple[int, ...]:
        """The vectors as numbers in the base."""
        return numbers(self.vectors or ())

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """Cumulative weights of the listed vectors."""
        return tuple(accumulate(numbers(self.weights or ())))

    def shape(self, below: Sequence[Shape]) -> Shape:
        """The child's values for every vector."""
        (child,) = below
        if child.cells != self.base:
            raise InvalidParameter("base", self.base, "must be the child's cells")

        vectors = len(self.listed) or self.base**self.digits
        return Shape(int(self.cells), vectors * child.outcomes, child.payload)
