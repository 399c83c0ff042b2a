"""Reports as bytes: one version byte, eight bytes that name the plan, and the strategy's numbers.

The name is a hash of everything a client follows, so reports made under other parameters, another
ε or another meaning of the cells are told apart when they are collected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from noisewright.errors import InvalidParameter
from noisewright.local.randomizer.specification import ReportLayout, Specification
from noisewright.local.reports.tallies import Tally
from noisewright.local.strategy import Strategy
from noisewright.workload.base import Array

Bytes = npt.NDArray[np.uint8]

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
        return replace(self.strategy.specification, meaning=self.meaning)

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
        if name != self.name:
            raise InvalidParameter(
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

    def encode(self, reports: Array) -> Bytes:
        """One row of bytes per report."""
        layout = self.layout
        rows = np.empty((len(reports), self.length), dtype=np.uint8)
        rows[:, :HEADER] = np.frombuffer(self.header, dtype=np.uint8)
        numbers = np.ascontiguousarray(reports, dtype=self._dtype)
        rows[:, HEADER:] = numbers.reshape(len(reports), layout.width).view(np.uint8)
        return rows

    def decode(self, rows: Bytes) -> Array:
        """The strategy's numbers in rows whose headers are right; their range is not checked."""
        layout = self.layout
        numbers = np.ascontiguousarray(rows[:, HEADER:]).view(self._dtype)
        return numbers.astype(layout.dtype, copy=False).reshape(layout.shape(len(rows)))
