"""Attributes cut along a line, and dates: lines cut by calendar period."""

from __future__ import annotations

import datetime as dt
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain.attribute import (
    ABOVE,
    BELOW,
    MISSING,
    Attribute,
    Storage,
    Values,
)
from noisewright.domain.levels import Level
from noisewright.errors import (
    InvalidParameter,
    require,
    require_one_of,
)

_EPOCH = dt.date(1970, 1, 1)


class Ordered(Attribute):
    """Cells cut along a line: cell i is [edge i, edge i+1), the last one closed."""

    ordered: ClassVar[bool] = True

    @cached_property
    @abstractmethod
    def cuts(self) -> FloatArray:
        """The edges as numbers (days since 1970-01-01 for dates)."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether only whole numbers (or days) occur, so that `<= 17` means `< 18`."""

    @property
    @abstractmethod
    def spans(self) -> tuple[tuple[Any, Any], ...]:
        """The first and the last value of every declared cell, in the attribute's own type.

        Between numbers that need not be whole, the last is the edge that the cell stays below.
        """

    @abstractmethod
    def _numbers(self, values: Values) -> FloatArray:
        """Return values as numbers on the line of `cuts`, NaN where missing."""

    def _place(self, values: Values) -> IntArray:
        numbers = self._numbers(values)
        codes = np.searchsorted(self.cuts[:-1], numbers, side="right").astype(np.int64)
        codes -= 1
        codes[numbers < self.cuts[0]] = BELOW
        codes[numbers > self.cuts[-1]] = ABOVE
        codes[np.isnan(numbers)] = MISSING

        return codes

    def _grouped(self, name: str, coarse: Ordered) -> Level:
        """The level whose groups are the cells of a coarser attribute on the same line."""
        groups = np.searchsorted(coarse.cuts[:-1], self.cuts[:-1], side="right") - 1
        return Level(name, coarse.declared_labels, tuple(groups.tolist()))

    def cells_below(self, constant: object, inclusive: bool = False) -> int:
        """Return k such that the first k cells hold exactly the values below the constant.

        With `inclusive`, the values at most the constant. A constant that cuts through a cell is
        refused: the cell's count cannot be divided.
        """
        number = float(self._numbers([self._constant(constant)])[0])
        rule = "must be a value of the attribute"
        require(not math.isnan(number), self.name, constant, rule)

        cells = len(self.cuts) - 1
        if number > self.cuts[-1] or (inclusive and number == self.cuts[-1]):
            return cells
        if number < self.cuts[0]:
            return 0

        if self.whole:
            number = math.floor(number) + 1 if inclusive else math.ceil(number)
            inclusive = False

        below = int(np.searchsorted(self.cuts[:-1], number, side="left"))
        if inclusive or below == cells or self.cuts[below] != number:
            cut = self.labels[self.locate(constant)]
            raise InvalidParameter(
                self.name,
                constant,
                f"cuts through the cell {cut}",
                "compare with the edge of a cell, or declare a finer edge",
            )

        return below


@dataclass(frozen=True)
class Date(Ordered):
    """Days from `start` to `end` (both included), one cell per calendar period.

    Weeks begin on Monday (ISO 8601). The first and the last cell hold whatever part of their
    period lies between start and end. Instants with a time zone are read in UTC.
    """

    start: dt.date | str = ""
    end: dt.date | str = ""
    period: Literal["day", "week", "month", "quarter", "year"] = "day"

    kind: ClassVar[str] = "date"

    def _check(self) -> None:
        for field in ("start", "end"):
            object.__setattr__(self, field, self._date(field, getattr(self, field)))

        first, last = self.first, self.last
        rule = f"must not come after end={last}"
        self.require(first <= last, "start", str(first), rule)
        rule = f"must come before the year {dt.MAXYEAR}"
        self.require(last.year < dt.MAXYEAR, "end", str(last), rule)
        require_one_of(f"{self.name}.period", self.period, _PERIODS)

    def _date(self, field: str, value: object) -> dt.date:
        if type(value) is dt.date:
            return value
        try:
            return dt.date.fromisoformat(value)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            rule = "must be a date such as 2024-03-31"
            raise self.refuse(field, value, rule) from None

    def _constant(self, constant: object) -> object:
        return (
            self._date("constant", constant) if isinstance(constant, str) else constant
        )

    @property
    def first(self) -> dt.date:
        """The first day."""
        return self.start  # type: ignore[return-value]

    @property
    def last(self) -> dt.date:
        """The last day."""
        return self.end  # type: ignore[return-value]

    @cached_property
    def storage(self) -> Storage:
        return "date"

    @property
    def whole(self) -> bool:
        return True

    @cached_property
    def _starts(self) -> tuple[dt.date, ...]:
        starts = [self.first]
        while (following := _next_period(starts[-1], self.period)) <= self.last:
            starts.append(following)
        return tuple(starts)

    @cached_property
    def cuts(self) -> FloatArray:
        """The first day of every cell, then the last day, counted from 1970-01-01."""
        return np.array(
            [(day - _EPOCH).days for day in (*self._starts, self.last)], np.float64
        )

    def _numbers(self, values: Values) -> FloatArray:
        from noisewright.domain import columns

        return columns.days(self.name, values)

    @cached_property
    def declared_labels(self) -> tuple[str, ...]:
        """Labels such as 2024-03-31, 2024-W13, 2024-03, 2024-Q1 and 2024."""
        return tuple(_PERIODS[self.period](day) for day in self._starts)

    @property
    def spans(self) -> tuple[tuple[dt.date, dt.date], ...]:
        ends = [day - dt.timedelta(days=1) for day in self._starts[1:]]
        return tuple(zip(self._starts, [*ends, self.last], strict=True))

    def _coarser(self, name: str, declared: object) -> Level:
        """Read a level given by a longer period: `{"year": "year"}`."""
        span = self.first, self.last
        coarse = Date(f"{self.name}.levels.{name}", *span, declared)  # type: ignore[arg-type]
        self.require(
            set(coarse._starts) <= set(self._starts),
            f"levels.{name}",
            declared,
            f"must be a period into which every {self.period} fits whole",
        )

        return self._grouped(name, coarse)

    def representative(self, cell: int) -> dt.date | None:
        cell = int(self._checked(cell))
        return self._starts[cell] if cell < len(self._starts) else None


def _next_period(day: dt.date, period: str) -> dt.date:
    if period == "day":
        return day + dt.timedelta(days=1)
    if period == "week":
        return day + dt.timedelta(days=7 - day.weekday())

    months = {"month": 1, "quarter": 3, "year": 12}[period]
    index = day.year * 12 + (day.month - 1) // months * months + months
    return dt.date(index // 12, index % 12 + 1, 1)


def _week(day: dt.date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02d}"


_PERIODS: dict[str, Callable[[dt.date], str]] = {
    "day": lambda day: day.isoformat(),
    "week": _week,
    "month": lambda day: day.isoformat()[:7],
    "quarter": lambda day: f"{day.year}-Q{(day.month + 2) // 3}",
    "year": lambda day: day.isoformat()[:4],
}
