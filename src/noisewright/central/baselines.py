"""The plain mechanisms others are measured against: equal noise on answers, cells or a tree.

A strategy that somebody brings: their matrix on an integer grid, measured and valued like ours.

Entries that are whole numbers are measured as they are. Others are rounded to a fine grid, without
moving the row space that the queries need; sensitivity, noise and answers are then those of the
integers, so that the promise is exact whatever the matrix was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import (
    bits_each,
    grid_bits,
    integer_basis,
    integer_multiple,
    small_integers,
)
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import (
    as_one_axis,
    fine_grid,
    refuses_dense,
)
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    Refusal,
    refuses_gaussian,
    refuses_laplace,
)
from noisewright.errors import (
    InvalidParameter,
    OutOfReach,
    TooLarge,
    require,
)
from noisewright.workload import Identity, Parity, Total, Workload
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.structure import Term

LARGEST_FACTOR = 2**20
"""Entries of a factor's own matrix up to which its answers are measured one by one."""

LARGEST_TREE = 2048
"""Cells of a factor up to which a tree over them is compared."""

Measured = tuple[BlockStrategy, str]
"""What is measured, and words for it."""

# grid steps to one: noise of scale one or more is then as good as continuous
_MULTIPLIER = 1024
# children of a node that are tried: the best tree is taken
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
            (0,),
            (_integers(problem.workload.dense()),),
            _MULTIPLIER,
            _MULTIPLIER,
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


def candidate_strategy(
    problem: CentralProblem,
    strategy: BlockStrategy,
    status: str,
) -> Candidate:
    """A strategy with its error for what is asked, over attributes or over all cells at once."""
    whole = strategy.sizes != problem.sizes
    asked = [as_one_axis(problem.workload)] if whole else problem.terms
    return _candidate(problem, strategy, asked, status)


def _candidate(
    problem: CentralProblem, strategy: BlockStrategy, asked: Sequence[Term], status: str
) -> Candidate:
    """A strategy with its error for these terms, and no bound on it."""
    neighbours = problem.neighbours
    value = unit_error(strategy, asked, problem.norm, problem.order, neighbours)
    return Candidate(strategy, value, None, "none", status, neighbours)


def _entries(noise: str, refuses: Refusal) -> list[CentralMechanism]:
    """Equal noise on every answer, every cell, or every interval of a tree."""

    def entry(
        suffix: str,
        what: str,
        unfit: Refusal,
        measured: Callable[[CentralProblem], Measured],
    ) -> CentralMechanism:
        def plan(problem: CentralProblem) -> Proposal:
            return candidate_strategy(problem, *measured(problem)).proposal(problem)

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

OWN_STRATEGY = "own-strategy"

# of an entry, as for our own strategies: their squares, added over cells, fit a word
_MOST_BITS = 18
_LARGEST_WHOLE = 2**20  # whole numbers up to here are taken as they are
_LOST = 1e-6  # of a query's largest entry: what may not come back from the measurements
_RANK = 1e-9  # of the largest singular value: below it a direction is rounding
_MOST_ENTRIES = 2**26  # of a matrix that is taken: 512 MB


def own_candidate(problem: CentralProblem, matrix: npt.ArrayLike) -> Candidate:
    """The given matrix (a row per measurement, a column per cell) as a candidate for a problem."""
    workload = problem.workload
    real = _checked_matrix(matrix, workload.size)
    _check_support(real, workload)

    bits = bits_each(_bits(problem, len(real)), 1, _MOST_BITS)
    whole = _on_grid(real, workload, bits)
    block = Block((0,), (whole,), multiplier=fine_grid([whole]))
    strategy = BlockStrategy((workload.size,), (block,))

    status = f"{len(whole):,} measurements, as given"
    return _candidate(problem, strategy, [as_one_axis(workload)], status)


def _bits(problem: CentralProblem, rows: int) -> int:
    """Bits of the entries with which the budget's noise can be drawn."""
    epsilon = problem.privacy.epsilon
    pure = problem.order == 1 and epsilon is not None
    return grid_bits(rows / epsilon) if pure and epsilon else problem.grid_bits


def _checked_matrix(matrix: npt.ArrayLike, cells: int) -> FloatArray:
    """The matrix as numbers, one column per cell."""
    if reason := refuses_dense(cells):
        raise TooLarge(reason)

    try:
        real = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "strategy",
            type(matrix).__name__,
            "must be a matrix of numbers",
        ) from None

    require(
        real.ndim == 2
        and real.shape[1] == cells
        and len(real)
        and real.size <= _MOST_ENTRIES,
        "strategy",
        f"array of shape {real.shape}",
        f"must have one column per cell ({cells}) and at least one row",
        "give one row per measurement",
    )
    require(
        np.isfinite(real).all() and real.any(),
        "strategy",
        f"array of shape {real.shape}",
        "must have finite entries, not all zero",
    )

    return np.asarray(real[np.abs(real).max(axis=1) > 0])


def _check_support(real: FloatArray, workload: Workload) -> None:
    """Refuse a strategy from whose measurements a query does not follow."""
    lengths = np.abs(real).max(axis=1, keepdims=True)
    _, s, vt = np.linalg.svd(real / lengths, full_matrices=False)
    span = vt[s > _RANK * s[0]]
    if len(span) == workload.size:
        return

    for where, rows in workload.blocks_of_rows():
        lost = np.abs(rows - (rows @ span.T) @ span).max(axis=1)
        missed = np.flatnonzero(lost > _LOST * np.abs(rows).max(axis=1))
        if missed.size:
            raise OutOfReach(
                f"query {where.start + int(missed[0])} does not follow from the measurements of "
                f"`strategy` (it lies outside its row space); add rows that determine it"
            )


def _on_grid(
    real: FloatArray,
    workload: Workload,
    bits: int,
) -> IntArray:
    if (real == np.rint(real)).all() and np.abs(real).max() <= _LARGEST_WHOLE:
        return real.astype(np.int64)

    exact = small_integers(real)
    if exact is not None:
        return exact

    rank = int(np.linalg.matrix_rank(real))
    if rank == real.shape[1]:
        return integer_multiple(real, bits)

    basis = integer_basis(workload)
    if basis is None or rank != len(basis):
        raise InvalidParameter(
            "strategy",
            f"matrix of rank {rank} over {real.shape[1]} cells",
            "cannot be rounded to a grid without losing queries",
            "scale it to whole numbers, or let its rows span all cells or just the queries",
        )

    return (
        integer_multiple(real @ np.linalg.pinv(basis.astype(np.float64)), bits) @ basis
    )
