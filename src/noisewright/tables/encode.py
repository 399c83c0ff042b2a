"""Columns of any type in the type that an attribute reads, by SQL or value by value.

In SQL only casts that cannot fail are used: a failing cast quotes the cell. Text that is no number,
date or truth value becomes NULL, that is, missing.

Columns of Python objects have no type but that of their values, and some types hold values that
engines fail on (instants beyond their calendar, text that is no UTF-8). Where one person's value
decided whether a table can be read, a refusal would tell of that person; so each value is taken by
itself here, and what becomes of it depends on no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisewright.arrays import FloatArray, ObjectArray
from noisewright.domain import columns
from noisewright.domain.attribute import Storage, Values

if TYPE_CHECKING:
    import narwhals
    from narwhals.typing import IntoSeries

# Some 146,000 years before and after 1970: outside whatever is declared, inside every calendar.
_FARTHEST = 2**62
_FARTHEST_DAY = _FARTHEST // columns.TICKS_A_DAY["us"]
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}
WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BIGNUM")
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "VARIANT")
FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_NULLS: dict[Storage, str] = {
    "text": "VARCHAR",
    "number": "DOUBLE",
    "boolean": "DOUBLE",
    "date": "DATE",
}
# An explicit offset makes the instant the same in every session; without one the text is taken as
# it is written.
_WITH_OFFSET = r"\d:\d\d[^a-zA-Z]*([zZ]|[+-]\d\d(:?\d\d)?)\s*$"


def read_as(column: str, kind: str, storage: Storage) -> str | None:
    """Return SQL for a column of DuckDB type `kind`, or None where the two do not go together."""
    if kind.startswith("ENUM"):
        column = f"CAST({column} AS VARCHAR)"
        kind = "VARCHAR"

    if kind == "VARCHAR":
        return _read_text(column, storage)
    if kind in ('"NULL"', "NULL"):
        return f"CAST(NULL AS {_NULLS[storage]})"
    base = kind.split("(")[0]
    if kind.endswith("]") or base in _NESTED:
        return None

    base = base.removeprefix("U")
    if storage == "text":
        return column if base in FRACTIONS else _written(column, kind)
    if storage == "date":
        return column if kind == "DATE" or kind.startswith("TIMESTAMP") else None

    is_number = base in WHOLE_NUMBERS or base in FRACTIONS or kind == "BOOLEAN"
    return f"CAST({column} AS DOUBLE)" if is_number else None


def _written(column: str, kind: str) -> str:
    """Write any simple value; instants beyond the calendar, on which casts fail, are missing."""
    text = f"CAST({column} AS VARCHAR)"
    # nanoseconds do not reach so far
    if not kind.startswith("TIMESTAMP") or kind.endswith("_NS"):
        return text
    first, end = (f"CAST('{day}' AS {kind})" for day in ("0001-01-01", "10000-01-01"))

    return f"CASE WHEN {column} >= {first} AND {column} < {end} THEN {text} END"


def _read_text(column: str, storage: Storage) -> str:
    if storage == "text":
        return column

    # `trim` also keeps DuckDB from pushing the cast into its CSV reader, where TRY_CAST turns into
    # a cast that fails on the first bad cell (seen in 2.0).
    text = f"trim({column})"
    number = f"TRY_CAST({text} AS DOUBLE)"
    if storage == "number":
        return number
    if storage == "boolean":
        return (
            f"CASE WHEN lower({text}) IN ('true', 't', 'yes', 'y') THEN 1.0 "
            f"WHEN lower({text}) IN ('false', 'f', 'no', 'n') THEN 0.0 ELSE {number} END"
        )

    return (
        f"CASE WHEN regexp_matches({text}, '{_WITH_OFFSET}') "
        f"THEN make_timestamp(epoch_us(TRY_CAST({text} AS TIMESTAMPTZ))) "
        f"ELSE TRY_CAST({text} AS TIMESTAMP) END"
    )


def python_objects(series: narwhals.Series[IntoSeries]) -> ObjectArray | None:
    """Return the values of a frame's column that is one of Python objects, else None."""
    native: Any = series.to_native()  # of pandas, polars or pyarrow
    kind = getattr(native, "dtype", None)
    # of pandas; those of polars are text
    categories = getattr(kind, "categories", None)
    named = getattr(categories, "dtype", None)
    if categories is not None and named == np.dtype(object):
        native = native.astype(object)
    elif not (columns.is_untyped(native) or str(kind) == "Object"):
        return None

    objects: ObjectArray = native.to_numpy()
    return objects


def read_objects(
    connection: duckdb.DuckDBPyConnection, values: ObjectArray, storage: Storage
) -> pa.Array:
    """Return Python objects as a column of the type that the storage needs.

    Text is read as in files and in columns of text, by the very same engine: a column may turn
    into one of objects by a single value, and the others must stay what they were.
    """
    if storage == "text":
        return columns.texts("", values)

    are_text = [isinstance(value, str) for value in values]
    written = [v if text else None for v, text in zip(values, are_text, strict=True)]
    others = [None if text else v for v, text in zip(values, are_text, strict=True)]
    parsed = _parsed(connection, columns.texts("", written), storage)
    read = _READERS[storage](others)

    return pc.coalesce(read, parsed.cast(read.type))


def _instants(values: Values) -> pa.Array:
    """Days as instants to the microsecond."""
    days = columns.days("", values)
    near = np.clip(np.nan_to_num(days), -_FARTHEST_DAY, _FARTHEST_DAY)
    ticks = near.astype(np.int64) * columns.TICKS_A_DAY["us"]
    read = pa.array(ticks, pa.int64(), mask=np.isnan(days))
    return read.cast(pa.timestamp("us"))


def _doubles(floats: FloatArray) -> pa.Array:
    return pa.array(floats, pa.float64(), mask=np.isnan(floats))


_READERS: dict[Storage, Callable[[Values], pa.Array]] = {
    "date": _instants,
    "number": lambda values: _doubles(columns.numbers("", values)),
    "boolean": lambda values: _doubles(columns.booleans("", values)),
}


def _parsed(
    connection: duckdb.DuckDBPyConnection, texts: pa.Array, storage: Storage
) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts))

    expression = read_as("#1", "VARCHAR", storage)
    relation = connection.from_arrow(pa.table({"c0": texts}))
    parsed = relation.project(f"{expression} AS c0").to_arrow_table()
    return parsed["c0"].combine_chunks()


def readable_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column whose values no engine fails on; its type stays of the same kind."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _as_utf8(column)

    if pa.types.is_time(kind):
        stored = pa.int32() if kind.bit_width == 32 else pa.int64()
        ticks = column.cast(stored).cast(pa.int64())
        ended = pc.less(ticks, columns.TICKS_A_DAY[kind.unit])
        inside = pc.and_(pc.greater_equal(ticks, 0), ended)
        return pc.if_else(inside, column, pa.scalar(None, kind))

    if pa.types.is_date64(kind):
        return _as_days(column)

    moment = pa.types.is_timestamp(kind)
    if not (moment or pa.types.is_duration(kind)) or kind.unit not in _MICROSECONDS:
        return column

    step = _MICROSECONDS[kind.unit]
    finer = pa.timestamp("us", kind.tz) if moment else pa.duration("us")
    return _nearest(column, _FARTHEST // step, step).cast(finer)


def _nearest(column: pa.ChunkedArray, limit: int, step: int) -> pa.ChunkedArray:
    """Ticks within the limits either side, in units `step` times as fine."""
    ticks = column.cast(pa.int64())
    inside = pc.min_element_wise(pc.max_element_wise(ticks, -limit), limit)
    nothing = pa.scalar(None, pa.int64())
    return pc.if_else(ticks.is_valid(), pc.multiply(inside, step), nothing)


def _as_days(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days that fit 32 bits, which engines cut milliseconds to without a look."""
    ticks = column.cast(pa.int64())
    days = np.floor_divide(ticks.fill_null(0).to_numpy(), columns.TICKS_A_DAY["ms"])
    near = np.clip(days, -_FARTHEST_DAY, _FARTHEST_DAY).astype(np.int32)
    nothing = pa.scalar(None, pa.date32())
    return pc.if_else(ticks.is_valid(), pa.array(near).cast(pa.date32()), nothing)


def _as_utf8(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return column

    binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    mended = [
        None if value is None else value.decode("utf-8", "replace")
        for chunk in column.chunks
        for value in chunk.view(binary).to_pylist()
    ]
    return pa.chunked_array([pa.array(mended, column.type)])
