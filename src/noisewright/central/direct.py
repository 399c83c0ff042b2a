"""The plain mechanisms others are measured against: equal noise on every answer asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisewright.central.axes import Integers
from noisewright.central.block import Block
from noisewright.central.gaussian import Planned
from noisewright.central.residual import is_counts
from noisewright.central.strategy import BlockStrategy
from noisewright.central.variance import unit_error
from noisewright.workload.base import FloatArray
from noisewright.workload.terms import Term

LARGEST_FACTOR = 2**20
"""Entries of a factor's own matrix up to which its answers are measured one by one."""

_MULTIPLIER = 1024


def refuses_direct(terms: Sequence[Term]) -> str | None:
    """Why noise cannot be put on these answers directly, or None."""
    if len(terms) == 1 and terms[0].factors is not None:
        for factor in terms[0].factors:
            if factor.queries * factor.size > LARGEST_FACTOR:
                return f"{factor.brief()} has too many queries to measure one by one"
            rows = factor.dense()
            if not (rows == np.rint(rows)).all() or np.abs(rows).max() > 2**20:
                return "only queries with small integer coefficients are measured one by one"
        return None
    if len(terms) > 1 and is_counts(terms) and len({t.attributes for t in terms}) == len(terms):
        return None
    return "only one product of queries, or several tables of counts, are measured one by one"


def direct_strategy(
    terms: Sequence[Term], sizes: tuple[int, ...], norm: float, order: int, neighbours: str
) -> Planned:
    """Every answer measured with the same noise; answers that overlap are made consistent."""
    blocks = []
    for term in terms:
        factors = tuple(_integers(factor.dense()) for factor in term.factors or ())
        noise = _MULTIPLIER / (term.weight if len(terms) > 1 else 1.0)
        blocks.append(Block(term.attributes, factors, noise, _MULTIPLIER))
    strategy = BlockStrategy(sizes, tuple(blocks))
    value = unit_error(strategy, terms, norm, order, neighbours)
    return Planned(strategy, value, None, "none", "equal noise on every answer", neighbours)


def _integers(matrix: FloatArray) -> Integers:
    return np.rint(matrix).astype(np.int64)
