"""Tables in Apache Spark (extra `spark`): frames of any session, local, on a cluster or by Connect.

Spark groups; only counts come back. Cells are SQL, which its optimiser compiles: no Python runs on
the executors, so that they need no packages. A table behind a Connect server is named by its
address, sc://host:port#table.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from noisewright.arrays import IntArray
from noisewright.domain import Domain
from noisewright.domain.attribute import Storage
from noisewright.errors import InvalidParameter, NoisewrightError, withholding_causes
from noisewright.planning.counting import CellsToBytes, Source
from noisewright.tables.sql.counter import RemoteTable, Row, SqlCounter
from noisewright.tables.sql.dialect import Dialect, Typed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_Result = TypeVar("_Result")
Batches: TypeAlias = "Iterator[pa.RecordBatch]"

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_DAY = 86_400_000_000  # microseconds
SCHEME = "sc"


class SparkDialect(Dialect):
    """Spark's SQL for cells."""

    string = "STRING"

    def whole(self, number: str) -> str:
        return f"try_cast({number} AS BIGINT)"

    def read(self, column: str, kind: str, storage: Storage) -> Typed | None:
        base = kind.split("(")[0]
        if storage == "text":
            if base in ("string", "varchar", "char", *_WHOLE, "boolean", "date"):
                return Typed(self.written(column), "text")
            fractions = ("float", "double", "decimal", "timestamp", "timestamp_ntz")
            return Typed(column, "unwritten") if base in fractions else None

        if base in ("string", "varchar", "char"):
            # it reads numbers and dates in a way of its own
            return Typed(column, "unwritten")
        if storage == "date":
            return self._as_day(column, base)

        if base == "boolean":
            if storage == "boolean":
                return Typed(column, "truth")
            return Typed(self.as_double(f"CAST({column} AS INT)"), "double")

        if base in _WHOLE:
            return Typed(column, "whole")

        floats = base in ("float", "double", "decimal")
        return Typed(self.as_double(column), "double") if floats else None

    def _as_day(self, column: str, base: str) -> Typed | None:
        if base == "timestamp":  # in UTC, whatever the session's zone
            ticks = f"unix_micros({column})"
            days = f"({ticks} - pmod({ticks}, {_DAY})) div {_DAY}"
            return Typed(f"date_from_unix_date(CAST({days} AS INT))", "day")

        days = {"date": column, "timestamp_ntz": f"CAST({column} AS DATE)"}.get(
            base, ""
        )
        return Typed(days, "day") if days else None

    def text(self, value: str) -> str | None:
        if "\0" in value:
            return None
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def find(self, literals: Sequence[str], value: str) -> str | None:
        return f"nullif(array_position(array({', '.join(literals)}), {value}), 0) - 1"

    def element(self, literals: Sequence[str], position: str) -> str | None:
        return f"get(array({', '.join(literals)}), CAST({position} AS INT))"

    def search(self, literals: Sequence[str], number: str) -> str | None:
        return f"size(filter(array({', '.join(literals)}), edge -> edge <= {number}))"

    def quotient(self, whole: str, divisor: int) -> str:
        return f"{whole} div {divisor}"

    def days_between(self, first: dt.date, day: str) -> str:
        return f"datediff({day}, DATE '{first.isoformat()}')"

    def person(self, column: str, kind: str) -> str | None:
        known = kind.split("(")[0] in ("string", "varchar", "char", *_WHOLE)
        return self.written(column) if known else None

    def total(self, whole: str) -> str:
        return f"sum(CAST({whole} AS DECIMAL(20, 0)))"

    def grouping(self, columns: Sequence[str]) -> str:
        return f"grouping_id({', '.join(columns)})"

    def round_even(self, number: str) -> str:
        return f"rint({number})"


@dataclass(frozen=True)
class SparkTable:
    """A frame under a name of its own for as long as it is asked."""

    session: SparkSession
    source: str
    kinds: dict[str, str]

    def column(self, name: str) -> tuple[str, str]:
        if name not in self.kinds:
            rule = "have no column of that name in the frame"
            raise InvalidParameter("attributes", [name], rule)
        return "`" + name.replace("`", "``") + "`", self.kinds[name]

    def rows(self, query: str) -> list[Row]:
        return _asked(lambda: [tuple(row) for row in self.session.sql(query).collect()])

    def stream(self, query: str, rows: int) -> Iterator[list[Row]]:
        found = _asked(lambda: iter(self.session.sql(query).toLocalIterator()))
        while batch := _asked(lambda: [tuple(row) for row in islice(found, rows)]):
            yield batch

    def kinds_of(self, query: str) -> dict[str, str]:
        return _asked(lambda: dict(self.session.sql(query).dtypes))


def is_frame(source: object) -> bool:
    """Whether a source is a Spark frame; Spark is not imported to find out."""
    return type(source).__module__.startswith("pyspark.sql") and hasattr(
        source, "sparkSession"
    )


class SparkCounter(SqlCounter):
    """Counts frames inside Spark."""

    dialect = SparkDialect()

    @contextmanager
    def opened(self, sources: Sequence[Source]) -> Iterator[list[RemoteTable]]:
        with ExitStack() as views:
            frames = [
                _asked(partial(_connected, s)) if isinstance(s, str) else s
                for s in sources
            ]
            yield [views.enter_context(_viewed(frame)) for frame in frames]

    def tallies(
        self, source: Source, domain: Domain, tally: CellsToBytes
    ) -> list[bytes]:
        """What `tally` makes of the cells of every partition, on the executors, over Arrow."""
        request = self._of_rows(domain)
        with self._table(source, domain) as table:
            assert isinstance(table, SparkTable)
            query = self._cells_query(request, table)
            run = _over_arrow(tally)
            session = table.session
            parts = _asked(
                lambda: session.sql(query).mapInArrow(run, "tally binary").collect()
            )
            if any(row[0] is None for row in parts):
                raise self._refusal(request, table)

        return [bytes(row[0]) for row in parts]


def _over_arrow(tally: CellsToBytes) -> Callable[[Batches], Batches]:
    """The function that executors run on the batches of a partition; refused cells give NULL."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        refused = False

        def cells() -> Iterator[IntArray]:
            nonlocal refused
            for batch in batches:
                refused = refused or bool(batch.column(0).null_count)
                if not refused:
                    yield batch.column(0).to_numpy()

        content = tally(cells())
        column = pa.array([None if refused else content], pa.binary())
        yield pa.RecordBatch.from_arrays([column], ["tally"])

    return run


@contextmanager
def _viewed(frame: DataFrame) -> Iterator[RemoteTable]:
    """A frame under a name of its own."""
    name = f"noisewright_{secrets.token_hex(8)}"
    _asked(partial(frame.createOrReplaceTempView, name))
    try:
        yield SparkTable(frame.sparkSession, name, _asked(lambda: dict(frame.dtypes)))
    finally:
        with suppress(*_errors()):  # of a session that ended
            frame.sparkSession.catalog.dropTempView(name)


def _asked(call: Callable[[], _Result]) -> _Result:
    """What Spark answers; its own words, which quote cells, end here."""
    failure = NoisewrightError(
        "Spark could not count the table: the session ended, a column cannot be read or a "
        "task failed (its own message is withheld, since it may quote records); nothing "
        "was released"
    )
    return withholding_causes(call, _errors(), failure)


def _errors() -> tuple[type[Exception], ...]:
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        raise NoisewrightError(
            "Spark needs pyspark; install noisewright[spark]"
        ) from None
    return PySparkException, Py4JError, ConnectionError


def _connected(address: str) -> DataFrame:
    """The frame behind sc://host:port#table."""
    from pyspark.sql import SparkSession

    parts = urlsplit(address)
    if not parts.fragment:
        shown = f"sc://{parts.hostname or ''}"
        raise InvalidParameter(
            "table", shown, "names no table", "add it: sc://host:port#table"
        )

    server = urlunsplit(parts._replace(fragment=""))
    return (
        SparkSession.builder.remote(server).getOrCreate().table(unquote(parts.fragment))
    )
