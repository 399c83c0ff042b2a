"""Column generation: the convex problem over weights, and patterns that would lower its value.

Over two-valued rows the best strategy is min tr(M X(w)⁻¹), X(w) = Σ_S w_S b_S b_Sᵀ, subject to
Σ_S w_S v_S = 1 and w ≥ 0: convex in w. Its dual prices λ tell what any pattern is worth,
b_SᵀΣb_S − λᵀv_S with Σ = X⁻¹MX⁻¹, so that patterns worth adding are found by an ascent of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import expm1

import numpy as np

from noisewright.local.optimise.dense.design import Design, spectral_patterns
from noisewright.local.optimise.dense.objective import Objective, saddle_prior, worst_variance
from noisewright.local.optimise.optimised import Control
from noisewright.local.shares import longest_step
from noisewright.local.strategy import BoolArray
from noisewright.workload.base import Array, FloatArray

_NEWTON_STEPS = 40
_ASCENT_STEPS = 20
_KEPT_PER_CELL = 12
_FRESH_PER_CELL = 4
_WORTH_ROUNDS = 2e-3
_EVERY_PATTERN = 9


@dataclass(frozen=True, eq=False)
class Priced:
    """Optimal weights on given patterns, with what the optimum says about other patterns."""

    design: Design
    value: float
    quadratic: FloatArray
    prices: FloatArray


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
    value, quadratic = 0.0, np.empty(0)
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
            factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            break  # weights so near their bounds that the digits are used up: good enough
        solved = cho_solve(factor, np.column_stack([v, right]), check_finite=False)
        move_prices = np.linalg.lstsq(
            v.T @ solved[:, :-1], v.T @ solved[:, -1] - missing, rcond=1e-14
        )[0]
        move = solved[:, -1] - solved[:, :-1] @ move_prices
        move_slack = (aim - w * slack - slack * move) / w
        length = min(longest_step(w, move, 0.95), longest_step(slack, move_slack, 0.95))
        w, slack = w + length * move, slack + length * move_slack
        prices = prices + length * move_prices
    return Priced(Design(design.patterns, w, design.epsilon), value, quadratic, prices)


def improve(
    patterns: BoolArray,
    quadratic: FloatArray,
    prices: FloatArray,
    prior: FloatArray,
    epsilon: float,
) -> tuple[BoolArray, FloatArray]:
    """Ascend from each pattern to one of largest worth per unit of mass; patterns and worths.

    The worth of v is convex and homogeneous of degree one, so it lies above its tangent at the
    current pattern; the best pattern for the tangent, over the mass πᵀv, takes the cells in order
    of slope over prior, up to the best stop. The worth per unit of mass never falls.
    """
    slope = expm1(epsilon)
    for _ in range(_ASCENT_STEPS):
        scores, _mass = _scores(patterns, prior, slope)
        pulled = scores @ quadratic
        energies = np.einsum("ou,ou->o", pulled, scores)
        tangent = 2.0 * pulled - energies[:, None] * prior - prices
        order = np.argsort(-(tangent / prior), axis=1)
        gains = np.cumsum(np.take_along_axis(tangent, order, axis=1), axis=1)
        worth = (gains[:, -1:] + slope * gains) / (1.0 + slope * np.cumsum(prior[order], axis=1))
        last = np.argmax(worth, axis=1)
        better = np.zeros_like(patterns)
        np.put_along_axis(better, order, np.arange(len(prior)) <= last[:, None], axis=1)
        if (better == patterns).all():
            break
        patterns = better
    scores, mass = _scores(patterns, prior, slope)
    energies = np.einsum("ou,ou->o", scores @ quadratic, scores)
    relative = (1.0 + slope * patterns) / mass[:, None]
    return patterns, np.asarray(energies - relative @ prices)


def _scores(patterns: BoolArray, prior: FloatArray, slope: float) -> tuple[FloatArray, FloatArray]:
    mass = 1.0 + slope * (patterns @ prior)
    return (1.0 + slope * patterns) / mass[:, None] - 1.0, mass


def generate(
    design: Design,
    objective: Objective,
    rounds: int,
    rng: np.random.Generator,
    control: Control,
    worst_case: bool = False,
) -> tuple[Design, Objective] | None:
    """Alternate best weights and better patterns; for the worst case the prior moves along.

    The prior that answers the present design in full would overshoot (the next design answers it in
    turn), so it is mixed in geometrically, less and less. Returns the best design met whose
    columns sum to one, with the objective whose prior suits it; None if there was none.
    """
    best: tuple[float, Design, Objective] | None = None
    stalled = 0
    for step in range(2 * rounds + 1):
        priced = reweight(design, objective)
        answer, value, exact = _answered(priced, objective, worst_case)
        gain = 1.0 if best is None else 1.0 - value / best[0]
        stalled = 0 if gain > 1e-4 else stalled + 1
        if exact is not None and (best is None or value < best[0]):
            best = value, exact, answer
            control.keep("patterns", partial(_state, exact, answer))
        done = control.step("patterns", value if best is None else best[0])
        # Workloads of few queries fall slowly: they get as many rounds again while it pays.
        if done or stalled == 3 or (step >= rounds and gain < _WORTH_ROUNDS):
            break
        heavy = _heaviest(priced.design, objective.prior)
        fresh = _proposals(heavy.patterns, priced, objective, rng)
        patterns = np.concatenate([heavy.patterns, fresh])
        design = Design(patterns, np.ones(len(patterns)), design.epsilon).merged()
        objective = replace(
            objective, prior=_mixed(objective.prior, answer.prior, 1.0 / (4.0 + step / 2))
        )
    return None if best is None else (best[1], best[2])


def _answered(
    priced: Priced, objective: Objective, worst_case: bool
) -> tuple[Objective, float, Design | None]:
    """The objective whose prior suits the weights found, their error, and them balanced exactly."""
    if not worst_case:
        return objective, objective.variance(priced.value), priced.design.balanced()
    q = priced.design.chances()
    answer = replace(objective, prior=saddle_prior(objective, q))
    return answer, worst_variance(answer, q), priced.design.balanced()


def _state(design: Design, objective: Objective) -> dict[str, Array]:
    return {
        "patterns": design.patterns,
        "weights": design.weights,
        "prior": objective.prior,
    }


def _mixed(old: FloatArray, new: FloatArray, share: float) -> FloatArray:
    prior = old ** (1 - share) * new**share
    return np.asarray(prior / prior.sum())


def _heaviest(design: Design, prior: FloatArray) -> Design:
    n = design.patterns.shape[1]
    mass = design.weights * (design.relative @ prior)
    order = np.argsort(-mass)[: max(_KEPT_PER_CELL * n, 64)]
    order = order[mass[order] > 1e-7]
    return Design(design.patterns[order], design.weights[order], design.epsilon)


def _proposals(
    patterns: BoolArray, priced: Priced, objective: Objective, rng: np.random.Generator
) -> BoolArray:
    """Patterns of positive worth, from shaken present ones and from fresh random ones.

    On the smallest domains all patterns there are: the problem is then solved exactly.
    """
    n = patterns.shape[1]
    if n <= _EVERY_PATTERN:
        numbers = np.arange(1, 2**n - 1)
        return np.asarray(numbers[:, None] >> np.arange(n) & 1, dtype=bool)
    values, vectors = np.linalg.eigh(priced.quadratic)
    factor = vectors * np.clip(values, 0.0, None) ** 0.25
    epsilon = priced.design.epsilon
    shaken = patterns ^ (rng.random(patterns.shape) < 2.0 / n)
    starts = np.concatenate([shaken, spectral_patterns(factor, epsilon, 2 * n, rng)])
    better, worth = improve(starts, priced.quadratic, priced.prices, objective.prior, epsilon)
    best = np.argsort(-worth)[: _FRESH_PER_CELL * n]
    return better[best[worth[best] > 1e-6 * priced.value]]
