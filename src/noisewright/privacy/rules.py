"""The rules numbers must keep; a number that keeps them comes back as the exact rational it is."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite
from numbers import Rational, Real

from noisewright.errors import InvalidParameter


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
    if isinstance(value, Rational):  # numpy's integers are rational too, and would overflow
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
        raise InvalidParameter(name, value, "must lie strictly between 0 and 1", remedy)
    return exact
