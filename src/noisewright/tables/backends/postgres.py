"""Tables in PostgreSQL (extra `postgres`), named by an address: postgresql://host/database#table.

The database groups; only counts leave it. All queries of one release run in one read-only
transaction that sees one state of the table.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from noisewright.domain.attribute import Storage
from noisewright.errors import InvalidParameter, NoisewrightError, withholding_causes
from noisewright.planning.counting import Source
from noisewright.tables.sql.counter import RemoteTable, Row, SqlCounter
from noisewright.tables.sql.dialect import Dialect, Typed

if TYPE_CHECKING:
    import psycopg

_Result = TypeVar("_Result")

_WHOLE = ("int2", "int4", "int8")
_TEXT = ("text", "varchar", "bpchar", "name")
# an array is searched from its beginning, the keys of an object by halves
_MOST_LISTED = 64
SCHEMES = ("postgresql", "postgres")


class PostgresDialect(Dialect):
    """PostgreSQL's SQL for cells; comparisons of text are of bytes."""

    double = "double precision"
    string = "text"

    def whole(self, number: str) -> str:
        return f"CAST({number} AS bigint)"

    def read(self, column: str, kind: str, storage: Storage) -> Typed | None:
        if storage == "text":
            return self._as_text(column, kind)
        if kind in _TEXT:
            return Typed(column, "unwritten")  # there is no cast that cannot fail

        if storage == "date":
            days = {
                "date": column,
                "timestamp": f"CAST({column} AS date)",
                "timestamptz": f"CAST({column} AT TIME ZONE 'UTC' AS date)",
            }
            return Typed(days[kind], "day") if kind in days else None

        if kind == "bool":
            if storage == "boolean":
                return Typed(column, "truth")
            return Typed(self.as_double(f"CAST({column} AS integer)"), "double")

        if kind in _WHOLE:
            return Typed(column, "whole")
        if kind == "numeric":
            return Typed(_near_double(column), "double")

        floats = kind in ("float4", "float8")
        return Typed(self.as_double(column), "double") if floats else None

    def _as_text(self, column: str, kind: str) -> Typed | None:
        if kind in (*_TEXT, *_WHOLE, "bool", "date", "uuid"):
            return Typed(f'(CAST({column} AS text) COLLATE "C")', "text")
        fractions = ("numeric", "float4", "float8", "timestamp", "timestamptz")
        return Typed(column, "unwritten") if kind in fractions else None

    def is_nan(self, number: str) -> str:
        return f"({number} = {self.number(math.nan)})"

    def find(self, literals: Sequence[str], value: str) -> str | None:
        texts = literals[0].startswith("'")
        if texts and len(literals) > _MOST_LISTED:
            plain = [literal[1:-1].replace("''", "'") for literal in literals]
            keys = json.dumps(
                {text: i for i, text in enumerate(plain)}, ensure_ascii=False
            )
            return f"CAST({self.text(keys)}::jsonb ->> {value} AS bigint)"

        kind = "text" if texts else "double precision"
        return f"array_position(CAST(ARRAY[{', '.join(literals)}] AS {kind}[]), {value}) - 1"

    def element(self, literals: Sequence[str], position: str) -> str | None:
        return f"(ARRAY[{', '.join(literals)}])[{position} + 1]"

    def search(self, literals: Sequence[str], number: str) -> str | None:
        listed = f"CAST(ARRAY[{', '.join(literals)}] AS double precision[])"
        return f"width_bucket({self.as_double(number)}, {listed})"

    def quotient(self, whole: str, divisor: int) -> str:
        return f"{whole} / {divisor}"

    def days_between(self, first: dt.date, day: str) -> str:
        return f"({day} - DATE '{first.isoformat()}')"

    def part(self, name: Literal["year", "quarter", "month"], day: str) -> str:
        return f"CAST(extract({name} FROM {day}) AS bigint)"

    def person(self, column: str, kind: str) -> str | None:
        known = kind in (*_TEXT, *_WHOLE, "uuid")
        return f'(CAST({column} AS text) COLLATE "C")' if known else None

    def ordering(self, column: str, kind: str) -> str:
        return f'({column} COLLATE "C")' if kind in _TEXT else column

    def digest(self, parts: Sequence[str]) -> str:
        return f'{super().digest(parts)} COLLATE "C"'

    def round_even(self, number: str) -> str:
        return f"round({number})"


def _near_double(column: str) -> str:
    """A number of any length as a double; what no double reaches is infinite, or hardly zero."""
    return (
        f"CASE WHEN {column} <> 'NaN' AND {column} > 1e308 THEN CAST('inf' AS double precision) "
        f"WHEN {column} < -1e308 THEN CAST('-inf' AS double precision) "
        f"WHEN {column} <> 0 AND abs({column}) < 1e-300 "
        f"THEN sign({column}) * CAST('1e-300' AS double precision) "
        f"ELSE CAST({column} AS double precision) END"
    )


@dataclass(frozen=True)
class Address:
    """Where a table is; what is shown of it holds neither name nor password."""

    server: str
    table: tuple[str, ...]
    shown: str

    @classmethod
    def of(cls, address: str) -> Address:
        """Read postgresql://host/database#table, the table perhaps with its schema."""
        parts = urlsplit(address)
        shown = f"postgresql://{parts.hostname or ''}{parts.path}#{parts.fragment}"
        names = tuple(unquote(parts.fragment).split("."))
        if not all(names) or len(names) > 2:
            raise InvalidParameter(
                "table",
                shown,
                "names no table",
                "add it: postgresql://host/database#table",
            )

        return cls(urlunsplit(parts._replace(fragment="")), names, shown)

    @property
    def source(self) -> str:
        """The table's name as SQL."""
        return ".".join(map(quoted, self.table))


def quoted(name: str) -> str:
    """A name as SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class PostgresTable:
    """A table in an open transaction."""

    connection: psycopg.Connection[Row]
    address: Address
    kinds: dict[str, str]

    @property
    def source(self) -> str:
        return self.address.source

    def column(self, name: str) -> tuple[str, str]:
        if name not in self.kinds:
            raise InvalidParameter(
                "attributes",
                [name],
                f"have no column of that name in {self.address.shown}",
            )
        return quoted(name), self.kinds[name]

    def rows(self, query: str) -> list[Row]:
        return self._asked(lambda: list(self.connection.execute(query).fetchall()))

    def stream(self, query: str, rows: int) -> Iterator[list[Row]]:
        with self.connection.cursor(name="noisewright_cells") as cursor:
            self._asked(lambda: cursor.execute(query))
            while batch := self._asked(lambda: cursor.fetchmany(rows)):
                yield batch

    def kinds_of(self, query: str) -> dict[str, str]:
        return self._asked(lambda: _kinds(self.connection, f"({query}) AS described"))

    def _asked(self, call: Callable[[], _Result]) -> _Result:
        """What the server answers; its own words, which quote cells, end here."""
        import psycopg

        return withholding_causes(
            call, psycopg.Error, unreachable_server(self.address.shown)
        )


class PostgresCounter(SqlCounter):
    """Counts tables inside a PostgreSQL server."""

    dialect = PostgresDialect()

    @contextmanager
    def opened(self, sources: Sequence[Source]) -> Iterator[list[RemoteTable]]:
        addresses = [Address.of(str(source)) for source in sources]
        address = addresses[0]
        if len({one.server for one in addresses}) > 1:
            rule = "must be tables of one database, which joins them"
            raise InvalidParameter("table", [one.shown for one in addresses], rule)

        try:
            import psycopg
        except ImportError:
            raise NoisewrightError(
                "tables in PostgreSQL need psycopg; install noisewright[postgres]"
            ) from None

        failure: NoisewrightError | None = None
        try:
            with psycopg.connect(
                address.server, options="-c TimeZone=UTC -c DateStyle=ISO"
            ) as c:
                c.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                c.read_only = True
                yield [
                    PostgresTable(c, one, _kinds(c, one.source)) for one in addresses
                ]
        except psycopg.Error:  # its text quotes cells, or the address with its password
            failure = unreachable_server(address.shown)

        if failure is not None:
            raise failure


def _kinds(connection: psycopg.Connection[Row], source: str) -> dict[str, str]:
    """The type of every column, without reading a row."""
    described = connection.execute(f"SELECT * FROM {source} LIMIT 0").description or []
    types = connection.adapters.types
    kinds = ((c.name, types.get(c.type_code)) for c in described)
    return {name: "another" if kind is None else kind.name for name, kind in kinds}


def unreachable_server(shown: str) -> NoisewrightError:
    """What is said of a server that fails, without its own words."""
    return NoisewrightError(
        f"{shown} could not be counted: the server cannot be reached, refuses the table or the "
        "name, or the connection broke (its own message is withheld, since it may quote records "
        "or passwords); nothing was released"
    )
