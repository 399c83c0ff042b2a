"""What is asked of an engine, and the SQL that answers it: cells, kept rows, covers.

Everything is a chain of stages, each a selection over the one before, so that the same chain runs
in any engine: as nested text in a database, as relations in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from noisewright.arrays import IntArray
from noisewright.domain import Domain, Numeric, Unit
from noisewright.domain.attribute import Attribute, Storage
from noisewright.errors import DomainError, InvalidParameter, TooLarge
from noisewright.planning.counting import Wanted
from noisewright.tables.sql.covers import Names, covers_of, marginal, smallest_cover
from noisewright.tables.sql.dialect import Dialect, Typed
from noisewright.tables.sql.expressions import cell, content
from noisewright.tables.sql.periods import period_number
from noisewright.workload.questions.measures import (
    Count,
    Measure,
    OfColumn,
    OfNumber,
    Respondents,
)

Columns = Callable[[str], tuple[str, str]]
"""The SQL that names a column, and the engine's type of it."""

_MOST_CELLS = 2**27  # one GiB of counts


@dataclass(frozen=True)
class Stage:
    """A selection over the stage before, or over the table."""

    select: tuple[str, ...]
    where: str = ""

    def over(self, source: str) -> str:
        """The stage as text."""
        where = f"\nWHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join(self.select)}\nFROM {source}{where}"


def nested_stages(stages: Sequence[Stage], source: str) -> str:
    """All stages as one text, the first innermost."""
    text = source
    for number, stage in enumerate(stages):
        text = stage.over(text if number == 0 else f"(\n{text}\n) AS s{number}")
    return text


@dataclass(frozen=True, eq=False)
class Request:
    """Exact tables of a domain, each a measure over the cells of some attributes."""

    domain: Domain
    wanted: Wanted

    def __post_init__(self) -> None:
        """Refuse what no engine could answer, before any table is opened."""
        self.domain.require_reviewed()
        for subset, measure in self.wanted:
            if len(set(subset)) < len(subset):
                rule = "must not name an attribute twice"
                raise InvalidParameter("marginal", subset, rule)
            for name in set(subset) - set(self.attributes):
                self.domain.index(name)  # which says what names there are
            if not isinstance(measure, Count):
                for factor in measure.factors:
                    self.number(factor)

        cells = sum(
            prod(self.attributes[name].size for name in subset)
            for subset, _ in self.wanted
        )
        if cells > _MOST_CELLS:
            raise TooLarge(
                f"the marginals have {cells} cells together, more than {_MOST_CELLS}; "
                "ask for smaller marginals or for fewer at once"
            )

    def number(self, measure: OfColumn) -> Numeric:
        """The attribute whose values are summed."""
        attribute = self.attributes[measure.attribute]
        if not isinstance(attribute, Numeric):
            raise InvalidParameter(
                "value", measure.attribute, "must be a numeric attribute"
            )

        if not isinstance(measure, Respondents):
            attribute.largest_units(measure.unit)

        return attribute

    @cached_property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the schema by name."""
        return {attribute.name: attribute for attribute in self.domain.attributes}

    @cached_property
    def names(self) -> Names:
        """The attributes whose cells are needed, in the schema's order."""
        needed = {name for subset, _ in self.wanted for name in subset}
        needed |= set() if self.unit is None else set(self.unit.by)
        return tuple(name for name in self.domain.names if name in needed)

    @cached_property
    def measures(self) -> tuple[OfNumber, ...]:
        """The sums that are needed, each once, in an order of their own."""
        sums = {measure for _, measure in self.wanted if not isinstance(measure, Count)}
        return tuple(sorted(sums, key=_order))

    @cached_property
    def columns(self) -> Names:
        """The columns of the table that are read."""
        numbers = [factor.attribute for m in self.measures for factor in m.factors]
        return tuple(dict.fromkeys([*self.names, *numbers]))

    @property
    def unit(self) -> Unit | None:
        """Which rows are one person's, where that is not one row."""
        return self.domain.unit

    @cached_property
    def storages(self) -> dict[str, Storage]:
        """All columns that are read, a person's name included, and how."""
        own = {name: self.attributes[name].storage for name in self.columns}
        return {**unit_storages(self.unit), **own}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of cells of every attribute that is needed."""
        return {name: self.attributes[name].size for name in self.names}

    @cached_property
    def covers(self) -> list[Names]:
        """Joint tables that are counted; all others are sums of theirs."""
        return covers_of(self.sizes, [subset for subset, _ in self.wanted])

    @cached_property
    def _cover_of(self) -> dict[Names, int]:
        subsets = {subset for subset, _ in self.wanted}
        return {s: smallest_cover(self.sizes, self.covers, s) for s in subsets}

    @cached_property
    def measured(self) -> list[tuple[Measure, ...]]:
        """The measures that are needed of every cover."""
        needed: list[dict[Measure, None]] = [{} for _ in self.covers]
        for subset, measure in self.wanted:
            needed[self._cover_of[subset]][measure] = None
        return [tuple(measures) for measures in needed]

    def cells(self, cover: int) -> int:
        """The number of cells of a cover."""
        return prod(self.sizes[name] for name in self.covers[cover])

    def answer(self, totals: Sequence[Mapping[Measure, IntArray]]) -> list[IntArray]:
        """Every wanted table, from the totals of the covers."""
        tables = []
        for subset, measure in self.wanted:
            number = self._cover_of[subset]
            cover = self.covers[number]
            tables.append(marginal(self.sizes, cover, totals[number][measure], subset))

        return tables

    # --- in SQL -----------------------------------------------------------------------------------

    def coded(self, columns: Columns, dialect: Dialect) -> Stage | None:
        """Cells a0, a1, … and contents m0, m1, … of every row; None where SQL cannot say them."""
        select = []
        for number, name in enumerate(self.names):
            expression = cell(
                self.attributes[name], self.typed(name, columns, dialect), dialect
            )
            if expression is None:
                return None
            select.append(f"{expression} AS a{number}")

        for number, measure in enumerate(self.measures):
            contents = [
                content(
                    self.number(f),
                    self.typed(f.attribute, columns, dialect),
                    f,
                    dialect,
                )
                for f in measure.factors
            ]
            select.append(f"{' * '.join(contents)} AS m{number}")

        if self.unit is not None:
            select.append(f"{self.person(columns, dialect)} AS p")

        return Stage(tuple(select or ["0 AS a"]))

    def person(self, columns: Columns, dialect: Dialect) -> str:
        """The name of the person whose row it is."""
        assert self.unit is not None
        return person_name(self.unit, columns, dialect)

    def kept(self, dialect: Dialect) -> list[Stage]:
        """The rows that count: of every person those with the least digests, at most `rows`, after
        at most `each` of every group where such are declared.

        The digest is of the person's name, the row's own cells and contents, and the number of the
        row among those that are alike in all of them, so that it follows from nobody else's rows
        and from no order. Rows that some rule refuses come first: they never go unnoticed.
        """
        # what is derived is one row per person
        if self.unit is None or self.domain.derived:
            return []

        own = [f"a{i}" for i in range(len(self.names))]
        own += [f"m{i}" for i in range(len(self.measures))]
        alike = ", ".join(["p", *own])
        refused = " OR ".join(f"{name} IS NULL" for name in own) or "1 = 0"
        first = f"CASE WHEN {refused} THEN 0 ELSE 1 END"
        digest = dialect.digest([f"'{self.unit.key}'", "p", *own, "d"])
        ranked = f"ORDER BY {first}, {digest}, d"

        return [
            Stage(("*", f"row_number() OVER (PARTITION BY {alike} ORDER BY p) AS d")),
            *self._kept_in_groups(ranked),
            Stage(
                ("*", f"row_number() OVER (PARTITION BY p {ranked}) AS r"),
            ),
            Stage(("*",), f"r <= {self.unit.rows} OR p IS NULL"),
        ]

    def _kept_in_groups(self, ranked: str) -> list[Stage]:
        """Of every person in every group the first rows alone, before all groups are looked at."""
        if self.unit is None or not self.unit.by:
            return []

        own = ", ".join(["p", *(f"a{self.names.index(name)}" for name in self.unit.by)])
        return [
            Stage(("*", f"row_number() OVER (PARTITION BY {own} {ranked}) AS q")),
            Stage(("*",), f"q <= {self.unit.each} OR p IS NULL"),
        ]

    def typed(self, name: str, columns: Columns, dialect: Dialect) -> Typed:
        """An attribute's column as it is read."""
        sql, kind = columns(name)
        attribute = self.attributes[name]
        typed = dialect.read(sql, kind, attribute.storage)
        if typed is None:
            raise wrong_column(attribute.name, attribute.kind, kind)

        return typed

    @property
    def joint(self) -> Stage:
        """The joint cell c0, c1, … of every cover, NULL where a value is refused; and contents."""
        nameless = self.unit is not None and self.unit.missing == "refuse"
        guard = "CASE WHEN p IS NOT NULL THEN {} END" if nameless else "{}"
        joint = [guard.format(self.joint_cell(cover)) for cover in self.covers]
        codes = [f"{code} AS c{i}" for i, code in enumerate(joint)]
        return Stage((*codes, *(f"m{i}" for i in range(len(self.measures)))))

    def joint_cell(self, cover: Names) -> str:
        """The flat cell of some attributes, from the cells of each."""
        if not cover:
            return "0"

        first, *others = (f"a{self.names.index(name)}" for name in cover)
        code = f"CAST({first} AS BIGINT)"  # engines may hold cells in narrower types
        for name, own in zip(cover[1:], others, strict=True):
            code = f"({code} * {self.sizes[name]} + {own})"

        return code

    def refusals(
        self, columns: Columns, dialect: Dialect
    ) -> tuple[Stage, list[DomainError]]:
        """Whether some row breaks a rule, one truth value per rule, and what to say then."""
        select: list[str] = []
        errors: list[DomainError] = []
        for name in self.columns:
            attribute = self.attributes[name]
            typed = self.typed(name, columns, dialect)
            code = cell(attribute, typed, dialect)
            missing = dialect.is_missing(typed)
            for field, is_so in (("outside", f"NOT {missing}"), ("missing", missing)):
                if getattr(attribute, field) == "error":
                    broken = f"{code} IS NULL AND {is_so}"
                    select.append(
                        f"max(CASE WHEN {broken} THEN 1 ELSE 0 END) AS e{len(select)}"
                    )
                    errors.append(attribute.refusal(field))

        if self.unit is not None and self.unit.missing == "refuse":
            nameless = f"{self.person(columns, dialect)} IS NULL"
            select.append(
                f"max(CASE WHEN {nameless} THEN 1 ELSE 0 END) AS e{len(select)}"
            )
            errors.append(no_name(self.unit))

        return Stage(tuple(select or ["0 AS e0"])), errors


def _order(measure: OfNumber) -> tuple[str, str, float, str]:
    """Sums of a kind beside each other, and those of one attribute."""
    kind = type(measure).__name__
    return kind, measure.attribute, measure.unit, repr(measure)


def unit_storages(unit: Unit | None) -> dict[str, Storage]:
    """The columns that tell whose a row is, and how they are read."""
    if unit is None:
        return {}
    return (
        {unit.column: "text"}
        if unit.date is None
        else {unit.column: "text", unit.date: "date"}
    )


def person_name(unit: Unit, columns: Columns, dialect: Dialect) -> str:
    """The name of the person whose row it is, with the period where that is part of it, as text."""
    sql, kind = columns(unit.column)
    name = dialect.person(sql, kind)
    if name is None:
        raise DomainError(
            f"the column {unit.column!r} names people, but has the type {kind}, which is "
            "not written alike everywhere; convert it to text or to whole numbers"
        )
    if unit.per is None or unit.date is None:
        return name

    days, kind = columns(unit.date)
    typed = dialect.read(days, kind, "date")
    if typed is None or typed.kind != "day":
        raise wrong_column(unit.date, "the date of a unit", kind)

    # A period has no space in it, so that no two names and periods share a text.
    return f"({name} || ' ' || {dialect.written(period_number(unit.per, typed.sql, dialect))})"


def no_name(unit: Unit) -> DomainError:
    """The error for rows that name nobody."""
    return DomainError(
        f"a row of the table has no {' or '.join(map(repr, unit.columns))}, so that nobody can tell"
        " whose it is; declare `missing: each` of the unit, by which such rows are one person each,"
        " or mend the table"
    )


def wrong_column(name: str, declared: str, kind: str) -> DomainError:
    """The error for a column of a type that an attribute cannot read."""
    return DomainError(
        f"attribute {name!r} is declared as {declared}, but its column has the "
        f"type {kind}; convert the column or correct the schema"
    )
