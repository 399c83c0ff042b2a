"""A simple strategy for unions of products: each part by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.grid import USUAL_BITS
from noisewright.central.blocks.variance import unit_error
from noisewright.central.candidate import Candidate
from noisewright.central.gaussian.products import product_strategy, refuses_dense
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.workload.structure import Term

MOST_PARTS = 64
"""Parts up to which each gets a strategy of its own."""

_SPARE_BITS = 6  # shares of the budget make noise larger


def split_strategy(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str,
    total_bits: int = USUAL_BITS,
) -> Candidate:
    """Every part its own optimal strategy, and the share of the budget that makes the whole best.

    With s_k the share of the squared sensitivity, part k has p-th power error P_k·s_k^(-p/2), so
    the best shares go as P_k^(2/(p+2)); at p = ∞, as the squares of the largest errors.
    """
    parts = [product_strategy(term, sizes, norm, total_bits - _SPARE_BITS) for term in terms]
    errors = np.array([part.value for part in parts])
    queries = np.array([term.queries for term in terms], dtype=np.float64)
    powers = errors**2 if np.isinf(norm) else (queries * errors**norm) ** (2 / (norm + 2))
    blocks = []
    for part, share in zip(parts, powers / powers.sum(), strict=True):
        (block,) = part.strategy.blocks
        length = part.strategy.sensitivity(2, neighbours)
        blocks.append(replace(block, noise=max(length, 1e-9) / float(np.sqrt(share))))
    strategy = BlockStrategy(sizes, tuple(blocks), separate=True)
    bounds = [part.bound or 0.0 for part in parts]
    alone = np.array(bounds) * (queries / queries.sum()) ** (1 / norm)
    added = neighbours == "add-remove"
    return Candidate(
        strategy,
        unit_error(strategy, terms, norm, 2, neighbours),
        float(alone.max()) if added else None,
        "the hardest part alone" if added else "none",
        f"{len(parts)} parts answered separately: they need not agree with each other",
        neighbours,
    )


def refuses_union(problem: CentralProblem) -> str | None:
    """Why these are no parts to be planned together by simple means, or None."""
    if reason := refuses_gaussian(problem):
        return reason
    parts = problem.terms
    if len(parts) < 2:
        return "there is one part only"
    if any(term.factors is None for term in parts):
        return "some queries are no product over attributes"
    if len(parts) > MOST_PARTS:
        return f"there are {len(parts)} parts (limit {MOST_PARTS})"
    return None


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_union(problem):
        return reason
    return refuses_dense(max((f.size for t in problem.terms for f in t.factors or ()), default=1))


def _plan(problem: CentralProblem) -> Proposal:
    found = split_strategy(
        problem.terms, problem.sizes, problem.norm, problem.neighbours, problem.grid_bits
    )
    return found.proposal(problem.privacy)


SPLIT = CentralMechanism(
    "split",
    "unions of products: every part its own best strategy and share of the budget",
    _refuses,
    _plan,
)
