"""The search for a good design without symmetry: descent, two values, better patterns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.optimise.dense.column_generation import Generation, generate
from noisewright.local.optimise.dense.descent import Descent, descend
from noisewright.local.optimise.dense.design import Design, dense_start, rounded, split
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.objective import (
    Objective,
    saddle_prior,
    worst_variance,
)
from noisewright.local.optimise.kept import saved_descent, saved_design, saved_prior
from noisewright.local.optimise.optimised import Control
from noisewright.local.strategy import Arrays
from noisewright.local.work import SECOND

_ROUNDING_LOSS = 1e-3
_LARGEST_SPLIT = 3000
_ROWS_PER_CELL = 40
_ENTRIES = 2**25
_LEVELS = (1, 2, 4, 10, 100)


@dataclass(frozen=True)
class Effort:
    """How hard the search tries."""

    rows_per_cell: float = 12.0
    iterations: int = 80
    patterns: Generation = field(default_factory=Generation)
    growth: Growth = field(default_factory=Growth)
    entries: int = 2**24
    """Largest number of entries of the matrix under descent, where more rows than cells fit."""

    work: float = 15 * SECOND
    """Operations after which a descent stops."""

    def within(self, remaining: float, cells: int) -> Effort | None:
        """This effort with as many rows as leave time for ten steps; None if none do.

        One step multiplies matrices three times, at some 10^10 operations a second.
        """
        seconds = 10 * 6.0 * cells**2 / 1e10
        rows = min(
            self.rows(cells), int(remaining / seconds) if remaining < 1e9 else 2**62
        )
        if rows < max(cells // 4, 1):
            return None
        return replace(self, rows_per_cell=max(rows / cells, 0.25))

    def rows(self, cells: int) -> int:
        """Number of rows under descent, besides one for every cell."""
        if self.growth.fits(cells):
            return int(min(self.growth.rows_per_cell, self.rows_per_cell) * cells)
        rows = max(int(self.rows_per_cell * cells), 32)
        return max(min(rows, self.entries // cells), cells // 4)


def search(
    gram: FloatArray,
    epsilon: float,
    prior: FloatArray,
    worst_case: bool,
    effort: Effort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None = None,
) -> tuple[Design, FloatArray]:
    """A two-valued design for a Gram matrix, and the prior its estimate is best for.

    `state` is what a snapshot of an earlier run held; the search goes on from there.
    """
    n = len(gram)
    objective = Objective(gram, prior)
    saved = saved_design(state, n, epsilon)
    earlier_prior = saved_prior(state, n)
    begun: tuple[Design, Objective] | None = None
    if saved is not None and earlier_prior is not None:
        begun = saved, replace(objective, prior=earlier_prior)

    if begun is None:
        limited = replace(control, work=control.work.part(effort.work))
        begun = _descended(objective, epsilon, worst_case, effort, rng, limited, state)
        control.iterations = limited.iterations

    design, objective = begun
    if not _met(design, objective, control) and not control.expired:
        better = None
        if effort.growth.fits(n):
            better = grow(design, objective, effort.growth, rng, control, worst_case)
        elif n <= effort.patterns.up_to:
            better = generate(
                design, objective, effort.patterns, rng, control, worst_case
            )

        if better is not None:
            designs = [better, (design, objective)]
            design, objective = min(
                designs, key=lambda one: _cost(one[0], one[1], worst_case)
            )

    if worst_case:
        q = design.chances()
        moved = replace(objective, prior=saddle_prior(objective, q))
        if worst_variance(moved, q) < worst_variance(objective, q):
            objective = moved

    return design, objective.prior


def _cost(design: Design, objective: Objective, worst_case: bool) -> float:
    """The error that counts."""
    q = design.chances()
    return worst_variance(objective, q) if worst_case else objective.evaluate(q).value


def _met(design: Design, objective: Objective, control: Control) -> bool:
    """Whether a rounded design reaches the target, on average at least."""
    if control.target_ratio is None:
        return False
    return control.met(objective.variance(objective.evaluate(design.chances()).value))


def _descended(
    objective: Objective,
    epsilon: float,
    worst_case: bool,
    effort: Effort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> tuple[Design, Objective]:
    cells = len(objective.gram)
    saved = saved_descent(state, cells)
    prior = saved_prior(state, cells)
    if saved is not None and prior is not None:
        # Entries at their bounds have no slope; a start a little inside lets all of them move.
        start = 0.02 + 0.96 * saved[0], saved[1]
        objective = replace(objective, prior=prior)
    else:
        rows = effort.rows(cells)
        start = dense_start(objective.centred, epsilon, rows, rng)

    grows = effort.growth.fits(cells)
    iterations = effort.growth.iterations if grows else effort.iterations
    descent = descend(objective, epsilon, start, iterations, control, worst_case)
    objective = replace(objective, prior=descent.prior)

    return _two_valued(descent, epsilon, objective), objective


def _two_valued(descent: Descent, epsilon: float, objective: Objective) -> Design:
    """Round to two values where that costs nothing, else split into as few level sets as do.

    Splitting loses nothing but multiplies the rows; a descent that was cut short has many levels,
    which are first rounded to a few.
    """
    positions = descent.positions
    weights = descent.weights
    slope = np.expm1(epsilon)
    before = objective.evaluate(weights[:, None] * (1 + slope * positions)).value
    designs: list[tuple[float, Design]] = []

    for steps in _LEVELS:
        if steps > 1 and not _fits(np.round(positions * steps), positions.shape[1]):
            break

        if steps == 1:
            near = rounded(positions, weights, epsilon)
        else:
            near = split(
                np.round(positions * steps) / steps, weights, epsilon
            ).balanced()

        if near is None:
            continue

        value = objective.evaluate(near.chances()).value
        designs.append((value, near))
        if value <= before * (1 + _ROUNDING_LOSS):
            break

    if not designs:
        return split(positions, weights, epsilon)

    return min(designs, key=lambda pair: pair[0])[1]


def _fits(levels: FloatArray, cells: int) -> bool:
    """Whether the level sets of all rows together stay few."""
    rows = int((np.diff(np.sort(levels, axis=1), axis=1) > 0).sum()) + len(levels)
    return (
        rows <= max(_LARGEST_SPLIT, _ROWS_PER_CELL * cells) and rows * cells <= _ENTRIES
    )
