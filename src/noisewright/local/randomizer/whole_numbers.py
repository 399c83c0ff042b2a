"""The whole numbers and bits that specifications are made of, and the refusal of all others."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from noisewright.errors import InvalidParameter

WORD = 1 << 64
"""Thresholds and weights are out of this many."""

UNIT = 1 << 62
"""Columns of a `weigh` sum to this."""

EXACT = 1 << 53
"""Numbers in JSON stay below this, so that every language reads them alike."""

MOST_CELLS = 1 << 62

Count = Annotated[int, Meta(ge=1, lt=EXACT)]
Natural = Annotated[int, Meta(ge=0, lt=EXACT)]
Whole = Annotated[int, Meta(gt=-EXACT, lt=EXACT)]
Digits = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,39})\Z")]
"""A whole number that may reach 2^53 and beyond, in decimal."""


class Shape(NamedTuple):
    """What a node takes and gives: cells, values of the report's number, bytes after the number."""

    cells: int
    outcomes: int
    payload: int = 0


class Part(
    msgspec.Struct,
    frozen=True,
    dict=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
):
    """Anything in a specification: immutable, strict, and checked when it is made."""


class Node(Part, tag_field="op", frozen=True):
    """A primitive; `children` are the places of the nodes that it leads to."""

    @property
    def children(self) -> tuple[int, ...]:
        """None for a law."""
        return ()

    def shape(self, below: Sequence[Shape]) -> Shape:
        """What the node takes and gives, from the shapes of its children."""
        raise NotImplementedError


def require(condition: bool, name: str, value: object, rule: str) -> None:
    """Refuse a specification that breaks a rule."""
    if not condition:
        raise InvalidParameter(name, value, rule)


def numbers(digits: Sequence[str]) -> tuple[int, ...]:
    """The whole numbers that decimals stand for."""
    return tuple(map(int, digits))


def check_threshold(name: str, digits: str) -> None:
    """Refuse a chance of nothing, of one or of more."""
    require(0 < int(digits) < WORD, name, digits, "must lie in 1..2^64-1")


def check_weights(weights: Sequence[int]) -> None:
    """Refuse chances that do not sum to one; a place without a chance keeps its number."""
    require(sum(weights) == WORD, "weights", len(weights), "must sum to 2^64 exactly")


def cells_of(sizes: Sequence[int]) -> int:
    """Number of cells of attributes of these sizes."""
    require(
        0 < len(sizes) <= 64 and min(sizes) >= 1,
        "sizes",
        len(sizes),
        "must be 1 to 64 counts",
    )
    cells = prod(sizes)
    require(cells <= MOST_CELLS, "sizes", len(sizes), "must multiply to at most 2^62")

    return cells


def check_bits(name: str, bits: bytes, count: int) -> None:
    """Refuse bits of another number; those that fill up the last byte are zero."""
    fits = len(bits) == -(-count // 8) and not bits[-1] & ((1 << (-count % 8)) - 1)
    require(
        fits,
        name,
        f"{len(bits)} bytes",
        f"must be {count} bits, then zeros to a whole byte",
    )


def bit_count(bits: bytes) -> int:
    """Number of ones."""
    return int.from_bytes(bits, "big").bit_count()
