"""Whole vectors whose chances fall by the same factor from one dilate of a body to the next.

Let K be a convex body with whole corners, symmetric about zero, and ‖z‖ the least whole M with z in
MK. Chances ∝ e^(-r‖z‖) are those of this draw: first M with chance ∝ L(M)e^(-rM), L(M) the number
of whole vectors in MK, then one of these, each as likely (Σ_{M ≥ ‖z‖} e^(-rM) ∝ e^(-r‖z‖)).

L(M) = Σ_j h_j·C(M - j + d, d) with whole h_j >= 0 (Ehrhart and Stanley), d the dimension, and the
C(M - j + d, d) e^(-rM) are the chances of j plus d + 1 geometric numbers. So M is a mixture, drawn
exactly: j with chance ∝ h_j e^(-rj), decided in integer enclosures, then geometric numbers. Means
over all levels follow from the same expansion.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import exp, expm1

from noisewright.errors import Contradiction
from noisewright.privacy.exact.proven import Enclosure, exp_minus
from noisewright.privacy.noise.integers import Uniform, discrete_laplace
from noisewright.privacy.noise.source import ByteSource, SystemSource, uniform_words


def expansion(values: Sequence[int]) -> list[int]:
    """The h with values[M] = Σ_j h_j·C(M - j + d, d), d one less than how many values there are.

    `values` are those of a polynomial of degree d at most, at M = 0, ..., d.
    """
    h = list(values)
    for _ in range(len(h)):
        h = [h[0], *(later - earlier for earlier, later in pairwise(h))]
    return h


def level_weights(points: Sequence[int]) -> list[int]:
    """The h_j of a body, from its numbers of whole vectors L(0), ..., L(d)."""
    h = expansion(points)
    if h[0] != 1 or min(h) < 0:
        raise Contradiction(
            "numbers of whole vectors that no body with whole corners has"
        )
    return h


def draw_level(
    weights: Sequence[int], rate: Fraction, source: ByteSource | None = None
) -> int:
    """Draw M with chance ∝ L(M)e^(-rate·M), exactly."""
    source = source or SystemSource()
    word = int(uniform_words(1, source)[0])
    uniform = Uniform(word >> 1, source)

    # The first j with U <= Pr(up to j), by bisection.
    low = 0
    high = len(weights) - 1
    while low < high:
        middle = (low + high) // 2
        if uniform.at_most(partial(_share, weights, rate, middle)):
            high = middle
        else:
            low = middle + 1

    signed = discrete_laplace(1 / rate, len(weights), source)
    # k >= 0 as it is, k < 0 as -k - 1: both halves of the law are geometric.
    return low + sum(int(k) if k >= 0 else -int(k) - 1 for k in signed)


def _share(
    weights: Sequence[int], rate: Fraction, upto: int, precision: int
) -> Enclosure:
    """Enclose the chance of j <= upto."""
    # e^-x >= 4^-x keeps its own digits
    work = precision + 32 + int(2 * rate * len(weights))
    low = high = rest_low = rest_high = 0
    for j, weight in enumerate(weights):
        least, most = exp_minus(rate * j, work)
        if j <= upto:
            low += weight * least
            high += weight * most
        else:
            rest_low += weight * least
            rest_high += weight * most

    share_low = (low << precision) // (low + rest_high)
    share_high = -(-(high << precision) // (high + rest_low))
    return share_low, share_high


def mean_over_levels(sums: Sequence[int], weights: Sequence[int], rate: float) -> float:
    """The mean, over all draws, of what adds up to sums[M] over the whole vectors of MK.

    `sums` are those of a polynomial of degree two above the dimension, at M = 0, ..., d + 2.
    """
    whole = sum(weights)
    q = exp(-rate)

    def at(numerators: Sequence[int]) -> float:
        value = 0.0
        for numerator in reversed(numerators):
            value = value * q + numerator / whole
        return value

    return at(expansion(sums)) / (at(weights) * expm1(-rate) ** 2)
