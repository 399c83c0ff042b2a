"""A client's specification: nodes that lead to one another, read strictly and named by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from noisewright.errors import FileFormatError, InvalidParameter, TooLarge
from noisewright.local.fixedpoint import EXACT, UNIT, Part, Shape
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Grid,
    Law,
    Owner,
    Subset,
    Weigh,
)
from noisewright.local.randomizer.routers import (
    Axes,
    Blocks,
    Draw,
    Listed,
    Project,
    View,
)

LARGEST_TEXT = 1 << 26
"""Bytes of JSON that are read or written: bounds all that a hostile one can make us hold."""

Primitive = Draw | View | Project | Favour | Weigh | Subset | Flip | Grid
Through = Axes | Blocks | Listed
"""What a view shows of a cell."""

_NUMBER_BYTES = 8
"""Of a report's number, so that it is a machine word."""


class ReportLayout(NamedTuple):
    """Shape of one report: `width` numbers of type `dtype`."""

    dtype: str
    width: int
    rows: bool = True
    """Whether many reports are a matrix with one row each, or else a plain vector."""

    @property
    def bytes(self) -> int:
        """Length of one report."""
        return np.dtype(self.dtype).itemsize * self.width

    def shape(self, count: int) -> tuple[int, ...]:
        """Shape of an array of `count` reports."""
        return (count, self.width) if self.rows else (count,)


class Specification(Part, frozen=True):
    """Nodes whose children stand before them; the last one is where every report begins.

    A report is a number, little-endian, and then the bits or coordinates of its law, with zeros up
    to `report_bytes`. Where there is but one number it may have no bytes at all.
    """

    format: Literal["noisewright-randomizer"]
    version: Literal[1]
    meaning: Annotated[str, Meta(pattern=r"\A[ !#-\[\]-~]{0,200}\Z")]
    """What the cells stand for: a domain's fingerprint, in plain characters."""
    report_bytes: Annotated[int, Meta(ge=1, le=1 << 25)]
    nodes: Annotated[tuple[Primitive, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        last = len(self.nodes) - 1
        reached = {child for node in self.nodes for child in node.children}
        if reached | {last} != set(range(last + 1)):
            raise InvalidParameter("nodes", None, "must be used")

        root = self.shapes[-1]
        size = self.number_bytes
        if not (0 <= size <= _NUMBER_BYTES and root.outcomes <= 256**size):
            rule = (
                f"must hold a number below {root.outcomes} in at most 8 bytes, "
                f"then {root.payload}"
            )
            raise InvalidParameter("report_bytes", self.report_bytes, rule)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """What every node takes and gives."""
        shapes: list[Shape] = []
        for place, node in enumerate(self.nodes):
            if max(node.children, default=-1) >= place:
                rule = "must name earlier nodes"
                raise InvalidParameter("of", node.children[:4], rule)

            shape = node.shape([shapes[child] for child in node.children])
            if shape.outcomes >= EXACT:
                rule = "must be below 2^53"
                raise InvalidParameter("outcomes", shape.outcomes, rule)

            shapes.append(shape)

        return tuple(shapes)

    @property
    def cells(self) -> int:
        """Number of values that a person may hold."""
        return self.shapes[-1].cells

    @property
    def number_bytes(self) -> int:
        """Bytes of the report's number."""
        return self.report_bytes - self.shapes[-1].payload

    @cached_property
    def layout(self) -> ReportLayout:
        """Reports as machine numbers: one number, bytes of a set, or coordinates."""
        match self.nodes[-1]:
            case Grid() as law:
                return ReportLayout("int64", law.coordinates)
            case _ if self.shapes[-1].payload:
                return ReportLayout("uint8", self.report_bytes)
            case _:
                return ReportLayout(f"uint{8 * self.report_bytes}", 1, rows=False)

    @property
    def laws(self) -> tuple[Law, ...]:
        """The nodes that look at a person; all are reached."""
        return tuple(n for n in self.nodes if not isinstance(n, Draw | View | Project))

    @property
    def two_valued(self) -> bool:
        """Whether reports have two chances each, but for one row a matrix that rounding leaves."""
        return all(law.two_valued for law in self.laws)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(encode(self)).hexdigest()


def encode(specification: Specification) -> bytes:
    """Canonical JSON: names in order, no blanks, nothing that may be left out."""
    text = msgspec.json.encode(specification, order="sorted")
    if len(text) > LARGEST_TEXT:
        raise TooLarge(
            f"the specification takes {len(text):,} bytes, more than {LARGEST_TEXT:,}; choose a "
            f"mechanism with less to list"
        )
    return text


def decode(text: bytes | str) -> Specification:
    """Read JSON that may come from anybody, and refuse whatever breaks a rule."""
    content = text.encode(errors="replace") if isinstance(text, str) else text
    if len(content) > LARGEST_TEXT:
        raise FileFormatError(f"a specification has at most {LARGEST_TEXT:,} bytes")

    try:
        return msgspec.json.decode(content, type=Specification)
    except msgspec.MsgspecError as error:
        raise FileFormatError(f"not a randomizer's specification: {error}") from None


class Nodes:
    """Nodes in the order they are needed, equal ones only once: what strategies are written to."""

    def __init__(self) -> None:
        self._listed: list[Primitive] = []
        self._places: dict[bytes, int] = {}

    def add(self, node: Primitive) -> int:
        """The place of a node."""
        text = msgspec.json.encode(node)
        if text not in self._places:
            self._places[text] = len(self._listed)
            self._listed.append(node)

        return self._places[text]

    def favour(self, threshold: int, owner: Owner) -> int:
        """The place of a favouring law."""
        return self.add(Favour(threshold=str(threshold), owner=owner))

    def silent(self, sizes: tuple[int, ...]) -> int:
        """The place of a report that says nothing: the only one about a domain seen as one cell."""
        nothing = self.add(Weigh(cells=1, rows=((str(UNIT),),)))
        return self.view(nothing, Axes(sizes=sizes, keep=()))

    def view(self, of: int, through: Through) -> int:
        """The place of a view; seeing everything in its order needs none."""
        return of if through.everything else self.add(View(of=of, through=through))

    def draw(self, weights: Iterable[int], of: Iterable[int]) -> int:
        """The place of a draw."""
        return self.add(Draw(weights=tuple(map(str, weights)), of=tuple(of)))

    def specification(self) -> Specification:
        """All nodes, the last one as the root, with reports as short as machine numbers allow."""
        shapes: list[Shape] = []
        for node in self._listed:
            shapes.append(node.shape([shapes[child] for child in node.children]))

        _, outcomes, payload = shapes[-1]
        short = next(width for width in (1, 2, 4, 8) if outcomes <= 256**width)

        return Specification(
            format="noisewright-randomizer",
            version=1,
            meaning="",
            report_bytes=payload + (0 if payload and outcomes == 1 else short),
            nodes=tuple(self._listed),
        )
