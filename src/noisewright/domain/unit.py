"""Whose privacy it is where people have several rows, and how many of them count.

At most `rows` rows of a person are kept. Which ones is decided by a hash of the person's name and
of the row's own cells, so that it depends on nobody else and on no order. Where they land is up to
the person: they may all be in one cell. A table therefore moves by up to `rows` times what one row
moves it by, and no less is promised.

A unit may be a person in one period: all rows of a person that fall into one day, week, month or
year. Then the budget is that of a person in a period, and says less about people who come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, get_args

from noisewright.domain.attribute import declared_fields
from noisewright.errors import (
    InvalidParameter,
    is_name,
    is_whole,
    require,
    require_one_of,
)

Nameless = Literal["refuse", "each"]
PeriodName = Literal["day", "week", "month", "quarter", "year"]
_MOST_ROWS = 10**6
"""Of one person: what counts of people times it are still exact integers."""


@dataclass(frozen=True)
class Unit:
    """A person is all rows that share a value of `column`; at most `rows` of them count.

    Rows without a value there are refused, or, with `missing="each"`, are one person each. `key`
    goes into the hash that picks rows: another key keeps other rows of those who have too many.
    With `per`, a unit is a person in one period of the days in the column `date`. Of the rows that
    count, at most `each` may fall into one cell of the attributes `by`.
    """

    column: str
    rows: int = 1
    missing: Nameless = "refuse"
    key: str = ""
    per: PeriodName | None = None
    date: str | None = None
    by: tuple[str, ...] = ()
    each: int = 1

    def __post_init__(self) -> None:
        require(
            is_name(self.column),
            "unit.column",
            self.column,
            "must be the name of a column",
        )
        require(
            is_whole(self.rows) and 1 <= self.rows <= _MOST_ROWS,
            "unit.rows",
            self.rows,
            f"must be a whole number from 1 to {_MOST_ROWS}",
            "it is public: choose it unseen",
        )
        require_one_of("unit.missing", self.missing, get_args(Nameless))

        require(
            isinstance(self.key, str) and self.key.isascii() and "'" not in self.key,
            "unit.key",
            self.key,
            "must be ASCII text without quotes",
        )

        self._check_period()
        self._check_groups()

    def _check_period(self) -> None:
        if self.per is not None:
            require_one_of("unit.per", self.per, get_args(PeriodName))

        named = is_name(self.date) and self.date != self.column
        require(
            (named if self.per else self.date is None),
            "unit.date",
            self.date,
            "must be the name of a column of days, and goes with `per`",
        )

    def _check_groups(self) -> None:
        names = (self.by,) if isinstance(self.by, str) else self.by
        require(
            isinstance(names, list | tuple) and all(map(is_name, names)),
            "unit.by",
            self.by,
            "must be names of attributes",
        )
        object.__setattr__(self, "by", tuple(names))

        require(
            is_whole(self.each) and 1 <= self.each <= self.rows,
            "unit.each",
            self.each,
            "must be a whole number from 1 to the rows that count",
        )
        require(
            len(set(self.by)) == len(self.by) and (self.by or self.each == 1),
            "unit.by",
            list(self.by),
            "must name attributes, each once, in whose cells at most `each` rows count",
        )

    def text(self) -> str:
        """Say whose privacy it is."""
        rows = "one row" if self.rows == 1 else f"{self.rows:,} rows"
        count = f"of which at most {rows} count"
        if self.by:
            count += f", at most {self.each:,} in one cell of {' × '.join(self.by)}"

        if self.per is None:
            return f"a person is all rows with one {self.column}, {count}"

        return (
            f"a person in one {self.per} is all rows with one {self.column} and {self.date} in the"
            f" {self.per}, {count}"
        )

    @property
    def name(self) -> str:
        """Who is protected, however many of their rows count: what losses must share to add."""
        return (
            self.column
            if self.per is None
            else f"{self.column} per {self.per} of {self.date}"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell whose a row is."""
        return (self.column,) if self.date is None else (self.column, self.date)

    def to_dict(self) -> dict[str, object]:
        """The declaration as plain values, without what is as usual."""
        return declared_fields(self)


ROW_IS_PERSON = "one row is one person"


def read_unit(declared: object) -> Unit | None:
    """Read a declaration: the name of a column, or a mapping."""
    known = sorted(field.name for field in fields(Unit))
    match declared:
        case None | Unit():
            return declared
        case str():
            return Unit(declared)
        case Mapping() if {"column"} <= set(declared) <= set(known):
            return Unit(**declared)

    rule = f"must be a column's name or a mapping of {', '.join(known)}"
    raise InvalidParameter("unit", declared, rule)
