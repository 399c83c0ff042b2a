"""Counting with DuckDB: one pass over the table, however many marginals are asked for.

DuckDB reads, types and streams the columns; cells are found by vectorised lookups, the same code
that encodes values everywhere else; each marginal is then one `bincount` of small integer codes.
Counting in SQL (GROUPING SETS over codes written by hand for one table, with casts that may fail)
is quicker for a few marginals, by a tenth to a third, and several times slower for thousands;
`benchmarks/counting.py` prints the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisewright.domain import Attribute, Domain, Numeric
from noisewright.errors import DomainError, InvalidParameter, TooLarge, withheld
from noisewright.planning.counting import Source
from noisewright.tables.duckdb import Table, connect, open_table, unreadable
from noisewright.tables.encode import read_as
from noisewright.workload.measures import COUNT, Count, Measure, OfNumber

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

_MOST_CELLS = 2**27  # one GiB of counts
_CELLS_A_BATCH = 2**24  # rows × columns held as Arrow at once: some hundred MB of text
_MOST_ROWS_A_BATCH = 2**20
_FAILURES = (duckdb.Error, pa.ArrowException, OSError)


class DuckDBCounter:
    """Fills exact tables; `tables` is what a plan asks of a counting engine."""

    def tables(
        self, source: Source, domain: Domain, wanted: Sequence[tuple[tuple[str, ...], Measure]]
    ) -> list[Counts]:
        """Return one flat array per table: a measure over the cells of a subset of attributes.

        Cells are in C order of the subset's own order of attributes; the empty subset is everybody.
        Values to sum are clipped and rounded as `Numeric.units` says, so that sums are exact
        integers. All tables come from one pass: a stream is gone after it, and a file may change.
        """
        shapes, totals = _tables(domain, [subset for subset, _ in wanted])
        sums = {measure for _, measure in wanted if not isinstance(measure, Count)}
        names = dict.fromkeys(name for subset, _ in wanted for name in subset)
        values = {measure.attribute for measure in sums}
        for rows, columns in _columns(source, domain, [*names, *values]):
            codes = {name: _encode(domain[name], columns[name]) for name in names}
            centred = {m: _centred(domain, m, columns[m.attribute]) for m in sums}
            for (subset, measure), shape, total in zip(wanted, shapes, totals, strict=True):
                own = [codes[name] for name in subset]
                if not isinstance(measure, Count):
                    np.add.at(total, _flat(own, shape, rows), centred[measure])
                else:
                    _add(total, rows, own, shape)
        return totals

    def marginals(
        self, source: Source, domain: Domain, subsets: Sequence[tuple[str, ...]]
    ) -> list[Counts]:
        """Return one flat array of counts of people per subset of attributes."""
        return self.tables(source, domain, [(subset, COUNT) for subset in subsets])

    def codes(
        self, source: Source, domain: Domain, names: Sequence[str] | None = None
    ) -> Iterator[tuple[Codes, ...]]:
        """Yield batches of rows, in the table's order: the cell of every attribute asked for."""
        chosen = domain.names if names is None else names
        for _, columns in _columns(source, domain, chosen):
            yield tuple(_encode(domain[name], columns[name]) for name in chosen)

    def cells(self, source: Source, domain: Domain) -> Iterator[Counts]:
        """Yield batches of rows, in the table's order: the flat cell of the whole domain."""
        domain.require_indexable()
        for columns in self.codes(source, domain):
            yield _flat(columns, domain.shape, len(columns[0])).astype(np.int64)


def _tables(
    domain: Domain, subsets: Sequence[tuple[str, ...]]
) -> tuple[list[tuple[int, ...]], list[Counts]]:
    """Return the shapes of the marginals and zeros to fill them with."""
    shapes = [_shape(domain, subset) for subset in subsets]
    cells = sum(math.prod(shape) for shape in shapes)
    if cells > _MOST_CELLS:
        raise TooLarge(
            f"the marginals have {cells} cells together, more than {_MOST_CELLS}; "
            "ask for smaller marginals or for fewer at once"
        )
    return shapes, [np.zeros(math.prod(shape), dtype=np.int64) for shape in shapes]


def _shape(domain: Domain, subset: Sequence[str]) -> tuple[int, ...]:
    if len(set(subset)) < len(subset):
        raise InvalidParameter("marginal", subset, "must not name an attribute twice")
    return tuple(domain[name].size for name in subset)


def _centred(domain: Domain, measure: OfNumber, column: pa.Array) -> Counts:
    attribute = domain[measure.attribute]
    if not isinstance(attribute, Numeric):
        raise InvalidParameter("value", measure.attribute, "must be a numeric attribute")
    centred = measure.content(attribute.units(column, measure.unit))
    # Nobody may move a cell by more than the noise is for, whatever bounds the schema has.
    return np.asarray(np.clip(centred, -measure.reach, measure.reach))


def _add(total: Counts, rows: int, columns: Sequence[Codes], shape: tuple[int, ...]) -> None:
    """Add the rows of a batch to the counts of one marginal."""
    if not columns:
        total[0] += rows
    elif total.size <= 4 * rows:
        total += np.bincount(_flat(columns, shape, rows), minlength=total.size)
    else:  # more cells than rows: touch only those that occur
        np.add.at(total, _flat(columns, shape, rows), 1)


def _flat(columns: Sequence[Codes], shape: tuple[int, ...], rows: int) -> Codes:
    """Return flat cells in the smallest type that holds them, which is what makes it quick."""
    kind = np.min_scalar_type(math.prod(shape))
    flat = columns[0].astype(kind) if columns else np.zeros(rows, dtype=kind)
    for column, size in zip(columns[1:], shape[1:], strict=True):
        flat *= kind.type(size)
        flat += column
    return flat


def _encode(attribute: Attribute, column: pa.Array) -> Codes:
    return attribute.encode(column).astype(np.min_scalar_type(attribute.size - 1))


def _columns(
    source: Source, domain: Domain, names: Iterable[str]
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the number of rows of a batch and the columns of the attributes named."""
    domain.require_reviewed()
    attributes = [domain[name] for name in dict.fromkeys(names)]
    storages = {attribute.name: attribute.storage for attribute in attributes}
    with closing(connect()) as connection:
        table = open_table(connection, source, storages)
        table.require(list(storages))
        typed = [_typed(table, attribute) for attribute in attributes]
        for batch in _batches(table, typed or ["TRUE"]):
            yield batch.num_rows, dict(zip(storages, batch.columns, strict=False))


def _batches(table: Table, expressions: list[str]) -> Iterator[pa.RecordBatch]:
    """Stream the expressions; an engine's own exception quotes cells and never gets out."""
    selected = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(expressions))
    rows = min(_MOST_ROWS_A_BATCH, max(2048, _CELLS_A_BATCH // len(expressions)))
    error = unreadable(table.description)
    reader = withheld(
        lambda: iter(table.relation.project(selected).to_arrow_reader(rows)), _FAILURES, error
    )
    while (batch := withheld(lambda: next(reader, None), _FAILURES, error)) is not None:
        yield batch


def _typed(table: Table, attribute: Attribute) -> str:
    """Return SQL that reads the attribute's column in the type that the attribute encodes."""
    kind = table.type(attribute.name)
    expression = read_as(f"#{table.position(attribute.name)}", kind, attribute.storage)
    if expression is None:
        raise DomainError(
            f"attribute {attribute.name!r} is declared as {attribute.kind}, but its column has the "
            f"type {kind}; convert the column or correct the schema"
        )
    return expression
