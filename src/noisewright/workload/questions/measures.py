"""What a table holds of the people in each cell: how many there are, or the sum of a number.

Sums are taken in whole units and centred, Σ(2v − (low + high)), so that one person moves a cell by
at most the width of the bounds, whichever value they hold. Survey weights are added up as they are:
they are never negative, and one person moves a cell by at most their cap.

Where people may lack a value, a mean is of those who have one: they alone are in the sum and in the
number beside it (`Respondents`), and whoever lacks it moves neither.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec
import numpy as np

from noisewright.arrays import Array
from noisewright.errors import InvalidParameter, require

Missing = Literal["left-out", "zero"]
"""What is made of people without a value: they are in no sum and no count, or their value is 0."""

_SMALLEST_UNIT = 1e-280
"""Errors of a unit this small are still floats with all their digits."""

_LARGEST_UNIT = 1e280
"""2^52 of units this large, and errors of them, are still floats."""

_LARGEST_ROOT = 2**16
"""Units of the width of what is squared: squares of 2^31 people still fit a word."""

_LARGEST_PRODUCT = 2**32
"""Units of a weight times a number: those of 2^31 people still fit a word."""


class _Measure(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="measure"
):
    """What is added up over people."""

    @property
    def words(self) -> str:
        """What is added up, in words."""
        raise NotImplementedError

    @property
    def reach(self) -> int:
        """The most one person can add to a cell, either way."""
        return 1

    def least_change(self, replaced: bool) -> int:
        """How far two neighbours can surely move one cell."""
        return self.reach

    @property
    def signed(self) -> bool:
        """Whether people may add and take away, so that one who is replaced may do both at once."""
        return True

    @property
    def nothing(self) -> int:
        """What a person without a value adds."""
        return 0


class Count(_Measure, frozen=True, tag="count"):
    """One per person."""

    @property
    def words(self) -> str:
        return "numbers of people"


class _OfColumn(_Measure, frozen=True):
    """What is read from one column."""

    @property
    def factors(self) -> tuple[OfColumn]:
        """Measures of one column each, whose contents are multiplied."""
        return (cast("OfColumn", self),)


class Respondents(_OfColumn, frozen=True, tag="respondents"):
    """One per person who has a value of an attribute.

    Someone who is replaced may gain or lose a value, so that even their total is protected. One
    row x of zeros and ones over the cells, at most one of them one, becomes another: a strategy
    with columns c moves by 0, ±c_i or c_i - c_j, as it does for weights with a cap of one.
    """

    attribute: str

    @property
    def unit(self) -> float:
        """People count whole."""
        return 1.0

    @property
    def words(self) -> str:
        return f"numbers of people with a value of {self.attribute}"

    @property
    def signed(self) -> bool:
        return False

    def content(self, units: Array) -> Array:
        """What people with these values add, each."""
        return np.ones_like(units)


class CentredSum(_OfColumn, frozen=True, tag="sum"):
    """Twice the value of an attribute in whole `unit`s, less the sum of its bounds `low`, `high`.

    `missing` says whether people may have no value: False where nobody lacks it, True where it then
    counts as zero units, "left-out" where they add nothing. The centred value of whoever has one
    lies within ±(high - low), and both ends are reached; left out it is 0, between them. So one
    person who comes, goes or loses a value moves a cell by `reach` at most, and one whose value
    changes from end to end by twice that: exactly what is claimed of a number that nobody lacks.
    """

    attribute: str
    unit: float
    low: int
    high: int
    missing: bool | Literal["left-out"] = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.unit) and self.unit > 0):
            raise InvalidParameter("unit", self.unit, "must be > 0 and finite")
        if not _SMALLEST_UNIT <= self.unit <= _LARGEST_UNIT:
            rule = f"must lie between {_SMALLEST_UNIT:g} and {_LARGEST_UNIT:g}"
            raise InvalidParameter(
                "unit", self.unit, rule, "write the column in another unit"
            )

        if self.low > self.high or max(abs(self.low), abs(self.high)) >= 2**52:
            raise InvalidParameter(
                "bounds", (self.low, self.high), "must rise and stay below 2^52 units"
            )

    @property
    def words(self) -> str:
        bounds = f"{self.unit * self.low:g} to {self.unit * self.high:g}"
        return f"sums of {self.attribute} from {bounds} in units of {self.unit:g}"

    @property
    def reach(self) -> int:
        middle = abs(self.low + self.high) if self.missing is True else 0
        return max(self.high - self.low, middle, 1)

    def least_change(self, replaced: bool) -> int:
        if not replaced:
            return self.reach

        return max(2 * (self.high - self.low), self.reach)

    @property
    def nothing(self) -> int:
        if self.missing == "left-out":
            return 0

        return -(self.low + self.high)

    def content(self, units: Array) -> Array:
        """What people with these values add, each."""
        return np.asarray(2 * units - (self.low + self.high))

    def total(self, counts: Array, centred: Array) -> Array:
        """The sum of values itself, back from both."""
        twice = centred + (self.low + self.high) * counts
        return np.asarray(self.unit * twice / 2)


class CentredSquares(_OfColumn, frozen=True, tag="squares"):
    """Twice the square of what `number` holds of a person, less the square of its reach."""

    number: CentredSum

    def __post_init__(self) -> None:
        if self.number.reach > _LARGEST_ROOT:
            rule = f"must make at most {_LARGEST_ROOT} units of the width"
            raise InvalidParameter("unit", self.number.unit, rule, "choose it larger")

    @property
    def words(self) -> str:
        return f"squares behind {self.number.words}"

    @property
    def attribute(self) -> str:
        """Whose squares are summed."""
        return self.number.attribute

    @property
    def unit(self) -> float:
        """What values are whole multiples of."""
        return self.number.unit

    @property
    def reach(self) -> int:
        return self.number.reach**2

    def least_change(self, replaced: bool) -> int:
        if replaced and self.reach > 1:
            return 2 * self.reach - 2

        return self.reach

    @property
    def nothing(self) -> int:
        if self.number.missing == "left-out":
            return 0

        return 2 * self.number.nothing**2 - self.reach

    def content(self, units: Array) -> Array:
        """What people with these values add, each."""
        return np.asarray(2 * self.number.content(units) ** 2 - self.reach)

    def squares(self, counts: Array, centred: Array) -> Array:
        """The sum of squares itself, back from both."""
        return np.asarray((centred + self.reach * counts) / 2)


class Weights(_OfColumn, frozen=True, tag="weights"):
    """A survey weight in whole `unit`s, from 0 to `cap` of them; what is above is the cap."""

    attribute: str
    unit: float
    cap: int

    def __post_init__(self) -> None:
        require(
            (np.isfinite(self.unit) and self.unit > 0) and 1 <= self.cap < 2**31,
            "unit",
            self.unit,
            "must make 1 to 2^31 units of the cap",
        )

    @property
    def words(self) -> str:
        return f"weights {self.attribute} up to {self.unit * self.cap:g}"

    @property
    def signed(self) -> bool:
        return False

    @property
    def reach(self) -> int:
        return self.cap

    def content(self, units: Array) -> Array:
        """What people with these weights add, each."""
        return np.clip(units, 0, self.cap)


class _Weighed(_Measure, frozen=True):
    """A weight times what else is held of a person, who may add as much as that at the cap."""

    weight: Weights

    @property
    def held(self) -> Respondents | CentredSum:
        """What is multiplied by the weight."""
        raise NotImplementedError

    @property
    def factors(self) -> tuple[Weights, Respondents | CentredSum]:
        return self.weight, self.held

    @property
    def attribute(self) -> str:
        """Whose values are asked for."""
        return self.held.attribute

    @property
    def reach(self) -> int:
        return self.weight.cap * self.held.reach

    def least_change(self, replaced: bool) -> int:
        return self.weight.cap * self.held.least_change(replaced)


class WeightedRespondents(_Weighed, frozen=True, tag="weighted-respondents"):
    """The weight of a person who has a value of an attribute."""

    holds: Respondents

    @property
    def held(self) -> Respondents:
        return self.holds

    @property
    def words(self) -> str:
        return f"{self.weight.words}, of people with a value of {self.holds.attribute}"

    @property
    def unit(self) -> float:
        """What weights are whole multiples of."""
        return self.weight.unit

    @property
    def signed(self) -> bool:
        return False


class WeightedSum(_Weighed, frozen=True, tag="weighted-sum"):
    """A weight times what `number` holds of a person."""

    number: CentredSum

    def __post_init__(self) -> None:
        require(
            self.reach <= _LARGEST_PRODUCT,
            "unit",
            self.number.unit,
            f"must make at most {_LARGEST_PRODUCT // self.weight.cap} units of the width beside"
            f" {self.weight.cap} of the weight",
            "choose it larger",
        )

    @property
    def held(self) -> CentredSum:
        return self.number

    @property
    def words(self) -> str:
        return f"{self.number.words}, weighted by {self.weight.attribute}"

    @property
    def unit(self) -> float:
        """What values are whole multiples of."""
        return self.number.unit


OfColumn = CentredSum | CentredSquares | Respondents | Weights
OfNumber = OfColumn | WeightedRespondents | WeightedSum
Measure = Count | OfNumber
COUNT = Count()
