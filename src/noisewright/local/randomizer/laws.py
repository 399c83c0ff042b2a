"""The five laws: favour, weigh, subset, flip and grid look at a person, in whole numbers.

A law is checked when it is made, so whatever exists has chances that sum to one. Nothing is stored
that follows from something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from noisewright.arrays import BoolArray, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import (
    EXACT,
    UNIT,
    Count,
    Digits,
    Node,
    Part,
    Shape,
    Whole,
    bit_count,
    cells_of,
    check_bits,
    check_threshold,
    numbers,
)
from noisewright.local.randomizer.rows import (
    Row,
    TwoValued,
    entries_of,
    is_of,
    row_entries,
    row_of,
)


class Same(Part, tag_field="by", tag="self", frozen=True):
    """A cell owns the outcome of its own number."""

    cells: Annotated[int, Meta(ge=2, lt=EXACT)]

    @property
    def outcomes(self) -> int:
        """As many as cells."""
        return self.cells

    @property
    def own(self) -> int:
        """Outcomes that a cell owns."""
        return 1


class Parity(Part, tag_field="by", tag="parity", frozen=True):
    """Outcomes come in blocks of `width`, a power of two; cell v has column 1 + v mod (width − 1).

    It owns the outcomes of block v div (width − 1) that have an even number of bits in common with
    the column.
    """

    cells: Count
    width: Count
    blocks: Count

    def __post_init__(self) -> None:
        power = self.width >= 2 and self.width & (self.width - 1) == 0
        columns = self.blocks * (self.width - 1)
        others = self.own < self.outcomes
        require(power, "width", self.width, "must be a power of two")
        require(self.cells <= columns, "cells", self.cells, "need columns")
        require(others, "blocks", self.blocks, "must leave other outcomes")

    @property
    def outcomes(self) -> int:
        """Those of all blocks."""
        return self.width * self.blocks

    @property
    def own(self) -> int:
        """Outcomes that a cell owns."""
        return self.width // 2


class Translate(Part, tag_field="by", tag="translate", frozen=True):
    """Cell v owns outcome o where the pattern has a one at v − o, attribute by attribute."""

    sizes: tuple[Count, ...]
    pattern: bytes

    def __post_init__(self) -> None:
        check_bits("pattern", self.pattern, self.cells)
        mixed = 0 < self.own < self.cells
        require(mixed, "pattern", self.own, "must have ones and zeros")

    @cached_property
    def cells(self) -> int:
        """Number of cells, and of outcomes."""
        return cells_of(self.sizes)

    @property
    def outcomes(self) -> int:
        """As many as cells."""
        return self.cells

    @cached_property
    def places(self) -> BoolArray:
        """The pattern, cell by cell."""
        bits = np.frombuffer(self.pattern, dtype=np.uint8)
        return np.unpackbits(bits, count=self.cells).astype(bool)

    @cached_property
    def own(self) -> int:
        """Ones of the pattern."""
        return bit_count(self.pattern)


class Rows(Part, tag_field="by", tag="rows", frozen=True):
    """Cell v owns the outcomes where row v has a one; all rows have as many."""

    cells: Count
    outcomes: Count
    rows: bytes

    def __post_init__(self) -> None:
        expected = self.cells * self.length
        held = len(self.rows)
        require(held == expected, "rows", held, f"must be {expected} bytes")

        for cell in range(self.cells):
            row = self.row(cell)
            check_bits("rows", row, self.outcomes)
            alike = bit_count(row) == self.own
            require(alike, "rows", cell, "must own as many each")

        mixed = 0 < self.own < self.outcomes
        require(mixed, "rows", self.own, "must have ones and zeros")

    @classmethod
    def of(cls, owned: BoolArray) -> Rows:
        """Which outcomes each cell owns, one row a cell."""
        cells, outcomes = owned.shape
        rows = np.packbits(owned, axis=1).tobytes()
        return cls(cells=cells, outcomes=outcomes, rows=rows)

    @property
    def length(self) -> int:
        """Bytes of a row."""
        return -(-self.outcomes // 8)

    def row(self, cell: int) -> bytes:
        """The outcomes that a cell owns."""
        start = cell * self.length
        return self.rows[start : start + self.length]

    @cached_property
    def own(self) -> int:
        """Outcomes that a cell owns."""
        return bit_count(self.row(0))

    @cached_property
    def owned(self) -> BoolArray:
        """Which outcomes each cell owns, one row a cell."""
        packed = np.frombuffer(self.rows, dtype=np.uint8)
        rows = packed.reshape(self.cells, self.length)
        return np.unpackbits(rows, axis=1, count=self.outcomes).astype(bool)


Owner = Same | Parity | Translate | Rows


class Favour(Node, tag="favour", frozen=True):
    """An outcome of one's own with a given chance, or else another; uniform in either case."""

    threshold: Digits
    owner: Owner
    two_valued: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_threshold("threshold", self.threshold)

    def shape(self, below: Sequence[Shape]) -> Shape:
        """The owner's."""
        return Shape(self.owner.cells, self.owner.outcomes)


class Weigh(Node, tag="weigh", frozen=True):
    """A matrix of whole numbers, one row an outcome, whose columns sum to 2^62."""

    cells: Count
    rows: Annotated[tuple[Row, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        # Before anything of that many cells is formed.
        count = len(self.rows)
        shaped = all(is_of(row, self.cells) for row in self.rows)
        require(shaped, "rows", count, "must hold an entry for every cell")

        # Halves of 31 bits sum without wrapping, however many rows there are.
        low_half = 2**31 - 1
        high = np.zeros(self.cells, dtype=np.int64)
        low = np.zeros(self.cells, dtype=np.int64)

        for row in self.rows:
            entries = entries_of(row, self.cells)
            positive = 0 < entries.min() <= entries.max() <= UNIT
            require(positive, "rows", None, "must be in 1..2^62")
            high += entries >> 31
            low += entries & low_half

        carried = high + (low >> 31)
        whole = (carried == 2**31) & (low & low_half == 0)
        rule = "must sum to 2^62 in every column"
        require(whole.all(), "rows", count, rule)

    @classmethod
    def of(cls, weights: IntArray) -> Weigh:
        """A matrix by rows, those of two values only as bits."""
        rows = tuple(row_of(row) for row in weights)
        return cls(cells=weights.shape[1], rows=rows)

    @cached_property
    def values(self) -> tuple[tuple[int, ...], ...]:
        """Every row's entries: low and high, or all of them."""
        return tuple(numbers(row_entries(row)) for row in self.rows)

    @cached_property
    def matrix(self) -> IntArray:
        """All entries."""
        return np.stack([entries_of(row, self.cells) for row in self.rows])

    def entry(self, row: int, cell: int) -> int:
        """The weight of an outcome under a cell."""
        values = self.values[row]
        match self.rows[row]:
            case TwoValued(bits=bits):
                octet = bits[cell >> 3]
                return values[octet >> (7 - (cell & 7)) & 1]
            case _:
                return values[cell]

    @property
    def two_valued(self) -> bool:
        """Whether at most one row, which rounding leaves, has more than two values."""
        return sum(isinstance(row, tuple) for row in self.rows) < 2

    def shape(self, below: Sequence[Shape]) -> Shape:
        """One outcome a row."""
        return Shape(self.cells, len(self.rows))


class SetLaw(Node, frozen=True):
    """A law whose report is a set of cells, one bit each."""

    cells: Annotated[int, Meta(ge=2, le=1 << 28)]

    def shape(self, below: Sequence[Shape]) -> Shape:
        """One bit a cell."""
        return Shape(self.cells, 1, -(-self.cells // 8))


class Subset(SetLaw, tag="subset", frozen=True):
    """A uniform set of `size` cells that holds the true one with a given chance."""

    size: Count
    threshold: Digits
    two_valued: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rule = f"must lie in 1..{self.cells - 1}"
        require(self.size < self.cells, "size", self.size, rule)
        check_threshold("threshold", self.threshold)


class Flip(SetLaw, tag="flip", frozen=True):
    """Every cell on its own: with chance `own` the true one, with chance `other` any other."""

    own: Digits
    other: Digits
    two_valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_threshold("own", self.own)
        check_threshold("other", self.other)


class Grid(Node, tag="grid", frozen=True):
    """A whole-number vector for every cell, with noise on each coordinate.

    `scale` is a fraction: the Laplace scale or σ. A Gaussian's δ is stated at `epsilon`.
    """

    columns: Annotated[tuple[tuple[Whole, ...], ...], Meta(min_length=1)]
    law: Literal["discrete-laplace", "rounded-gaussian"]
    scale: tuple[Digits, Digits]
    epsilon: tuple[Digits, Digits] | None = None
    two_valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns}
        alike = len(lengths) == 1 and 0 not in lengths
        require(alike, "columns", lengths, "must be alike")

        # So that sums of distances are exact in double precision too.
        largest = max(abs(entry) for column in self.columns for entry in column)
        small = 2 * self.coordinates * largest < EXACT
        rule = "must be below 2^52 over the number of coordinates"
        require(small, "columns", largest, rule)

        reduced = "must be a fraction in lowest terms"
        require(_reduced(self.scale), "scale", self.scale, reduced)
        within = Fraction(1, 2**40) <= self.spread <= 2**40
        require(within, "scale", self.scale, "must lie between 2^-40 and 2^40")

        stated = self.continuous == (self.epsilon is not None)
        rule = "belongs to a Gaussian, and only there"
        require(stated, "epsilon", self.epsilon, rule)
        if self.epsilon is not None:
            require(_reduced(self.epsilon), "epsilon", self.epsilon, reduced)

    @property
    def continuous(self) -> bool:
        """Whether the noise is a real number that is rounded."""
        return self.law == "rounded-gaussian"

    @property
    def coordinates(self) -> int:
        """Length of a vector."""
        return len(self.columns[0])

    @cached_property
    def spread(self) -> Fraction:
        """The scale of the noise."""
        return Fraction(*numbers(self.scale))

    def shape(self, below: Sequence[Shape]) -> Shape:
        """Eight bytes a coordinate."""
        return Shape(len(self.columns), 1, 8 * self.coordinates)


def _reduced(fraction: tuple[str, str]) -> bool:
    p, q = numbers(fraction)
    return p > 0 and q > 0 and gcd(p, q) == 1


Law = Favour | Weigh | Subset | Flip | Grid
