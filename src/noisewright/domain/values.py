"""Single Python values as number, truth value, date or text; whatever is none of them is missing.

No value fails: one person's must not decide whether a table is read.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

_Result = TypeVar("_Result")
_EPOCH = dt.date(1970, 1, 1)
_WORDS = dict.fromkeys(("true", "t", "yes", "y"), 1.0) | dict.fromkeys(("false", "f", "no", "n"), 0)


def number(value: Any) -> float:
    """Return the value as a number, NaN where it is none."""
    return _tried(_number, value, math.nan)


def truth(value: Any) -> float:
    """Return 0 or 1, NaN where the value is no truth value."""
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    read = number(value) if word is None else word
    return read if read in (0.0, 1.0) else math.nan


def day(value: Any) -> float:
    """Return whole days since 1970-01-01, NaN where the value is no date."""
    return _tried(_day, value, math.nan)


def text_or_float(value: Any) -> str | float | None:
    """Return the value as text, a fraction as it is, None where the value is no simple one."""
    return _tried(_text, value, None)


def _tried(read: Callable[[Any], _Result], value: Any, missing: _Result) -> _Result:
    # Any failure: comparisons, conversions and calendars fail in ways of their own.
    try:
        if value is None or bool(value != value):  # NaN and NaT; NA cannot even be compared
            return missing
        return read(value)
    except Exception:
        return missing


def _number(value: Any) -> float:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    if isinstance(value, str | float | Decimal):
        return float(value)
    return math.nan


def _day(value: Any) -> float:
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[D]").astype(np.int64))
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.strip())
    if isinstance(value, dt.datetime):
        value = _in_utc(value).date()
    return float((value - _EPOCH).days) if isinstance(value, dt.date) else math.nan


def _text(value: Any) -> str | float | None:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        zone = "" if value.tzinfo is None else "+00"
        return _moment(_in_utc(value)) + zone
    if isinstance(value, int | dt.date | dt.time | uuid.UUID):
        return str(value)
    return None


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC)


def _moment(value: dt.datetime) -> str:
    """Write a moment as columns of them are written: no fraction where there is none."""
    whole = f"{value.year:04}-{value.month:02}-{value.day:02} "
    whole += f"{value.hour:02}:{value.minute:02}:{value.second:02}"
    fraction = f"{value.microsecond:06}{getattr(value, 'nanosecond', 0):03}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
