"""Running counts by trees with negative digits (Andersson, Pagh, Steiner, Torkamani, FORC 2025).

Every prefix is a signed sum of nodes of a k-ary tree, k odd: as many of each level as its balanced
digit in base k says. Each level has Laplace noise for its share of the budget.
"""

from __future__ import annotations

import numpy as np


def tree_error(steps: int, children: int) -> float:
    """Root mean square error over all steps at ε = 1, in continuous Laplace noise."""
    levels = 1
    while (children**levels - 1) // 2 < steps:
        levels += 1
    left, nodes = np.arange(1, steps + 1), np.zeros(steps)
    for _ in range(levels):
        digits = (left + children // 2) % children - children // 2
        nodes += np.abs(digits)
        left = (left - digits) // children
    assert not left.any()
    return float(np.sqrt(np.mean(2 * levels**2 * nodes)))


def best_tree_error(steps: int) -> float:
    """The least over the number of children."""
    return min(
        tree_error(steps, children) for children in range(3, 2 * steps + 2, 2)[:150]
    )
