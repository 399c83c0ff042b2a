"""Exact numbers: rules they must keep, and floats rounded to the side that keeps a claim true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import inf, isfinite, isqrt, nextafter
from numbers import Rational, Real

from noisewright.errors import InvalidParameter, NoisewrightError

# both ways: beyond it floats decide too few draws, or all noise is zero
SCALE_LIMIT = 2.0**40


def number(name: str, value: object, remedy: str = "") -> Fraction:
    """Return a finite real number exactly."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(name, value, "must be a number", remedy)

    try:
        nearest = float(value)
    except OverflowError:
        nearest = inf

    if not isfinite(nearest):
        raise InvalidParameter(name, value, "must be finite", remedy)
    # numpy's integers are rational too, and would overflow
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))

    return Fraction(nearest)


def positive(name: str, value: object, remedy: str = "") -> Fraction:
    """Return a finite number above zero exactly."""
    exact = number(name, value, remedy)
    if exact <= 0:
        raise InvalidParameter(name, value, "must be > 0", remedy)
    return exact


def probability(name: str, value: object, remedy: str = "") -> Fraction:
    """Return a number strictly between zero and one exactly."""
    exact = number(name, value, remedy)
    if not 0 < exact < 1:
        rule = "must lie strictly between 0 and 1"
        raise InvalidParameter(name, value, rule, remedy)
    return exact


def checked_scale(name: str, scale: object) -> Fraction:
    """Return a scale of noise exactly, if draws at it are possible."""
    exact = positive(name, scale, "noise needs a positive scale")
    if not 1 / SCALE_LIMIT <= exact <= SCALE_LIMIT:
        rule = "must lie between 2^-40 and 2^40 grid steps"
        remedy = "choose another budget, or another grid step"
        raise InvalidParameter(name, scale, rule, remedy)
    return exact


def float_above(exact: Fraction) -> float:
    """Return the least float that is not below `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        raise _out_of_range() from None
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)


def _out_of_range() -> NoisewrightError:
    return NoisewrightError(
        "a budget or a sensitivity is so extreme that what follows from it lies beyond all floats;"
        " choose numbers of ordinary size"
    )


def float_below(exact: Fraction) -> float:
    """Return the largest float that is not above `exact`."""
    return -float_above(-exact)


def sum_above(values: Iterable[float]) -> float:
    """Return the least float that is not below the exact sum."""
    return float_above(sum(map(Fraction, values), Fraction(0)))


def root_above(exact: Fraction) -> float:
    """Return a float that is not below the square root of `exact`, and at most one float higher."""
    shift = _root_shift(exact)
    scaled = -(-(exact.numerator << 2 * shift) // exact.denominator)
    return float_above(Fraction(isqrt(scaled) + 1, 1 << shift))


def root_below(exact: Fraction) -> float:
    """Return a float that is not above the square root of `exact`, and close to it."""
    if exact <= 0:
        return 0.0

    shift = _root_shift(exact)
    scaled = (exact.numerator << 2 * shift) // exact.denominator
    return float_below(Fraction(isqrt(scaled), 1 << shift))


def _root_shift(exact: Fraction) -> int:
    """By how many bits to lengthen a number so that its root in integers has at least 128."""
    length = exact.numerator.bit_length() - exact.denominator.bit_length()
    return max(0, 128 - length) // 2 + 64


def bracket(holds: Callable[[float], bool], start: float) -> tuple[float, float]:
    """Return x < y, 2^-50 apart: the property, true below some point, holds at x and not at y."""
    low = high = start
    while not holds(low):
        low, high = low / 4, low
        if low == 0:
            raise _out_of_range()

    while high == low or holds(high):
        low = high
        high = high * 4
        if high == inf:
            raise _out_of_range()

    while high > low * (1 + 2.0**-50):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        if holds(middle):
            low = middle
        else:
            high = middle

    return low, high
