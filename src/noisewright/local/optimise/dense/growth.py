"""Designs over many cells that grow: weights settle, better patterns join, light ones leave.

On prefix:256 at ε = 3 a short descent and thirteen seconds of growth end at 231.7, where a long
descent and column generation on the 1,400 heaviest of its patterns ended at 241.1 after seventy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray
from noisewright.local.optimise.dense.crowd import Crowd
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.families import runs
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.pricing import proposals, searching, worths
from noisewright.local.optimise.optimised import Control
from noisewright.local.work import SECOND, Work

FEW_CELLS = 64
"""Up to so many, weights on all patterns that count are found exactly (`column_generation`)."""
_STEPS = 20
_SETTLING = 30
_FRESH_PER_CELL = 4
_MOST_FRESH = 1000
_MOST_STARTS = 4096
_STARTS_PER_CELL = 16
_LIGHT = 0.2
_LIGHTEST = 1e-6
_MOST_RUNS = 1600
_PATIENCE, _LITTLE = 5, 5e-4  # rounds, and what all of them together must gain


@dataclass(frozen=True)
class Growth:
    """On domains of which size designs grow, by how much work, and to how many reports."""

    up_to: int = 1024
    work: float = 12 * SECOND
    reports: int = 2**13
    rows_per_cell: float = 8.0
    iterations: int = 30
    """Of a descent before: patterns form in few, and rows that stay are chosen here."""

    def fits(self, cells: int) -> bool:
        """Whether designs over so many cells grow."""
        return FEW_CELLS < cells <= self.up_to


def grow(
    design: Design,
    objective: Objective,
    effort: Growth,
    rng: np.random.Generator,
    control: Control,
    worst_case: bool = False,
    guide: FloatArray | None = None,
) -> tuple[Design, Objective] | None:
    """A better design whose columns sum to one, and the objective whose prior suits it, or None.

    A `guide`, positive for no pattern's vᵀΦv and near zero for those of a best design, says where
    to look while the prices of this one are mixed with it.
    """
    crowd = Crowd.of(_with_runs(design, objective.gram), objective, worst_case)
    steady: FloatArray | None = None
    values: list[float] = []
    work = control.work.part(effort.work)

    try:
        while not _settled(crowd, control, work, _STEPS):
            values.append(crowd.worst if worst_case else crowd.mean)
            earlier = values[-1 - _PATIENCE] if len(values) > _PATIENCE else np.inf
            if work.over or values[-1] > earlier * (1 - _LITTLE):
                break

            phi = crowd.undervalued()
            if guide is not None and steady is None:
                # both are −1ᵀλ: of one scale
                steady = guide * float(phi.sum() / guide.sum())

            steady = phi if steady is None else (steady + phi) / 2
            fresh = _worthy(crowd, steady, phi, rng, work)
            crowd = crowd.joined(fresh, _LIGHT, _LIGHTEST, len(crowd.weights))
            control.keep("patterns", partial(_state, crowd))
        return _finished(crowd, objective, effort, control)
    except np.linalg.LinAlgError:
        return None  # digits are used up: what was known before stands
    except KeyboardInterrupt:
        control.limit.cut_short = True
        return None


def _with_runs(design: Design, gram: FloatArray) -> Design:
    """The design, and lightly the short runs that reports at little privacy are made of."""
    family = runs(gram, design.epsilon)[:_MOST_RUNS]
    light = np.full(len(family), _LIGHT * float(np.median(design.weights)))
    patterns = np.concatenate([design.patterns, family])
    return Design(patterns, np.concatenate([design.weights, light]), design.epsilon)


def _settled(crowd: Crowd, control: Control, work: Work, steps: int) -> bool:
    """Some steps of the weights; whether it is time to stop."""
    for _ in range(steps):
        crowd.step()
        work.add(crowd.operations)
        if control.step("patterns", crowd.worst if crowd.follows else crowd.mean):
            return True
    return False


def _worthy(
    crowd: Crowd,
    steady: FloatArray,
    phi: FloatArray,
    rng: np.random.Generator,
    work: Work,
) -> BoolArray:
    """Patterns that the prices undervalue, looked for at steadier ones."""
    n = crowd.patterns.shape[1]
    shares = crowd.weights * crowd.mass
    starts = min(_STARTS_PER_CELL * n, _MOST_STARTS)
    none = crowd.patterns[:0]
    patterns = crowd.patterns
    prior = crowd.prior
    epsilon = crowd.epsilon
    candidates = proposals(
        patterns, shares, crowd.quadratic, steady, prior, epsilon, starts, rng, none
    )[0]
    work.add(searching(starts, n))
    worthy = candidates[worths(candidates, phi, prior, epsilon) > 0]

    return worthy[: min(_FRESH_PER_CELL * n, _MOST_FRESH)]


def _finished(
    crowd: Crowd, objective: Objective, effort: Growth, control: Control
) -> tuple[Design, Objective] | None:
    """The heaviest patterns only, their weights settled once more."""
    crowd.look()
    images = 2 if crowd.mirror.folding.pairs else 1
    crowd = crowd.joined(
        crowd.patterns[:0], _LIGHT, _LIGHTEST, effort.reports // images
    )

    for _ in range(_SETTLING):
        crowd.step()
        control.work.add(crowd.operations)
        if control.expired:
            break

    design = crowd.design()
    return None if design is None else (design, replace(objective, prior=crowd.prior))


def _state(crowd: Crowd) -> dict[str, Array]:
    """What a snapshot keeps: nothing of a design that cannot be balanced."""
    design = crowd.design()
    if design is None:
        return {}
    return {
        "patterns": design.patterns,
        "weights": design.weights,
        "prior": crowd.prior,
    }
