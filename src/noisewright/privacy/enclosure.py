"""Proven enclosures of e^-x, the Gaussian tail and its Mills ratio, in integer arithmetic.

A pair of integers (lo, hi) at precision p states lo/2^p <= value <= hi/2^p. Every operation rounds
lo down and hi up, so a pair is true whatever the precision; more precision only makes it narrower.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

Enclosure = tuple[int, int]

_SERIES_BELOW = (
    4  # Mills ratio: power series below, continued fraction from here on (both ~60 terms)
)


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _lower_precision(pair: Enclosure, drop: int) -> Enclosure:
    return pair[0] >> drop, -(-pair[1] >> drop)


def exp_minus(x: Fraction, precision: int) -> Enclosure:
    """Enclose e^-x for x >= 0; below the precision the pair is (0, 1)."""
    if x * 10_000 > (precision + 1) * 6932:  # ln 2 < 0.6932
        return 0, 1
    halvings = 8 + int(x).bit_length()
    work = precision + halvings + 16
    y = (x.numerator << (work - halvings)) // x.denominator  # x / 2^halvings, rounded down
    term_lo = term_hi = lo = hi = 1 << work
    order, sign = 0, 1
    while term_hi > 1:
        order, sign = order + 1, -sign
        term_lo = (term_lo * y >> work) // order
        term_hi = _ceil_div(-(-term_hi * y >> work), order)
        lo, hi = (lo + term_lo, hi + term_hi) if sign > 0 else (lo - term_hi, hi - term_lo)
    # The alternating remainder is at most the last term (<= 1 unit); so is the rounding of y.
    lo, hi = lo - 2, min(hi + 1, 1 << work)
    for _ in range(halvings):
        lo, hi = lo * lo >> work, -(-hi * hi >> work)
    return _lower_precision((lo, hi), work - precision)


def _arctan_of_inverse(n: int, precision: int) -> Enclosure:
    power = total = (1 << precision) // n
    order, sign = 1, 1
    while power:
        power //= n * n
        order, sign = order + 2, -sign
        total += sign * (power // order)
    return total - order, total + order  # each of the < order terms is off by less than one unit


@lru_cache(maxsize=32)
def root_half_pi(precision: int) -> Enclosure:
    """Enclose the square root of pi/2, by Machin's formula for pi."""
    work = precision + 16
    five, other = _arctan_of_inverse(5, work), _arctan_of_inverse(239, work)
    pi = 16 * five[0] - 4 * other[1], 16 * five[1] - 4 * other[0]
    root = isqrt(pi[0] << (work - 1)), isqrt(pi[1] << (work - 1)) + 1
    return _lower_precision(root, 16)


def mills_ratio(z: Fraction, precision: int) -> Enclosure:
    """Enclose Q(z)/phi(z), the Gaussian upper tail over the density, for z >= 0."""
    return (_mills_series if z < _SERIES_BELOW else _mills_fraction)(z, precision)


def _mills_series(z: Fraction, precision: int) -> Enclosure:
    """Return sqrt(pi/2) e^(z²/2) - sum of z^(2m+1)/(2m+1)!!, for z below 4 (e^(z²/2) < 2^12)."""
    work = precision + 40
    exp_lo, exp_hi = exp_minus(z * z / 2, work)
    c_lo, c_hi = root_half_pi(work)
    z_lo = (z.numerator << work) // z.denominator
    square_lo = (z.numerator**2 << work) // z.denominator**2
    square_hi = square_lo + 1
    term_lo, term_hi = z_lo, z_lo + 1
    sum_lo, sum_hi, odd = term_lo, term_hi, 1
    # Past odd > 2 z² each term is less than half the one before: the rest is below the last term.
    while term_hi > 1 or odd < 2 * _SERIES_BELOW**2:
        odd += 2
        term_lo = (term_lo * square_lo >> work) // odd
        term_hi = _ceil_div(-(-term_hi * square_hi >> work), odd)
        sum_lo, sum_hi = sum_lo + term_lo, sum_hi + term_hi
    lo = (c_lo << work) // exp_hi - (sum_hi + term_hi)
    hi = _ceil_div(c_hi << work, exp_lo) - sum_lo
    return _lower_precision((lo, hi), work - precision)


def _mills_fraction(z: Fraction, precision: int) -> Enclosure:
    """Evaluate 1/(z + 1/(z + 2/(z + 3/(z + ...)))) from a tail known to lie in [z, z + n/z]."""
    work = precision + 16
    z_lo = (z.numerator << work) // z.denominator
    z_hi, square, terms = z_lo + 1, 1 << 2 * work, 16
    while True:
        lo, hi = z_lo, z_hi + _ceil_div(terms * square, z_lo)
        for k in range(terms - 1, 0, -1):
            lo, hi = z_lo + k * square // hi, z_hi + _ceil_div(k * square, lo)
        lo, hi = square // hi, _ceil_div(square, lo)
        if hi - lo <= 1 << 16:
            return _lower_precision((lo, hi), 16)
        terms *= 2


def two_sided_tail(z: Fraction, precision: int) -> Enclosure:
    """Enclose Pr(|Z| >= z) for a standard Gaussian Z and z >= 0."""
    work = precision + 8
    exp_lo, exp_hi = exp_minus(z * z / 2, work)
    if exp_hi <= 1:
        return 0, 1
    mills_lo, mills_hi = mills_ratio(z, work)
    c_lo, c_hi = root_half_pi(work)
    tail = exp_lo * mills_lo // c_hi, _ceil_div(exp_hi * mills_hi, c_lo)
    return _lower_precision(tail, 8)
