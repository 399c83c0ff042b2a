"""Columns of a table as numbers, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from noisewright.arrays import FloatArray
from noisewright.errors import DomainError, withheld
from noisewright.planning.counting import Source
from noisewright.tables.backends.duckdb import Table, connect, open_table
from noisewright.tables.encode import read_as

_ROWS = 2**15
_FAILURES = (duckdb.Error, pa.ArrowException)


def numeric_rows(source: Source, names: Sequence[str]) -> Iterator[FloatArray]:
    """Rows of the named columns; what is missing or no number is NaN."""
    connection = connect()
    table = open_table(connection, source)
    table.require(names)
    chosen = ", ".join(_as_number(table, name) for name in names)
    failure = DomainError("the table could not be read to its end; check its format")
    reader = withheld(
        lambda: iter(table.relation.project(chosen).to_arrow_reader(_ROWS)),
        _FAILURES,
        failure,
    )

    while (
        batch := withheld(lambda: next(reader, None), _FAILURES, failure)
    ) is not None:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        yield np.column_stack(columns).astype(np.float64)


def _as_number(table: Table, name: str) -> str:
    """SQL for a column as numbers: none where its type has none."""
    place = f"#{table.position(name)}"
    return read_as(place, table.type(name), "number") or "CAST(NULL AS DOUBLE)"
