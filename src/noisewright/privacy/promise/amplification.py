"""What local reports promise together once a shuffler has mixed them (an extra, never instead).

Whatever the ε₀-private randomizer, each of the others hides one person like a *clone*: with chance
2/(e^ε₀ + 1) their report is one of two, equally likely, which that person sends with the odds of
randomized response between two values (Feldman, McMillan and Talwar, "Stronger privacy
amplification by shuffling", 2022; `docs/concepts/shuffling.md` holds a proof of this very bound).
With C ~ Bin(people - 1, 2/(e^ε₀ + 1)), A ~ Bin(C, 1/2) and D = 1 with probability e^ε₀/(e^ε₀ + 1),
the divergence between (A + D, C - A + 1 - D) and its mirror image is the δ of that argument; it is
summed here.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, expm1, sqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.privacy.exact.rounding import float_above, positive, probability
from noisewright.privacy.promise.budget import Privacy

# numbers of clones told apart; more of them are grouped to the safe side
_GROUPS = 1024
_PRECISION = 1e-6  # of ε
# relative; measured error of the binomial tails: 1e-11 at 3e8 tosses
_FLOAT_SLACK = 1e-9
_MOST_PEOPLE = 10**10  # whole numbers and their tails are measured up to here
_LEAST_DELTA = 1e-300  # added to every δ: binomial tails below it may have vanished
# far from where floats lose digits; what is less is private by more
_LEAST_EPSILON = 1e-100
# δ falls in ε, so that the δ at this ε speaks for all larger ones
_LARGEST_EPSILON = 600.0


def shuffled(local_epsilon: float, people: int, delta: float) -> Privacy:
    """Return the central guarantee of `people` shuffled reports, each private by `local_epsilon`.

    Neighbours are replace-one, as in the local model. The result never exceeds the local ε.
    """
    probability("delta", delta)
    low = 0.0
    high = _checked(local_epsilon, people)[0]
    least = max(_PRECISION * delta, _LEAST_EPSILON)
    while high - low > _PRECISION * high and high > least:
        middle = (low + high) / 2
        if shuffled_delta(local_epsilon, people, middle) <= delta:
            high = middle
        else:
            low = middle

    return Privacy(epsilon=high, delta=delta, neighbours="replace-one")


def shuffled_delta(local_epsilon: float, people: int, epsilon: float) -> float:
    """Return a δ for which the shuffled reports are (ε, δ) private, rounded up."""
    local, size = _checked(local_epsilon, people)
    if epsilon >= local:
        return 0.0

    local = max(local, _LEAST_EPSILON)  # what is private by less is private by more
    chance = 2 * exp(-local) / (1 + exp(-local))
    clones, weights, missing = _clone_groups(size - 1, chance)
    deltas = _delta_with_clones(clones, local, min(epsilon, _LARGEST_EPSILON))

    return min(1.0, float(weights @ deltas) + missing + _LEAST_DELTA)


def _checked(local_epsilon: float, people: int) -> tuple[float, int]:
    local = positive(
        "local_epsilon", local_epsilon, "amplification starts from a pure guarantee"
    )
    require(
        not isinstance(people, bool)
        and isinstance(people, int)
        and 1 <= people <= _MOST_PEOPLE,
        "people",
        people,
        "must be a whole number from 1 to 10^10",
    )

    return float_above(local), people


@lru_cache(maxsize=64)
def _clone_groups(others: int, chance: float) -> tuple[FloatArray, FloatArray, float]:
    """Return numbers of clones, their probabilities, and the probability left out.

    δ falls as clones join, so the least number of a group speaks for all of the group.
    """
    from scipy.stats import binom

    law = binom(others, chance)
    # any choice is sound
    mean = others * chance
    reach = 12 * sqrt(others * chance) + 12
    lowest = max(0, int(mean - reach))
    highest = min(others, int(mean + reach))
    step = max(1, (highest - lowest) // _GROUPS)
    starts = np.arange(lowest, highest + 1, step, dtype=np.float64)
    below = law.cdf(starts - 1)
    weights = np.diff(np.append(below, 1.0)) * (1 + _FLOAT_SLACK)

    return starts, weights, float(below[0])


def _delta_with_clones(clones: FloatArray, local: float, epsilon: float) -> FloatArray:
    """Return the divergence for given numbers of clones c.

    With b = Bin(c, 1/2), P(a) = s b(a-1) + (1-s) b(a) and Q(a) = (1-s) b(a-1) + s b(a). As
    b(a-1)/b(a) = a/(c-a+1) rises, P > e^ε Q from some a on, and P - e^ε Q of that set is a
    difference of two binomial tails. At a = c + 1 nothing is lost, so rounding must not push the
    set's edge past it; elsewhere an edge that is off by one moves a term near zero. The factors
    s - e^ε (1-s) and e^ε s - (1-s) are written so that no digits cancel at large or small ε₀.
    """
    s = 1 / (1 + exp(-local))
    gain = -expm1(epsilon - local) * s
    loss = (expm1(epsilon) - expm1(-local)) * s
    first = np.minimum(np.floor(loss / (gain + loss) * (clones + 1)), clones) + 1
    gained = gain * _fair_tail(first - 1, clones)
    lost = loss * _fair_tail(first, clones)
    divergence: FloatArray = np.maximum(gained - lost, 0) + _FLOAT_SLACK * gained

    return divergence


def _fair_tail(least: FloatArray, tosses: FloatArray) -> FloatArray:
    """Return the probability of at least so many heads among fair tosses."""
    from scipy.special import betainc

    some = (least >= 1) & (least <= tosses)
    a = np.where(some, least, 1.0)
    b = np.where(some, tosses - least + 1, 1.0)
    return np.where(some, betainc(a, b, 0.5), np.where(least <= 0, 1.0, 0.0))
