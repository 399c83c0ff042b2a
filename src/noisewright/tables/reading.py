"""SQL that reads a column of any type as text, number, truth value or date.

Only casts that cannot fail are used: a failing cast quotes the cell. Text that is no number, date
or truth value becomes NULL, that is, missing.
"""

from __future__ import annotations

from noisewright.domain.attribute import Storage

_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BIGNUM")
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_NULLS = {"text": "VARCHAR", "number": "DOUBLE", "boolean": "DOUBLE", "date": "DATE"}
# An explicit offset makes the instant the same in every session; without one the text is taken as
# it is written.
_WITH_OFFSET = r"\d:\d\d[^a-zA-Z]*([zZ]|[+-]\d\d(:?\d\d)?)\s*$"


def read_as(column: str, kind: str, storage: Storage) -> str | None:
    """Return SQL for a column of DuckDB type `kind`, or None where the two do not go together."""
    if kind.startswith("ENUM"):
        column, kind = f"CAST({column} AS VARCHAR)", "VARCHAR"
    if kind == "VARCHAR":
        return _read_text(column, storage)
    if kind in ('"NULL"', "NULL"):
        return f"CAST(NULL AS {_NULLS[storage]})"
    if kind.endswith("]") or kind.split("(")[0] in ("STRUCT", "MAP", "UNION", "BLOB", "VARIANT"):
        return None
    base = kind.split("(")[0].removeprefix("U")
    if storage == "text":
        return column if base in _FRACTIONS else _written(column, kind)
    if storage == "date":
        return column if kind == "DATE" or kind.startswith("TIMESTAMP") else None
    is_number = base in _WHOLE_NUMBERS or base in _FRACTIONS or kind == "BOOLEAN"
    return f"CAST({column} AS DOUBLE)" if is_number else None


def _written(column: str, kind: str) -> str:
    """Write any simple value; instants beyond the calendar, on which casts fail, are missing."""
    text = f"CAST({column} AS VARCHAR)"
    if not kind.startswith("TIMESTAMP") or kind.endswith("_NS"):  # nanoseconds do not reach so far
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
