"""Designs that grow: weights settle, better patterns join, light ones leave.

Weights on thousands of patterns settle by multiplicative steps (`weighting`). Where a few hundred
are left, as at little privacy, they are then found exactly, while still better patterns join: at
large ε the worst prior is far from even, and multiplicative steps would take long to find it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.local.optimise.dense.design import Design, every_pattern
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.pricing import EVERY_PATTERN, Candidates
from noisewright.local.optimise.dense.saddle import best_saddle
from noisewright.local.optimise.dense.weighting import WeightedPatterns
from noisewright.local.optimise.optimised import Control
from noisewright.local.work import SECOND, Work

_LEAST_SHARE = 1e-6  # of reports, of a pattern that goes on
_NOT_REPORTED = 1e-8  # of reports: an interior point's way to say none


@dataclass(frozen=True)
class Growth:
    """How designs grow, on domains of which size, and when they stop."""

    up_to: int = 1024
    """Cells."""
    work: float = 12 * SECOND
    reports: int = 2**13
    """Largest number of reports of the design."""
    reports_per_cell: int = 64
    """The same, where cells are few: with 32 `prefix:64` at ε = 1 loses 0.06 %, with 16 0.5 %."""
    rows_per_cell: float = 8.0
    """Patterns at the start."""
    steps: int = 20
    """Multiplicative steps between two looks for patterns."""
    settling: int = 100
    """The same after the last look."""
    newcomer_weight: float = 0.2
    """Of a pattern that joins, as a share of the median one."""
    patience: int = 5
    """Rounds that together must gain `least_gain`, else growth ends."""
    least_gain: float = 2e-4
    exact_up_to: int = 400
    """Patterns whose weights are found exactly: an interior-point step takes their cube."""
    exact_rounds: int = 30

    def fits(self, cells: int) -> bool:
        """Whether designs over so many cells grow."""
        return cells <= self.up_to


def grow(
    design: Design,
    objective: Objective,
    effort: Growth,
    rng: np.random.Generator,
    control: Control,
    worst_case: bool = False,
    guide: FloatArray | None = None,
) -> tuple[Design, Objective]:
    """A better design whose columns sum to one, and the objective whose prior suits it.

    Raises `numpy.linalg.LinAlgError` where digits do not suffice.
    """
    work = control.work.part(effort.work)
    candidates = Candidates(rng, work, guide)
    n = len(objective.gram)
    if n <= EVERY_PATTERN:
        patterns = every_pattern(n)
        every = Design(patterns, np.ones(len(patterns)), design.epsilon)
        return _exact(every, objective, effort, candidates, control, worst_case)

    grown, suited = _rough(design, objective, effort, candidates, control, worst_case)
    if len(grown.weights) > effort.exact_up_to or control.expired:
        return grown, suited
    try:
        return _exact(grown, suited, effort, candidates, control, worst_case)
    except np.linalg.LinAlgError:
        return grown, suited  # digits are used up: what was found before stands


def _rough(
    design: Design,
    objective: Objective,
    effort: Growth,
    candidates: Candidates,
    control: Control,
    worst_case: bool,
) -> tuple[Design, Objective]:
    """By multiplicative steps, until rounds gain next to nothing."""
    weighted = WeightedPatterns.of(design, objective, worst_case)
    values = [np.inf] * effort.patience

    while not settle_weights(weighted, effort.steps, control, candidates.work):
        least = values[-effort.patience] * (1 - effort.least_gain)
        values.append(weighted.variance)
        if candidates.work.over or values[-1] > least:
            break

        priced = weighted.priced()
        fresh = candidates.better(priced)
        joined = weighted.heaviest().with_light(fresh, effort.newcomer_weight)
        weighted = weighted.with_design(joined)

    images = 2 if weighted.involution.folding.pairs else 1
    most = min(effort.reports, effort.reports_per_cell * len(objective.gram)) // images
    weighted = weighted.with_design(weighted.heaviest(most))
    settle_weights(weighted, effort.settling, control)

    balanced = weighted.balanced()
    if balanced is None:
        raise np.linalg.LinAlgError("patterns that cannot be balanced")
    return balanced, replace(objective, prior=weighted.prior)


def settle_weights(
    weighted: WeightedPatterns, steps: int, control: Control, work: Work | None = None
) -> bool:
    """Some steps of the weights; whether it is time to stop."""
    for _ in range(steps):
        weighted.step()
        (work or control.work).add(weighted.operations)
        control.keep("patterns", partial(_state, weighted))
        if control.step("patterns", weighted.variance):
            return True
    return False


def _exact(
    design: Design,
    objective: Objective,
    effort: Growth,
    candidates: Candidates,
    control: Control,
    worst_case: bool,
) -> tuple[Design, Objective]:
    """By interior-point steps: column generation on what is left of the patterns."""
    best: tuple[float, Design, Objective] | None = None
    values = [np.inf] * effort.patience

    for _ in range(effort.exact_rounds):
        try:
            priced, operations = best_saddle(design, objective, worst_case)
        except np.linalg.LinAlgError:
            break  # digits are used up: what was found before stands

        candidates.work.add(operations)
        objective = replace(objective, prior=priced.prior)
        reported = priced.design.heaviest(priced.prior, effort.reports, _NOT_REPORTED)
        balanced = reported.balanced()
        if balanced is not None and (best is None or priced.variance < best[0]):
            best = priced.variance, balanced, objective

        least = values[-effort.patience] * (1 - effort.least_gain)
        values.append(priced.variance)
        ended = control.step("patterns", priced.variance) or candidates.work.over
        if ended or priced.variance > least:
            break

        fresh = candidates.better(priced)[: effort.exact_up_to]
        if not len(fresh):
            break
        kept = priced.design.heaviest(priced.prior, effort.exact_up_to, _LEAST_SHARE)
        design = kept.with_light(fresh, effort.newcomer_weight)

    if best is None:
        raise np.linalg.LinAlgError("no weights were found")
    return best[1], best[2]


def _state(weighted: WeightedPatterns) -> dict[str, Array]:
    """What a snapshot keeps: nothing of a design that cannot be balanced."""
    design = weighted.balanced()
    if design is None:
        return {}
    return {
        "patterns": design.patterns,
        "weights": design.weights,
        "prior": weighted.prior,
    }
