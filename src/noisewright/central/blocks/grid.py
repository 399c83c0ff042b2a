"""How fine a grid may be: noise is drawn up to 2^40 grid steps, whatever the budget.

Integer factors of more bits are closer to the real strategy, and the noise grows with them. So the
bits that all factors of a block may have together depend on the noise that a budget asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2

from noisewright.workload.structure import Term

USUAL_BITS = 36
"""Bits of all factors together where a budget asks for noise of scale one."""


def grid_bits(unit_noise: float) -> int:
    """Bits of all factors together for a budget whose noise has this scale at sensitivity one."""
    return min(USUAL_BITS + 2, floor(USUAL_BITS - log2(unit_noise)))


def bits_each(total: float, factors: int, most: int) -> int:
    """Bits of every one of so many factors; at least three, that rounding says anything at all."""
    return max(3, min(most, floor(total / max(1, factors))))


def contrast_bits(total: int, terms: Sequence[Term], sizes: Sequence[int], most: int) -> int:
    """Bits of contrasts over the largest terms: columns are longer than entries, shares small."""
    spare = 6
    found = [
        bits_each(
            total - spare - sum(ceil(log2(sizes[i])) / 2 for i in term.attributes),
            len(term.attributes),
            most,
        )
        for term in terms
    ]
    return min(found, default=most)
