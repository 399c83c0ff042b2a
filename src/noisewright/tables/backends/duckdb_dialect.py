"""DuckDB's SQL for cells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Literal

from noisewright.domain.attribute import Storage
from noisewright.tables.encode import FRACTIONS, WHOLE_NUMBERS, read_as
from noisewright.tables.sql.expressions import Typed

_MOST_NUMBERS = 256  # a list is searched from its beginning


class DuckDBDialect:
    """Casts that cannot fail, ENUM types for texts; it has no search in a list."""

    double = "DOUBLE"

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

    def text(self, value: str) -> str | None:
        return None if "\0" in value else "'" + value.replace("'", "''") + "'"

    def is_nan(self, number: str) -> str:
        return f"isnan({number})"

    def find(self, literals: Sequence[str], value: str) -> str | None:
        if literals[0].startswith("'"):
            return f"CAST(enum_code(TRY_CAST({value} AS ENUM({', '.join(literals)}))) AS BIGINT)"
        if len(literals) > _MOST_NUMBERS:
            return None
        return f"list_position([{', '.join(literals)}], {value}) - 1"

    def element(self, literals: Sequence[str], position: str) -> str | None:
        return f"([{', '.join(literals)}])[{position} + 1]"

    def search(self, literals: Sequence[str], number: str) -> str | None:
        return None

    def quotient(self, whole: str, divisor: int) -> str:
        return f"{whole} // {divisor}"

    def days_between(self, first: dt.date, day: str) -> str:
        return f"CAST({day} - DATE '{first.isoformat()}' AS BIGINT)"

    def part(self, name: Literal["year", "quarter", "month"], day: str) -> str:
        return f"{name}({day})"

    def person(self, column: str, kind: str) -> str | None:
        if kind.startswith("ENUM") or kind in ("VARCHAR", "UUID"):
            return f"CAST({column} AS VARCHAR)"
        return (
            f"CAST({column} AS VARCHAR)"
            if kind.removeprefix("U") in WHOLE_NUMBERS
            else None
        )

    def ordering(self, column: str, kind: str) -> str:
        return f"CAST({column} AS VARCHAR)" if kind.startswith("ENUM") else column

    def digest(self, parts: Sequence[str]) -> str:
        return f"md5(concat_ws(',', {', '.join(map(self.written, parts))}))"

    def written(self, whole: str) -> str:
        return f"CAST({whole} AS VARCHAR)"

    def total(self, whole: str) -> str:
        return f"sum({whole})"

    def grouping(self, columns: Sequence[str]) -> str:
        return f"GROUPING({', '.join(columns)})"

    def round_even(self, number: str) -> str:
        return f"round_even({number}, 0)"
