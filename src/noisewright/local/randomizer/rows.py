"""Rows of a matrix of weights as they are written: two values and bits, or all entries."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from noisewright.arrays import IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import (
    UNIT,
    Digits,
    Part,
    bit_count,
    check_bits,
    numbers,
)


class TwoValued(Part, frozen=True):
    """A row of a matrix: `high` where a cell's bit is set, `low` elsewhere."""

    low: Digits
    high: Digits
    bits: bytes

    @cached_property
    def ones(self) -> int:
        """Cells that have the high value."""
        return bit_count(self.bits)


Row = TwoValued | tuple[Digits, ...]


def row_of(entries: IntArray) -> Row:
    """A row as it is written: as bits where it has two values only."""
    low = int(entries.min())
    high = int(entries.max())
    raised = entries == high
    lowered = entries == low
    if (raised | lowered).all():
        bits = np.packbits(raised & (high > low)).tobytes()
        return TwoValued(low=str(low), high=str(high), bits=bits)

    return tuple(map(str, entries.tolist()))


def is_of(row: Row, cells: int) -> bool:
    """Whether a row is of so many cells."""
    match row:
        case TwoValued(bits=bits):
            check_bits("bits", bits, cells)
            return True
        case _:
            return len(row) == cells


def row_entries(row: Row) -> tuple[str, ...]:
    """Low and high, or all entries."""
    match row:
        case TwoValued(low=low, high=high):
            return low, high
        case _:
            return row


def entries_of(row: Row, cells: int) -> IntArray:
    """A row as an array; what exceeds 2^62 is refused before it could wrap."""
    values = numbers(row_entries(row))
    require(max(values) <= UNIT, "rows", None, "must be in 1..2^62")
    held = np.array(values, dtype=np.int64)

    match row:
        case TwoValued(bits=bits):
            packed = np.frombuffer(bits, dtype=np.uint8)
            return held[np.unpackbits(packed, count=cells)]
        case _:
            return held
