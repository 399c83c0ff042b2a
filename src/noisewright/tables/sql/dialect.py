"""What an engine's SQL does in its own way: casts that cannot fail, look-ups, dates."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from noisewright.domain.attribute import Storage


@dataclass(frozen=True)
class Typed:
    """A column as an attribute reads it: text, whole numbers, doubles, truth values or days.

    `unwritten` is what an engine would write or round in a way of its own, such as fractions that
    are read as text.
    """

    sql: str
    kind: Literal["text", "whole", "double", "truth", "day", "unwritten"]


class Dialect(ABC):
    """One engine's SQL; every expression is total, none can fail."""

    double = "DOUBLE"
    string = "VARCHAR"

    # --- types --------------------------------------------------------------------------------

    @abstractmethod
    def read(self, column: str, kind: str, storage: Storage) -> Typed | None:
        """A column of the engine's type `kind` as the attribute reads it; None: they do not fit."""

    @abstractmethod
    def person(self, column: str, kind: str) -> str | None:
        """A person's name as text that all engines write alike; None where they do not."""

    def ordering(self, column: str, kind: str) -> str:
        """A column in an order that all engines share; text by its bytes."""
        return column

    def as_double(self, sql: str) -> str:
        """Any number as a double."""
        return f"CAST({sql} AS {self.double})"

    def written(self, whole: str) -> str:
        """A whole number as text."""
        return f"CAST({whole} AS {self.string})"

    @abstractmethod
    def whole(self, number: str) -> str:
        """A whole number of 64 bits from a double or a whole number that fits one."""

    # --- values -------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        """A double literal, exactly this one."""
        return self.as_double(f"'{float(value)!r}'")

    def text(self, value: str) -> str | None:
        """A literal, or None where the engine knows no such text."""
        return None if "\0" in value else "'" + value.replace("'", "''") + "'"

    def is_nan(self, number: str) -> str:
        """Whether a double is no number."""
        return f"isnan({number})"

    def is_missing(self, typed: Typed) -> str:
        """Whether there is no value."""
        absent = f"{typed.sql} IS NULL"
        if typed.kind != "double":
            return absent
        return f"({absent} OR {self.is_nan(typed.sql)})"

    # --- lists --------------------------------------------------------------------------------

    @abstractmethod
    def find(self, literals: Sequence[str], value: str) -> str | None:
        """The position, from zero, of a value in a list of literals; NULL where it is in none."""

    @abstractmethod
    def element(self, literals: Sequence[str], position: str) -> str | None:
        """The literal at a position counted from zero."""

    def search(self, literals: Sequence[str], number: str) -> str | None:
        """How many of the rising literals are at most the number, in time that grows slowly."""
        return None

    # --- arithmetic ---------------------------------------------------------------------------

    @abstractmethod
    def quotient(self, whole: str, divisor: int) -> str:
        """The quotient, rounded down, of a whole number that is not negative."""

    @abstractmethod
    def round_even(self, number: str) -> str:
        """A double rounded to a whole one, halves to even."""

    def units(self, sql: str, low: float, high: float, unit: float) -> str:
        """A number clipped to bounds, in whole units."""
        ends = self.number(low), self.number(high)
        clipped = f"least(greatest({self.as_double(sql)}, {ends[0]}), {ends[1]})"
        return self.whole(self.round_even(f"{clipped} / {self.number(unit)}"))

    def total(self, whole: str) -> str:
        """The exact sum of whole numbers, however many."""
        return f"sum({whole})"

    @abstractmethod
    def days_between(self, first: dt.date, day: str) -> str:
        """Whole days from a date to a day."""

    def part(self, name: Literal["year", "quarter", "month"], day: str) -> str:
        """A part of a day, as a whole number."""
        return f"{name}({day})"

    # --- rows ---------------------------------------------------------------------------------

    def digest(self, parts: Sequence[str]) -> str:
        """A hash of texts and whole numbers, in order, the same text in every engine."""
        return f"md5(concat_ws(',', {', '.join(map(self.written, parts))}))"

    def grouping(self, columns: Sequence[str]) -> str:
        """A number whose bits tell, from the left, by which columns a row is not grouped."""
        return f"GROUPING({', '.join(columns)})"
