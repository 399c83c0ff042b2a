"""Counting with DuckDB: one pass over the table, however many marginals are asked for.

DuckDB reads the columns and finds the cells by expressions (`tables.sql.expressions`); attributes
are grouped into few covers (`tables.sql.covers`), whose joint codes are streamed and counted by
`bincount`, which takes less time than grouping does: no codes are hashed. Where SQL cannot find the
very cells that Python finds, typed columns are streamed instead and encoded here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Attribute, Domain, Unit
from noisewright.domain.attribute import Storage
from noisewright.errors import DomainError, InvalidParameter, withheld
from noisewright.planning.counting import Source, Wanted
from noisewright.stages import advance
from noisewright.tables.backends.duckdb import Table, connect, open_table, unreadable
from noisewright.tables.backends.duckdb_dialect import DuckDBDialect
from noisewright.tables.encode import read_as
from noisewright.tables.engine import Engine
from noisewright.tables.sql.counter import Totals, first_refusal, zeros
from noisewright.tables.sql.derived import (
    DerivedRows,
    Place,
    checked_sources,
    storages_of,
)
from noisewright.tables.sql.expressions import cell, reached
from noisewright.tables.sql.held_values import HeldRows, HeldValues
from noisewright.tables.sql.request import (
    Request,
    Stage,
    nested,
    unit_storages,
    wrong_column,
)
from noisewright.workload.questions.measures import (
    Count,
    OfColumn,
    OfNumber,
    Respondents,
)

Codes = npt.NDArray[np.integer[Any]]

_CELLS_A_BATCH = 2**24  # rows × columns held as Arrow at once: some hundred MB of text
# sums of a batch, of 2^32 each at most, are then exact in doubles
_MOST_ROWS_A_BATCH = 2**20
_FAILURES = (duckdb.Error, pa.ArrowException, OSError)
_DIALECT = DuckDBDialect()


class DuckDBCounter(Engine):
    """Fills exact tables; `tables` is what a plan asks of a counting engine."""

    def tables(self, source: Source, domain: Domain, wanted: Wanted) -> list[IntArray]:
        """Return one flat array per table: a measure over the cells of a subset of attributes.

        Cells are in C order of the subset's own order of attributes; the empty subset is everybody.
        Values to sum are clipped and rounded as `Numeric.units` says, so that sums are exact
        integers. All tables come from one pass: a stream is gone after it, and a file may change.
        """
        request = Request(domain, wanted)
        with closing(connect()) as connection:
            table = _table(connection, source, request)
            totals = _counted(request, _rows(connection, table, request))
            if totals is None:
                raise _refusal(table, request)

        return request.answer(totals)

    def values(self, source: Source, column: str, unit: Unit | None) -> dict[str, int]:
        held = HeldValues(column, unit)
        with closing(connect()) as connection:
            table = _opened(connection, source, {column: "text", **unit_storages(unit)})
            relation = _chained(table.relation, held.stages(table.column, _DIALECT))
            counted = relation.aggregate(held.grouped)
            rows = withheld(counted.fetchall, _FAILURES, unreadable(table.description))

        return held.answer(rows)

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        with closing(connect()) as connection:
            table = _opened(connection, source, {column: "text", **unit_storages(unit)})
            return HeldValues(column, unit).query(table.column, _DIALECT, table.origin)

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        held = HeldRows(unit)
        with closing(connect()) as connection:
            table = _opened(connection, source, unit_storages(unit))
            named = _chained(table.relation, held.stages(table.column, _DIALECT))
            counted = named.aggregate(held.by_person).aggregate(held.by_rows)
            rows = withheld(counted.fetchall, _FAILURES, unreadable(table.description))

        return held.answer(rows)

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        request = Request(domain, wanted)
        with closing(connect()) as connection:
            table = _table(connection, source, request)
            coded = request.coded(table.column, _DIALECT)
            if coded is None:
                coded = Stage(
                    tuple(_typed(table, domain[name]) for name in request.columns)
                )
                return nested([coded], table.origin) + "\n-- cells are found in Python"
            stages = [coded, *request.kept(_DIALECT), request.joint]
            return nested(stages, table.origin)

    def codes(
        self, source: Source, domain: Domain, names: Sequence[str] | None = None
    ) -> Iterator[tuple[Codes, ...]]:
        """Yield batches of rows, in the table's order: the cell of every attribute asked for."""
        domain.require_reviewed()
        if domain.unit is not None:
            raise InvalidParameter(
                "unit", domain.unit.column, "bounds what is counted, not single rows"
            )

        chosen = list(dict.fromkeys(domain.names if names is None else names))
        with closing(connect()) as connection:
            table = _opened(connection, source, {n: domain[n].storage for n in chosen})
            expressions, ready = zip(
                *(_cell_or_value(table, domain[n]) for n in chosen), strict=True
            )
            for batch in _batches(
                table, _chained(table.relation, [Stage(expressions)])
            ):
                yield tuple(
                    _cells(domain[name], column, done)
                    for name, column, done in zip(
                        chosen, batch.columns, ready, strict=True
                    )
                )

    def numbers(
        self, source: Source, domain: Domain, names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Return raw values of numeric attributes, NaN where missing: as private as the data."""
        parts: dict[str, list[FloatArray]] = {name: [] for name in names}
        with closing(connect()) as connection:
            table = _opened(
                connection, source, {name: domain[name].storage for name in names}
            )
            stage = Stage(tuple(_typed(table, domain[name]) for name in names))
            for batch in _batches(table, _chained(table.relation, [stage])):
                for name, column in zip(names, batch.columns, strict=True):
                    parts[name].append(
                        column.to_numpy(zero_copy_only=False).astype(np.float64)
                    )

        return {
            name: np.concatenate([np.zeros(0), *pieces])
            for name, pieces in parts.items()
        }

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        """Yield batches of rows, in the table's order: the flat cell of the whole domain."""
        domain.require_indexable()
        for columns in self.codes(source, domain):
            yield _flat(columns, domain.shape, len(columns[0])).astype(np.int64)


Batch = tuple[int, list[Codes], Mapping[OfNumber, IntArray]]
"""Rows, the joint cell of every cover, and what people add to sums."""


def _table(
    connection: duckdb.DuckDBPyConnection, source: Source, request: Request
) -> Table:
    """The table that is counted: as it is, or derived from several."""
    if not request.domain.derived:
        return _opened(connection, source, request.storages)

    storages = storages_of(request.domain)
    places: dict[str, Place] = {}
    for name, own in checked_sources(request.domain, source).items():
        opened = _opened(connection, own, storages[name])
        view = f"table_{len(places)}"
        relation = opened.relation
        if isinstance(own, duckdb.DuckDBPyRelation):  # of a connection of its own
            relation = connection.from_arrow(own.to_arrow_table())
        withheld(
            partial(relation.create_view, view),
            _FAILURES,
            unreadable(opened.description),
        )
        places[name] = Place(view, opened.column)

    rows = DerivedRows(request.domain, places, _DIALECT)
    description = " and ".join(repr(name) for name in places)
    derived = withheld(
        lambda: connection.sql(rows.sql), _FAILURES, unreadable(description)
    )

    return Table(derived, rows.names, description, rows.sql)


def _opened(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    storages: Mapping[str, Storage],
) -> Table:
    table = open_table(connection, source, storages)
    table.require(list(storages))
    return table


def _counted(request: Request, batches: Iterator[Batch | None]) -> Totals | None:
    """Add up the measures of every cover, batch by batch; None where some value is refused."""
    totals = zeros(request)
    for batch in batches:
        if batch is None:
            return None
        rows, covers, contents = batch
        for own, codes in zip(totals, covers, strict=True):
            for measure, total in own.items():
                weights = None if isinstance(measure, Count) else contents[measure]
                _add(total, rows, codes, weights)

    return totals


def _add(total: IntArray, rows: int, codes: Codes, weights: IntArray | None) -> None:
    """Add the rows of a batch to the total of one cover."""
    if total.size == 1:
        total[0] += rows if weights is None else int(weights.sum())
    elif total.size > 4 * rows:  # touch only the cells that occur
        np.add.at(total, codes, 1 if weights is None else weights)
    elif weights is None:
        total += np.bincount(codes, minlength=total.size)
    else:
        total += np.rint(np.bincount(codes, weights, total.size)).astype(np.int64)


def _rows(
    connection: duckdb.DuckDBPyConnection, table: Table, request: Request
) -> Iterator[Batch | None]:
    """Joint codes and contents of the rows that count; None where some value is refused."""
    coded = request.coded(table.column, _DIALECT)
    if coded is not None:
        relation = _chained(table.relation, [coded])
    # whose rows count is known only once all have been read
    elif request.unit is not None:
        relation = connection.from_arrow(
            pa.Table.from_batches(_encoded(table, request))
        )
    else:
        for batch in _encoded(table, request):
            yield _joined(request, batch)
        return

    covers = len(request.covers)
    counted = _chained(relation, [*request.kept(_DIALECT), request.joint])
    for batch in _batches(table, counted, connection):
        if any(column.null_count for column in batch.columns):
            yield None
            return
        numbers = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        contents = dict(zip(request.measures, numbers[covers:], strict=True))
        yield batch.num_rows, numbers[:covers], contents


def _encoded(table: Table, request: Request) -> Iterator[pa.RecordBatch]:
    """Cells and contents as `Request.coded` has them, worked out here from typed columns."""
    domain = request.domain
    names = request.columns
    typed = [_typed(table, domain[name]) for name in names]
    if request.unit is not None:
        typed.append(request.person(table.column, _DIALECT))

    for batch in _batches(table, _chained(table.relation, [Stage(tuple(typed))])):
        columns = dict(zip(names, batch.columns, strict=False))
        cells = [_cells(domain[name], columns[name], False) for name in request.names]
        # joint cells are worked out by the engine: none may overflow
        if request.unit is not None:
            cells = [own.astype(np.int64) for own in cells]

        rows = {f"a{i}": own for i, own in enumerate(cells)}
        for i, m in enumerate(request.measures):
            contents = [_content(request, f, columns[f.attribute]) for f in m.factors]
            rows[f"m{i}"] = np.prod(contents, axis=0)

        if request.unit is not None:
            rows["p"] = batch.columns[-1]

        yield pa.RecordBatch.from_pydict(
            rows or {"a": np.zeros(batch.num_rows, dtype=np.int8)}
        )


def _content(request: Request, measure: OfColumn, column: pa.Array) -> IntArray:
    """What every person adds to a sum, from their value."""
    attribute = request.number(measure)
    if isinstance(measure, Respondents):
        held = attribute.holds(column)
        return reached(measure, held.astype(np.int64), held)
    return reached(measure, *attribute.held_units(column, measure.unit))


def _joined(request: Request, batch: pa.RecordBatch) -> Batch:
    """The joint cells of every cover, from the cells of every attribute."""
    columns = {name: batch.column(i).to_numpy() for i, name in enumerate(request.names)}
    joint = [
        _flat(
            [columns[n] for n in cover],
            [request.sizes[n] for n in cover],
            batch.num_rows,
        )
        for cover in request.covers
    ]
    contents = {
        m: batch.column(f"m{i}").to_numpy() for i, m in enumerate(request.measures)
    }

    return batch.num_rows, joint, contents


def _refusal(table: Table, request: Request) -> DomainError:
    """What to say of a table in which some row breaks a rule: a second look finds which one."""
    stage, errors = request.refusals(table.column, _DIALECT)
    relation = _chained(table.relation, [stage])
    broken = withheld(relation.fetchall, _FAILURES, unreadable(table.description))
    return first_refusal(broken[0], errors)


def _chained(
    relation: duckdb.DuckDBPyRelation, stages: Sequence[Stage]
) -> duckdb.DuckDBPyRelation:
    for stage in stages:
        relation = relation.project(", ".join(stage.select))
        relation = relation.filter(stage.where) if stage.where else relation
    return relation


def _batches(
    table: Table,
    relation: duckdb.DuckDBPyRelation,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream a relation; an engine's own exception quotes cells and never gets out."""
    rows = min(_MOST_ROWS_A_BATCH, max(2048, _CELLS_A_BATCH // len(relation.columns)))
    error = unreadable(table.description)
    reader = withheld(lambda: iter(relation.to_arrow_reader(rows)), _FAILURES, error)

    while (batch := withheld(lambda: next(reader, None), _FAILURES, error)) is not None:
        if connection is not None:
            advance(connection.query_progress() / 100)
        yield batch


def _cell_or_value(table: Table, attribute: Attribute) -> tuple[str, bool]:
    """SQL for the cell where there is such, else for the value; and which of the two it is."""
    typed = _DIALECT.read(*table.column(attribute.name), attribute.storage)
    expression = None if typed is None else cell(attribute, typed, _DIALECT)
    return (
        (_typed(table, attribute), False) if expression is None else (expression, True)
    )


def _typed(table: Table, attribute: Attribute) -> str:
    """Return SQL that reads the attribute's column in the type that the attribute encodes."""
    column, kind = table.column(attribute.name)
    expression = read_as(column, kind, attribute.storage)
    if expression is None:
        raise wrong_column(attribute.name, attribute.kind, kind)
    return expression


def _cells(attribute: Attribute, column: pa.Array, ready: bool) -> Codes:
    """Cells in the smallest type that holds them, which is what makes it quick."""
    if ready and column.null_count:
        raise attribute.refusal(
            "outside" if attribute.missing == "other" else "missing"
        )
    codes = column.to_numpy(zero_copy_only=False) if ready else attribute.encode(column)
    return np.asarray(codes).astype(np.min_scalar_type(attribute.size - 1))


def _flat(columns: Sequence[Codes], shape: Sequence[int], rows: int) -> Codes:
    kind = np.min_scalar_type(math.prod(shape))
    flat = columns[0].astype(kind) if columns else np.zeros(rows, dtype=kind)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        flat *= kind.type(size)
        flat += column
    return flat
