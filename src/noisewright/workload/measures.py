"""What a table holds of the people in each cell: how many there are, or the sum of a number.

Sums are taken in whole units and centred, Σ(2v − (low + high)), so that one person moves a cell by
at most the width of the bounds, whichever value they hold.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.workload.tensor import Array

Integers = npt.NDArray[np.int64]


class _Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="measure"):
    """What is added up over people."""


class Count(_Measure, frozen=True, tag="count"):
    """One per person."""

    @property
    def reach(self) -> int:
        """The most one person can add to a cell."""
        return 1


class CentredSum(_Measure, frozen=True, tag="sum"):
    """Twice the value of an attribute in whole `unit`s, less the sum of its bounds `low`, `high`.

    `missing` says whether people may have no value, which then counts as zero units.
    """

    attribute: str
    unit: float
    low: int
    high: int
    missing: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.unit) and self.unit > 0):
            raise InvalidParameter("unit", self.unit, "must be > 0 and finite")
        if self.low > self.high or max(abs(self.low), abs(self.high)) >= 2**52:
            raise InvalidParameter(
                "bounds", (self.low, self.high), "must rise and stay below 2^52 units"
            )

    @property
    def reach(self) -> int:
        """The most one person can add to a cell, either way."""
        middle = abs(self.low + self.high) if self.missing else 0
        return max(self.high - self.low, middle, 1)

    def centred(self, counts: Array, units: Array) -> Array:
        """The table's content, from people and their summed units per cell."""
        return np.asarray(2 * units - (self.low + self.high) * counts)

    def total(self, counts: Array, centred: Array) -> Array:
        """The sum of values itself, back from both."""
        return np.asarray(self.unit * (centred + (self.low + self.high) * counts) / 2)


Measure = Count | CentredSum
COUNT = Count()
