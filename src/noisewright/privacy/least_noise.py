"""How little noise privacy allows: constants that limit every mechanism, whatever it is asked.

**Noise.** V is the least second moment of a number added to a count so that the law of the sum is
private where the count changes by one. Under pure ε it is that of the discrete Laplace law,
1/(2 sinh²(ε/2)). Under ρ-zCDP the order two alone gives V ≥ 1/(e^{2ρ} − 1). Under (ε, δ) it is a
linear program in two numbers, whose optimum is proved in integers (below).

**Unbiased answers.** The chi-squared divergence of one neighbour's law from the other's is at most
4 sinh²(ε/2), or e^{2ρ} − 1, and Hammersley, Chapman and Robins bound the variance of whatever tells
the two apart without bias by its inverse. With a δ there is no such bound: a mechanism that says
nothing but, with probability δ, an answer that repairs the bias, has variance zero on the one table
it takes for granted.

Both are rounded down.

**The proof** in integers that noise which hides a change of one, up to (ε, δ), is not too small.
Let X and Y be functions with values in [0, μ] such that, with E ≥ e^ε, at every number t

    X(t) + Y(t) ≥ λ − t² + E·X(t − 1) + E·Y(t + 1).

Take the mean over the noise. By privacy the mean of X(t) − E·X(t − 1) is at most μδ, and that of
Y(t) − E·Y(t + 1) too; so the second moment is at least λ − 2μδ: a dual point of the linear program
over *all* laws, on whatever lattices they live and however these share δ.

From λ ("level") and μ ("price") the functions follow. Write t = k + a with |a| ≤ ½. X starts at the
middle, k = 0, with the most that it can hold, and hands on X = (λ − t² + E·X(t − 1))₊ outwards; Y
is its mirror image. With q = 1/E the most that X can hold at a is the least over k of

    cap_k(a) = q^k μ + Σ_{i ≤ k} q^i ((i + a)² − λ),

which falls in k as long as (k + ½ + …)² stays below T² = λ + (E − 1)μ: only the last k with
(k + ½)² ≤ T² and the next one matter, whatever a. What remains to be shown is cap_k(a) ≥ 0 and
cap_k(a) + cap_l(−a) ≥ λ − a² for those few k and l. Both are convex parabolas in a: their least
values over the whole of [−½, ½] are known in closed form, and are compared in integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, exp, expm1, isqrt, log
from typing import NamedTuple, cast

import numpy as np

from noisewright.privacy.exact.proven import exp_minus
from noisewright.privacy.exact.rounding import float_above, float_below
from noisewright.privacy.promise.budget import Privacy

_ROUNDING = 1 - 2.0**-47  # a handful of operations and library functions
_LARGEST = 700.0  # of an exponent: beyond, bounds are below all floats
_LEAST_BUDGET = 1e-100  # what holds at a larger ε, ρ or δ holds at a smaller one
_LEAST_DELTA = 1e-30  # likewise, and its logarithm sets how many steps the noise has
_MOST_STEPS = 2**16  # from the middle of the noise to its end
# Floats find the level to some digits, the proof asks for all: the first that it grants is kept.
_BACKS = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3)
_BITS = 384  # of enclosures; above ε = 266 a step's factor is below them, and nothing is proved


def least_second_moment(privacy: Privacy) -> float:
    """At most the second moment of any noise that hides a change of one; zero if none is known."""
    if privacy.rho is not None:
        return _inverse_of_expm1(2 * privacy.rho)

    # without rho there is one
    epsilon = max(cast("float", privacy.epsilon), _LEAST_BUDGET)
    if privacy.delta is not None:
        return _second_moment_with_delta(epsilon, privacy.delta)
    return _ROUNDING * 2 * exp(-epsilon) / expm1(-epsilon) ** 2


def least_unbiased_variance(privacy: Privacy) -> float | None:
    """At most the variance of an unbiased count, at any table; None if there is no such bound."""
    if privacy.rho is not None:
        return _inverse_of_expm1(2 * privacy.rho)
    return None if privacy.delta is not None else least_second_moment(privacy) / 2


def _inverse_of_expm1(x: float) -> float:
    return _ROUNDING / expm1(max(x, _LEAST_BUDGET)) if x < _LARGEST else 0.0


@lru_cache(maxsize=256)
def _second_moment_with_delta(epsilon: float, delta: float) -> float:
    """V(ε, δ), or what steps of m prove of it: noise hides m changes at mε with a larger δ."""
    delta = max(delta, _LEAST_DELTA)
    step = ceil(_reach(epsilon, delta) / _MOST_STEPS)
    wide = float_above(step * Fraction(epsilon))
    if wide > _LARGEST / 2:
        return 0.0

    # δ(1 + e^ε + … + e^((m−1)ε)) <= δ·m·e^(mε)
    together = delta
    if step > 1:
        together = delta * step * exp(wide) * (1 + 2.0**-45)
    if together >= 1:
        return 0.0

    level, price = _best_level(wide, together)
    for back in _BACKS:
        proved = proved_second_moment(wide, together, level * (1 - back), price)
        if proved > 0:
            return step * step * proved * _ROUNDING

    return 0.0


def _reach(epsilon: float, delta: float) -> float:
    """How far out X and Y are above zero, in floats and generously."""
    return min((log(1 / delta) + 5) / epsilon, 4 / delta)


def _best_level(epsilon: float, delta: float) -> tuple[float, float]:
    """The level and the price that prove the most, in floats.

    The conditions of the proof are lines, level ≤ A + B·price, one for every two numbers of steps
    to the ends of the noise, which differ by at most one. Slopes fall, so the optimum lies where
    they pass 2δ.
    """
    steps = np.arange(ceil(_reach(epsilon, delta)) + 3)
    power = np.exp(-epsilon * steps)
    terms = power * (steps > 0)
    none, one, two = (np.cumsum(terms * steps**n) for n in range(3))

    # Balance at the middle: X has `right` steps to its end, Y `left`, as many or one fewer.
    right = np.arange(1, 2 * len(steps)) // 2
    left = np.arange(2 * len(steps) - 1) // 2
    curvature = none[left] + none[right] + 1
    tilt = 2 * (one[right] - one[left])

    # What a parabola loses at its least on [−½, ½], which may be an end.
    at_end = tilt / 2 - curvature / 4
    inside = tilt**2 / (4 * curvature)
    lost = np.where(tilt >= curvature, at_end, inside)
    height = (two[left] + two[right] - lost) / curvature
    slope = (power[left] + power[right]) / curvature

    # The corner of the two lines between which the slope passes 2δ.
    place = int(np.argmax(slope < 2 * delta)) or len(slope) - 1
    rise = height[place] - height[place - 1]
    price = rise / (slope[place - 1] - slope[place])

    balanced = height + slope * price
    held = power[1:] * price + two[1:] - one[1:] + none[1:] / 4
    level = min(balanced.min(), (held / none[1:]).min())
    return float(level), float(price)


def proved_second_moment(
    epsilon: float, delta: float, level: float, price: float
) -> float:
    """λ − 2μδ, rounded down, if level and price prove it; zero if they prove nothing."""
    # 1/q is above e^ε: what is proved is more
    q, _ = exp_minus(Fraction(epsilon), _BITS)
    if q == 0 or level <= 0 or price <= 0:
        return 0.0

    λ = Fraction(level)
    μ = Fraction(price)
    square = λ + (Fraction(1 << _BITS, q) - 1) * μ
    # the last k with (2k + 1)² <= 4T²
    nearest = max(0, (isqrt(int(4 * square)) - 1) // 2)
    ends = [_Sums.of(q, steps) for steps in (nearest, nearest + 1)]

    if not all(_holdable(end, λ, μ) for end in ends):
        return 0.0
    if not all(_balanced(right, left, λ, μ) for right, left in product(ends, repeat=2)):
        return 0.0

    return max(0.0, float_below(λ - 2 * μ * Fraction(delta)))


class _Sum(NamedTuple):
    """In units of 2^-_BITS: q^k, and Σ_{i ≤ k} iⁿ q^i for n = 0, 1, 2."""

    power: int
    none: int
    one: int
    two: int


@dataclass(frozen=True)
class _Sums:
    """The four numbers from below and from above."""

    low: _Sum
    high: _Sum

    @classmethod
    def of(cls, q: int, steps: int) -> _Sums:
        low = _sums(q, steps, 0)
        high = _sums(q, steps, 1)
        return cls(low, high)


def _sums(q: int, steps: int, up: int) -> _Sum:
    """By doubling k; every product is rounded down, or up: none is negative, nothing cancels."""

    def times(a: int, b: int) -> int:
        return (a * b >> _BITS) + up

    k = 0
    power = 1 << _BITS
    none = 0
    one = 0
    two = 0

    for digit in f"{steps:b}":
        # Terms k + 1, …, 2k are q^k times terms 1, …, k, with i + k in place of i.
        two += times(power, two + 2 * k * one + k * k * none)
        one += times(power, one + k * none)
        none += times(power, none)
        k = 2 * k
        power = times(power, power)
        if digit == "1":
            k = k + 1
            power = times(power, q)
            none = none + power
            one = one + k * power
            two = two + k * k * power

    return _Sum(power, none, one, two)


def _holdable(end: _Sums, λ: Fraction, μ: Fraction) -> bool:
    """cap_k(a) ≥ 0 for all |a| ≤ ½: Σ i q^i is at least Σ q^i, so a = −½ is the worst."""
    low, high = end.low, end.high
    held = low.power * μ + low.two + Fraction(low.none, 4)
    return held >= high.none * λ + high.one


def _balanced(right: _Sums, left: _Sums, λ: Fraction, μ: Fraction) -> bool:
    """cap_k(a) + cap_l(−a) ≥ λ − a² for all |a| ≤ ½: a parabola in a, at its least."""
    one = 1 << _BITS
    power = right.low.power + left.low.power
    squares = right.low.two + left.low.two
    levels = right.high.none + left.high.none + one
    level = power * μ + squares - levels * λ

    curvature = right.low.none + left.low.none + one
    outwards = right.high.one - left.low.one
    inwards = left.high.one - right.low.one
    tilt = 2 * max(outwards, inwards)
    if tilt >= curvature:
        return level + Fraction(curvature, 4) - Fraction(tilt, 2) >= 0
    return level - Fraction(tilt * tilt, 4 * curvature) >= 0
