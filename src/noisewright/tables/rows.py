"""Columns of a table as numbers, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.planning.counting import Source
from noisewright.tables.backends.duckdb import Table, connect, open_table
from noisewright.tables.encode import read_as

_ROWS = 2**15
"""Of a batch: 256 kB a column, which stay near the processor while products are summed."""


def numeric_rows(source: Source, names: Sequence[str]) -> Iterator[FloatArray]:
    """Rows of the named columns; what is missing or no number is NaN."""
    table = open_table(connect(), source)
    table.require(names)
    chosen = ", ".join(_as_number(table, name) for name in names)

    for batch in table.batches(table.relation.project(chosen), _ROWS):
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        yield np.column_stack(columns).astype(np.float64)


def _as_number(table: Table, name: str) -> str:
    """SQL for a column as numbers: none where its type has none."""
    return read_as(*table.column(name), "number") or "CAST(NULL AS DOUBLE)"
