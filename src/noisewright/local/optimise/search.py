"""The search for a good design without symmetry: descent, two values, better patterns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noisewright.local.optimise.columns import generate
from noisewright.local.optimise.control import Control
from noisewright.local.optimise.dense import Descent, descend
from noisewright.local.optimise.design import Design, rounded, split
from noisewright.local.optimise.objective import Objective
from noisewright.local.optimise.prior import saddle_prior, worst_variance
from noisewright.local.optimise.starts import dense_start
from noisewright.workload.base import FloatArray

_ROUNDING_LOSS = 1e-3
_LARGEST_SPLIT = 3000


@dataclass(frozen=True)
class Effort:
    """How hard the search tries."""

    rows_per_cell: int = 4
    iterations: int = 60
    rounds: int = 12
    generate_up_to: int = 96
    entries: int = 2**25
    """Largest number of entries of the matrix under descent."""


def search(
    gram: FloatArray,
    epsilon: float,
    prior: FloatArray,
    worst_case: bool,
    effort: Effort,
    rng: np.random.Generator,
    control: Control,
) -> tuple[Design, FloatArray]:
    """A two-valued design for a Gram matrix, and the prior its estimate is best for."""
    n = len(gram)
    objective = Objective(gram, prior)
    rows = max(effort.rows_per_cell * n, 32)
    rows = max(min(rows, effort.entries // n), n // 2)
    start = dense_start(objective.centred, epsilon, rows, rng)
    descent = descend(objective, epsilon, start, effort.iterations, control, worst_case)
    objective = replace(objective, prior=descent.prior)
    design = _two_valued(descent, epsilon, objective)
    if n <= effort.generate_up_to and not control.expired:
        design, objective = generate(design, objective, effort.rounds, rng, control, worst_case)
        design = design.balanced() or design
    if worst_case:
        q = design.chances()
        moved = replace(objective, prior=saddle_prior(objective, q))
        if worst_variance(moved, q) < worst_variance(objective, q):
            objective = moved
    return design, objective.prior


def _two_valued(descent: Descent, epsilon: float, objective: Objective) -> Design:
    """Round to two values where that costs nothing, else split exactly."""
    near = rounded(descent.positions, descent.weights, epsilon)
    if near is not None:
        slope = np.expm1(epsilon)
        before = objective.evaluate(descent.weights[:, None] * (1 + slope * descent.positions))
        after = objective.evaluate(near.chances())
        if after.value <= before.value * (1 + _ROUNDING_LOSS):
            return near
    coarse = split(np.round(descent.positions, 2), descent.weights, epsilon).balanced()
    if coarse is not None and len(coarse.weights) <= _LARGEST_SPLIT:
        return coarse
    return split(descent.positions, descent.weights, epsilon)
