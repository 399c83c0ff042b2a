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
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Attribute, Domain, Unit
from noisewright.domain.attribute import Storage
from noisewright.errors import DomainError, InvalidParameter, withholding_causes
from noisewright.planning.counting import Source, Wanted
from noisewright.stages import advance
from noisewright.tables.backends.duckdb import (
    FAILURES,
    Table,
    chained_selections,
    connect,
    open_table,
    unreadable_file,
)
from noisewright.tables.backends.duckdb_dialect import DuckDBDialect
from noisewright.tables.encode import read_as
from noisewright.tables.engine import Engine
from noisewright.tables.sql.counter import Row, Totals, first_refusal, zero_totals
from noisewright.tables.sql.derived import (
    DerivedRows,
    Place,
    checked_sources,
    storages_of,
)
from noisewright.tables.sql.expressions import cell, clipped_contribution
from noisewright.tables.sql.held_values import HeldRows, HeldValues
from noisewright.tables.sql.request import (
    Request,
    Stage,
    nested_stages,
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
_LEAST_ROWS_A_BATCH = (
    2**11
)  # the engine works on as many at once, however many columns there are
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
        return held.answer(_grouped(source, held, held.grouped))

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        held = HeldValues(column, unit)
        with closing(connect()) as connection:
            table = _opened(connection, source, held.storages)
            return held.query(table.column, _DIALECT, table.origin)

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        held = HeldRows(unit)
        return held.answer(_grouped(source, held, held.by_person, held.by_rows))

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        request = Request(domain, wanted)
        with closing(connect()) as connection:
            table = _table(connection, source, request)
            coded = request.coded(table.column, _DIALECT)
            if coded is not None:
                stages = [coded, *request.kept(_DIALECT), request.joint]
                return nested_stages(stages, table.origin)

            typed = _values(table, [domain[name] for name in request.columns])
            return (
                nested_stages([typed], table.origin) + "\n-- cells are found in Python"
            )

    def codes(self, source: Source, domain: Domain) -> Iterator[tuple[Codes, ...]]:
        """Yield batches of rows, in the table's order: the cell of every attribute."""
        domain.require_reviewed()
        if domain.unit is not None:
            rule = "bounds what is counted, not single rows"
            raise InvalidParameter("unit", domain.unit.column, rule)

        storages = {attribute.name: attribute.storage for attribute in domain}
        with closing(connect()) as connection:
            table = _opened(connection, source, storages)
            finders = [_Finder.of(table, attribute) for attribute in domain]
            stage = Stage(tuple(finder.sql for finder in finders))
            for batch in _batches(table, table.chained([stage])):
                columns = zip(finders, batch.columns, strict=True)
                yield tuple(finder.cells(column) for finder, column in columns)

    def numbers(
        self, source: Source, domain: Domain, names: Sequence[str]
    ) -> dict[str, FloatArray]:
        """Return raw values of numeric attributes, NaN where missing: as private as the data."""
        attributes = [domain[name] for name in names]
        storages = {attribute.name: attribute.storage for attribute in attributes}
        with closing(connect()) as connection:
            table = _opened(connection, source, storages)
            relation = table.chained([_values(table, attributes)])
            columns = table.asked(relation.to_arrow_table).columns

        numbers = [column.to_numpy().astype(np.float64) for column in columns]
        return dict(zip(names, numbers, strict=True))

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        domain.require_indexable()
        for columns in self.codes(source, domain):
            rows = len(columns[0])
            yield _flat(columns, domain.shape, rows).astype(np.int64)


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
        opened.asked(partial(relation.create_view, view))
        places[name] = Place(view, opened.column)

    rows = DerivedRows(request.domain, places, _DIALECT)
    description = " and ".join(repr(name) for name in places)
    error = unreadable_file(description)
    derived = withholding_causes(lambda: connection.sql(rows.sql), FAILURES, error)

    return Table(derived, rows.names, description, rows.sql)


def _grouped(
    source: Source, held: HeldValues | HeldRows, *aggregates: str
) -> list[Row]:
    """What people hold, grouped by the engine."""
    with closing(connect()) as connection:
        table = _opened(connection, source, held.storages)
        relation = table.chained(held.stages(table.column, _DIALECT))
        for aggregate in aggregates:
            relation = relation.aggregate(aggregate)
        return table.asked(relation.fetchall)


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
    totals = zero_totals(request)
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
        sums = np.bincount(codes, weights, total.size)
        total += np.rint(sums).astype(np.int64)


def _rows(
    connection: duckdb.DuckDBPyConnection, table: Table, request: Request
) -> Iterator[Batch | None]:
    """Joint codes and contents of the rows that count; None where some value is refused."""
    coded = request.coded(table.column, _DIALECT)
    if coded is None and request.unit is None:
        for batch in _encoded(table, request):
            yield _joined(request, batch)
        return

    if coded is not None:
        relation = table.chained([coded])
    else:  # whose rows count is known only once all have been read
        encoded = pa.Table.from_batches(_encoded(table, request))
        relation = connection.from_arrow(encoded)

    covers = len(request.covers)
    counted = chained_selections(relation, [*request.kept(_DIALECT), request.joint])
    for batch in _batches(table, counted, connection):
        if any(column.null_count for column in batch.columns):
            yield None
            return

        numbers = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        codes, sums = numbers[:covers], numbers[covers:]
        yield batch.num_rows, codes, dict(zip(request.measures, sums, strict=True))


def _encoded(table: Table, request: Request) -> Iterator[pa.RecordBatch]:
    """Cells and contents as `Request.coded` has them, worked out here from typed columns."""
    names = request.columns
    attributes = [request.domain[name] for name in names]
    typed = _values(table, attributes).select
    if request.unit is not None:
        typed = (*typed, request.person(table.column, _DIALECT))

    for batch in _batches(table, table.chained([Stage(typed)])):
        columns = dict(zip(names, batch.columns, strict=False))
        rows: dict[str, pa.Array | Codes] = {}
        for i, name in enumerate(request.names):
            attribute = request.domain[name]
            cells = _smallest(attribute, attribute.encode(columns[name]))
            # joint cells of people are worked out by the engine: none may overflow
            rows[f"a{i}"] = cells if request.unit is None else cells.astype(np.int64)

        for i, measure in enumerate(request.measures):
            factors = measure.factors
            contents = [_content(request, f, columns[f.attribute]) for f in factors]
            rows[f"m{i}"] = np.prod(contents, axis=0)

        if request.unit is not None:
            rows["p"] = batch.columns[-1]

        everybody = {"a": np.zeros(batch.num_rows, dtype=np.int8)}
        yield pa.RecordBatch.from_pydict(rows or everybody)


def _content(request: Request, measure: OfColumn, column: pa.Array) -> IntArray:
    """What every person adds to a sum, from their value."""
    attribute = request.number(measure)
    if isinstance(measure, Respondents):
        held = attribute.holds(column)
        return clipped_contribution(measure, held.astype(np.int64), held)
    return clipped_contribution(measure, *attribute.held_units(column, measure.unit))


def _joined(request: Request, batch: pa.RecordBatch) -> Batch:
    """The joint cells of every cover, from the cells of every attribute."""
    columns = [column.to_numpy() for column in batch.columns]
    cells = dict(zip(request.names, columns, strict=False))
    contents = columns[len(request.names) :]
    joint = []
    for cover in request.covers:
        own = [cells[name] for name in cover]
        shape = [request.sizes[name] for name in cover]
        joint.append(_flat(own, shape, batch.num_rows))

    sums = dict(zip(request.measures, contents, strict=False))
    return batch.num_rows, joint, sums


def _refusal(table: Table, request: Request) -> DomainError:
    """What to say of a table in which some row breaks a rule: a second look finds which one."""
    stage, errors = request.refusals(table.column, _DIALECT)
    broken = table.asked(table.chained([stage]).fetchall)
    return first_refusal(broken[0], errors)


def _batches(
    table: Table,
    relation: duckdb.DuckDBPyRelation,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[pa.RecordBatch]:
    """Stream a relation in batches of a bounded size, and tell how far it is."""
    rows = _CELLS_A_BATCH // len(relation.columns)
    rows = min(_MOST_ROWS_A_BATCH, max(_LEAST_ROWS_A_BATCH, rows))
    for batch in table.batches(relation, rows):
        if connection is not None:
            advance(connection.query_progress() / 100)
        yield batch


@dataclass(frozen=True)
class _Finder:
    """How the cells of an attribute are found: by the engine where it can, else from values."""

    attribute: Attribute
    sql: str
    by_engine: bool

    @classmethod
    def of(cls, table: Table, attribute: Attribute) -> _Finder:
        typed = _DIALECT.read(*table.column(attribute.name), attribute.storage)
        expression = None if typed is None else cell(attribute, typed, _DIALECT)
        if expression is not None:
            return cls(attribute, expression, True)
        return cls(attribute, _typed(table, attribute), False)

    def cells(self, column: pa.Array) -> Codes:
        """The cells of what the engine gave."""
        if not self.by_engine:
            return _smallest(self.attribute, self.attribute.encode(column))
        if column.null_count:
            outside = self.attribute.missing == "other"
            raise self.attribute.refusal("outside" if outside else "missing")
        return _smallest(self.attribute, column.to_numpy(zero_copy_only=False))


def _smallest(attribute: Attribute, cells: Codes) -> Codes:
    """Cells in the smallest type that holds them, which is what makes it quick."""
    kind = np.min_scalar_type(attribute.size - 1)
    return cells.astype(kind)


def _values(table: Table, attributes: Sequence[Attribute]) -> Stage:
    return Stage(tuple(_typed(table, attribute) for attribute in attributes))


def _typed(table: Table, attribute: Attribute) -> str:
    """Return SQL that reads the attribute's column in the type that the attribute encodes."""
    column, kind = table.column(attribute.name)
    expression = read_as(column, kind, attribute.storage)
    if expression is None:
        raise wrong_column(attribute.name, attribute.kind, kind)
    return expression


def _flat(columns: Sequence[Codes], shape: Sequence[int], rows: int) -> Codes:
    kind = np.min_scalar_type(math.prod(shape))
    flat = columns[0].astype(kind) if columns else np.zeros(rows, dtype=kind)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        flat *= kind.type(size)
        flat += column

    return flat
