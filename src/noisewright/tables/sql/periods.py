"""Calendar periods as SQL: which day, week, month, quarter or year holds a day."""

from __future__ import annotations

import datetime as dt

from noisewright.domain.unit import PeriodName
from noisewright.tables.sql.dialect import Dialect

_LAST_DAY = dt.date(9998, 12, 31)  # of which Python still knows the day after


def literal(day: dt.date) -> str:
    """A day as it is written."""
    return f"DATE '{day.isoformat()}'"


def index_of_period(
    first: dt.date, last: dt.date, period: PeriodName, day: str, dialect: Dialect
) -> str:
    """The calendar period of a day up to the last, counted from that of the first day."""
    if period == "day":
        return dialect.days_between(first, day)

    if period == "week":
        since_monday = f"({dialect.days_between(first, day)} + {first.weekday()})"
        return dialect.quotient(since_monday, 7)

    year = dialect.part("year", day)
    if period == "year":
        return f"{year} - {first.year}"

    parts = 4 if period == "quarter" else 12
    own = (first.month - 1) // 3 if period == "quarter" else first.month - 1
    place = dialect.part("quarter" if period == "quarter" else "month", day)
    if first.year == last.year:
        return f"{place} - {own + 1}"

    return f"({year} - {first.year}) * {parts} + {place} - {own + 1}"


def period_number(per: PeriodName, day: str, dialect: Dialect) -> str:
    """The number of the period that holds a day, NULL beyond the years 1 to 9998."""
    first = dt.date(1, 1, 1)  # a Monday
    inside = f"{day} >= {literal(first)} AND {day} <= {literal(_LAST_DAY)}"
    return f"CASE WHEN {inside} THEN {index_of_period(first, _LAST_DAY, per, day, dialect)} END"
