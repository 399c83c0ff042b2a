"""Column generation: the convex problem over weights, and patterns that would lower its value.

Over two-valued rows the best strategy is min tr(M X(w)⁻¹), X(w) = Σ_S w_S b_S b_Sᵀ, subject to
Σ_S w_S v_S = 1 and w ≥ 0: convex in w. Its dual prices λ tell what any pattern is worth,
b_SᵀΣb_S − λᵀv_S with Σ = X⁻¹MX⁻¹, so that patterns worth adding are found by an ascent of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray
from noisewright.local.optimise.dense.design import Design
from noisewright.local.optimise.dense.families import runs
from noisewright.local.optimise.dense.mirror import Mirror
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.optimise.dense.pricing import (
    proposals,
    searching,
    undervalued,
    worths,
)
from noisewright.local.optimise.dense.saddle import best_saddle, newton_step
from noisewright.local.optimise.optimised import Control
from noisewright.local.shares import longest_step
from noisewright.local.work import SECOND, touched

_NEWTON_STEPS = 40
# weights cost cubes of these numbers
_KEPT_PER_CELL = 30
_MOST_KEPT = 1000
_MOST_FRESH = 400
_FEW_CELLS = 64
_FRESH_PER_CELL = 4
_STARTS_PER_CELL = 40
_MOST_STARTS = 4096
EVERY_PATTERN = 9
"""Up to so many cells all patterns are listed: the optimum is exact."""
_ROUGHEST = 3e-2
_CLOSEST = 1e-5
_PATIENCE = 3
_LITTLE = 1e-4
_LIGHT = 1e-3
# that join a design at its start: 7 % on prefix:16*prefix:16 at ε = 6
_MOST_RUNS = 1600


@dataclass(frozen=True)
class Generation:
    """How many rounds of better patterns, on domains of which size, and by how much work."""

    rounds: int = 20
    up_to: int = 64
    work: float = 10 * SECOND  # a proof says better where to go on (`refining`)


@dataclass(frozen=True, eq=False)
class Priced:
    """Optimal weights on given patterns, with what the optimum says about other patterns."""

    design: Design
    value: float
    quadratic: FloatArray
    prices: FloatArray
    operations: float
    """What it took to find them, about."""


def reweight(design: Design, objective: Objective, tolerance: float = 1e-5) -> Priced:
    """Best weights for the patterns, by a primal–dual interior-point method.

    Each step solves the Newton system [H + s/w, V; Vᵀ, 0] with H = 2(BΣBᵀ)∘(BX⁻¹Bᵀ); the price
    of a step is cubic in the number of patterns, so this is for small problems.
    """
    from scipy.linalg import cho_factor, cho_solve

    v = design.relative
    mass = v @ objective.prior
    b = (v - mass[:, None]) / np.sqrt(mass)[:, None]
    w = np.full(len(v), 1.0 / v.sum(axis=0).mean())
    prices = slack = np.empty(0)
    value = 0.0
    quadratic = np.empty(0)
    step = 0

    for step in range(_NEWTON_STEPS):
        x = (b * w[:, None]).T @ b
        value, quadratic = objective.solve(x)
        pulled = b @ quadratic
        gradient = -np.einsum("ou,ou->o", pulled, b)
        if step == 0:
            # Prices proportional to the prior make all slacks of one sign per unit of mass.
            prices = objective.prior * float(1.05 * np.max(-gradient / mass))
            slack = gradient + v @ prices

        missing = 1.0 - w @ v
        gap = float(w @ slack)
        if step and gap < tolerance * value and np.abs(missing).max() < 1e-9:
            break

        aim = gap / len(w) * (0.1 if step else 0.5)
        system = 2.0 * (pulled @ b.T) * (b @ objective.inverse_times(x, b.T))
        system[np.diag_indices(len(w))] += slack / w
        right = aim / w - gradient - v @ prices

        try:
            factor = cho_factor(
                system, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            # weights so near their bounds that the digits are used up: good enough
            break

        solved = cho_solve(factor, np.column_stack([v, right]), check_finite=False)
        move_prices = np.linalg.lstsq(
            v.T @ solved[:, :-1], v.T @ solved[:, -1] - missing, rcond=1e-14
        )[0]
        move = solved[:, -1] - solved[:, :-1] @ move_prices
        move_slack = (aim - w * slack - slack * move) / w
        length = min(longest_step(w, move, 0.95), longest_step(slack, move_slack, 0.95))
        w = w + length * move
        slack = slack + length * move_slack
        prices = prices + length * move_prices

    took = (1 + step) * newton_step(*v.shape)
    return Priced(
        Design(design.patterns, w, design.epsilon), value, quadratic, prices, took
    )


def generate(
    design: Design,
    objective: Objective,
    effort: Generation,
    rng: np.random.Generator,
    control: Control,
    worst_case: bool = False,
    guide: FloatArray | None = None,
) -> tuple[Design, Objective] | None:
    """Alternate best weights and better patterns; for the worst case with the prior against both.

    A `guide`, positive for no pattern's vᵀΦv and near zero for those of a best design, says where
    to look while the prices of this one are mixed with it.

    Weights are found the more closely the less is to gain: prices of a rough optimum are steadier,
    and ask for better patterns. Returns the best design met whose columns sum to one, with the
    objective whose prior suits it; None if there was none.
    """
    best: tuple[float, Design, Objective] | None = None
    tolerance = _ROUGHEST
    earlier = [inf] * _PATIENCE
    work = control.work.part(effort.work)
    family = runs(objective.gram, design.epsilon)
    mirror = Mirror.of(objective.gram)
    steady: FloatArray | None = None
    if len(design.patterns) > 2 * _MOST_KEPT:
        design = _heaviest(design, objective.prior)

    if len(family):
        design = _joined(design, family[:_MOST_RUNS])

    for step in range(effort.rounds + 1):
        last = work.over or step == effort.rounds or control.expired
        try:
            priced, objective, value = _weighed(
                design, objective, worst_case, tolerance, mirror
            )
        except np.linalg.LinAlgError:
            break  # digits are used up: what was found before stands
        except KeyboardInterrupt:
            control.limit.cut_short = True
            break

        work.add(priced.operations)
        balanced = priced.design.balanced()
        if balanced is not None and (best is None or value < best[0]):
            best = value, balanced, objective
            control.keep("patterns", partial(_state, balanced, objective))

        done = control.step("patterns", value if best is None else best[0])
        stalled = tolerance <= _CLOSEST and value > earlier[-_PATIENCE] * (1 - _LITTLE)
        if done or last or stalled:
            break

        earlier.append(value)
        heavy = _heaviest(priced.design, objective.prior)
        phi = undervalued(priced.quadratic, priced.prices, objective.prior)
        if guide is not None and steady is None:
            # both are −1ᵀλ: of one scale
            steady = guide * float(phi.sum() / guide.sum())

        steady = phi if steady is None else (steady + phi) / 2
        work.add(_looking(heavy))
        fresh, worth = _proposed(
            heavy, priced, objective.prior, (steady, phi), family, rng
        )
        if not len(fresh):
            if tolerance <= _CLOSEST:
                break
            tolerance = _CLOSEST
            continue

        aim = min(0.05 * worth / max(value, 1e-300), tolerance / 2)
        tolerance = max(float(aim), _CLOSEST) if step < effort.rounds - 1 else _CLOSEST
        design = _joined(heavy, fresh)

    return None if best is None else (best[1], best[2])


def _joined(design: Design, fresh: BoolArray) -> Design:
    """The design with further patterns, lightly weighed."""
    light = np.full(len(fresh), _LIGHT * float(design.weights.mean()))
    patterns = np.concatenate([design.patterns, fresh])
    weights = np.concatenate([design.weights, light])
    return Design(patterns, weights, design.epsilon).merged()


def _weighed(
    design: Design,
    objective: Objective,
    worst_case: bool,
    tolerance: float,
    mirror: Mirror,
) -> tuple[Priced, Objective, float]:
    """Best weights, the objective with the prior against them, and their error."""
    if not worst_case:
        priced = reweight(design, objective, tolerance)
        return priced, objective, objective.variance(priced.value)

    design = mirror.halved(design)
    order = mirror.order
    saddle = best_saddle(
        objective.gram[np.ix_(order, order)],
        design.relative[:, order],
        design.weights,
        objective.prior[order],
        tolerance,
        mirror.folding,
    )
    weighed = mirror.doubled(Design(design.patterns, saddle.weights, design.epsilon))
    back = np.argsort(order)
    answer = replace(objective, prior=saddle.prior[back])
    quadratic = saddle.quadratic[np.ix_(back, back)]

    return (
        Priced(
            weighed, saddle.worst, quadratic, saddle.prices[back], saddle.operations
        ),
        answer,
        saddle.worst,
    )


def _state(design: Design, objective: Objective) -> dict[str, Array]:
    return {
        "patterns": design.patterns,
        "weights": design.weights,
        "prior": objective.prior,
    }


def _heaviest(design: Design, prior: FloatArray) -> Design:
    n = design.patterns.shape[1]
    mass = design.weights * (design.relative @ prior)
    most = max(_KEPT_PER_CELL * n, 64) if n <= _FEW_CELLS else _MOST_KEPT
    order = np.argsort(-mass)[:most]
    order = order[mass[order] > 1e-6]
    return Design(design.patterns[order], design.weights[order], design.epsilon)


def _looking(design: Design) -> float:
    """Operations of a look for better patterns, about."""
    n = design.patterns.shape[1]
    if n <= EVERY_PATTERN:
        return touched(n * 2**n)
    return searching(min(_STARTS_PER_CELL * n, _MOST_STARTS), n)


def _proposed(
    design: Design,
    priced: Priced,
    prior: FloatArray,
    undervaluations: tuple[FloatArray, FloatArray],
    family: BoolArray,
    rng: np.random.Generator,
) -> tuple[BoolArray, float]:
    """Patterns of positive worth at the last of some prices, and the largest worth.

    They are looked for at the first, steadier ones while these suffice: prices jump from round to
    round, and chasing them takes half as many rounds again. On the smallest domains all patterns
    there are: the problem is then solved exactly.
    """
    n = design.patterns.shape[1]
    epsilon = design.epsilon
    now = undervaluations[-1]
    if n <= EVERY_PATTERN:
        numbers = np.arange(1, 2**n - 1)
        every = np.asarray(numbers[:, None] >> np.arange(n) & 1, dtype=bool)
        return every, float(max(worths(every, now, prior, epsilon).max(), 0.0))

    shares = design.weights * (design.relative @ prior)
    starts = min(_STARTS_PER_CELL * n, _MOST_STARTS)
    some = family[rng.permutation(len(family))[: starts // 4]]

    for phi in undervaluations:
        found = proposals(
            design.patterns,
            shares,
            priced.quadratic,
            phi,
            prior,
            epsilon,
            starts,
            rng,
            some,
        )[0]
        worth = worths(found, now, prior, epsilon)
        fresh = found[worth > 0]
        largest = float(worth.max(initial=0.0))
        if len(fresh) >= n:
            break

    return fresh[: min(_FRESH_PER_CELL * n, _MOST_FRESH)], largest
