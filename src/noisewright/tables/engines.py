"""Which engine counts a table: the one it lives in, and DuckDB for files and frames.

Engines are imported when a table is at hand: a plan is made without, and often never reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Domain, Unit
from noisewright.errors import InvalidParameter
from noisewright.planning.counting import Counter, Source
from noisewright.workload.questions.measures import Measure

Wanted = Sequence[tuple[tuple[str, ...], Measure]]


def engine_of(source: Any) -> Counter:
    """The engine of an address, a frame or a file."""
    from noisewright.tables.backends import postgres, spark
    from noisewright.tables.backends.postgres import PostgresCounter
    from noisewright.tables.backends.spark import SparkCounter
    from noisewright.tables.counter import DuckDBCounter

    if isinstance(source, Mapping):
        engines = [engine_of(own) for own in source.values()] or [DuckDBCounter()]
        if len({type(engine) for engine in engines}) > 1:
            rule = "must all be in one engine, which joins them"
            raise InvalidParameter(
                "table", sorted(map(str, source)), rule, "export some of them"
            )
        return engines[0]

    if spark.is_frame(source):
        return SparkCounter()

    listed = source if isinstance(source, list | tuple) else [source]
    addresses = [text for text in listed if isinstance(text, str) and "://" in text]
    if not addresses:
        return DuckDBCounter()

    scheme = urlsplit(addresses[0]).scheme
    if len(listed) == 1 and isinstance(source, str):
        if scheme in postgres.SCHEMES:
            return PostgresCounter()
        if scheme == spark.SCHEME:
            return SparkCounter()

    # What stands after the scheme may be a password.
    known = f"{postgres.SCHEMES[0]}://host/database#table or {spark.SCHEME}://host:port#table"
    raise InvalidParameter("table", f"{scheme}://…", f"must be one address, {known}")


class Engines:
    """Counts whatever a table is, in the engine that holds it."""

    def tables(self, source: Source, domain: Domain, wanted: Wanted) -> list[IntArray]:
        """Exact tables, each a measure over cells of some attributes in C order; one pass."""
        return engine_of(source).tables(source, domain, wanted)

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        """The cell of every row, in batches."""
        return engine_of(source).cells(source, domain)

    def tallies(
        self,
        source: Source,
        domain: Domain,
        tally: Callable[[Iterable[IntArray]], bytes],
    ) -> list[bytes]:
        """What `tally` makes of the cells of the rows, part by part, wherever the parts are."""
        return engine_of(source).tallies(source, domain, tally)

    def values(self, source: Source, column: str, unit: Unit | None) -> dict[str, int]:
        """Every text in a column and how many people hold it: as private as the table."""
        return engine_of(source).values(source, column, unit)

    def rows(self, source: Source, columns: Sequence[str]) -> Iterator[FloatArray]:
        """Batches of rows of the named columns, as numbers; what is no number is NaN."""
        from noisewright.tables.rows import numeric_rows

        return numeric_rows(source, columns)

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        """The SQL that would count who holds which text."""
        return engine_of(source).explain_values(source, column, unit)

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        """How many people have so many rows: as private as the table."""
        return engine_of(source).rows_held(source, unit)

    def numbers(
        self, source: Source, domain: Domain, names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Raw values of numeric attributes of a public table, for rehearsals."""
        from noisewright.tables.counter import DuckDBCounter

        return DuckDBCounter().numbers(source, domain, names)

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        """The SQL that would count these tables."""
        return engine_of(source).explain(source, domain, wanted)
