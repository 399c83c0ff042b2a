"""Replaced people: budget shares for the changes that one of them can make.

No replaced person changes the number of people, so it is public and its block costs nothing. For
the others, two people that differ in the attributes D move block T by a squared distance d_T(D)
(see `sensitivity`), and the best precisions y minimise Σ v_T/y_T with Σ y_T·d_T(D) ≤ 1 for every D:
the problem that `norm.kernel.solver` solves, with one dual weight per D. Axes may be those for
added people, or those that keep differences of columns short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.axes import Axis
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import rounded
from noisewright.central.blocks.sensitivity import Span, pattern_distances
from noisewright.central.gaussian.product_designs import (
    MixedDesign,
    design_of,
    exchangeable,
)
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.kernel.solver import Spectrum, solve
from noisewright.workload import Workload, stack

FREE_NOISE = 2.0**-20
"""Of the strategy's scale, for the public total in whole people: a law that rounds to nothing."""

PAIR_CELLS = 256
"""Cells up to which the best strategy for replaced people is found pair by pair."""

_MOST_PATTERNED = 10  # attributes whose 2^10 ways to differ are weighted one by one
_TOLERANCE = 1e-4
_ITERATIONS = 500


@dataclass(frozen=True, eq=False)
class _Problem:
    gains: FloatArray
    distances: FloatArray  # ways to differ × blocks

    @property
    def rows(self) -> int:
        return 0

    @property
    def columns(self) -> int:
        return len(self.distances)

    def precisions(self, weights: FloatArray) -> FloatArray:
        return np.sqrt(self.gains / (weights @ self.distances))

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        changes = self.distances @ self.precisions(b)
        return Spectrum(float(b @ changes), None, changes)


def replaced_precisions(
    blocks: Sequence[Block], gains: FloatArray
) -> FloatArray | None:
    """Precision of every block (of at least one attribute) that makes Σ gains/precision least.

    None where there are too many attributes to tell all ways to differ apart.
    """
    used = sorted({i for block in blocks for i in block.attributes})
    if len(used) > _MOST_PATTERNED:
        return None

    spans = {id(f): Span.of(f) for block in blocks for f in block.factors}
    distances = np.array([pattern_distances(used, block, spans) for block in blocks]).T
    problem = _Problem(gains, distances)
    solution = solve(problem, 2, tolerance=_TOLERANCE, iterations=_ITERATIONS)

    return problem.precisions(solution.primal.b)


def contrasts_by_pairs(
    workload: Workload,
    norm: float,
    bits: int,
) -> tuple[Axis, Factorization] | None:
    """The optimal contrasts of one attribute for replaced people, and the solution they are from.

    They are known up to a shift of all columns, which no difference sees: centred, so that columns
    are short. None where all cells are alike.
    """
    solved = factorize(
        workload,
        norm=norm,
        neighbours="replace-one",
        tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )
    rows = solved.strategy.dense()
    weights = _cell_weights(solved)
    if not len(rows):
        return None

    rows = rows - (rows @ weights)[:, None]
    lengths = np.linalg.norm(rows, axis=1)
    if len(rows) != workload.size - 1 or lengths.min() < 1e-4 * lengths.max():
        rows = _completed(rows, weights, 2.0 ** (-bits / 2))

    return Axis(rounded(rows, bits)), solved


def _completed(
    rows: FloatArray,
    weights: FloatArray,
    share: float,
) -> FloatArray:
    """As many contrasts as there are differences, the missing ones measured weakly.

    Rounding moves the row space by 2^-bits, and what it leaves unseen is answered from the weak
    rows: at 2^(-bits/2) of the rest, both cost 2^-bits of the squared error.
    """
    size = rows.shape[1]
    # vanishes on the weights too
    weak = share / np.sqrt(2) * (np.eye(size) - weights[:, None])
    _, s, vt = np.linalg.svd(np.concatenate([rows, weak]), full_matrices=False)
    return np.asarray(s[: size - 1, None] * vt[: size - 1], np.float64)


def _cell_weights(solved: Factorization) -> FloatArray:
    """How much every cell weighs in the pairs that decide, in total one."""
    pairs = solved.certificate.column_weights()
    size = solved.workload.size
    if pairs.size != size * (size - 1) // 2:  # families of tables: all cells are alike
        return np.full(size, 1 / size)

    weights = np.zeros(size)
    for ends in np.triu_indices(size, 1):
        np.add.at(weights, ends, pairs / 2)

    return weights


def replaced_design(design: MixedDesign, bits: int) -> MixedDesign | None:
    """The same family with axes that are optimal for replaced people; None if nothing changes."""
    family = design.family
    axes = list(design.axes)
    dual = list(design.dual)
    for group, size in enumerate(family.group_sizes):
        kinds = [kind for kind in family.kinds if kind.group == group]
        if (
            size > PAIR_CELLS
            or not kinds
            or all(exchangeable(kind.gram) for kind in kinds)
        ):
            continue
        optimum = contrasts_by_pairs(stack([kind.workload for kind in kinds]), 2, bits)
        if optimum is not None:
            axes[group], dual[group] = optimum[0], _cell_weights(optimum[1])

    changed = any(new is not old for new, old in zip(axes, design.axes, strict=True))
    return design_of(family, axes, dual) if changed else None
