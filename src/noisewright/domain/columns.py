"""Columns of any origin as Arrow arrays of the one type an attribute reads.

Arrow's own conversion errors quote cells, so they never leave this file. A column that has a type
of its own (Arrow, numpy) is refused where that type is wrong, whatever its values. One that has
none, a list of Python values, is read value by value, so that what becomes of a person's value
never depends on the values of others: whatever is no number, truth value, date or text is missing,
and no value fails.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisewright.arrays import FloatArray
from noisewright.domain.attribute import Values
from noisewright.errors import DomainError, withheld

_Result = TypeVar("_Result")
_EPOCH = dt.date(1970, 1, 1)
_TICKS_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EXACT_INTEGERS = 2.0**53
_WORDS = dict.fromkeys(("true", "t", "yes", "y"), 1.0) | dict.fromkeys(
    ("false", "f", "no", "n"), 0
)


def arrow(name: str, values: Values) -> pa.Array:
    """Return any sequence as one Arrow array, NaN read as missing."""
    if isinstance(values, pa.ChunkedArray):
        array = values.combine_chunks()
    elif isinstance(values, pa.Array):
        array = values
    else:
        array = withheld(
            lambda: pa.array(values, from_pandas=True),
            (pa.ArrowException, TypeError, ValueError, OverflowError),
            DomainError(
                f"attribute {name!r}: its values must all be of one simple type "
                "(text, numbers, truth values or dates)"
            ),
        )

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()

    return array


def is_untyped(values: Values) -> bool:
    """Whether the values have no type in common but that of Python's objects."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return False
    kind = getattr(values, "dtype", None)
    return kind is None or kind == np.dtype(object)


def numbers(name: str, values: Values) -> FloatArray:
    """Return the column as 64-bit floats, NaN where missing."""
    if is_untyped(values):
        quick = _inferred(
            values, pa.types.is_integer, pa.types.is_floating, pa.types.is_null
        )
        if quick is None:
            return np.array([number_of(value) for value in values], dtype=np.float64)
        values = quick

    array = arrow(name, values)
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (_is_number(kind) or pa.types.is_null(kind)):
        raise _wrong_type(name, "numbers")

    return _floats(array.cast(pa.float64(), safe=False))


def texts(name: str, values: Values) -> pa.Array:
    """Return the column as text; a whole number is written without a decimal point."""
    if is_untyped(values):
        quick = _inferred(
            values, pa.types.is_string, pa.types.is_int64, pa.types.is_null
        )
        return _texts_of(values) if quick is None else quick.cast(pa.string())

    array = arrow(name, values)
    kind = array.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _float_texts(array.cast(pa.float64(), safe=False))
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind):
        raise _wrong_type(name, "text")

    wrong = _wrong_type(name, "text")
    return withheld(lambda: array.cast(pa.string()), pa.ArrowException, wrong)


def _texts_of(values: Iterable[object]) -> pa.Array:
    """Values one by one; floats together, by the rules for columns of them."""
    simple = [_tried(_text, value, None) for value in values]
    fractions = [value if isinstance(value, float) else None for value in simple]
    written = [value if isinstance(value, str) else None for value in simple]
    return pc.coalesce(
        pa.array(written, pa.string()), _float_texts(pa.array(fractions, pa.float64()))
    )


def _float_texts(array: pa.Array) -> pa.Array:
    whole = pc.and_(
        pc.equal(array, pc.floor(array)), pc.less_equal(pc.abs(array), _EXACT_INTEGERS)
    )
    as_integer = pc.if_else(whole, array, None).cast(pa.int64(), safe=False)
    missing = pc.is_null(array, nan_is_null=True)
    text = pc.coalesce(as_integer.cast(pa.string()), array.cast(pa.string()))

    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def booleans(name: str, values: Values) -> FloatArray:
    """Return the column as 0 and 1, NaN where missing; any other number counts as missing."""
    if is_untyped(values):
        return np.array([truth_of(value) for value in values], dtype=np.float64)

    array = arrow(name, values)
    kind = array.type
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind) or _is_number(kind)):
        raise _wrong_type(name, "truth values")

    number = numbers(name, array)
    return np.where((number == 0) | (number == 1), number, np.nan)


def days(name: str, values: Values) -> FloatArray:
    """Return the column as whole days since 1970-01-01, NaN where missing.

    An instant with a time zone is read in UTC.
    """
    if is_untyped(values):
        return np.array([day_of(value) for value in values], dtype=np.float64)

    array = arrow(name, values)
    kind = array.type
    if pa.types.is_null(kind):
        return _floats(array.cast(pa.float64()))
    if pa.types.is_date32(kind):
        return _floats(array.cast(pa.int32()).cast(pa.float64()))

    if pa.types.is_date64(kind):
        array = array.cast(pa.int64())
        a_day = 86_400_000
    elif pa.types.is_timestamp(kind):
        # Arrow keeps the instant in UTC: whole days of raw ticks need no zone database.
        array = array.cast(pa.int64())
        a_day = 86_400 * _TICKS_A_SECOND[kind.unit]
    else:
        raise _wrong_type(name, "dates")

    # Integer division: in floats the last nanoseconds of a day would round into the next.
    whole = np.floor_divide(array.fill_null(0).to_numpy(zero_copy_only=False), a_day)
    return np.where(array.is_null().to_numpy(zero_copy_only=False), np.nan, whole)


def _inferred(values: Values, *kinds: Callable[[pa.DataType], bool]) -> pa.Array | None:
    """Return the values as Arrow takes them, if that is one of the kinds: quick, and no other."""
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return array if any(kind(array.type) for kind in kinds) else None


def _floats(array: pa.Array) -> FloatArray:
    floats: FloatArray = array.fill_null(float("nan")).to_numpy(zero_copy_only=False)
    return floats


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    )


def _wrong_type(name: str, needed: str) -> DomainError:
    return DomainError(
        f"attribute {name!r} is declared to hold {needed}, but the column's type is another; "
        "convert the column or correct the schema"
    )


def number_of(value: object) -> float:
    """Return the value as a number, NaN where it is none."""
    return _tried(_number, value, math.nan)


def truth_of(value: object) -> float:
    """Return 0 or 1, NaN where the value is no truth value."""
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    read = number_of(value) if word is None else word
    return read if read in (0.0, 1.0) else math.nan


def day_of(value: object) -> float:
    """Return whole days since 1970-01-01, NaN where the value is no date."""
    return _tried(_day, value, math.nan)


def _tried(
    read: Callable[[object], _Result], value: object, missing: _Result
) -> _Result:
    # Any failure: comparisons, conversions and calendars fail in ways of their own.
    try:
        # NaN and NaT; NA cannot even be compared
        if value is None or bool(value != value):
            return missing
        return read(value)
    except Exception:
        return missing


def _number(value: object) -> float:
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


def _day(value: object) -> float:
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[D]").astype(np.int64))

    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.strip())

    if isinstance(value, dt.datetime):
        value = _in_utc(value).date()

    return float((value - _EPOCH).days) if isinstance(value, dt.date) else math.nan


def _text(value: object) -> str | float | None:
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
