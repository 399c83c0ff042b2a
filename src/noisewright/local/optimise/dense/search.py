"""The search for a good design without symmetry: it grows, or on many cells descends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.optimise.dense.descent import descend
from noisewright.local.optimise.dense.design import Design, dense_start
from noisewright.local.optimise.dense.growth import Growth, grow
from noisewright.local.optimise.dense.objective import (
    Objective,
    saddle_prior,
    worst_variance,
)
from noisewright.local.optimise.dense.weighting import WeightedPatterns
from noisewright.local.optimise.kept import saved_descent, saved_design, saved_prior
from noisewright.local.optimise.optimised import Control
from noisewright.local.strategy import Arrays
from noisewright.local.work import SECOND

_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of positions, at which rows are cut: one level raises `random:20x200:0` by 12 %, three by 1 %."""


@dataclass(frozen=True)
class Effort:
    """How hard the search tries: how designs grow, and how long a descent takes on more cells."""

    growth: Growth = field(default_factory=Growth)
    rows_per_cell: float = 12.0
    """Of a descent."""
    iterations: int = 80
    entries: int = 2**24
    """Largest number of entries of the matrix under descent, where more rows than cells fit."""
    work: float = 15 * SECOND
    """Operations after which a descent stops."""

    def within(self, remaining: float, cells: int) -> Effort | None:
        """This effort with as many rows as leave time for ten steps; None if none do.

        One step multiplies matrices three times, at some 10^10 operations a second.
        """
        seconds = 10 * 6.0 * cells**2 / 1e10
        rows = self.rows(cells)
        if remaining < 1e9:
            rows = min(rows, int(remaining / seconds))
        if rows < max(cells // 4, 1):
            return None
        share = max(rows / cells, 0.25)
        growth = replace(self.growth, rows_per_cell=share)
        return replace(self, rows_per_cell=share, growth=growth)

    def rows(self, cells: int) -> int:
        """Number of rows at the start, besides one for every cell."""
        if self.growth.fits(cells):
            return int(self.growth.rows_per_cell * cells)
        rows = max(int(self.rows_per_cell * cells), 32)
        return max(min(rows, self.entries // cells), cells // 4)


@dataclass(frozen=True, eq=False)
class Question:
    """A Gram matrix over types, a budget, and the error that counts."""

    gram: FloatArray
    epsilon: float
    prior: FloatArray
    worst_case: bool


def search(
    asked: Question,
    effort: Effort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None = None,
) -> tuple[Design, FloatArray]:
    """A two-valued design for a question, and the prior its estimate is best for.

    `state` is what a snapshot of an earlier run held; the search goes on from there. Raises
    `numpy.linalg.LinAlgError` where digits do not suffice.
    """
    cells = len(asked.gram)
    saved = saved_prior(state, cells)
    prior = asked.prior if saved is None else saved
    objective = Objective(asked.gram, prior)

    if effort.growth.fits(cells):
        begun = saved_design(state, cells, asked.epsilon)
        if begun is None or saved is None:
            rows = effort.rows(cells)
            positions, weights = dense_start(
                objective.centred, asked.epsilon, rows, rng
            )
            begun = Design(positions > 0.5, weights, asked.epsilon)
        design, objective = grow(
            begun, objective, effort.growth, rng, control, asked.worst_case
        )
    else:
        design, objective = _descended(asked, objective, effort, rng, control, state)

    if asked.worst_case:
        q = design.chances()
        moved = replace(objective, prior=saddle_prior(objective, q))
        if worst_variance(moved, q) < worst_variance(objective, q):
            objective = moved

    return design, objective.prior


def _descended(
    asked: Question,
    objective: Objective,
    effort: Effort,
    rng: np.random.Generator,
    control: Control,
    state: Arrays | None,
) -> tuple[Design, Objective]:
    """Where a descent ends, every entry at its nearer bound and weights settled anew."""
    cells = len(asked.gram)
    epsilon = asked.epsilon
    start = saved_descent(state, cells)
    if start is None:
        start = dense_start(objective.centred, epsilon, effort.rows(cells), rng)
    else:
        # Entries at their bounds have no slope; a start a little inside lets all of them move.
        start = 0.02 + 0.96 * start[0], start[1]

    limited = replace(control, work=control.work.part(effort.work))
    descent = descend(
        objective, epsilon, start, effort.iterations, limited, asked.worst_case
    )
    control.iterations = limited.iterations
    objective = replace(objective, prior=descent.prior)

    # A row at several levels, and every cell lightly, so that columns can be balanced.
    patterns = np.concatenate([descent.positions > level for level in _LEVELS])
    weights = np.tile(descent.weights, len(_LEVELS))
    rounded = Design(patterns, weights, epsilon).merged()
    rounded = rounded.with_light(np.eye(cells, dtype=bool), 0.01)
    weighted = WeightedPatterns.of(rounded, objective, asked.worst_case)
    for _ in range(effort.growth.steps):
        if control.expired:
            break
        weighted.step()
        control.work.add(weighted.operations)

    design = weighted.balanced()
    if design is None:
        raise np.linalg.LinAlgError("patterns that cannot be balanced")
    return design, replace(objective, prior=weighted.prior)
