"""The cell of one value, found slowly and obviously."""

import datetime as dt
import math

from noisewright.domain import Attribute, Boolean, Categorical, Date, Numeric

REFUSED = -1


def cell_of(attribute: Attribute, value: object) -> int:
    """Return the value's cell, or REFUSED where the attribute's rule is `error`."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _other(attribute, attribute.missing)
    for cell in range(len(attribute.declared_labels)):
        if _holds(attribute, cell, value):
            return cell
    if attribute.outside == "clip":
        return 0 if _is_below(attribute, value) else len(attribute.declared_labels) - 1
    return _other(attribute, attribute.outside)


def _other(attribute: Attribute, rule: str | None) -> int:
    return len(attribute.declared_labels) if rule == "other" else REFUSED


def _holds(attribute: Attribute, cell: int, value) -> bool:
    if isinstance(attribute, Categorical):
        declared = attribute.values[cell]
        return (
            value == declared if isinstance(declared, int) else str(value) == declared
        )
    if isinstance(attribute, Boolean):
        return value == bool(cell)
    if isinstance(attribute, Numeric):
        low, high = attribute.edges[cell], attribute.edges[cell + 1]
        last = cell == len(attribute.edges) - 2
        return low <= value < high or (last and value == high)
    if isinstance(attribute, Date):
        day = _day(value)
        return attribute.first <= day <= attribute.last and (
            _period(day, attribute.period) == attribute.labels[cell]
        )
    raise TypeError(attribute)


def _is_below(attribute: Attribute, value) -> bool:
    return (
        _day(value) < attribute.first
        if isinstance(attribute, Date)
        else value < attribute.edges[0]
    )


def _day(value: dt.date | dt.datetime) -> dt.date:
    if isinstance(value, dt.datetime):
        return (value.astimezone(dt.UTC) if value.tzinfo else value).date()
    return value


def _period(day: dt.date, period: str) -> str:
    year, week, _ = day.isocalendar()
    return {
        "day": f"{day:%Y-%m-%d}",
        "week": f"{year}-W{week:02}",
        "month": f"{day:%Y-%m}",
        "quarter": f"{day.year}-Q{1 + (day.month - 1) // 3}",
        "year": f"{day:%Y}",
    }[period]
