"""The best of the strategies for pure privacy: products, whole tables, rows with signs.

Pure privacy for replaced people: their number is public, and rows with signs pay.

No replaced person changes the total, so it is measured for nothing: a row K·1ᵀ with a large K
beside the rows of `signed_identity`. Columns of L1 norm one are at most two apart; how far exactly
is taken from the integers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf, sqrt

import numpy as np

from noisewright.arrays import IntArray
from noisewright.central.baselines import (
    candidate_strategy,
    counted_cells,
    refuses_cells,
)
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.certified import PAIR_CELLS
from noisewright.central.gaussian.products import (
    as_one_axis,
    fine_grid,
    largest_factor,
    refuses_dense,
)
from noisewright.central.laplace.pure_bound import LARGEST, pure_bound
from noisewright.central.laplace.pure_bound import NAME as L1_BOUND
from noisewright.central.laplace.tables import (
    laplace_tables,
    least_of_tables,
)
from noisewright.central.laplace.weighted_products import (
    MOST_BITS,
    finest_quantised,
    laplace_product,
)
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.norm.factorize import factorize
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.norm.l1_search import signed_identity
from noisewright.privacy.exact.rounding import SCALE_LIMIT
from noisewright.privacy.least_noise import least_second_moment
from noisewright.workload import Workload

# cells up to which whole tables and a dense strategy are both tried
_SMALL_DOMAIN = 512
_SETTLED = 1.001  # of the bound: no other strategy could do visibly better


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_laplace(problem):
        return reason
    if not problem.single_product and problem.by_tables and len(problem.sizes) > 1:
        return None
    return refuses_dense(largest_factor(problem))


def _plan(problem: CentralProblem) -> Proposal:
    options = _options(problem)
    if problem.neighbours == "replace-one":
        options = [_for_replaced(problem, option) for option in options]
        if 1 < problem.workload.size <= MOST_CELLS:
            shifted = without_offsets(problem.workload)
            most = _largest_sensitivity(problem)
            options.append(replaced_laplace(shifted, problem.sizes, problem.norm, most))

    if not problem.single_product and refuses_cells(problem) is None:
        options.append(candidate_strategy(problem, *counted_cells(problem)))

    best = min(options, key=lambda option: option.value)
    tightest = max(options, key=lambda option: option.bound or 0.0)
    best = replace(best, bound=tightest.bound, certificate=tightest.certificate)

    return best.proposal(problem)


def _least(problem: CentralProblem) -> float:
    """What no plan goes below where nothing but weights on whole tables is tried, or zero.

    Noise on a grid in parts of a person is no less than on whole people, for whom it is the least.
    """
    if problem.single_product or not problem.by_tables or len(problem.sizes) < 2:
        return 0.0
    if problem.workload.size <= max(_SMALL_DOMAIN, MOST_CELLS):
        return 0.0
    return sqrt(least_second_moment(problem.privacy)) * problem.once(_least_of_tables)


def _least_of_tables(problem: CentralProblem) -> float:
    return least_of_tables(problem.terms, problem.sizes)


def _options(problem: CentralProblem) -> list[Candidate]:
    norm = problem.norm
    most = _largest_sensitivity(problem)
    added = problem.neighbours == "add-remove"
    whole = (
        as_one_axis(problem.workload),
        (problem.workload.size,),
        norm,
        most,
        added,
    )
    options = []
    if problem.single_product:
        product = laplace_product(
            problem.terms[0],
            problem.sizes,
            norm,
            most,
            added,
        )
        if not problem.counts or product.value <= _SETTLED * (product.bound or 0.0):
            return [product]
        options.append(product)
    elif problem.workload.size <= _SMALL_DOMAIN:
        options.append(laplace_product(*whole))

    if len(problem.sizes) > 1 and problem.by_tables:
        options.append(laplace_tables(problem.terms, problem.sizes, norm))

    return options or [laplace_product(*whole)]


def _largest_sensitivity(problem: CentralProblem) -> float:
    """Grid steps that one neighbour may move the measurements: more needs too much noise."""
    doubled = 1 if problem.neighbours == "add-remove" else 2
    return SCALE_LIMIT * problem.epsilon / doubled


def _for_replaced(problem: CentralProblem, option: Candidate) -> Candidate:
    """A strategy for added people, valued for replaced ones; its bound does not hold for them."""
    joint = option.strategy.sizes != problem.sizes
    terms = [as_one_axis(problem.workload)] if joint else problem.terms
    value = unit_error(
        option.strategy,
        terms,
        problem.norm,
        1,
        "replace-one",
    )
    status = "planned for added people, under the sensitivity of replaced ones"

    return Candidate(
        option.strategy,
        value,
        None,
        "none",
        status,
        "replace-one",
    )


LAPLACE_STRATEGY = CentralMechanism(
    "laplace-strategy",
    "pure privacy: cells, sums and whole tables with optimised weights",
    _refuses,
    _plan,
    least=_least,
)

MOST_CELLS = 1024
"""Cells up to which strategies for replaced people are searched."""

L2_BOUND = "L2 bound over pairs of cells, valid for pure privacy too"
# times the sensitivity: what noise then does to the public total is not seen
_FREE = 2**20


def replaced_laplace(
    workload: Workload,
    sizes: tuple[int, ...],
    norm: float,
    largest: float = inf,
) -> Candidate:
    """A strategy over all cells for replaced people, with an L1 distance of at most `largest`."""
    best = signed_identity(workload.gram(), tuple(n for n in sizes if n > 1))

    def on_grid(bits: int) -> BlockStrategy:
        whole = best.integers(bits)
        total = _FREE * int(np.abs(whole).sum(axis=0).max())
        row: IntArray = np.full((1, whole.shape[1]), total, dtype=np.int64)
        rows = np.concatenate([whole, row])
        block = Block((0,), (rows,), multiplier=fine_grid([whole]))
        return BlockStrategy((whole.shape[1],), (block,))

    strategy = finest_quantised(on_grid, MOST_BITS, 1, "replace-one", largest)
    value = unit_error(strategy, [as_one_axis(workload)], norm, 1, "replace-one")
    bound, name = replaced_bound(workload, norm)
    status = "best of several starts"

    return Candidate(strategy, value, bound, name, status, "replace-one")


def replaced_bound(workload: Workload, norm: float) -> tuple[float, str]:
    """The largest of the bounds known: L2 distances, and L1 of differences of columns.

    With R A = W, R maps a_u − a_v to w_u − w_v, and a_u − ā (at most 1 − 1/n of the largest
    distance) to w_u − w̄: strategies in the L1 ball for these columns.
    """
    size = workload.size
    gram = workload.gram().dense()
    bounds = []
    if size <= PAIR_CELLS:
        solved = factorize(
            workload,
            norm=norm,
            neighbours="replace-one",
            tolerance=1e-3,
        )
        bounds.append((solved.lower_bound, L2_BOUND))

    if size * (size - 1) // 2 <= LARGEST:
        first, second = np.array(list(combinations(range(size), 2))).T
        rows = gram[first] - gram[second]
        bounds.append(
            (
                pure_bound(rows[:, first] - rows[:, second], workload.queries),
                L1_BOUND,
            )
        )
    else:
        means = gram.mean(axis=0)
        centred = gram - means - means[:, None] + means.mean()
        bounds.append(
            (
                pure_bound(centred, workload.queries) * size / (size - 1),
                L1_BOUND,
            )
        )

    return max(bounds)
