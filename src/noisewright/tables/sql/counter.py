"""Counting inside a database or a cluster: it groups its own rows, and only counts leave it.

An engine is a `Dialect` and a way to open a table; this file asks the question, reads the counts
and says what was wrong, in words that quote no cell.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from noisewright.arrays import IntArray
from noisewright.domain import Domain, Unit
from noisewright.errors import DomainError, InvalidParameter
from noisewright.planning.counting import Source, Wanted
from noisewright.tables.engine import Engine
from noisewright.tables.sql.derived import DerivedRows, Place, checked_sources, no_sql
from noisewright.tables.sql.dialect import Dialect
from noisewright.tables.sql.held_values import HeldRows, HeldValues
from noisewright.tables.sql.request import Request, Stage, nested_stages
from noisewright.workload.questions.measures import COUNT, Measure

Totals = list[dict[Measure, IntArray]]
Row = tuple[Any, ...]
"""What an engine gives: whole numbers, texts, or nothing."""

_COVERS_A_QUERY = 30  # GROUPING() takes 31 arguments in PostgreSQL
_ROWS_A_BATCH = 2**16  # cells that are fetched at once: half a megabyte


class RemoteTable(Protocol):
    """A table that stays where it is; queries of one opening see the same rows."""

    @property
    def source(self) -> str:
        """What stands after FROM."""

    def column(self, name: str) -> tuple[str, str]:
        """The SQL that names a column, and the engine's type of it; refuses unknown names."""

    def rows(self, query: str) -> list[Row]:
        """All rows that a query gives."""

    def stream(self, query: str, rows: int) -> Iterator[list[Row]]:
        """The same, in batches, for queries of as many rows as the table has."""

    def kinds_of(self, query: str) -> dict[str, str]:
        """The engine's type of every column of a query, by its name; no row is read."""


@dataclass(frozen=True)
class DerivedTable:
    """One row per person, worked out by the engine from the tables that it holds."""

    table: RemoteTable
    derived: DerivedRows
    kinds: Mapping[str, str]

    @property
    def source(self) -> str:
        return f"(\n{self.derived.sql}\n) AS derived"

    def column(self, name: str) -> tuple[str, str]:
        own = self.derived.column(name)
        return own, self.kinds[own]

    def rows(self, query: str) -> list[Row]:
        return self.table.rows(query)

    def stream(self, query: str, rows: int) -> Iterator[list[Row]]:
        return self.table.stream(query, rows)

    def kinds_of(self, query: str) -> dict[str, str]:
        return self.table.kinds_of(query)


class SqlCounter(Engine):
    """A counting engine that is asked in SQL."""

    dialect: Dialect

    @abstractmethod
    def opened(
        self, sources: Sequence[Source]
    ) -> AbstractContextManager[list[RemoteTable]]:
        """Tables that one query can read, for as long as they are asked."""

    @contextmanager
    def _table(
        self, source: Source, domain: Domain | None = None
    ) -> Iterator[RemoteTable]:
        """The table that is counted: as it is, or derived from several."""
        if domain is not None and domain.derived:
            sources = checked_sources(domain, source)
            with self.opened(list(sources.values())) as tables:
                opened = [Place(table.source, table.column) for table in tables]
                places = dict(zip(sources, opened, strict=True))
                rows = DerivedRows(domain, places, self.dialect)
                yield DerivedTable(tables[0], rows, tables[0].kinds_of(rows.sql))
            return

        if isinstance(source, Mapping):
            rule = "are several tables; the schema derives nothing from them"
            raise InvalidParameter("table", sorted(source), rule, "give one table")

        with self.opened([source]) as (table,):
            yield table

    def tables(self, source: Source, domain: Domain, wanted: Wanted) -> list[IntArray]:
        request = Request(domain, wanted)
        with self._table(source, domain) as table:
            totals = zero_totals(request)
            for first, query in self._queries(request, table):
                if not _fill(totals, request, first, table.rows(query)):
                    raise self._refusal(request, table)

        return request.answer(totals)

    def values(self, source: Source, column: str, unit: Unit | None) -> dict[str, int]:
        held = HeldValues(column, unit)
        with self._table(source) as table:
            query = held.query(table.column, self.dialect, table.source)
            return held.answer(table.rows(query))

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        with self._table(source) as table:
            held = HeldValues(column, unit)
            return held.query(table.column, self.dialect, table.source)

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        held = HeldRows(unit)
        with self._table(source) as table:
            inner = nested_stages(held.stages(table.column, self.dialect), table.source)
            people = f"SELECT {held.by_person}\nFROM (\n{inner}\n) AS k\nGROUP BY p"
            nameless = "CASE WHEN p IS NULL THEN 1 ELSE 0 END"
            query = f"SELECT {held.by_rows}\nFROM (\n{people}\n) AS q\nGROUP BY n, {nameless}"
            return held.answer(table.rows(query))

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        request = Request(domain, wanted)
        with self._table(source, domain) as table:
            return ";\n\n".join(query for _, query in self._queries(request, table))

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        """Rows leave the engine as cells alone."""
        request = self._of_rows(domain)
        with self._table(source, domain) as table:
            for batch in table.stream(self._cells_query(request, table), _ROWS_A_BATCH):
                codes = [row[0] for row in batch]
                if None in codes:
                    raise self._refusal(request, table)
                yield np.array(codes, dtype=np.int64)

    def _of_rows(self, domain: Domain) -> Request:
        """The question after the cell of every row."""
        domain.require_indexable()
        if domain.unit is not None:
            raise InvalidParameter(
                "unit", domain.unit.column, "bounds what is counted, not rows"
            )

        return Request(domain, [(domain.names, COUNT)])

    def _cells_query(self, request: Request, table: RemoteTable) -> str:
        code = f"CAST({request.joint_cell(request.domain.names)} AS BIGINT) AS c"
        return nested_stages(
            [self._coded(request, table), Stage((code,))], table.source
        )

    def _coded(self, request: Request, table: RemoteTable) -> Stage:
        coded = request.coded(table.column, self.dialect)
        if coded is None:
            raise no_sql()
        return coded

    def _queries(
        self, request: Request, table: RemoteTable
    ) -> Iterator[tuple[int, str]]:
        """Queries over some covers each, and the number of the first of these."""
        coded = self._coded(request, table)
        stages = [coded, *request.kept(self.dialect), request.joint]
        inner = nested_stages(stages, table.source)
        measures = [f"m{i}" for i in range(len(request.measures))]
        sums = [f"{self.dialect.total(m)} AS t{i}" for i, m in enumerate(measures)]

        covers = [f"c{i}" for i in range(len(request.covers))]
        for first in range(0, len(covers), _COVERS_A_QUERY):
            some = covers[first : first + _COVERS_A_QUERY]
            grouping = "0"
            by = ", ".join(some)
            if len(some) > 1:
                grouping = self.dialect.grouping(some)
                by = f"GROUPING SETS ({', '.join(f'({name})' for name in some)})"
            select = ", ".join([f"{grouping} AS g", *some, "count(*) AS n", *sums])
            yield first, f"SELECT {select}\nFROM (\n{inner}\n) AS k\nGROUP BY {by}"

    def _refusal(self, request: Request, table: RemoteTable) -> DomainError:
        stage, errors = request.refusals(table.column, self.dialect)
        return first_refusal(
            table.rows(nested_stages([stage], table.source))[0], errors
        )


def first_refusal(broken: Row, errors: Sequence[DomainError]) -> DomainError:
    """The error of the first rule that some row breaks."""
    found = [error for error, is_so in zip(errors, broken, strict=False) if is_so]
    changed = DomainError("the table changed while it was read; try again")
    return found[0] if found else changed


def zero_totals(request: Request) -> Totals:
    """Totals of every cover, before anything is counted."""
    return [
        {measure: np.zeros(request.cells(i), dtype=np.int64) for measure in measures}
        for i, measures in enumerate(request.measured)
    ]


def _fill(totals: Totals, request: Request, first: int, rows: Sequence[Row]) -> bool:
    """Put grouped counts into place; False where some value was refused."""
    some = min(_COVERS_A_QUERY, len(request.covers) - first)
    measures = [COUNT, *request.measures]
    for row in rows:
        group = int(row[0])
        codes = row[1 : 1 + some]
        numbers = row[1 + some :]
        # Bits of GROUPING tell, from the left, which covers are not grouped by.
        bits = f"{group:0{some}b}"
        place = bits.index("0")
        if codes[place] is None:
            return False
        measured: dict[Measure, int] = dict(
            zip(measures, map(int, numbers), strict=True)
        )
        for measure, total in totals[first + place].items():
            total[int(codes[place])] = measured[measure]

    return True
