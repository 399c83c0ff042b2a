"""A client's specification: nodes that lead to one another, read strictly and named by a digest."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noisewright.errors import FileFormatError, TooLarge
from noisewright.local.randomizer.laws import Favour, Flip, Grid, Law, Subset, Weigh
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.whole_numbers import EXACT, Part, Shape, require

LARGEST_TEXT = 1 << 25
"""Bytes of JSON that are read or written: bounds all that a hostile one can make us hold."""

Primitive = Draw | View | Project | Favour | Weigh | Subset | Flip | Grid

_NUMBER_BYTES = 8


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
        reached = {child for node in self.nodes for child in node.children}
        alone = len(reached | {len(self.nodes) - 1}) == len(self.nodes)
        require(max(reached, default=0) < len(self.nodes) and alone, "nodes", None, "must be used")
        root = self.shapes[-1]
        fits = self.number_bytes >= 0 and root.outcomes <= 256**self.number_bytes
        require(
            fits and self.number_bytes <= _NUMBER_BYTES,
            "report_bytes",
            self.report_bytes,
            f"must hold a number below {root.outcomes} in at most 8 bytes, then {root.payload}",
        )

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """What every node takes and gives."""
        shapes: list[Shape] = []
        for place, node in enumerate(self.nodes):
            earlier = all(child < place for child in node.children)
            require(earlier, "of", node.children[:4], "must name earlier nodes")
            shape = node.shape([shapes[child] for child in node.children])
            require(shape.outcomes < EXACT, "outcomes", shape.outcomes, "must be below 2^53")
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

    @property
    def laws(self) -> tuple[Law, ...]:
        """The nodes that look at a person; all are reached."""
        return tuple(n for n in self.nodes if isinstance(n, Favour | Weigh | Subset | Flip | Grid))

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
