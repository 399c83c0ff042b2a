"""Squared errors that no protocol goes below, against the population that people are drawn from."""

from __future__ import annotations

import math

import numpy as np

from noisewright.errors import require
from noisewright.local.fixedpoint import check_epsilon

_MOST_CELLS = 1024
"""In pairs of which Assouad's bound is proved; more would not raise it by much."""

_DELTAS = (0.3, 0.6, 1.0, 1.5, 2.2, 3.2, 5.0)
"""Differences tried, in units of one that people just tell: any of them proves its bound."""

_CONCENTRATIONS = 2 + np.geomspace(0.05, 200, 25)
"""Dirichlet parameters tried, from where the prior's information is finite on."""

_ROUNDING = 1e-9
"""Share by which a floor is lowered: above what sums of a thousand terms and ₂F₁ lose."""


def assouad_bound(
    size: int,
    people: int,
    *,
    epsilon: float = 1.0,
) -> float:
    """Squared error summed over cells, against the population, that no protocol goes below.

    Assouad over an even number s ≤ n of cells in pairs with chances (1 ± δτ)/s: the largest over
    s and δ of (δ²/s)(1 − √(1 − ρ²)), ρ = ρ₁^N, by the exact mean affinity ρ̄ of two-valued rows and
    −ln ρ₁ ≤ (1 − ρ̄)(−ln ρ_*)/(1 − ρ_*), ρ_* the least affinity of one pair.
    """
    check_epsilon(epsilon)
    require(
        size >= 2 and people >= 1,
        "size",
        size,
        "must be two cells or more, for one person or more",
    )

    even = min(size - size % 2, _MOST_CELLS)
    powers = {2**k for k in range(1, even.bit_length())}
    bounds = [_assouad(cells, people, epsilon) for cells in {*powers, even}]
    return max(bounds) * (1 - _ROUNDING)


def _assouad(
    cells: int,
    people: int,
    epsilon: float,
) -> float:
    """The largest of the bounds over so many cells, over δ."""
    # Errors stop falling with δ where people tell pairs apart: δ²N about s².
    typical = cells / math.sqrt(people) / math.expm1(epsilon)

    best = 0.0
    for multiple in _DELTAS:
        delta = min(1.0, multiple * typical)
        squared_affinity = math.exp(-2 * people * _pair_loss(cells, delta, epsilon))
        told_apart = math.sqrt(max(0.0, 1 - squared_affinity))
        best = max(best, delta**2 / cells * (1 - told_apart))

    return best


def _pair_loss(
    cells: int,
    delta: float,
    epsilon: float,
) -> float:
    """A number above −ln ρ₁ of the best non-interactive strategy."""
    r = math.expm1(epsilon)
    pairs = cells // 2
    half_difference = r * delta / cells

    # 1 − ρ̄: the largest over rows that hold one cell of some pairs. A pair held whole would only
    # raise a, and a − √(a² − h²) over the row's mean falls with it.
    gain = 0.0
    for split in range(1, pairs + 1):
        signs = 2 * np.arange(split) - (split - 1)
        ways = np.array([math.comb(split - 1, i) for i in range(split)], dtype=float)
        mean = 1 + r / cells * split
        a = mean + r / cells * delta * signs

        affinities = np.sqrt(np.maximum(a**2 - half_difference**2, 0.0))
        lost = float(np.sum(ways * (a - affinities))) / ways.sum()
        gain = max(gain, split / pairs * lost / mean)

    least = math.sqrt(1 - (r * delta / (cells + r)) ** 2)
    return gain * (-math.log(least)) / (1 - least) * (1 + _ROUNDING)


def van_trees_bound(
    size: int,
    people: int,
    *,
    epsilon: float = 1.0,
) -> float:
    """Squared error summed over cells, against the population, by a Dirichlet(a) prior.

    (s − 1)²/(N·I + J), J = (s − 1)(sa − 1)(sa − 2)/(a − 2), I the most that a report tells about
    the chances: over two-valued rows with d own cells, r²(d(s − d)/s)E[1/(1 + r p(S))]/(1 + rd/s).
    """
    from scipy.special import hyp2f1

    check_epsilon(epsilon)
    require(
        size >= 3 and people >= 1,
        "size",
        size,
        "must be three cells or more, for one person or more",
    )

    s = size
    d = np.arange(1, s)
    r = math.expm1(epsilon)
    best = 0.0
    for a in _CONCENTRATIONS:
        # E 1/(1 + r·Beta(x, y)) = ₂F₁(1, x; x + y; −r)
        inverse_mean = hyp2f1(1.0, a * d, a * s, -r)
        variances = d * (s - d) / s
        by_row = r**2 * variances * inverse_mean / (1 + r * d / s)
        reports = people * float(np.max(by_row))
        prior = (s - 1) * (s * a - 1) * (s * a - 2) / (a - 2)
        best = max(best, (s - 1) ** 2 / (reports + prior))

    return best * (1 - _ROUNDING)
