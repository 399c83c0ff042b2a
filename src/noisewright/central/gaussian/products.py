"""The best linear strategies for products under Gaussian noise, from certified factorizations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.grid import USUAL_BITS, bits_each
from noisewright.central.blocks.quantise import quantise, small_integers
from noisewright.central.blocks.variance import unit_error
from noisewright.central.candidate import Candidate
from noisewright.central.gaussian.replaced import FREE_NOISE, PAIR_CELLS, contrasts_by_pairs
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_gaussian,
)
from noisewright.errors import TooLarge
from noisewright.norm.factorization import without_offsets
from noisewright.norm.factorize import factorize
from noisewright.workload import Workload
from noisewright.workload.structure import Term

DENSE_CELLS = 2048
"""Cells of one factor up to which a dense strategy is optimised."""

_DENSE_QUICK = {2.0: 1024}  # cells of a dense strategy that is found in seconds, by norm
_DENSE_QUICK_OTHERWISE = 400
_MOST_BITS = 18
_GRID_BITS = 10
_SMALL = 64
_SETTLED = 1.001  # of the bound: no other strategy could do visibly better


def product_strategy(
    term: Term, sizes: tuple[int, ...], norm: float, total_bits: int = USUAL_BITS
) -> Candidate:
    """The best linear strategy for a product of workloads: factor by factor, bounds multiplied."""
    if term.factors is None:
        return product_strategy(as_one_axis(term.inner), (prod(sizes),), norm, total_bits)
    for factor in term.factors:
        if factor.size > DENSE_CELLS:
            raise TooLarge(
                f"workload {factor.brief()} has {factor.size} cells; a dense strategy is optimised "
                f"up to {DENSE_CELLS}; combine attributes with '*' or coarsen the bins"
            )
    known = {f.text(): factorize(f, norm=norm, tolerance=_tolerance(f)) for f in term.factors}
    solved = [known[factor.text()] for factor in term.factors]
    real = [s.strategy.dense() for s in solved]
    inexact = sum(small_integers(strategy) is None for strategy in real)
    bits = bits_each(total_bits, inexact, _MOST_BITS)
    matrices = [quantise(a, f, bits) for a, f in zip(real, term.factors, strict=True)]
    value = term.weight * prod(s.value for s in solved)
    bound = term.weight * prod(s.lower_bound for s in solved)
    notes = [s.explanation for s in solved] or ["one count"]
    block = Block(term.attributes, tuple(matrices), multiplier=fine_grid(matrices))
    strategy = BlockStrategy(sizes, (block,))
    return Candidate(
        strategy, value, bound, "weighted nuclear norm", "; ".join(dict.fromkeys(notes))
    )


def _tolerance(factor: Workload) -> float:
    """Small problems cost nothing: solved to where no printed digit changes."""
    return 1e-8 if factor.size <= _SMALL else 5e-7


def replaced_product(
    term: Term, sizes: tuple[int, ...], norm: float, total_bits: int = USUAL_BITS
) -> Candidate:
    """For replaced people: few cells exactly, pair by pair; products as for added people."""
    if term.factors is None:
        return replaced_product(as_one_axis(term.inner), (prod(sizes),), norm, total_bits)
    exact = None
    if len(term.factors) == 1 and term.factors[0].size <= PAIR_CELLS:
        exact = _by_pairs(term, sizes, norm, total_bits)
    if exact is not None:
        shifted = as_one_axis(without_offsets(term.factors[0]))
        shifted = replace(term, inner=shifted.inner, factors=shifted.factors)
        reached = unit_error(exact.strategy, [shifted], norm, 2, "replace-one")
        if reached <= _SETTLED * (exact.bound or 0.0):
            return exact
    strategy = product_strategy(term, sizes, norm, total_bits).strategy
    value = unit_error(strategy, [term], norm, 2, "replace-one")
    told = "best linear strategy for added people, under the sensitivity of replaced ones"
    if exact is None:
        return Candidate(strategy, value, None, "none", told, "replace-one")
    if reached <= value:
        return exact
    return replace(exact, strategy=strategy, value=value, status=told)


def _by_pairs(term: Term, sizes: tuple[int, ...], norm: float, total_bits: int) -> Candidate | None:
    """The exact optimum over differences of columns, and the public number of people beside it."""
    (workload,) = term.factors or ()
    bits = bits_each(total_bits - 6, 1, _MOST_BITS)
    searched = contrasts_by_pairs(without_offsets(workload), norm, bits)
    if searched is None:
        return None
    axis, solved = searched
    grid = fine_grid([axis.contrasts])
    total = Block((), (), FREE_NOISE)
    alone = BlockStrategy(sizes, (Block(term.attributes, (axis.contrasts,)),))
    scale = alone.sensitivity(2, "replace-one")
    contrasts = Block(term.attributes, (axis.contrasts,), scale * grid, grid)
    strategy = BlockStrategy(sizes, (total, contrasts))
    value, bound = term.weight * solved.value, term.weight * solved.lower_bound
    told = "nuclear norm weighted over pairs of cells"
    return Candidate(strategy, value, bound, told, solved.explanation, "replace-one")


def fine_grid(matrices: Sequence[Integers]) -> int:
    """A multiplier that makes the grid so fine that rounding adds nothing one could see."""
    reach = prod(int(np.abs(matrix).max()) for matrix in matrices)
    return 1 << max(0, _GRID_BITS - reach.bit_length())


def as_one_axis(workload: Workload) -> Term:
    """The whole workload as one factor over all cells."""
    return Term(1.0, (0,), workload, (workload,))


def refuses_dense(cells: int) -> str | None:
    """Why no dense strategy is optimised over so many cells, or None."""
    if cells > DENSE_CELLS:
        return f"a dense strategy over {cells} cells is too large (limit {DENSE_CELLS})"
    return None


def largest_factor(problem: CentralProblem) -> int:
    """Cells of the largest factor of a single product, or of the whole domain."""
    if not problem.single_product:
        return problem.workload.size
    return max((f.size for f in problem.terms[0].factors or ()), default=1)


def _slow(problem: CentralProblem) -> bool:
    """All cells of several terms together: hundreds of large eigenproblems."""
    quick = _DENSE_QUICK.get(problem.norm, _DENSE_QUICK_OTHERWISE)
    return not problem.single_product and problem.workload.size > quick


def _plan(problem: CentralProblem) -> Proposal:
    term, sizes = problem.terms[0], problem.sizes
    public = problem.neighbours == "replace-one"
    few = public and problem.workload.size <= PAIR_CELLS
    if few or not problem.single_product:
        term, sizes = as_one_axis(problem.workload), (problem.workload.size,)
    search = replaced_product if public else product_strategy
    return search(term, sizes, problem.norm, problem.grid_bits).proposal(problem.privacy)


GAUSSIAN_STRATEGY = CentralMechanism(
    "gaussian-strategy",
    "best linear strategy for Gaussian noise: dense, or factor by factor",
    lambda problem: refuses_gaussian(problem) or refuses_dense(largest_factor(problem)),
    _plan,
    slow=_slow,
)
