"""One row per person as SQL: tables grouped by the person, and joined to public ones.

Each table of people is read once: its columns are typed, looked up in public tables, ranked where
the first row is wanted, and grouped by the person's name. Whoever is in any table is in the result,
as one row. Nothing depends on the order of rows: rows that share the least `by` are told apart by
the value itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from noisewright.domain import Domain
from noisewright.domain.attribute import Storage
from noisewright.domain.derive import Derived, tables_of
from noisewright.errors import DomainError, InvalidParameter
from noisewright.tables.sql.dialect import Dialect, Typed
from noisewright.tables.sql.request import Columns, person_name, wrong_column


@dataclass(frozen=True)
class Place:
    """A table as the engine names it: what stands after FROM, and its columns."""

    source: str
    column: Columns


def no_sql() -> DomainError:
    """The error for columns that an engine would read or write in a way of its own."""
    return DomainError(
        "a column has no exact cells in this engine's SQL (text that is to be read as a "
        "number or a date, or fractions and instants as text); give it the attribute's "
        "own type in a view, or export the table to Parquet"
    )


def storages_of(domain: Domain) -> dict[str, dict[str, Storage]]:
    """Every table that is derived from, its columns that are read, and how."""
    assert domain.unit is not None
    private, public = tables_of(domain.derived)
    storages: dict[str, dict[str, Storage]] = {name: {} for name in (*private, *public)}

    for name in private:
        storages[name][domain.unit.column] = "text"

    for one in domain.derived:
        own = one.table
        if one.join is not None and one.on is not None:
            storages[one.table][one.on] = storages[one.join][one.on] = "text"
            own = one.join
        storages[own].setdefault(one.column, _storage(domain, one))
        if one.by is not None:
            storages[one.table].setdefault(one.by, "text")

    return storages


def checked_sources(domain: Domain, source: object) -> Mapping[str, object]:
    """One source for every table that is derived from, no more and no less."""
    needed = sorted(storages_of(domain))
    given: object = type(source).__name__
    if isinstance(source, Mapping):
        given = sorted(map(str, source))
        if set(source) == set(needed):
            return source

    raise InvalidParameter(
        "table",
        given,
        "must be one table for every name in `derive`",
        f"give {{name: table}} for {', '.join(needed)}",
    )


def _storage(domain: Domain, one: Derived) -> Storage:
    """How the column is read."""
    if one.how == "any":
        return "text" if one.of else "boolean"
    if one.how == "count":
        return "text"
    return "number" if one.how == "sum" else domain[one.name].storage


@dataclass
class _Grouping:
    """The aggregates of one table of people, as they are put together."""

    domain: Domain
    place: Place
    public: Mapping[str, Place]
    dialect: Dialect
    base: dict[str, str] = field(default_factory=dict)
    joins: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    ranks: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def add(self, one: Derived) -> None:
        """Take in one attribute."""
        value = self._value(one)
        number_of = len(self.results)
        if one.how == "first":
            assert one.by is not None
            by = self._own(
                f"b{number_of}", self.dialect.ordering(*self.place.column(one.by))
            )
            order = f"{by} NULLS LAST, {value} NULLS LAST"
            self.ranks.append(
                f"row_number() OVER (PARTITION BY p ORDER BY {order}) AS r{number_of}"
            )

        aggregate = self._aggregate(one, value, number_of)
        self.results.append(f"{aggregate} AS d{self.domain.index(one.name)}")

    def _own(self, name: str, sql: str) -> str:
        self.base[name] = sql
        return name

    def _value(self, one: Derived) -> str:
        """The name of a column of typed values, after the look-up where there is one."""
        name = f"v{len(self.results)}"
        if one.join is None or one.on is None:
            return self._own(name, self._typed(one, self.place))

        public = self.public[one.join]
        looked_up = self.joins.setdefault((one.join, one.on), {})
        looked_up[name] = self._typed(one, public)

        return name

    def _typed(self, one: Derived, place: Place) -> str:
        column, kind = place.column(one.column)
        if one.how == "count" and not one.of:
            return f"CASE WHEN {column} IS NOT NULL THEN 1 ELSE 0 END"

        storage = _storage(self.domain, one)
        typed = self.dialect.read(column, kind, storage)
        if typed is None:
            raise wrong_column(one.column, f"{storage} for {one.name!r}", kind)
        if typed.kind == "unwritten":
            raise no_sql()

        return self._plain(one, typed)

    def _plain(self, one: Derived, typed: Typed) -> str:
        """A value, without NaN; a condition as one or zero; a summand in whole units."""
        x = typed.sql
        dialect = self.dialect
        if one.of:
            texts = [dialect.text(value) for value in one.of]
            listed = ", ".join(text for text in texts if text is not None)
            return f"CASE WHEN {x} IN ({listed}) THEN 1 ELSE 0 END" if listed else "0"

        if typed.kind == "truth":
            return f"CASE WHEN {x} THEN 1 WHEN NOT {x} THEN 0 END"

        if typed.kind == "double":
            x = f"CASE WHEN NOT {dialect.is_nan(x)} THEN {x} END"

        if one.how == "any":
            return f"CASE WHEN {x} = 1 THEN 1 ELSE 0 END"
        if one.how != "sum":
            return x

        # Some engines clip what is missing to the other value.
        units = dialect.units(x, *one.bounds, one.unit)
        return f"CASE WHEN {x} IS NOT NULL THEN {units} ELSE 0 END"

    def _aggregate(self, one: Derived, value: str, number_of: int) -> str:
        if one.how == "first":
            return f"max(CASE WHEN r{number_of} = 1 THEN {value} END)"
        if one.how in ("minimum", "any", "maximum"):
            return f"{'min' if one.how == 'minimum' else 'max'}({value})"

        total = self.dialect.total(value)
        if one.how == "count":
            return self.dialect.whole(total)

        unit = self.dialect.number(one.unit)
        return f"{self.dialect.as_double(total)} * {unit}"

    def sql(self) -> str:
        """One row for every person of the table."""
        assert self.domain.unit is not None
        person = person_name(self.domain.unit, self.place.column, self.dialect)
        keys = {}

        for i, (_, on) in enumerate(self.joins):
            keys[f"k{i}"] = self._key(on, self.place)

        own = {"p": person, **keys, **self.base}
        text = f"(SELECT {', '.join(f'{sql} AS {name}' for name, sql in own.items())}"
        text += f" FROM {self.place.source}) AS t"

        for i, ((table, on), columns) in enumerate(self.joins.items()):
            public = self.public[table]
            listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
            looked_up = (
                f"SELECT {self._key(on, public)} AS q{i}, {listed} FROM {public.source}"
            )
            text += f"\nLEFT JOIN ({looked_up}) AS u{i} ON k{i} = q{i}"

        if self.ranks:
            text = f"(SELECT *, {', '.join(self.ranks)} FROM {text}) AS r"

        return f"SELECT p, {', '.join(self.results)} FROM {text} GROUP BY p"

    def _key(self, on: str, place: Place) -> str:
        column, kind = place.column(on)
        key = self.dialect.person(column, kind)
        if key is None:
            raise wrong_column(
                on, "a key that tables share (text or whole numbers)", kind
            )

        return key


@dataclass(frozen=True)
class DerivedRows:
    """The SQL of a table with one row per person: its columns are p, d0, d1, …"""

    domain: Domain
    places: Mapping[str, Place]
    dialect: Dialect

    @cached_property
    def sql(self) -> str:
        """All tables of people side by side, joined by the person."""
        private, public = tables_of(self.domain.derived)
        looked_up = {name: self.places[name] for name in public}
        grouped = []

        for table in private:
            grouping = _Grouping(
                self.domain, self.places[table], looked_up, self.dialect
            )
            for one in self.domain.derived:
                if one.table == table:
                    grouping.add(one)
            grouped.append(grouping.sql())

        joined = "\nFULL JOIN ".join(
            f"({text}) AS g{i}" + (" USING (p)" if i else "")
            for i, text in enumerate(grouped)
        )
        return f"SELECT p, {', '.join(self._results())}\nFROM {joined}"

    def _results(self) -> Iterator[str]:
        """Whoever has no row in a table has none that count there, and no value of it."""
        for i, name in enumerate(self.domain.names):
            how = next(one.how for one in self.domain.derived if one.name == name)
            nothing = how in ("any", "count", "sum")
            yield f"coalesce(d{i}, 0) AS d{i}" if nothing else f"d{i}"

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns of the result stand for."""
        assert self.domain.unit is not None
        return (self.domain.unit.column, *self.domain.names)

    def column(self, name: str) -> str:
        """The column that stands for a person's name, or for an attribute."""
        place = self.names.index(name)
        return f"d{place - 1}" if place else "p"
