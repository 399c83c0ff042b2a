"""The best linear strategies for products under Gaussian noise, from certified factorizations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.grid import USUAL_BITS, bits_each
from noisewright.central.blocks.quantise import quantise, small_integers
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.replaced import FREE_NOISE, PAIR_CELLS, contrasts_by_pairs
from noisewright.errors import TooLarge
from noisewright.norm.factorization import without_offsets
from noisewright.norm.factorize import factorize
from noisewright.solution import settled
from noisewright.workload import Workload
from noisewright.workload.terms import Term

DENSE_CELLS = 2048
"""Cells of one factor up to which a dense strategy is optimised."""

_MOST_BITS = 18
_GRID_BITS = 10
_SMALL = 64
_SETTLED = 1.001  # of the bound: no other strategy could do visibly better


@dataclass(frozen=True, eq=False)
class Planned:
    """A strategy ready to measure, and what is known of the best linear one.

    `unit_value` is the p-th mean over queries of ‖R_i‖·‖A‖ before rounding to integers;
    `unit_bound` bounds it from below for every factorization (None where no bound is known). Both
    are for the sensitivity of `neighbours`.
    """

    strategy: BlockStrategy
    unit_value: float
    unit_bound: float | None
    certificate: str
    status: str
    neighbours: str = "add-remove"

    def __post_init__(self) -> None:
        """No plan survives whose value contradicts its bound."""
        bound = 0.0 if self.unit_bound is None else self.unit_bound
        value = settled(self.unit_value, bound, f"strategy ({self.status})")
        object.__setattr__(self, "unit_value", value)


def product_strategy(
    term: Term, sizes: tuple[int, ...], norm: float, total_bits: int = USUAL_BITS
) -> Planned:
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
    notes = [s.explanation for s in solved]
    block = Block(term.attributes, tuple(matrices), multiplier=fine_grid(matrices))
    strategy = BlockStrategy(sizes, (block,))
    return Planned(strategy, value, bound, "weighted nuclear norm", "; ".join(dict.fromkeys(notes)))


def _tolerance(factor: Workload) -> float:
    """Small problems cost nothing: solved to where no printed digit changes."""
    return 1e-8 if factor.size <= _SMALL else 5e-7


def replaced_product(
    term: Term, sizes: tuple[int, ...], norm: float, total_bits: int = USUAL_BITS
) -> Planned:
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
        if reached <= _SETTLED * (exact.unit_bound or 0.0):
            return exact
    strategy = product_strategy(term, sizes, norm, total_bits).strategy
    value = unit_error(strategy, [term], norm, 2, "replace-one")
    told = "best linear strategy for added people, under the sensitivity of replaced ones"
    if exact is None:
        return Planned(strategy, value, None, "none", told, "replace-one")
    if reached <= value:
        return exact
    return replace(exact, strategy=strategy, unit_value=value, status=told)


def _by_pairs(term: Term, sizes: tuple[int, ...], norm: float, total_bits: int) -> Planned | None:
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
    return Planned(strategy, value, bound, told, solved.explanation, "replace-one")


def fine_grid(matrices: Sequence[Integers]) -> int:
    """A multiplier that makes the grid so fine that rounding adds nothing one could see."""
    reach = prod(int(np.abs(matrix).max()) for matrix in matrices)
    return 1 << max(0, _GRID_BITS - reach.bit_length())


def as_one_axis(workload: Workload) -> Term:
    """The whole workload as one factor over all cells."""
    return Term(1.0, (0,), workload, (workload,))
