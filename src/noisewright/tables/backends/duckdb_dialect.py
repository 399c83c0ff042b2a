"""DuckDB's SQL for cells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from noisewright.domain.attribute import Storage
from noisewright.tables.encode import FRACTIONS, WHOLE_NUMBERS, read_as
from noisewright.tables.sql.dialect import Dialect, Typed

_MOST_NUMBERS = 256  # a list is searched from its beginning


class DuckDBDialect(Dialect):
    """Casts that cannot fail, ENUM types for texts; it has no search in a list."""

    def whole(self, number: str) -> str:
        return f"TRY_CAST({number} AS BIGINT)"

    def read(self, column: str, kind: str, storage: Storage) -> Typed | None:
        sql = read_as(column, kind, storage)
        base = kind.split("(")[0]
        if sql is None:
            return None
        if storage == "text":
            return Typed(sql, "unwritten" if base in FRACTIONS else "text")
        if storage == "date" and kind.endswith("_NS"):
            # casts round the last nanoseconds into the next day
            return Typed(sql, "unwritten")
        if storage == "date":
            return Typed(column if kind == "DATE" else f"CAST({sql} AS DATE)", "day")
        if storage == "number" and base.removeprefix("U") in WHOLE_NUMBERS:
            return Typed(column, "whole")
        if storage == "boolean" and kind == "BOOLEAN":
            return Typed(column, "truth")

        return Typed(sql, "double")

    def find(self, literals: Sequence[str], value: str) -> str | None:
        if literals[0].startswith("'"):
            return f"CAST(enum_code(TRY_CAST({value} AS ENUM({', '.join(literals)}))) AS BIGINT)"
        if len(literals) > _MOST_NUMBERS:
            return None
        return f"list_position([{', '.join(literals)}], {value}) - 1"

    def element(self, literals: Sequence[str], position: str) -> str | None:
        return f"([{', '.join(literals)}])[{position} + 1]"

    def quotient(self, whole: str, divisor: int) -> str:
        return f"{whole} // {divisor}"

    def days_between(self, first: dt.date, day: str) -> str:
        return f"CAST({day} - DATE '{first.isoformat()}' AS BIGINT)"

    def person(self, column: str, kind: str) -> str | None:
        named = kind.startswith("ENUM") or kind in ("VARCHAR", "UUID")
        known = named or kind.removeprefix("U") in WHOLE_NUMBERS
        return self.written(column) if known else None

    def ordering(self, column: str, kind: str) -> str:
        return self.written(column) if kind.startswith("ENUM") else column

    def round_even(self, number: str) -> str:
        return f"round_even({number}, 0)"
