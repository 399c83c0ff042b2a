"""Pure privacy for replaced people: their number is public, and rows with signs pay.

No replaced person changes the total, so it is measured for nothing: a row K·1ᵀ with a large K
beside the rows of `signed_identity`. Columns of L1 norm one are at most two apart; how far exactly
is taken from the integers.
"""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np

from noisewright.arrays import IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import as_one_axis, fine_grid
from noisewright.central.gaussian.replaced import PAIR_CELLS
from noisewright.central.laplace.pure_bound import LARGEST, pure_bound
from noisewright.central.laplace.pure_bound import NAME as L1_BOUND
from noisewright.central.laplace.weighted_products import MOST_BITS, finest
from noisewright.central.problem import Candidate
from noisewright.norm.factorize import factorize
from noisewright.norm.l1.signed_identity import signed_identity
from noisewright.workload import Workload

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

    strategy = finest(
        on_grid,
        MOST_BITS,
        1,
        "replace-one",
        largest,
    )
    value = unit_error(
        strategy,
        [as_one_axis(workload)],
        norm,
        1,
        "replace-one",
    )
    bound, name = replaced_bound(workload, norm)

    return Candidate(
        strategy,
        value,
        bound,
        name,
        "best of several starts",
        "replace-one",
    )


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
            workload, norm=norm, neighbours="replace-one", tolerance=1e-3
        )
        bounds.append((solved.lower_bound, L2_BOUND))

    if size * (size - 1) // 2 <= LARGEST:
        first, second = np.array(list(combinations(range(size), 2))).T
        rows = gram[first] - gram[second]
        bounds.append(
            (pure_bound(rows[:, first] - rows[:, second], workload.queries), L1_BOUND)
        )
    else:
        means = gram.mean(axis=0)
        centred = gram - means - means[:, None] + means.mean()
        bounds.append(
            (pure_bound(centred, workload.queries) * size / (size - 1), L1_BOUND)
        )

    return max(bounds)
