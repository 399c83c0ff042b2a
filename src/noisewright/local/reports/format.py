"""Reports as bytes: one version byte, eight bytes that name the plan, and the strategy's numbers.

The name is a hash of everything a client follows, so reports made under other parameters, another
ε or another meaning of the cells are told apart when they are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from noisewright.arrays import Array, ByteArray
from noisewright.display import Shown
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, require
from noisewright.local.randomizer.interpret import interpret
from noisewright.local.randomizer.specification import (
    ReportLayout,
    Specification,
    decode,
    encode,
)
from noisewright.local.reports.tally import Tally
from noisewright.local.strategy import Strategy

VERSION = 0xD1
"""First byte of every report: the high half marks a report, the low half is the version."""

HEADER = 9
"""Bytes before the strategy's own numbers."""


@dataclass(frozen=True, eq=False)
class ReportFormat:
    """How the reports of one strategy are written and recognised.

    `meaning` says what the cells stand for (a domain's fingerprint), and is part of the name.
    """

    strategy: Strategy
    meaning: str = ""

    @cached_property
    def specification(self) -> Specification:
        """What clients do, with the meaning of their cells."""
        plain = self.strategy.specification
        return replace(plain, meaning=self.meaning) if self.meaning else plain

    @property
    def collector(self) -> Tally:
        """How reports are checked and counted."""
        return self.strategy.collector

    @property
    def layout(self) -> ReportLayout:
        """Shape of a report after its header."""
        return self.strategy.specification.layout

    @cached_property
    def identifier(self) -> bytes:
        """Eight bytes that name what clients do, and the meaning of their cells."""
        return bytes.fromhex(self.specification.digest)[:8]

    @property
    def name(self) -> str:
        """The identifier in hexadecimal."""
        return self.identifier.hex()

    def check_same(self, name: str) -> None:
        """Refuse statistics of the plan of another name."""
        require(
            name == self.name,
            "aggregate",
            name,
            f"is of another plan than {self.name}",
            "use the plan that its reports were made with",
        )

    @property
    def header(self) -> bytes:
        """What every report of the plan begins with."""
        return bytes([VERSION]) + self.identifier

    @property
    def length(self) -> int:
        """Bytes of one report."""
        return HEADER + self.layout.bytes

    @property
    def _dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.layout.dtype).newbyteorder("<")

    def encode(self, reports: Array) -> ByteArray:
        """One row of bytes per report."""
        layout = self.layout
        rows = np.empty((len(reports), self.length), dtype=np.uint8)
        rows[:, :HEADER] = np.frombuffer(self.header, dtype=np.uint8)
        numbers = np.ascontiguousarray(reports, dtype=self._dtype)
        rows[:, HEADER:] = numbers.reshape(len(reports), layout.width).view(np.uint8)

        return rows

    def decode(self, rows: ByteArray) -> Array:
        """The strategy's numbers in rows whose headers are right; their range is not checked."""
        layout = self.layout
        numbers = np.ascontiguousarray(rows[:, HEADER:]).view(self._dtype)
        return numbers.astype(layout.dtype, copy=False).reshape(layout.shape(len(rows)))


@dataclass(frozen=True, eq=False)
class Client(Shown):
    """Randomises values with the operating system's randomness; holds nothing about anybody."""

    format: ReportFormat
    domain: Domain | None = None

    def _facts(self) -> list[tuple[str, str]]:
        length = f"{self.format.length:,} bytes"
        return [*self.format.strategy._facts(), ("report", length)]

    def randomize(self, value: object) -> bytes:
        """One report, ready to be sent.

        `value` is a cell's number or, where the plan has a domain, a mapping or a tuple of the
        attributes' values; text stands for the value of a single attribute.
        """
        form = self.format
        return form.header + interpret(form.specification, self._cell(value))

    def randomize_many(self, values: npt.ArrayLike) -> ByteArray:
        """One row of bytes per cell number."""
        return self.format.encode(self.format.strategy.randomize(values))

    def _cell(self, value: object) -> int:
        """The number of the cell; messages never hold the value itself: it is a person's."""
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return int(value)

        if self.domain is None:
            kind = type(value).__name__
            rule = "must be the number of a cell"
            raise InvalidParameter("value", kind, rule, "plan with a domain")

        record = _record(value, self.domain.names)
        columns = {name: [item] for name, item in record.items()}

        return int(self.domain.encode(columns)[0])


def _record(value: object, names: Sequence[str]) -> Mapping[str, object]:
    """A person's values by their attributes' names."""
    match value:
        case Mapping():
            return value
        case tuple() | list():
            listed = value
        case _:
            listed = [value]

    rule = f"must hold one for each of {', '.join(names)}"
    require(len(listed) == len(names), "value", f"{len(listed)} values", rule)

    return dict(zip(names, listed, strict=True))


def exported(format: ReportFormat) -> dict[str, object]:
    """The document of `noisewright client PLAN --specification`, ready for JSON."""
    # Read back, so that what was written here is held to the rules for what anybody wrote.
    specification = decode(encode(format.specification))
    format.strategy.check_loss()
    loss = format.strategy.loss

    return {
        "format": "noisewright-client",
        "version": 1,
        "epsilon": loss.epsilon,
        "delta": loss.delta,
        "ratio": loss.ratio
        and [str(loss.ratio.numerator), str(loss.ratio.denominator)],
        "exact": loss.exact,
        "continuous_noise": has_continuous_noise(specification),
        "cells": str(specification.cells),
        "header": format.header.hex(),
        "digest": specification.digest,
        "specification": msgspec.json.decode(encode(specification)),
    }


def has_continuous_noise(specification: Specification) -> bool:
    """Whether some law rounds a real number, which clients in other languages do not run."""
    return any(law.continuous for law in specification.laws)
