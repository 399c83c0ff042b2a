"""Best weights on a few hundred patterns, exactly: against the worst prior, or for a given one.

The mean variance F(w, π) = tr(M X⁻¹) − Σ_u π_u M_uu, X = Σ_S w_S v_S v_Sᵀ/(πᵀv_S), is convex in the
weights and concave in the prior; its saddle is the smallest worst case that these patterns reach,
where all types that count have one variance. A primal–dual interior-point method takes Newton steps
in weights, prior, the prices λ of Σ_S w_S v_S = 1 and the level μ of Σ_u π_u = 1. With
y_S = w_S/πᵀv_S, F is a function h of y, of slope −v_SᵀΣv_S with Σ = X⁻¹MX⁻¹ and of curvature
2(VΣVᵀ)∘(VX⁻¹Vᵀ). A step costs the cube of the number of patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.optimise.dense.design import Design, Priced
from noisewright.local.optimise.dense.objective import Objective
from noisewright.local.shares import longest_step
from noisewright.local.work import product, solve

_NEWTON_STEPS = 60  # only bounds time: steps end by their tolerance
_NEAR_BOUND = 0.95  # of the way to a bound, as far as a step goes
_CENTRING = 0.1  # of the mean complementarity: the aim of a step
_EVEN_SHARE = 0.3  # of the weights at the start: a bound is no place to begin from
_RIDGE = 1e-9  # of the Gram matrix: what no query asks must not be unknown altogether
_LEAST_SHARE = 1e-5  # of an even share of the prior, at the start
_BALANCED = 1e-10  # what columns may lack: `Design.balanced` mends the rest
_SHORTEST_STEP = 1e-6  # beyond it the digits are used up, and the point is good enough


@dataclass(frozen=True, eq=False)
class _Variables:
    """Weights, prior, prices and level, with the slacks of w ≥ 0 and π ≥ 0."""

    weights: FloatArray
    prior: FloatArray
    prices: FloatArray
    level: float
    weight_slacks: FloatArray
    prior_slacks: FloatArray

    def moved(self, step: _Variables, length: float) -> _Variables:
        """So far along a direction."""
        pairs = zip(vars(self).values(), vars(step).values(), strict=True)
        return _Variables(*(here + length * move for here, move in pairs))

    def longest(self, step: _Variables) -> float:
        """As far as all that must stay positive does."""
        positive = ("weights", "weight_slacks", "prior", "prior_slacks")
        return min(
            longest_step(getattr(self, name), getattr(step, name), _NEAR_BOUND)
            for name in positive
        )


@dataclass(frozen=True, eq=False)
class _Slopes:
    """F's derivatives at weights and prior, all in closed form."""

    v: FloatArray
    mass: FloatArray
    """πᵀv_S."""
    shares: FloatArray
    """y."""
    factor: tuple[Any, ...]
    quadratic: FloatArray
    slopes: FloatArray
    """h′, one a pattern."""
    variances: FloatArray
    """The slope of F in π: the variance of each type."""

    @classmethod
    def at(
        cls, gram: FloatArray, v: FloatArray, weights: FloatArray, prior: FloatArray
    ) -> _Slopes:
        from scipy.linalg import cho_factor, cho_solve

        centred = Objective(gram, prior).centred
        mass = v @ prior
        shares = weights / mass

        information = (v * shares[:, None]).T @ v
        factor = cho_factor(information, lower=True, check_finite=False)
        half = cho_solve(factor, centred, check_finite=False)
        quadratic = cho_solve(factor, half.T, check_finite=False)
        quadratic = (quadratic + quadratic.T) / 2

        slopes = -np.einsum("ou,ou->o", v @ quadratic, v)
        variances = (-slopes * shares / mass) @ v - np.diagonal(centred)
        if not np.isfinite(variances).all():
            raise np.linalg.LinAlgError("beyond the digits of a number")

        return cls(v, mass, shares, factor, quadratic, slopes, variances)

    @property
    def gradient(self) -> FloatArray:
        """The slope of F in w."""
        return np.asarray(self.slopes / self.mass)

    def hessian(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Second derivatives of F: in w, in w and π, in π."""
        from scipy.linalg import cho_solve

        v = self.v
        inner = v @ cho_solve(self.factor, v.T, check_finite=False)
        curvature = 2.0 * inner * (v @ self.quadratic @ v.T)

        # y moves by −(y/πᵀv)·v as π does.
        along = -(self.shares / self.mass)[:, None] * v
        bent = curvature @ along
        mixed = bent / self.mass[:, None]
        mixed -= (self.slopes / self.mass**2)[:, None] * v

        twice = 2 * self.slopes * self.shares / self.mass**2
        by_prior = along.T @ bent + (v * twice[:, None]).T @ v
        return curvature / np.outer(self.mass, self.mass), mixed, by_prior


def best_saddle(
    design: Design, objective: Objective, worst_case: bool, tolerance: float = 1e-5
) -> tuple[Priced, float]:
    """The best weights with their prices, and the operations it took to find them, about.

    Against the worst prior, or for the objective's. Raises `numpy.linalg.LinAlgError` where digits
    do not suffice.
    """
    n = len(objective.gram)
    ridge = _RIDGE * float(np.trace(objective.gram)) / n
    gram = objective.gram + ridge * np.eye(n)

    # Patterns of one mean each: weights are then of one scale.
    means = design.relative.mean(axis=1)
    v = design.relative / means[:, None]
    shares = design.weights * means / float(design.weights @ means)
    weights = (1 - _EVEN_SHARE) * shares + _EVEN_SHARE / len(v)

    prior = objective.prior
    if worst_case:
        prior = np.maximum(prior, _LEAST_SHARE / n)
        prior = prior / prior.sum()
    slopes = _Slopes.at(gram, v, weights, prior)
    now = _first(slopes, weights, prior)
    steps = 0

    for steps in range(_NEWTON_STEPS):  # noqa: B007
        if _converged(slopes, now, worst_case, tolerance):
            break
        step = _newton_step(slopes, now, worst_case)
        length = now.longest(step)
        if length < _SHORTEST_STEP:
            break
        now = now.moved(step, length)
        slopes = _Slopes.at(gram, v, now.weights, now.prior)

    weighed = Design(design.patterns, now.weights / means, design.epsilon)
    mean = float(now.prior @ slopes.variances)
    value = float(slopes.variances.max()) if worst_case else mean
    priced = Priced(weighed, now.prior, slopes.quadratic, now.prices, value)
    return priced, (1 + steps) * _newton_operations(*v.shape)


def _newton_operations(patterns: int, cells: int) -> float:
    """What a Newton step takes, about."""
    unknowns = patterns + 2 * cells
    return solve(unknowns, 1) + 3 * product(patterns, patterns, cells)


def _first(slopes: _Slopes, weights: FloatArray, prior: FloatArray) -> _Variables:
    """Prices proportional to the prior make all slacks of one sign per unit of mass."""
    gradient = slopes.gradient
    variances = slopes.variances
    prices = prior * float(1.02 * np.max(-gradient / slopes.mass))
    level = float(variances.max()) + 0.02 * abs(float(prior @ variances))
    slacks = gradient + slopes.v @ prices
    return _Variables(weights, prior, prices, level, slacks, level - variances)


def _converged(
    slopes: _Slopes, now: _Variables, worst_case: bool, tolerance: float
) -> bool:
    """Whether the gap of the weights and, where the prior moves, of the prior is small."""
    mean = float(now.prior @ slopes.variances)
    gap = float(now.weights @ now.weight_slacks)
    if worst_case:
        gap = max(gap, float(slopes.variances.max()) - mean)
    missing = float(np.abs(1.0 - now.weights @ slopes.v).max())
    return gap < tolerance * mean and missing < _BALANCED


def _newton_step(slopes: _Slopes, now: _Variables, worst_case: bool) -> _Variables:
    """The optimality conditions with their complementarity relaxed, linearised and solved."""
    v = slopes.v
    count, n = v.shape
    weight_aim = _CENTRING * float(now.weights @ now.weight_slacks) / count
    prior_aim = _CENTRING * float(now.prior @ now.prior_slacks) / n
    by_weights, mixed, by_prior = slopes.hessian()

    # Slacks eliminated: ds = (aim − ws − s·dw)/w, and likewise for the prior.
    w = np.s_[:count]
    p = np.s_[count : count + n]
    m = np.s_[count + n : -1]
    system = np.zeros((count + 2 * n + 1,) * 2)
    system[w, w] = by_weights + np.diag(now.weight_slacks / now.weights)
    system[w, p] = mixed
    system[p, w] = mixed.T
    system[p, p] = by_prior - np.diag(now.prior_slacks / now.prior)
    system[w, m] = v
    system[m, w] = v.T
    system[p, -1] = system[-1, p] = -1.0

    residual = np.empty(len(system))
    residual[w] = weight_aim / now.weights - slopes.gradient - v @ now.prices
    residual[p] = now.level - slopes.variances - prior_aim / now.prior
    residual[m] = 1.0 - now.weights @ v
    residual[-1] = float(now.prior.sum()) - 1.0

    free = np.ones(len(system), dtype=bool)
    if not worst_case:
        free[p] = free[-1] = False
    step = np.zeros(len(system))
    step[free] = np.linalg.solve(system[np.ix_(free, free)], residual[free])

    slacks = now.weight_slacks
    weight_slacks = weight_aim / now.weights - slacks - slacks * step[w] / now.weights
    slacks = now.prior_slacks
    prior_slacks = prior_aim / now.prior - slacks - slacks * step[p] / now.prior
    return _Variables(
        step[w], step[p], step[m], float(step[-1]), weight_slacks, prior_slacks
    )
