"""How little noise privacy allows: constants that limit every mechanism, whatever it is asked.

**Noise.** V is the least second moment of a number added to a count so that the law of the sum is
private where the count changes by one. Under pure ε it is that of the discrete Laplace law,
1/(2 sinh²(ε/2)). Under ρ-zCDP the order two alone gives V ≥ 1/(e^{2ρ} − 1). Under (ε, δ) it is a
linear program in two numbers, whose optimum is proved by `least_noise_certificate`.

**Unbiased answers.** The chi-squared divergence of one neighbour's law from the other's is at most
4 sinh²(ε/2), or e^{2ρ} − 1, and Hammersley, Chapman and Robins bound the variance of whatever tells
the two apart without bias by its inverse. With a δ there is no such bound: a mechanism that says
nothing but, with probability δ, an answer that repairs the bias, has variance zero on the one table
it takes for granted.

Both are rounded down.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log
from typing import cast

import numpy as np

from noisewright.privacy.exact.rounding import float_above
from noisewright.privacy.least.certificate import proved_second_moment
from noisewright.privacy.promise.budget import Privacy

_ROUNDING = 1 - 2.0**-47  # a handful of operations and library functions
_LARGEST = 700.0  # of an exponent: beyond, bounds are below all floats
_LEAST_BUDGET = 1e-100  # what holds at a larger ε, ρ or δ holds at a smaller one
_LEAST_DELTA = 1e-30
_MOST_STEPS = 2**16  # from the middle of the noise to its end
_BACKS = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3)


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
    reach = min((log(1 / delta) + 5) / epsilon, 4 / delta)
    m = ceil(reach / _MOST_STEPS)
    wide = float_above(m * Fraction(epsilon))
    if wide > _LARGEST / 2:
        return 0.0

    together = delta if m == 1 else delta * m * exp(wide) * (1 + 2.0**-45)
    if together >= 1:
        return 0.0

    level, price = _least(wide, together)
    for back in _BACKS:
        proved = proved_second_moment(wide, together, level * (1 - back), price)
        if proved > 0:
            return m * m * proved * _ROUNDING

    return 0.0


def _least(epsilon: float, delta: float) -> tuple[float, float]:
    """The level and the price that prove the most: see `least_noise_certificate`.

    Its conditions are lines, level ≤ A + B·price, one for every two numbers of steps to the ends of
    the noise, which differ by at most one. Slopes fall, so the optimum lies where they pass 2δ.
    """
    steps = np.arange(ceil(min((log(1 / delta) + 5) / epsilon, 4 / delta)) + 3)
    power = np.exp(-epsilon * steps)
    terms = power * (steps > 0)
    g0, g1, g2 = (np.cumsum(terms * steps**n) for n in range(3))
    last = np.arange(1, 2 * len(steps)) // 2
    first = np.arange(2 * len(steps) - 1) // 2
    both = g0[first] + g0[last] + 1
    apart = 2 * (g1[last] - g1[first])
    lost = np.where(apart >= both, apart / 2 - both / 4, apart**2 / (4 * both))
    height = (g2[first] + g2[last] - lost) / both
    slope = (power[first] + power[last]) / both
    place = int(np.argmax(slope < 2 * delta)) or len(slope) - 1
    price = (height[place] - height[place - 1]) / (slope[place - 1] - slope[place])
    levels = [height + slope * price]
    levels.append((power[1:] * price + g2[1:] - g1[1:] + g0[1:] / 4) / g0[1:])

    return float(min(line.min() for line in levels)), float(price)
