"""Enclosures in integers, and quantiles in floats, with proven errors.

**Enclosures** of e^-x, the Gaussian tail and its Mills ratio. A pair of integers (lo, hi) at
precision p states lo/2^p <= value <= hi/2^p. Every operation rounds lo down and hi up, so a pair is
true whatever the precision; more precision only makes it narrower. `-(-a // b)` is a/b rounded up.

**Quantiles** of |Z| and of the exponential law. Only IEEE additions, multiplications and tables
computed in integers enter: no mathematical library has to be trusted. Uniforms arrive as integers j
of 63 bits and stand for all of [j, j+1] / 2^63; the errors stated below hold for every point of
that interval.

**Gaussian.** u = Pr(|Z| >= z) is inverted by a Taylor series about the nearest node z_i = i/64.
With w = (u_i - u)/|u'(z_i)| we have dz/dw = e^((z² - z_i²)/2), hence
d^n z/dw^n = P_n(z) e^(n(z² - z_i²)/2), P_1 = 1, P_(n+1) = P_n' + n z P_n. The coefficients of these
polynomials are not negative, so the Lagrange remainder is largest at the upper end of the last
segment: with |w| <= e^(5/128)/128 and 8 terms it stays below 2^-45. The width of the
interval of u costs 2^-63 e^(z²/2) sqrt(π/2) < 2^-44 (z <= 5 + 1/128); the rounding of u, of the
table and of the sum costs less than 2^-49. Together below 2^-43; GAUSSIAN_ERROR is twice that.

**Exponential.** -ln u = (63 - e) ln 2 - ln c - ln(1 + r), with j = 2^e m, 1/2 <= m < 1, c the
centre of one of 128 equal parts and |r| <= 2^-8: five terms leave a remainder below 2^-50. The
interval costs 2^-44, as only j >= 2^44 is handled; all rounding (of values up to 14) costs less
than 2^-48. Together below 2^-43; LOGARITHM_ERROR is twice that.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from math import factorial, isqrt

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, WordArray

Enclosure = tuple[int, int]

GAUSSIAN_ERROR = 2.0**-42  # twice what the proof above adds up
LOGARITHM_ERROR = 2.0**-42  # likewise
# |Z| beyond it, one draw in two million, is left to integer arithmetic
GAUSSIAN_REACH = 5

# Parts of the tables and terms of the series, with which the two proofs above are made.
_PER_UNIT = 64  # nodes
_TERMS = 8  # of a Taylor series
_PARTS = 128  # of [1/2, 1)
_SMALLEST_FOR_LOGARITHM = np.uint64(1 << 44)
_TABLE_BITS = 96  # of the Gaussian table before it is rounded to floats
_DIGITS = 40  # of the logarithms before they are: more than twice those of a float
# Mills ratio: power series, then a continued fraction (both ~60 terms)
_SERIES_BELOW = 4


def _lower_precision(pair: Enclosure, drop: int) -> Enclosure:
    return pair[0] >> drop, -(-pair[1] >> drop)


def exp_minus(x: Fraction, precision: int) -> Enclosure:
    """Enclose e^-x for x >= 0; below the precision the pair is (0, 1)."""
    if x * 10_000 > (precision + 1) * 6932:  # ln 2 < 0.6932
        return 0, 1

    # y = x/2^halvings < 2^-8, so each term gains 8 bits and more. Every squaring back doubles the
    # error, hence one bit more per halving, and 16 to spare for the rounding of the terms.
    halvings = 8 + int(x).bit_length()
    work = precision + halvings + 16
    # x / 2^halvings, rounded down
    y = (x.numerator << (work - halvings)) // x.denominator
    term_lo = term_hi = lo = hi = 1 << work
    order = 0
    sign = 1

    while term_hi > 1:
        order = order + 1
        sign = -sign
        term_lo = (term_lo * y >> work) // order
        term_hi = -((-term_hi * y >> work) // order)
        if sign > 0:
            lo += term_lo
            hi += term_hi
        else:
            lo -= term_hi
            hi -= term_lo

    # The alternating remainder is at most the last term (<= 1 unit); so is the rounding of y.
    lo = lo - 2
    hi = min(hi + 1, 1 << work)
    for _ in range(halvings):
        lo = lo * lo >> work
        hi = -(-hi * hi >> work)

    return _lower_precision((lo, hi), work - precision)


def _arctan_of_inverse(n: int, precision: int) -> Enclosure:
    power = total = (1 << precision) // n
    order = 1
    sign = 1
    while power:
        power //= n * n
        order = order + 2
        sign = -sign
        total += sign * (power // order)

    # each of the < order terms is off by less than one unit
    return total - order, total + order


@lru_cache(maxsize=32)
def root_half_pi(precision: int) -> Enclosure:
    """Enclose the square root of pi/2, by Machin's formula for pi."""
    # 16 bits to spare: each arctangent is off by fewer units than its last order, and they count
    # 16 and 4 times.
    work = precision + 16
    five_lo, five_hi = _arctan_of_inverse(5, work)
    other_lo, other_hi = _arctan_of_inverse(239, work)
    pi_lo = 16 * five_lo - 4 * other_hi
    pi_hi = 16 * five_hi - 4 * other_lo

    lo = isqrt(pi_lo << (work - 1))
    hi = isqrt(pi_hi << (work - 1)) + 1
    return _lower_precision((lo, hi), 16)


def mills_ratio(z: Fraction, precision: int) -> Enclosure:
    """Enclose Q(z)/phi(z), the Gaussian upper tail over the density, for z >= 0."""
    return (_mills_series if z < _SERIES_BELOW else _mills_fraction)(z, precision)


def _mills_series(z: Fraction, precision: int) -> Enclosure:
    """Return sqrt(pi/2) e^(z²/2) - sum of z^(2m+1)/(2m+1)!!, for z below 4 (e^(z²/2) < 2^12)."""
    # e^(-z²/2) > 2^-12 is off by a unit or two, and the quotient below 2^12 by 2^24 times as much;
    # 16 bits to spare for the rounding of the sum.
    work = precision + 40
    exp_lo, exp_hi = exp_minus(z * z / 2, work)
    c_lo, c_hi = root_half_pi(work)
    z_lo = (z.numerator << work) // z.denominator
    square_lo = (z.numerator**2 << work) // z.denominator**2
    square_hi = square_lo + 1
    term_lo = z_lo
    term_hi = z_lo + 1
    sum_lo = term_lo
    sum_hi = term_hi
    odd = 1

    # Past odd > 2 z² each term is less than half the one before: the rest is below the last term.
    while term_hi > 1 or odd < 2 * _SERIES_BELOW**2:
        odd += 2
        term_lo = (term_lo * square_lo >> work) // odd
        term_hi = -((-term_hi * square_hi >> work) // odd)
        sum_lo = sum_lo + term_lo
        sum_hi = sum_hi + term_hi

    lo = (c_lo << work) // exp_hi - (sum_hi + term_hi)
    hi = -((-c_hi << work) // exp_lo) - sum_lo
    return _lower_precision((lo, hi), work - precision)


def _mills_fraction(z: Fraction, precision: int) -> Enclosure:
    """Evaluate 1/(z + 1/(z + 2/(z + 3/(z + ...)))) from a tail known to lie in [z, z + n/z]."""
    work = precision + 16
    z_lo = (z.numerator << work) // z.denominator
    z_hi = z_lo + 1
    one_squared = 1 << 2 * work
    terms = 16

    while True:
        lo = z_lo
        hi = z_hi - (-terms * one_squared // z_lo)
        for k in range(terms - 1, 0, -1):
            lo, hi = z_lo + k * one_squared // hi, z_hi - (-k * one_squared // lo)
        lo, hi = one_squared // hi, -(-one_squared // lo)
        if hi - lo <= 1 << 16:  # one unit of the precision asked for
            return _lower_precision((lo, hi), 16)
        terms *= 2


def two_sided_tail(z: Fraction, precision: int) -> Enclosure:
    """Enclose Pr(|Z| >= z) for a standard Gaussian Z and z >= 0."""
    work = precision + 8  # three enclosures of a unit or two each are multiplied
    exp_lo, exp_hi = exp_minus(z * z / 2, work)
    if exp_hi <= 1:
        return 0, 1

    mills_lo, mills_hi = mills_ratio(z, work)
    c_lo, c_hi = root_half_pi(work)
    tail = exp_lo * mills_lo // c_hi, -(-exp_hi * mills_hi // c_lo)

    return _lower_precision(tail, 8)


# --- quantiles ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _GaussianTable:
    """Nodes in order of rising u; entry 0 stands for everything beyond the reach."""

    # u between neighbouring nodes; position in it is the index of the node
    bounds: FloatArray
    nodes: FloatArray
    tails: FloatArray
    # 1/|u'| = sqrt(pi/2) e^(z²/2) at the nodes
    inverse_slopes: FloatArray
    coefficients: tuple[FloatArray, ...]  # of w², w³, ..., w^_TERMS


@cache
def _gaussian_table() -> _GaussianTable:
    nodes = [Fraction(i, _PER_UNIT) for i in range(GAUSSIAN_REACH * _PER_UNIT, -1, -1)]
    half = Fraction(1, 2 * _PER_UNIT)
    one = 1 << _TABLE_BITS
    root = Fraction(root_half_pi(_TABLE_BITS)[0], one)

    def column(values: list[Fraction]) -> FloatArray:
        return np.array([0.0, *map(float, values)])

    def tail(z: Fraction) -> Fraction:
        return Fraction(two_sided_tail(z, _TABLE_BITS)[0], one)

    def inverse_slope(z: Fraction) -> Fraction:
        return root / Fraction(exp_minus(z * z / 2, _TABLE_BITS)[0], one)

    coefficients = []
    for order, polynomial in enumerate(_inverse_polynomials()[1:], start=2):
        values = _evaluate(polynomial, np.array(nodes)) / factorial(order)
        coefficients.append(column(list(values)))

    return _GaussianTable(
        bounds=np.array([float(tail(z + half)) for z in nodes]),
        nodes=column(nodes),
        tails=column([tail(z) for z in nodes]),
        inverse_slopes=column([inverse_slope(z) for z in nodes]),
        coefficients=tuple(coefficients),
    )


def _inverse_polynomials() -> list[list[int]]:
    """Return the coefficients, constant first, of P_1, ..., P_TERMS."""
    polynomials = [[1]]
    for n in range(1, _TERMS):
        last = polynomials[-1]
        derivative = [power * value for power, value in enumerate(last)][1:]
        following = [0, *(n * value for value in last)]
        for power, value in enumerate(derivative):
            following[power] += value
        polynomials.append(following)

    return polynomials


def _evaluate(polynomial: list[int], z: Array) -> Array:
    """The values of a polynomial at fractions, exactly."""
    value = np.full(len(z), Fraction(0))
    for coefficient in reversed(polynomial):
        value = value * z + coefficient
    return value


def gaussian_quantile(bits: WordArray) -> tuple[FloatArray, BoolArray]:
    """Return z with Pr(|Z| >= z) = bits/2^63 to GAUSSIAN_ERROR, and where z is within reach."""
    table = _gaussian_table()
    u = bits * 2.0**-63
    index = np.searchsorted(table.bounds, u)
    w = table.tails.take(index)
    w -= u
    w *= table.inverse_slopes.take(index)
    z = table.coefficients[-1].take(index)

    for coefficient in table.coefficients[-2::-1]:
        z *= w
        z += coefficient.take(index)

    z *= w
    z += 1.0
    z *= w
    z += table.nodes.take(index)

    return z, index > 0


@cache
def _logarithm_table() -> tuple[FloatArray, FloatArray, float]:
    """Return 1/c and -ln c for the centres c of the parts of [1/2, 1), and ln 2."""
    with localcontext(prec=_DIGITS):
        odd = range(2 * _PARTS + 1, 4 * _PARTS, 2)
        centres = [Decimal(number) / (4 * _PARTS) for number in odd]
        inverses = np.array([float(1 / centre) for centre in centres])
        logarithms = np.array([float(-centre.ln()) for centre in centres])
        return inverses, logarithms, float(Decimal(2).ln())


def minus_log(bits: WordArray) -> tuple[FloatArray, BoolArray]:
    """Return -ln(bits/2^63) to LOGARITHM_ERROR, and where the 63 bits suffice for that."""
    inverses, logarithms, log_two = _logarithm_table()
    enough = bits >= _SMALLEST_FOR_LOGARITHM
    seen = np.where(enough, bits, _SMALLEST_FOR_LOGARITHM)
    mantissa, exponent = np.frexp(seen.astype(float))

    part = (mantissa * (2 * _PARTS)).astype(np.int64)
    centre = (part + 0.5) / (2 * _PARTS)
    part -= _PARTS
    r = (mantissa - centre) * inverses.take(part)

    # ln(1 + r) by Horner's rule
    series = r * (1 / 5)
    for coefficient in (-1 / 4, 1 / 3, -1 / 2, 1.0):
        series = r * (coefficient + series)

    return (63 - exponent) * log_two + logarithms.take(part) - series, enough


def log_two_over_one_plus_exp_minus(x: Fraction) -> float:
    """Return ln(2/(1 + e^-x)) for x > 0, to the nearest floats."""
    with localcontext(prec=_DIGITS):
        alpha = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
        return float((2 / (1 + alpha)).ln())
