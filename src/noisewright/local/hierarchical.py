"""Hierarchical: a histogram mechanism on every level of a tree of blocks, levels well weighted.

With block widths 1 = w_0 | w_1 | … | w_L = n, let Π_l project on vectors constant on blocks of
width w_l that sum to zero in every block of width w_{l+1}. These projections commute with every
level, so X = Σ_l λ_l Π_l + 11ᵀ with λ_l = Σ_{j<=l} p_j a_j w_j: the weights p follow from traces.
"""

from __future__ import annotations

import numpy as np

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.hashing import LocalHashing
from noisewright.local.histogram import check_cells
from noisewright.local.mixture import Coarsening, Mixture
from noisewright.local.response import RandomizedResponse
from noisewright.local.strategy import DENSE_SIZE
from noisewright.local.tree import block_traces
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import Gram

_BRANCHINGS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64)
_STEPS = 300


def frequency_oracle(cells: int, epsilon: float) -> RandomizedResponse | LocalHashing:
    """The histogram mechanism with reports of constant size that tells cells apart best."""
    response, hashing = RandomizedResponse(cells, epsilon), LocalHashing(cells, epsilon)
    return response if response.contrast >= hashing.contrast else hashing


def hierarchical(gram: Gram, epsilon: float, branching: int | None = None) -> Mixture:
    """Levels of a tree with the given branching, or the best one, weighted for the workload."""
    check_epsilon(epsilon)
    size = check_cells(gram.size)
    if size > DENSE_SIZE:
        raise TooLarge(f"hierarchical is analysed up to {DENSE_SIZE} cells, not {size}")
    if branching is not None and (int(branching) != branching or branching < 2):
        raise InvalidParameter("branching", branching, "must be a whole number >= 2", "try 4")
    choices = _BRANCHINGS if branching is None else (int(branching),)
    trees = [_tree(gram, epsilon, b) for b in choices if b < size or b == choices[0]]
    _, widths, oracles, weights = min(trees, key=lambda tree: tree[0])
    coarsenings = [Coarsening(size, width) for width in widths]
    return Mixture.of(list(oracles), coarsenings, weights)


def _tree(
    gram: Gram, epsilon: float, branching: int
) -> tuple[float, list[int], list[RandomizedResponse | LocalHashing], FloatArray]:
    """Objective, block widths, mechanisms and weights of one tree."""
    size, width, widths = gram.size, 1, []
    while width < size:
        widths.append(width)
        width *= branching
    oracles = [frequency_oracle(-(-size // w), epsilon) for w in widths]
    traces = np.array([block_traces(gram, w) / w for w in widths] + [_total(gram)])
    detail = np.maximum(traces[:-1] - traces[1:], 0.0)
    gains = np.array([o.contrast * w for o, w in zip(oracles, widths, strict=True)])
    objective, weights = level_weights(detail, gains)
    return objective, widths, oracles, weights


def _total(gram: Gram) -> float:
    return block_traces(gram, gram.size) / gram.size


def level_weights(detail: FloatArray, gains: FloatArray) -> tuple[float, FloatArray]:
    """Minimise Σ_l m_l/λ_l with λ_l = Σ_{j<=l} p_j g_j over distributions p.

    The problem is convex; p ← p·√(−gradient) is the monotone fixed-point step of optimal design.
    """
    p = np.full(len(gains), 1.0 / len(gains))
    for _ in range(_STEPS):
        eigenvalues = np.cumsum(p * gains)
        slope = gains * np.cumsum((detail / eigenvalues**2)[::-1])[::-1]
        p = p * np.sqrt(slope)
        p /= p.sum()
    p[p < 1e-9] = 0.0
    p /= p.sum()
    seen = np.cumsum(p * gains)
    # A level with no weight below it is lost; keep a grain of it if the workload needs it.
    if seen[0] == 0 and detail[0] > 0:
        p = (p + 1e-9) / (1 + 1e-9 * len(p))
        seen = np.cumsum(p * gains)
    needed = detail > 0
    return float((detail[needed] / seen[needed]).sum()), p
