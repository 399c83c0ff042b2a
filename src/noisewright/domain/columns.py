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
from noisewright.domain.attribute import EXACT_INTEGERS, Values
from noisewright.errors import DomainError, withholding_causes

_Result = TypeVar("_Result")
TICKS_A_DAY = {
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}
"""By the units of Arrow's instants."""
_EPOCH = dt.date(1970, 1, 1)
_TRUE = ("true", "t", "yes", "y")
_FALSE = ("false", "f", "no", "n")
_WORDS = dict.fromkeys(_TRUE, 1.0) | dict.fromkeys(_FALSE, 0.0)
_CONVERSIONS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def arrow(name: str, values: Values) -> pa.Array:
    """Return any sequence as one Arrow array, NaN read as missing."""
    array: pa.Array = values
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        array = withholding_causes(
            lambda: pa.array(values, from_pandas=True),
            _CONVERSIONS,
            DomainError(
                f"attribute {name!r}: its values must all be of one simple type "
                "(text, numbers, truth values or dates)"
            ),
        )
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


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
    return withholding_causes(lambda: array.cast(pa.string()), pa.ArrowException, wrong)


def _texts_of(values: Iterable[object]) -> pa.Array:
    """Values one by one; floats together, by the rules for columns of them."""
    simple = [_tried(_text, value, None) for value in values]
    fractions = [value if isinstance(value, float) else None for value in simple]
    written = [value if isinstance(value, str) else None for value in simple]

    return pc.coalesce(
        pa.array(written, pa.string()), _float_texts(pa.array(fractions, pa.float64()))
    )


def _float_texts(array: pa.Array) -> pa.Array:
    exact = pc.less_equal(pc.abs(array), float(EXACT_INTEGERS))
    whole = pc.and_(pc.equal(array, pc.floor(array)), exact)
    as_integer = pc.if_else(whole, array, None).cast(pa.int64(), safe=False)
    missing = pc.is_null(array, nan_is_null=True)
    text = pc.coalesce(as_integer.cast(pa.string()), array.cast(pa.string()))

    return pc.if_else(missing, pa.scalar(None, pa.string()), text)


def booleans(name: str, values: Values) -> FloatArray:
    """Return the column as 0 and 1, NaN where missing; any other number counts as missing."""
    if is_untyped(values):
        return np.array([_truth_of(value) for value in values], dtype=np.float64)

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
        return np.array([_day_of(value) for value in values], dtype=np.float64)

    array = arrow(name, values)
    kind = array.type
    if pa.types.is_null(kind):
        return _floats(array.cast(pa.float64()))
    if pa.types.is_date32(kind):
        return _floats(array.cast(pa.int32()).cast(pa.float64()))

    if not (pa.types.is_date64(kind) or pa.types.is_timestamp(kind)):
        raise _wrong_type(name, "dates")

    # Arrow keeps the instant in UTC: whole days of raw ticks need no zone database.
    ticks = array.cast(pa.int64())
    a_day = TICKS_A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
    # Integer division: in floats the last nanoseconds of a day would round into the next.
    whole = np.floor_divide(ticks.fill_null(0).to_numpy(zero_copy_only=False), a_day)
    return np.where(ticks.is_null().to_numpy(zero_copy_only=False), np.nan, whole)


def _inferred(values: Values, *kinds: Callable[[pa.DataType], bool]) -> pa.Array | None:
    """Return the values as Arrow takes them, if that is one of the kinds: quick, and no other."""
    try:
        array = pa.array(values, from_pandas=True)
    except _CONVERSIONS:
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


def _truth_of(value: object) -> float:
    """Return 0 or 1, NaN where the value is no truth value."""
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    read = number_of(value) if word is None else word
    return read if read in (0.0, 1.0) else math.nan


def _day_of(value: object) -> float:
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
    match _plain(value):
        case int() as whole:
            try:
                return float(whole)
            except OverflowError:
                return math.copysign(math.inf, whole)
        case str() | float() | Decimal() as number:
            return float(number)
    return math.nan


def _day(value: object) -> float:
    match value:
        case np.datetime64():
            return float(value.astype("datetime64[D]").astype(np.int64))
        case str():
            return _day(dt.datetime.fromisoformat(value.strip()))
        case dt.datetime():
            return _day(_in_utc(value).date())
        case dt.date():
            return float((value - _EPOCH).days)
    return math.nan


def _text(value: object) -> str | float | None:
    match _plain(value):
        case bytes() as content:
            return content.decode()
        case str() as text:
            return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        case bool() as truth:
            return "true" if truth else "false"
        case float() | Decimal() as number:
            return float(number)
        case dt.datetime() as moment:
            zone = "" if moment.tzinfo is None else "+00"
            return _moment(_in_utc(moment)) + zone
        case int() | dt.date() | dt.time() | uuid.UUID() as simple:
            return str(simple)
    return None


def _plain(value: object) -> object:
    """Python's own value in the place of one of numpy; moments to the microsecond."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
    return value.item() if isinstance(value, np.generic) else value


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC)


def _moment(value: dt.datetime) -> str:
    """Write a moment as columns of them are written: no fraction where there is none."""
    whole = f"{value.year:04}-{value.month:02}-{value.day:02} "
    whole += f"{value.hour:02}:{value.minute:02}:{value.second:02}"
    fraction = f"{value.microsecond:06}{getattr(value, 'nanosecond', 0):03}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
