"""One row per person, from tables in which people have many: how each attribute is worked out.

Every attribute is an aggregate of one table's rows of a person, perhaps looked up in a public table
first. Whoever is in any of the tables has one row. To take a person out of all tables takes out
that one row and changes no other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from noisewright.domain.attribute import Attribute
from noisewright.domain.categorical import Boolean
from noisewright.domain.ordered import Numeric
from noisewright.errors import InvalidParameter

How = Literal["any", "count", "minimum", "maximum", "first", "sum"]
_HOLDERS: dict[str, type[Attribute]] = {
    "any": Boolean,
    "count": Numeric,
    "sum": Numeric,
}
_OPTIONS = ("of", "by", "lower", "upper", "unit", "join", "on")


@dataclass(frozen=True)
class Derived:
    """An attribute of a person: `how` the column of their rows in `table` becomes one value.

    any: whether some row is true, or has a value in `of`; count: how many rows have a value (one of
    `of`); first: the value in the row with the least `by`; sum: of values clipped to `lower` and
    `upper` and rounded to `unit`. With `join`, the column is that of a public table, found by the
    column `on` that both have.
    """

    name: str
    table: str
    how: How
    column: str
    of: tuple[str, ...] = ()
    by: str | None = None
    lower: float | None = None
    upper: float | None = None
    unit: float = 1.0
    join: str | None = None
    on: str | None = None

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise self._refuse(
                "how", self.how, f"must be one of {', '.join(get_args(How))}"
            )

        for field in ("name", "table", "column"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise self._refuse(field, getattr(self, field), "must be a name")

        if isinstance(self.of, str) or not isinstance(self.of, Sequence):
            raise self._refuse("of", self.of, "must be a list of values")

        object.__setattr__(self, "of", tuple(str(value) for value in self.of))
        if self.of and self.how not in ("any", "count"):
            raise self._refuse("of", list(self.of), "goes with `any` and `count`")
        if (self.by is None) == (self.how == "first"):
            raise self._refuse(
                "by", self.by, "goes with `first`: the column that says which is"
            )
        if (self.join is None) != (self.on is None) or self.join == self.table:
            raise self._refuse(
                "join", self.join, "names a public table, and goes with `on`"
            )

        self._check_sum()

    def _check_sum(self) -> None:
        given = (self.lower, self.upper, self.unit)
        if self.how != "sum":
            if given != (None, None, 1.0):
                raise self._refuse(
                    "lower", self.lower, "and `upper`, `unit` go with `sum`"
                )
            return

        numbers = all(isinstance(v, int | float) and math.isfinite(v) for v in given)
        if not numbers or not self.lower <= self.upper or not self.unit > 0:  # type: ignore[operator]
            rule = "and `upper` must be bounds of a row's value, and `unit` above zero"
            raise self._refuse("lower", self.lower, rule)

        units = max(abs(self.lower), abs(self.upper)) / self.unit  # type: ignore[arg-type]
        if units > 2**32:
            raise self._refuse(
                "unit", self.unit, "must be at least 2^-32 of the bounds"
            )

    def _refuse(self, field: str, value: object, rule: str) -> InvalidParameter:
        return InvalidParameter(f"derive.{self.name}.{field}", value, rule)

    def check(self, attribute: Attribute) -> None:
        """Refuse an attribute that cannot hold what is worked out."""
        expected = _HOLDERS.get(self.how)
        if expected is not None and not isinstance(attribute, expected):
            rule = f"must be a {expected.kind} attribute to hold `{self.how}`"
            raise InvalidParameter("attribute", self.name, rule)

    def to_dict(self) -> dict[str, object]:
        """The declaration as plain values, without what is as usual."""
        document: dict[str, object] = {
            "name": self.name,
            "from": self.table,
            self.how: self.column,
        }
        for field in _OPTIONS:
            value = getattr(self, field)
            if value != type(self).__dataclass_fields__[field].default:
                document[field] = list(value) if isinstance(value, tuple) else value

        return document


def read_derived(declared: object) -> Derived:
    """Read a declaration: {name: …, from: TABLE, any|count|…: COLUMN, …}."""
    if isinstance(declared, Derived):
        return declared

    rule = f"must be a mapping of name, from, one of {', '.join(get_args(How))}, and its options"
    if not isinstance(declared, Mapping):
        raise InvalidParameter("derive", declared, rule)

    hows = [how for how in get_args(How) if how in declared]
    known = {"name", "from", *hows, *_OPTIONS}
    if len(hows) != 1 or not {"name", "from"} <= set(declared) or set(declared) - known:
        raise InvalidParameter("derive", declared.get("name"), rule)

    options = {field: declared[field] for field in _OPTIONS if field in declared}
    return Derived(
        declared["name"], declared["from"], hows[0], declared[hows[0]], **options
    )


def tables_of(derived: Sequence[Derived]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables of people, and the public ones, that are read."""
    private = dict.fromkeys(one.table for one in derived)
    public = dict.fromkeys(one.join for one in derived if one.join is not None)
    return tuple(private), tuple(public)
