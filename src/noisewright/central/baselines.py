"""The plain mechanisms others are measured against: equal noise on answers, cells or a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    Refusal,
    refuses_gaussian,
    refuses_laplace,
)
from noisewright.workload import Identity, Total, Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term
from noisewright.workload.tensor import mean_error

LARGEST_FACTOR = 2**20
"""Entries of a factor's own matrix up to which its answers are measured one by one."""

LARGEST_TREE = 2048
"""Cells of a factor up to which a tree over them is compared."""

_MULTIPLIER = 1024
_BRANCHES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


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
    apart = len({term.attributes for term in terms}) == len(terms)
    if len(terms) > 1 and apart and all(term.is_counts for term in terms):
        return None
    return "only one product of queries, or several tables of counts, are measured one by one"


def direct_strategy(
    terms: Sequence[Term], sizes: tuple[int, ...], norm: float, neighbours: str, order: int
) -> Candidate:
    """Every answer measured with the same noise; answers that overlap are made consistent."""
    blocks = []
    for term in terms:
        factors = tuple(_integers(factor.dense()) for factor in term.factors or ())
        noise = _MULTIPLIER / (term.weight if len(terms) > 1 else 1.0)
        blocks.append(Block(term.attributes, factors, noise, _MULTIPLIER))
    strategy = BlockStrategy(sizes, tuple(blocks))
    value = unit_error(strategy, terms, norm, order, neighbours)
    return Candidate(strategy, value, None, "none", "equal noise on every answer", neighbours)


def refuses_cells(terms: Sequence[Term], sizes: tuple[int, ...]) -> str | None:
    """Why the cells of the attributes asked cannot be counted one by one, or None."""
    cells = prod(sizes[i] for i in _asked(terms))
    return f"{cells:,} cells are too many to count" if cells > LARGEST_FACTOR else None


def cells_strategy(
    terms: Sequence[Term], sizes: tuple[int, ...], norm: float, neighbours: str, order: int
) -> Candidate:
    """Every cell of the attributes asked, counted under the same noise."""
    asked = _asked(terms)
    matrices = tuple(np.eye(sizes[i], dtype=np.int64) for i in asked)
    strategy = BlockStrategy(sizes, (Block(asked, matrices, _MULTIPLIER, _MULTIPLIER),))
    value = unit_error(strategy, terms, norm, order, neighbours)
    return Candidate(strategy, value, None, "none", "equal noise on every cell", neighbours)


def refuses_tree(terms: Sequence[Term]) -> str | None:
    """Why intervals in a tree do not suit these queries, or None."""
    if len(terms) > 1 or terms[0].factors is None:
        return "a tree of intervals is for one product of queries"
    if all(isinstance(factor, Identity | Total) for factor in terms[0].factors):
        return "plain counts need no tree of intervals"
    if max(factor.size for factor in terms[0].factors) > LARGEST_TREE:
        return f"trees of intervals are compared up to {LARGEST_TREE} cells"
    return None


def tree_strategy(
    terms: Sequence[Term], sizes: tuple[int, ...], norm: float, neighbours: str, order: int
) -> Candidate:
    """Sums over the intervals of a tree [007], whole to cells, under equal noise, best branched."""
    (term,) = terms
    found = [_best_tree(factor, norm, order) for factor in term.factors or ()]
    matrices = tuple(matrix for matrix, _ in found)
    strategy = BlockStrategy(sizes, (Block(term.attributes, matrices, _MULTIPLIER, _MULTIPLIER),))
    value = unit_error(strategy, terms, norm, order, neighbours)
    branching = ", ".join(str(branches) for _, branches in found if branches)
    return Candidate(
        strategy, value, None, "none", f"equal noise, {branching} branches", neighbours
    )


def _best_tree(factor: Workload, norm: float, order: int) -> tuple[Integers, int]:
    if isinstance(factor, Identity | Total):
        return _integers(factor.dense()), 0

    def error(branches: int) -> float:
        matrix = _tree(factor.size, branches).astype(np.float64)
        covariance = np.asarray(np.linalg.inv(matrix.T @ matrix), dtype=np.float64)
        levels = float(matrix[:, 0].sum())
        spread = levels if order == 1 else float(np.sqrt(levels))
        return spread * mean_error(np.sqrt(factor.row_quadratics(covariance)), norm)

    best = min(_BRANCHES, key=error)
    return _tree(factor.size, best), best


def _tree(cells: int, branches: int) -> Integers:
    """All intervals of a tree over the cells: the whole, its children, down to the cells."""
    levels, width = [np.eye(cells, dtype=np.int64)], branches
    while width < cells * branches:
        starts = np.arange(0, cells, width)
        levels.append(np.add.reduceat(levels[0], starts, axis=0))
        width *= branches
    return np.concatenate(levels[::-1])


def _asked(terms: Sequence[Term]) -> tuple[int, ...]:
    return tuple(sorted({i for term in terms for i in term.attributes}))


def _integers(matrix: FloatArray) -> Integers:
    return np.rint(matrix).astype(np.int64)


def _entries(noise: str, refuses: Refusal) -> list[CentralMechanism]:
    """Equal noise on every answer, every cell, or every interval of a tree."""

    def entry(
        suffix: str, what: str, unfit: Refusal, strategy: Callable[..., Candidate]
    ) -> CentralMechanism:
        def plan(problem: CentralProblem) -> Proposal:
            terms, sizes, norm = problem.terms, problem.sizes, problem.norm
            found = strategy(terms, sizes, norm, problem.neighbours, problem.order)
            return found.proposal(problem)

        return CentralMechanism(
            noise + suffix,
            f"the same {noise.capitalize()} noise on every {what}",
            lambda problem: refuses(problem) or unfit(problem),
            plan,
            baseline=True,
        )

    return [
        entry("", "answer", lambda p: refuses_direct(p.terms), direct_strategy),
        entry("-cells", "cell", lambda p: refuses_cells(p.terms, p.sizes), cells_strategy),
        entry("-tree", "interval of a tree", lambda p: refuses_tree(p.terms), tree_strategy),
    ]


BASELINES = (*_entries("gaussian", refuses_gaussian), *_entries("laplace", refuses_laplace))
