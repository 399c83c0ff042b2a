"""The plain mechanisms others are measured against: equal noise on answers, cells or a tree."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import as_one_axis
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    Refusal,
    refuses_gaussian,
    refuses_laplace,
)
from noisewright.workload import Identity, Parity, Total, Workload
from noisewright.workload.linear.tensor import mean_error

LARGEST_FACTOR = 2**20
"""Entries of a factor's own matrix up to which its answers are measured one by one."""

LARGEST_TREE = 2048
"""Cells of a factor up to which a tree over them is compared."""

Measured = tuple[BlockStrategy, str]
"""What is measured, and words for it."""

_MULTIPLIER = 1024
_BRANCHES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


def _refuses_answers(problem: CentralProblem) -> str | None:
    terms = problem.terms
    if problem.single_product:
        for factor in terms[0].factors or ():
            if factor.queries * factor.size > LARGEST_FACTOR:
                return f"{factor.brief()} has too many queries to measure one by one"
            rows = factor.dense()
            if not (rows == np.rint(rows)).all() or np.abs(rows).max() > 2**20:
                return "only queries with small integer coefficients are measured one by one"
        return None

    if (
        len(terms) > 1
        and problem.structure.tables
        and len({t.attributes for t in terms}) == len(terms)
    ):
        return None

    if isinstance(problem.workload, Parity):
        few = problem.workload.queries * problem.workload.size <= LARGEST_FACTOR
        return None if few else "these parities are too many to measure one by one"

    return "only one product of queries, or several tables of counts, are measured one by one"


def _answers(problem: CentralProblem) -> Measured:
    """Every answer measured with the same noise; answers that overlap are made consistent."""
    blocks = []
    status = "equal noise on every answer"
    # in one block: nobody flips all signs at once
    if isinstance(problem.workload, Parity):
        block = Block(
            (0,), (_integers(problem.workload.dense()),), _MULTIPLIER, _MULTIPLIER
        )
        return BlockStrategy((problem.workload.size,), (block,)), status

    for term in problem.terms:
        factors = tuple(_integers(factor.dense()) for factor in term.factors or ())
        noise = _MULTIPLIER / (term.weight if len(problem.terms) > 1 else 1.0)
        blocks.append(Block(term.attributes, factors, noise, _MULTIPLIER))

    return BlockStrategy(problem.sizes, tuple(blocks)), status


def refuses_cells(problem: CentralProblem) -> str | None:
    """Why the cells of the attributes asked are not counted one by one, or None."""
    cells = prod(problem.sizes[i] for i in _attributes(problem))
    return f"{cells:,} cells are too many to count" if cells > LARGEST_FACTOR else None


def counted_cells(problem: CentralProblem) -> Measured:
    """Every cell of the attributes asked, counted under the same noise."""
    attributes = _attributes(problem)
    factors = tuple(np.eye(problem.sizes[i], dtype=np.int64) for i in attributes)
    block = Block(attributes, factors, _MULTIPLIER, _MULTIPLIER)
    return BlockStrategy(problem.sizes, (block,)), "equal noise on every cell"


def _refuses_tree(problem: CentralProblem) -> str | None:
    if not problem.single_product:
        return "a tree of intervals is for one product of queries"

    factors = problem.terms[0].factors or ()
    if all(isinstance(factor, Identity | Total) for factor in factors):
        return "plain counts need no tree of intervals"
    if max(factor.size for factor in factors) > LARGEST_TREE:
        return f"trees of intervals are compared up to {LARGEST_TREE} cells"
    return None


def _trees(problem: CentralProblem) -> Measured:
    """Sums over the intervals of a tree [007], whole to cells, under equal noise, best branched."""
    (term,) = problem.terms
    trees = [
        _best_tree(factor, problem.norm, problem.order) for factor in term.factors or ()
    ]
    factors = tuple(matrix for matrix, _ in trees)
    branching = ", ".join(str(branches) for _, branches in trees if branches)
    block = Block(term.attributes, factors, _MULTIPLIER, _MULTIPLIER)

    return BlockStrategy(problem.sizes, (block,)), f"equal noise, {branching} branches"


def _best_tree(
    factor: Workload,
    norm: float,
    order: int,
) -> tuple[IntArray, int]:
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


def _tree(cells: int, branches: int) -> IntArray:
    """All intervals of a tree over the cells: the whole, its children, down to the cells."""
    levels = [np.eye(cells, dtype=np.int64)]
    width = branches
    while width < cells * branches:
        starts = np.arange(0, cells, width)
        levels.append(np.add.reduceat(levels[0], starts, axis=0))
        width *= branches
    return np.concatenate(levels[::-1])


def _attributes(problem: CentralProblem) -> tuple[int, ...]:
    return tuple(sorted({i for term in problem.terms for i in term.attributes}))


def _integers(matrix: FloatArray) -> IntArray:
    return np.rint(matrix).astype(np.int64)


def valued(
    problem: CentralProblem,
    strategy: BlockStrategy,
    status: str,
) -> Candidate:
    """A strategy with its error for what is asked, over attributes or over all cells at once."""
    whole = strategy.sizes != problem.sizes
    asked = [as_one_axis(problem.workload)] if whole else problem.terms
    value = unit_error(
        strategy,
        asked,
        problem.norm,
        problem.order,
        problem.neighbours,
    )
    return Candidate(
        strategy,
        value,
        None,
        "none",
        status,
        problem.neighbours,
    )


def _entries(noise: str, refuses: Refusal) -> list[CentralMechanism]:
    """Equal noise on every answer, every cell, or every interval of a tree."""

    def entry(
        suffix: str,
        what: str,
        unfit: Refusal,
        measured: Callable[[CentralProblem], Measured],
    ) -> CentralMechanism:
        def plan(problem: CentralProblem) -> Proposal:
            return valued(problem, *measured(problem)).proposal(problem)

        return CentralMechanism(
            noise + suffix,
            f"the same {noise.capitalize()} noise on every {what}",
            lambda problem: refuses(problem) or unfit(problem),
            plan,
            baseline=True,
        )

    return [
        entry("", "answer", _refuses_answers, _answers),
        entry("-cells", "cell", refuses_cells, counted_cells),
        entry("-tree", "interval of a tree", _refuses_tree, _trees),
    ]


BASELINES = (
    *_entries("gaussian", refuses_gaussian),
    *_entries("laplace", refuses_laplace),
)
