"""Exact numbers to floats, rounded to the side that keeps a privacy claim true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import inf, isqrt, nextafter
from sys import float_info


def float_above(exact: Fraction) -> float:
    """Return the least float that is not below `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return inf if exact > 0 else -float_info.max
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)


def float_below(exact: Fraction) -> float:
    """Return the largest float that is not above `exact`."""
    return -float_above(-exact)


def sum_above(values: Iterable[float]) -> float:
    """Return the least float that is not below the exact sum."""
    return float_above(sum(map(Fraction, values), Fraction(0)))


def root_above(exact: Fraction) -> float:
    """Return a float that is not below the square root of `exact`, and at most one float higher."""
    shift = max(0, 128 - exact.numerator.bit_length() + exact.denominator.bit_length()) // 2 + 64
    scaled = -(-(exact.numerator << 2 * shift) // exact.denominator)
    return float_above(Fraction(isqrt(scaled) + 1, 1 << shift))


def bracket(holds: Callable[[float], bool], start: float) -> tuple[float, float]:
    """Return x < y, 2^-50 apart: the property, true below some point, holds at x and not at y."""
    low = high = start
    while not holds(low):
        low, high = low / 4, low
    while high == low or holds(high):
        low, high = high, high * 4
    while high > low * (1 + 2.0**-50) and low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
