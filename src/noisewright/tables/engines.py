"""Which engine counts a table: the one it lives in, and DuckDB for files and frames.

Engines are imported when a table is at hand: a plan is made without, and often never reads one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Domain, Unit
from noisewright.errors import InvalidParameter, require
from noisewright.planning.counting import CellsToBytes, Source, Wanted
from noisewright.tables.engine import Engine


def engine_of(source: Source) -> Engine:
    """The engine of an address, a frame or a file."""
    from noisewright.tables.backends import postgres, spark
    from noisewright.tables.backends.postgres import PostgresCounter
    from noisewright.tables.backends.spark import SparkCounter
    from noisewright.tables.counter import DuckDBCounter

    if isinstance(source, Mapping):
        engines = [engine_of(own) for own in source.values()] or [DuckDBCounter()]
        require(
            len(set(map(type, engines))) == 1,
            "table",
            sorted(map(str, source)),
            "must all be in one engine, which joins them",
            "export some of them",
        )
        return engines[0]

    if spark.is_frame(source):
        return SparkCounter()

    first = next((text for text in _listed(source) if "://" in text), None)
    if first is None:
        return DuckDBCounter()

    scheme = urlsplit(first).scheme
    if source is first:
        if scheme in postgres.SCHEMES:
            return PostgresCounter()
        if scheme == spark.SCHEME:
            return SparkCounter()

    # What stands after the scheme may be a password.
    known = f"{postgres.SCHEMES[0]}://host/database#table or {spark.SCHEME}://host:port#table"
    raise InvalidParameter("table", f"{scheme}://…", f"must be one address, {known}")


def _listed(source: Source) -> list[str]:
    """The texts of a source: addresses, or paths."""
    listed = source if isinstance(source, list | tuple) else [source]
    return [text for text in listed if isinstance(text, str)]


class Engines(Engine):
    """Counts whatever a table is, in the engine that holds it."""

    def tables(self, source: Source, domain: Domain, wanted: Wanted) -> list[IntArray]:
        return engine_of(source).tables(source, domain, wanted)

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        return engine_of(source).cells(source, domain)

    def tallies(
        self, source: Source, domain: Domain, tally: CellsToBytes
    ) -> list[bytes]:
        return engine_of(source).tallies(source, domain, tally)

    def values(self, source: Source, column: str, unit: Unit | None) -> dict[str, int]:
        return engine_of(source).values(source, column, unit)

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        return engine_of(source).explain_values(source, column, unit)

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        return engine_of(source).rows_held(source, unit)

    def numbers(
        self, source: Source, domain: Domain, names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Raw values of numeric attributes of a public table, for rehearsals."""
        from noisewright.tables.counter import DuckDBCounter

        return DuckDBCounter().numbers(source, domain, names)

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        return engine_of(source).explain(source, domain, wanted)
