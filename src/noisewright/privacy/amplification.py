"""What local reports promise together once a shuffler has mixed them (an extra, never instead).

Everybody's ε₀-private randomizer R is at least e^-ε₀ (R(x) + R(x'))/2 for the two values x, x' that
one person may hold, so each of the others is a *clone* of that person with probability e^-ε₀:
a sample of Q or Q', equally likely, where R(x) = (e^ε₀ Q + Q')/(e^ε₀ + 1) and R(x') likewise.
Shuffled, the reports say no more than how many samples of Q and of Q' they hold (Feldman, McMillan
and Talwar, "Hiding among the clones", 2021). With C ~ Bin(people - 1, e^-ε₀), A ~ Bin(C, 1/2) and
D = 1 with probability e^ε₀/(e^ε₀ + 1), the divergence between (A + D, C - A + 1 - D) and its mirror
image is the exact δ of that argument; it is summed here, and Theorem 3.1 bounds it in closed form.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.privacy.budget import Privacy
from noisewright.privacy.rules import positive, probability

_GROUPS = 1024  # numbers of clones told apart; more of them are grouped to the safe side
_PRECISION = 1e-6  # of ε
_FLOAT_SLACK = 1e-9  # relative; measured error of the binomial tails: 1e-11 at 3e8 tosses
_MOST_PEOPLE = 10**10


def shuffled(local_epsilon: float, people: int, delta: float) -> Privacy:
    """Return the central guarantee of `people` shuffled reports, each private by `local_epsilon`.

    Neighbours are replace-one, as in the local model. The result never exceeds the local ε.
    """
    _checked(local_epsilon, people)
    probability("delta", delta)
    low, high = 0.0, float(local_epsilon)
    while high - low > _PRECISION * high and high > _PRECISION * delta:
        middle = (low + high) / 2
        enough = shuffled_delta(local_epsilon, people, middle) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return Privacy(epsilon=high, delta=delta, neighbours="replace-one")


def closed_form_epsilon(local_epsilon: float, people: int, delta: float) -> float:
    """Return the ε of Theorem 3.1, which asks for ε₀ <= ln(people/(16 ln(2/δ)))."""
    epsilon, size = _checked(local_epsilon, people)
    probability("delta", delta)
    if np.exp(epsilon) > size / (16 * np.log(2 / delta)):
        raise InvalidParameter(
            "people", people, "is too few for the closed form", "use the numerical bound"
        )
    growth = np.exp(epsilon)
    spread = 8 * np.sqrt(growth * np.log(4 / delta) / size) + 8 * growth / size
    return float(np.log1p(np.tanh(epsilon / 2) * spread)) * (1 + _FLOAT_SLACK)


def shuffled_delta(local_epsilon: float, people: int, epsilon: float) -> float:
    """Return a δ for which the shuffled reports are (ε, δ) private, rounded up."""
    local, size = _checked(local_epsilon, people)
    if epsilon >= local:
        return 0.0
    clones, weights, missing = _clone_groups(size - 1, float(np.exp(-local)))
    deltas = _delta_with_clones(clones, local, epsilon)
    return min(1.0, float(weights @ deltas) + missing)


def _checked(local_epsilon: float, people: int) -> tuple[float, int]:
    positive("local_epsilon", local_epsilon, "amplification starts from a pure local guarantee")
    if isinstance(people, bool) or not isinstance(people, int) or not 1 <= people <= _MOST_PEOPLE:
        raise InvalidParameter("people", people, "must be a whole number from 1 to 10^10")
    return float(local_epsilon), people


@lru_cache(maxsize=64)
def _clone_groups(
    others: int, chance: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], float]:
    """Return numbers of clones, their probabilities, and the probability left out.

    δ falls as clones join, so the least number of a group speaks for all of the group.
    """
    from scipy.stats import binom

    law = binom(others, chance)
    mean, reach = others * chance, 12 * sqrt(others * chance) + 12  # any choice is sound
    lowest, highest = max(0, int(mean - reach)), min(others, int(mean + reach))
    step = max(1, (highest - lowest) // _GROUPS)
    starts = np.arange(lowest, highest + 1, step, dtype=np.float64)
    below = law.cdf(starts - 1)
    weights = np.diff(np.append(below, 1.0)) * (1 + _FLOAT_SLACK)
    return starts, weights, float(below[0])


def _delta_with_clones(
    clones: npt.NDArray[np.float64], local: float, epsilon: float
) -> npt.NDArray[np.float64]:
    """Return the divergence for given numbers of clones c.

    With b = Bin(c, 1/2), P(a) = s b(a-1) + (1-s) b(a) and Q(a) = (1-s) b(a-1) + s b(a). As
    b(a-1)/b(a) = a/(c-a+1) rises, P > e^ε Q from some a on, and P - e^ε Q of that set is a
    difference of two binomial tails.
    """
    s = 1 / (1 + np.exp(-local))
    gain, loss = s - np.exp(epsilon) * (1 - s), np.exp(epsilon) * s - (1 - s)
    first = np.floor(loss * (clones + 1) / (gain + loss)) + 1
    kept = gain * _fair_tail(first - 1, clones)
    lost = loss * _fair_tail(first, clones)
    divergence: npt.NDArray[np.float64] = np.maximum(kept - lost, 0) + _FLOAT_SLACK * kept
    return divergence


def _fair_tail(
    least: npt.NDArray[np.float64], tosses: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the probability of at least so many heads among fair tosses."""
    from scipy.special import betainc

    some = (least >= 1) & (least <= tosses)
    a, b = np.where(some, least, 1.0), np.where(some, tosses - least + 1, 1.0)
    return np.where(some, betainc(a, b, 0.5), np.where(least <= 0, 1.0, 0.0))
