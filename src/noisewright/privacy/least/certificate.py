"""A proof in integers that noise which hides a change of one, up to (ε, δ), is not too small.

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
from itertools import product
from math import isqrt

from noisewright.privacy.exact.proven import exp_minus
from noisewright.privacy.exact.rounding import float_below

_BITS = 384


def proved_second_moment(
    epsilon: float, delta: float, level: float, price: float
) -> float:
    """λ − 2μδ, rounded down, if level and price prove it; zero if they prove nothing."""
    # 1/q is above e^ε: what is proved is more
    q = exp_minus(Fraction(epsilon), _BITS)[0]
    if q == 0 or level <= 0 or price <= 0:
        return 0.0

    λ = Fraction(level)
    μ = Fraction(price)
    square = λ + (Fraction(1 << _BITS, q) - 1) * μ
    # the last k with (2k + 1)² <= 4T²
    nearest = max(0, (isqrt(int(4 * square)) - 1) // 2)
    ends = [_Sums.of(q, steps) for steps in (nearest, nearest + 1)]
    holds = all(_holdable(end, λ, μ) for end in ends) and all(
        _balanced(right, left, λ, μ) for right, left in product(ends, repeat=2)
    )

    return max(0.0, float_below(λ - 2 * μ * Fraction(delta))) if holds else 0.0


@dataclass(frozen=True)
class _Sums:
    """Enclosures, in units of 2^-_BITS, of q^k and of Σ_{i ≤ k} iⁿ q^i for n = 0, 1, 2."""

    low: tuple[int, int, int, int]
    high: tuple[int, int, int, int]

    @classmethod
    def of(cls, q: int, steps: int) -> _Sums:
        return cls(_sums(q, steps, 0), _sums(q, steps, 1))


def _sums(q: int, steps: int, up: int) -> tuple[int, int, int, int]:
    """The four numbers, every product rounded down, or up: none is negative, nothing cancels."""

    def times(a: int, b: int) -> int:
        return (a * b >> _BITS) + up

    k = 0
    power = 1 << _BITS
    none = 0
    one = 0
    two = 0
    for digit in f"{steps:b}":
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

    return power, none, one, two


def _holdable(end: _Sums, λ: Fraction, μ: Fraction) -> bool:
    """cap_k(a) ≥ 0 for all |a| ≤ ½: Σ i q^i is at least Σ q^i, so a = −½ is the worst."""
    power, none, _, two = end.low
    _, most_none, most_one, _ = end.high
    return power * μ + two - most_none * λ - most_one + Fraction(none, 4) >= 0


def _balanced(right: _Sums, left: _Sums, λ: Fraction, μ: Fraction) -> bool:
    """cap_k(a) + cap_l(−a) ≥ λ − a² for all |a| ≤ ½."""
    unit = 1 << _BITS
    curved = right.low[1] + left.low[1] + unit
    tilted = 2 * max(right.high[2] - left.low[2], left.high[2] - right.low[2])
    most = right.high[1] + left.high[1] + unit
    level = (right.low[0] + left.low[0]) * μ + right.low[3] + left.low[3] - most * λ
    if tilted >= curved:
        return level + Fraction(curved, 4) - Fraction(tilted, 2) >= 0
    return level - Fraction(tilted * tilted, 4 * curved) >= 0
