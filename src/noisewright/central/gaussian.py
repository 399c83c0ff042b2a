"""Optimal Gaussian strategies for products of workloads, from their certified factorizations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.central.axes import Integers
from noisewright.central.block import Block
from noisewright.central.quantise import quantise
from noisewright.central.strategy import BlockStrategy
from noisewright.errors import TooLarge
from noisewright.norm.factorize import factorize
from noisewright.workload import Workload
from noisewright.workload.terms import Term

DENSE_CELLS = 2048
"""Cells of one factor up to which a dense strategy is optimised."""

_TOTAL_BITS = 33  # all factors together: at small budgets too, noise can be drawn on so fine a grid
_MOST_BITS = 16
_GRID_BITS = 10


@dataclass(frozen=True, eq=False)
class Planned:
    """A strategy ready to measure, and what is known of the best possible one.

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


def product_strategy(term: Term, sizes: tuple[int, ...], norm: float) -> Planned:
    """The optimal strategy for one product of workloads: factor by factor, bounds multiplied."""
    if term.factors is None:
        return product_strategy(as_one_axis(term.inner), (prod(sizes),), norm)
    factors = term.factors
    bits = max(3, min(_MOST_BITS, _TOTAL_BITS // max(1, len(factors))))
    matrices: list[Integers] = []
    value, bound, notes = term.weight, term.weight, []
    for factor in factors:
        if factor.size > DENSE_CELLS:
            raise TooLarge(
                f"workload {factor.brief()} has {factor.size} cells; a dense strategy is optimised "
                f"up to {DENSE_CELLS}; combine attributes with '*' or coarsen the bins"
            )
        solved = factorize(factor, norm=norm)
        matrices.append(quantise(solved.strategy.dense(), factor, bits))
        value, bound = value * solved.value, bound * solved.lower_bound
        notes.append(solved.status)
    block = Block(term.attributes, tuple(matrices), multiplier=fine_grid(matrices))
    strategy = BlockStrategy(sizes, (block,))
    return Planned(strategy, value, bound, "weighted nuclear norm", "; ".join(dict.fromkeys(notes)))


def fine_grid(matrices: Sequence[Integers]) -> int:
    """A multiplier that makes the grid so fine that rounding adds nothing one could see."""
    reach = prod(int(np.abs(matrix).max()) for matrix in matrices)
    return 1 << max(0, _GRID_BITS - reach.bit_length())


def as_one_axis(workload: Workload) -> Term:
    """The whole workload as one factor over all cells."""
    return Term(1.0, (0,), workload, (workload,))
