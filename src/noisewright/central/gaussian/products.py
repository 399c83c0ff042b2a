"""The best linear strategies for products under Gaussian noise, from certified factorizations.

A union of products may be split: each part by itself, with its own share of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod

import numpy as np

from noisewright.arrays import IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import (
    USUAL_BITS,
    bits_each,
    quantise,
    small_integers,
)
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.certified import (
    FREE_NOISE,
    PAIR_CELLS,
    contrasts_by_pairs,
)
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.kernel.factorization import without_offsets
from noisewright.stages import stage
from noisewright.workload import Workload
from noisewright.workload.structure import Term

DENSE_CELLS = 2048
"""Cells of one factor up to which a dense strategy is optimised."""

MOST_PARTS = 64
"""Parts up to which each gets a strategy of its own."""

# cells of a dense strategy that is found in seconds, by norm
_DENSE_QUICK = {2.0: 1024}
# the same for other means, whose row weights are searched too
_DENSE_QUICK_OTHERWISE = 400
# of an entry: rounding then adds 2^-18 of it, which no printed digit shows
_MOST_BITS = 18
_SPARE_BITS = 6  # shares of the budget make noise larger
# grid steps of the largest entry, at least 2^10: noise is then as good as continuous
_GRID_BITS = 10
_SMALL = 64  # cells of a problem that is solved in a moment, whatever the tolerance
_SETTLED = 1.001  # of the bound: no other strategy could do visibly better


def _product_strategy(
    term: Term,
    sizes: tuple[int, ...],
    norm: float,
    total_bits: int = USUAL_BITS,
) -> Candidate:
    """The best linear strategy for a product of workloads: factor by factor, bounds multiplied."""
    known: dict[str, Factorization] = {}
    for i, factor in term.by_attribute.items():
        if (text := factor.text()) not in known:
            # Small problems cost nothing: solved to where no printed digit changes.
            tolerance = 1e-8 if sizes[i] <= _SMALL else 5e-7
            known[text] = factorize(
                factor,
                norm=norm,
                tolerance=tolerance,
                progress=partial(
                    _tell, f"{factor.queries:,} queries over {factor.size:,} cells"
                ),
            )

    factors = term.factors or ()
    solved = [known[factor.text()] for factor in factors]
    real = [factorization.strategy.dense() for factorization in solved]
    inexact = sum(small_integers(strategy) is None for strategy in real)
    bits = bits_each(total_bits, inexact, _MOST_BITS)
    matrices = [quantise(a, f, bits) for a, f in zip(real, factors, strict=True)]
    block = Block(term.attributes, tuple(matrices), multiplier=fine_grid(matrices))

    notes = [factorization.explanation for factorization in solved] or ["one count"]

    return Candidate(
        BlockStrategy(sizes, (block,)),
        term.weight * prod(factorization.value for factorization in solved),
        term.weight * prod(factorization.lower_bound for factorization in solved),
        "weighted nuclear norm",
        "; ".join(dict.fromkeys(notes)),
    )


def _tell(what: str, gap: float) -> None:
    stage(f"factorizing {what}: gap {gap:.0e}")


def _replaced_product(
    term: Term,
    sizes: tuple[int, ...],
    norm: float,
    total_bits: int = USUAL_BITS,
) -> Candidate:
    """For replaced people: few cells exactly, pair by pair; products as for added people."""
    factors = term.factors or ()
    exact = None
    if len(factors) == 1 and factors[0].size <= PAIR_CELLS:
        exact = _by_pairs(term, sizes, norm, total_bits)

    reached = inf
    if exact is not None:
        shifted = without_offsets(factors[0])
        target = replace(term, inner=shifted, factors=(shifted,))
        reached = unit_error(exact.strategy, [target], norm, 2, "replace-one")
        if reached <= _SETTLED * (exact.bound or 0.0):
            return exact

    strategy = _product_strategy(term, sizes, norm, total_bits).strategy
    value = unit_error(strategy, [term], norm, 2, "replace-one")
    status = (
        "best linear strategy for added people, under the sensitivity of replaced ones"
    )
    if exact is None:
        return Candidate(strategy, value, None, "none", status, "replace-one")
    if reached <= value:
        return exact

    return replace(exact, strategy=strategy, value=value, status=status)


def _by_pairs(
    term: Term,
    sizes: tuple[int, ...],
    norm: float,
    total_bits: int,
) -> Candidate | None:
    """The exact optimum over differences of columns, and the public number of people beside it."""
    (workload,) = term.factors or ()
    bits = bits_each(total_bits - 6, 1, _MOST_BITS)
    optimum = contrasts_by_pairs(without_offsets(workload), norm, bits)
    if optimum is None:
        return None

    axis, solved = optimum
    grid = fine_grid([axis.contrasts])
    total = Block((), (), FREE_NOISE)
    alone = BlockStrategy(sizes, (Block(term.attributes, (axis.contrasts,)),))
    scale = alone.sensitivity(2, "replace-one")
    contrasts = Block(
        term.attributes,
        (axis.contrasts,),
        scale * grid,
        grid,
    )
    strategy = BlockStrategy(sizes, (total, contrasts))
    value = term.weight * solved.value
    bound = term.weight * solved.lower_bound
    certificate = "nuclear norm weighted over pairs of cells"

    return Candidate(
        strategy,
        value,
        bound,
        certificate,
        solved.explanation,
        "replace-one",
    )


def fine_grid(matrices: Sequence[IntArray]) -> int:
    """A multiplier that makes the grid so fine that rounding adds nothing one could see."""
    reach = prod(int(np.abs(matrix).max()) for matrix in matrices)
    return 1 << max(0, _GRID_BITS - reach.bit_length())


def as_one_axis(workload: Workload) -> Term:
    """The whole workload as one factor over all cells."""
    return Term(
        1.0,
        (0,),
        workload,
        (workload,),
    )


def refuses_dense(cells: int) -> str | None:
    """Why no dense strategy is optimised over so many cells, or None."""
    if cells > DENSE_CELLS:
        return f"a dense strategy over {cells} cells is too large (limit {DENSE_CELLS})"
    return None


def largest_factor(problem: CentralProblem) -> int:
    """Cells of the largest factor of a single product, or of the whole domain."""
    if not problem.single_product:
        return problem.workload.size
    return max(
        (problem.sizes[i] for i in problem.terms[0].attributes),
        default=1,
    )


def _slow(problem: CentralProblem) -> bool:
    """All cells of several terms together: hundreds of large eigenproblems."""
    quick = _DENSE_QUICK.get(problem.norm, _DENSE_QUICK_OTHERWISE)
    return not problem.single_product and problem.workload.size > quick


def _plan(problem: CentralProblem) -> Proposal:
    term = problem.terms[0]
    sizes = problem.sizes
    public = problem.neighbours == "replace-one"
    few = public and problem.workload.size <= PAIR_CELLS
    if few or not problem.single_product:
        term = as_one_axis(problem.workload)
        sizes = (problem.workload.size,)

    search = _replaced_product if public else _product_strategy
    return search(term, sizes, problem.norm, problem.grid_bits).proposal(problem)


GAUSSIAN_STRATEGY = CentralMechanism(
    "gaussian-strategy",
    "best linear strategy for Gaussian noise: dense, or factor by factor",
    lambda problem: refuses_gaussian(problem) or refuses_dense(largest_factor(problem)),
    _plan,
    slow=_slow,
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


def _refuses_split(problem: CentralProblem) -> str | None:
    largest = max(
        (f.size for t in problem.terms for f in t.factors or ()),
        default=1,
    )
    return refuses_union(problem) or refuses_dense(largest)


def _split(problem: CentralProblem) -> Proposal:
    """Every part its own optimal strategy, and the share of the budget that makes the whole best.

    With s_k the share of the squared sensitivity, part k has p-th power error P_k·s_k^(-p/2), so
    the best shares go as P_k^(2/(p+2)); at p = ∞, as the squares of the largest errors.
    """
    terms = problem.terms
    norm = problem.norm
    neighbours = problem.neighbours
    bits = problem.grid_bits - _SPARE_BITS
    parts = [_product_strategy(term, problem.sizes, norm, bits) for term in terms]

    errors = np.array([part.value for part in parts])
    queries = np.array([term.queries for term in terms], dtype=np.float64)
    shares = errors**2
    if not np.isinf(norm):
        shares = (queries * errors**norm) ** (2 / (norm + 2))

    lengths = [max(part.strategy.sensitivity(2, neighbours), 1e-9) for part in parts]
    noises = lengths / np.sqrt(shares / shares.sum())
    pairs = zip(parts, noises.tolist(), strict=True)
    strategy = BlockStrategy.of_parts(
        [part.strategy.with_noise(noise) for part, noise in pairs]
    )
    value = unit_error(strategy, terms, norm, 2, neighbours)

    bounds = np.array([part.bound or 0.0 for part in parts])
    hardest = float((bounds * (queries / queries.sum()) ** (1 / norm)).max())

    return Candidate(
        strategy,
        value,
        hardest if neighbours == "add-remove" else None,
        "the hardest part alone",
        f"{len(parts)} parts answered separately: they need not agree with each other",
        neighbours,
    ).proposal(problem)


SPLIT = CentralMechanism(
    "split",
    "unions of products: every part its own best strategy and share of the budget",
    _refuses_split,
    _split,
)
