"""Bounds on squared errors of cells for any non-interactive protocol, biased or not."""

from __future__ import annotations

import math

import numpy as np

from noisewright.errors import require
from noisewright.local.fixedpoint import check_epsilon

_MOST_CELLS = 1024
"""In pairs of which the bound is proved; more would not raise it by much."""


def assouad_bound(size: int, people: int, *, epsilon: float = 1.0) -> float:
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

    best = 0.0
    even = min(size - size % 2, _MOST_CELLS)
    for cells in sorted(
        {2, even, *(c for c in (2**k for k in range(1, 11)) if c <= even)}
    ):
        # Errors stop falling with δ where people tell pairs apart: δ²N about s².
        typical = cells / math.sqrt(people) / math.expm1(epsilon)
        for delta in {
            min(1.0, typical * factor) for factor in (0.3, 0.6, 1.0, 1.5, 2.2, 3.2, 5.0)
        }:
            loss = people * _pair_loss(cells, delta, epsilon)
            kept = math.exp(-2 * loss)  # ρ²
            best = max(best, delta**2 / cells * (1 - math.sqrt(max(0.0, 1 - kept))))

    return best * (1 - 1e-9)


def _pair_loss(cells: int, delta: float, epsilon: float) -> float:
    """A number above −ln ρ₁ of the best non-interactive strategy."""
    r = math.expm1(epsilon)
    pairs = cells // 2
    h = r * delta / cells
    # 1 − ρ̄: the largest over rows that hold one cell of some pairs. A pair held whole would only
    # raise a, and a − √(a² − h²) over the row's mean falls with it.
    gain = 0.0

    for split in range(1, pairs + 1):
        signs = 2 * np.arange(split) - (split - 1)
        ways = np.array([math.comb(split - 1, i) for i in range(split)], dtype=float)
        mean = 1 + r / cells * split
        a = mean + r / cells * delta * signs
        lost = (
            float(np.sum(ways * (a - np.sqrt(np.maximum(a**2 - h**2, 0.0)))))
            / ways.sum()
        )
        gain = max(gain, split / pairs * lost / mean)

    least = math.sqrt(1 - (r * delta / (cells + r)) ** 2)
    return gain * (-math.log(least)) / (1 - least) * (1 + 1e-9)


def van_trees_bound(size: int, people: int, *, epsilon: float = 1.0) -> float:
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
    r = math.expm1(epsilon)
    best = 0.0
    for a in 2 + np.geomspace(0.05, 200, 25):
        d = np.arange(1, s)
        # E 1/(1 + r·Beta(x, y)) = ₂F₁(1, x; x + y; −r)
        mean = hyp2f1(1.0, a * d, a * s, -r)
        told = float(np.max(r**2 * d * (s - d) / s * mean / (1 + r * d / s)))
        prior = (s - 1) * (s * a - 1) * (s * a - 2) / (a - 2)
        best = max(best, (s - 1) ** 2 / (people * told + prior))

    return best * (1 - 1e-9)
