"""One row per person, from tables in which people have many: how each attribute is worked out.

Every attribute is an aggregate of one table's rows of a person, perhaps looked up in a public table
first. Whoever is in any of the tables has one row. To take a person out of all tables takes out
that one row and changes no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from noisewright.domain.attribute import Attribute, declared_fields
from noisewright.domain.categorical import Boolean
from noisewright.domain.numeric import Numeric
from noisewright.errors import (
    InvalidParameter,
    is_finite,
    is_listed,
    is_name,
    require,
    require_one_of,
)

How = Literal["any", "count", "minimum", "maximum", "first", "sum"]
_HOLDERS: dict[str, type[Attribute]] = {
    "any": Boolean,
    "count": Numeric,
    "sum": Numeric,
}
_MOST_UNITS = 2**32
"""Of one row in a sum: a billion rows of a person then still fit 64 bits."""
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
        require_one_of(f"derive.{self.name}.how", self.how, get_args(How))

        for field in ("name", "table", "column"):
            value = getattr(self, field)
            self._require(is_name(value), field, value, "must be a name")

        self._require(is_listed(self.of), "of", self.of, "must be a list of values")
        object.__setattr__(self, "of", tuple(map(str, self.of)))
        self._require(
            not self.of or self.how in ("any", "count"),
            "of",
            list(self.of),
            "goes with `any` and `count`",
        )

        self._require(
            (self.by is not None) == (self.how == "first"),
            "by",
            self.by,
            "goes with `first`: the column that says which is",
        )
        self._require(
            (self.join is None) == (self.on is None) and self.join != self.table,
            "join",
            self.join,
            "names a public table, and goes with `on`",
        )
        self._check_sum()

    def _check_sum(self) -> None:
        given = (self.lower, self.upper, self.unit)
        if self.how != "sum":
            rule = "and `upper`, `unit` go with `sum`"
            self._require(given == (None, None, 1.0), "lower", self.lower, rule)
            return

        low, high = self.bounds
        self._require(
            all(map(is_finite, given)) and low <= high and self.unit > 0,
            "lower",
            self.lower,
            "and `upper` must be bounds of a row's value, and `unit` above zero",
        )
        self._require(
            max(abs(low), abs(high)) <= _MOST_UNITS * self.unit,
            "unit",
            self.unit,
            "must be at least 2^-32 of the bounds",
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which the values of a sum are clipped."""
        return self.lower or 0.0, self.upper or 0.0

    def _require(self, holds: object, field: str, value: object, rule: str) -> None:
        if not holds:
            raise InvalidParameter(f"derive.{self.name}.{field}", value, rule)

    def check(self, attribute: Attribute) -> None:
        """Refuse an attribute that cannot hold what is worked out."""
        expected = _HOLDERS.get(self.how, type(attribute))
        require(
            isinstance(attribute, expected),
            "attribute",
            self.name,
            f"must be a {expected.kind} attribute to hold `{self.how}`",
        )

    def to_dict(self) -> dict[str, object]:
        """The declaration as plain values, without what is as usual."""
        declared = declared_fields(self)
        options = {name: declared[name] for name in _OPTIONS if name in declared}
        own = {"name": self.name, "from": self.table, self.how: self.column}
        return own | options


def read_derived(declared: object) -> Derived:
    """Read a declaration: {name: …, from: TABLE, any|count|…: COLUMN, …}."""
    if isinstance(declared, Derived):
        return declared

    rule = f"must be a mapping of name, from, one of {', '.join(get_args(How))}, and its options"
    if not isinstance(declared, Mapping):
        raise InvalidParameter("derive", declared, rule)

    named = set(declared)
    hows = named & set(get_args(How))
    known = {"name", "from", *hows, *_OPTIONS}
    if len(hows) != 1 or not {"name", "from"} <= named <= known:
        raise InvalidParameter("derive", declared.get("name"), rule)

    (how,) = hows
    options = {field: declared[field] for field in _OPTIONS if field in declared}
    return Derived(declared["name"], declared["from"], how, declared[how], **options)


def tables_of(derived: Sequence[Derived]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables of people, and the public ones, that are read."""
    private = dict.fromkeys(one.table for one in derived)
    public = dict.fromkeys(one.join for one in derived if one.join is not None)
    return tuple(private), tuple(public)
