"""Best weights on given patterns against the worst prior, both at once.

The mean variance F(w, π) = tr(M X⁻¹) − Σ_u π_u M_uu, X = Σ_S w_S v_S v_Sᵀ/(πᵀv_S), is convex in the
weights and concave in the prior; its saddle is the smallest worst case that these patterns reach,
where all types that count have one variance. A primal–dual interior-point method takes Newton steps
in weights, prior, and the prices of Σ_S w_S v_S = 1, all in closed form: with y_S = w_S/πᵀv_S,
F is a function h of y, of slope −v_SᵀΣv_S with Σ = X⁻¹MX⁻¹ and curvature 2(VΣVᵀ)∘(VX⁻¹Vᵀ).

Where swapping cells in pairs leaves the variances as they are, some saddle is left as it is too: a
pattern then stands for itself and its image, half the weight each. X falls into two blocks, each a
sum over what lies of v_S within a subspace of the folding, and there are half as many weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.folding import Folding
from noisewright.local.shares import longest_step
from noisewright.local.work import product, solved, touched

_NEWTON_STEPS = 60
_NEAR_BOUND = 0.95
_RIDGE = 1e-7  # information on what no query asks must not fade to nothing
_LEAST_SHARE = 1e-5
_PASSES = 6  # over the matrix of second derivatives, in a step


@dataclass(frozen=True, eq=False)
class Saddle:
    """Weights, the prior they are best against, and what they say about other patterns."""

    weights: FloatArray
    prior: FloatArray
    quadratic: FloatArray
    """Σ."""
    prices: FloatArray
    worst: float
    """Largest variance of a type."""
    operations: float
    """What it took to find it, about."""


@dataclass(frozen=True, eq=False)
class _Problem:
    """The Gram matrix and patterns, folded: a cell of a pair stands for both."""

    gram: FloatArray
    folding: Folding
    means: FloatArray
    """Rows v, the mean of both cells of each pair."""
    parts: tuple[FloatArray, ...]
    """Rows v within each subspace."""

    @classmethod
    def of(cls, gram: FloatArray, v: FloatArray, folding: Folding) -> _Problem:
        h = folding.pairs
        if not h:
            return cls(gram, folding, v, (v,))

        near = v[:, :h]
        far = v[:, h : 2 * h]
        alone = v[:, 2 * h :]
        both = near + far
        root = 2**0.5
        parts = np.hstack([both / root, alone]), (near - far) / root

        return cls(gram, folding, np.hstack([both / 2, alone]), parts)

    def folded(self, shares: FloatArray) -> FloatArray:
        """Shares of cells, summed over pairs."""
        h = self.folding.pairs
        return np.concatenate([shares[:h] + shares[h : 2 * h], shares[2 * h :]])

    def spread(self, shares: FloatArray) -> FloatArray:
        """Shares of pairs, half for each cell."""
        h = self.folding.pairs
        return np.concatenate([shares[:h] / 2, shares[:h] / 2, shares[h:]])


@dataclass(frozen=True, eq=False)
class _Point:
    """F and its slopes at weights and prior."""

    mass: FloatArray
    shares: FloatArray
    factors: tuple[Any, ...]
    quadratics: tuple[FloatArray, ...]
    pulled: tuple[FloatArray, ...]
    slopes: FloatArray
    """h′, one a pattern."""
    variances: FloatArray
    """The slope of F in π: the variance of each type."""

    @classmethod
    def of(cls, problem: _Problem, w: FloatArray, prior: FloatArray) -> _Point:
        from scipy.linalg import cho_factor, cho_solve

        gram = problem.gram
        h = problem.folding.pairs
        whole = problem.spread(prior)
        mean = gram @ whole
        centred = gram - mean[:, None] - mean + float(whole @ mean)
        mass = problem.means @ prior
        shares = w / mass
        factors = []
        quadratics = []
        pulled = []
        slopes = np.zeros(len(w))

        for v, half in zip(problem.parts, problem.folding.halves(centred), strict=True):
            factor = cho_factor(
                (v * shares[:, None]).T @ v, lower=True, check_finite=False
            )
            solved = cho_solve(factor, half, check_finite=False)
            quadratic = cho_solve(factor, solved.T, check_finite=False)
            quadratic = (quadratic + quadratic.T) / 2
            factors.append(factor)
            quadratics.append(quadratic)
            pulled.append(v @ quadratic)
            slopes -= np.einsum("ou,ou->o", pulled[-1], v)

        known = np.delete(np.diagonal(centred), np.s_[h : 2 * h])
        variances = (-slopes * shares / mass) @ problem.means - known
        if not np.isfinite(variances).all():
            raise np.linalg.LinAlgError("beyond the digits of a number")

        return cls(
            mass,
            shares,
            tuple(factors),
            tuple(quadratics),
            tuple(pulled),
            slopes,
            variances,
        )

    def curvature(self, problem: _Problem) -> FloatArray:
        """h″."""
        from scipy.linalg import cho_solve

        total = np.zeros((len(self.mass), len(self.mass)))
        for v, factor, pulled in zip(
            problem.parts, self.factors, self.pulled, strict=True
        ):
            inner = v @ cho_solve(factor, v.T, check_finite=False)
            inner *= pulled @ v.T
            total += inner

        total *= 2.0
        return total


@dataclass(eq=False)
class _State:
    """Primal and dual variables; g and s are the slacks of π ≥ 0 and w ≥ 0."""

    w: FloatArray
    prior: FloatArray
    prices: FloatArray
    level: float
    s: FloatArray
    g: FloatArray

    def moved(self, move: _State, length: float) -> _State:
        """So far along a direction."""
        pairs = zip(vars(self).values(), vars(move).values(), strict=True)
        return _State(*(here + length * step for here, step in pairs))

    def longest(self, move: _State) -> float:
        """As far as all that must stay positive does."""
        names = ("w", "s", "prior", "g")
        return min(
            longest_step(getattr(self, n), getattr(move, n), _NEAR_BOUND) for n in names
        )


def best_saddle(
    gram: FloatArray,
    relative: FloatArray,
    weights: FloatArray,
    prior: FloatArray,
    tolerance: float = 1e-5,
    folding: Folding | None = None,
) -> Saddle:
    """The saddle over weights on patterns (rows 1 or e^ε) and priors, from these ones.

    With a folding, cells are in its order, and each pattern stands for its image as well.
    Raises `numpy.linalg.LinAlgError` where digits do not suffice.
    """
    n = len(gram)
    gram = gram + _RIDGE * float(np.trace(gram)) / n * np.eye(n)
    unit = relative.mean(axis=1)
    v = relative / unit[:, None]
    even = np.full(len(v), 1.0 / len(v))
    w = weights * unit
    w = 0.7 * w / float((w @ v).mean()) + 0.3 * even
    prior = np.maximum(prior, _LEAST_SHARE / n)
    problem = _Problem.of(gram, v, folding or Folding.none(n))
    prior = problem.folded(prior / prior.sum())
    point = _Point.of(problem, w, prior)
    state = _first(point, problem, w, prior)
    steps = 0

    for steps in range(_NEWTON_STEPS):  # noqa: B007
        mean = float(state.prior @ point.variances)
        missing = float(np.abs(1.0 - state.w @ problem.means).max())
        uneven = float(point.variances.max()) - mean
        done = float(state.w @ state.s) < tolerance * mean and uneven < tolerance * mean
        if done and missing < 1e-10:
            break

        move = _direction(point, problem, state)
        length = state.longest(move)
        if length < 1e-6:
            break  # the digits are used up: good enough

        state = state.moved(move, length)
        point = _Point.of(problem, state.w, state.prior)

    return Saddle(
        state.w / unit,
        problem.spread(state.prior),
        problem.folding.whole(point.quadratics),
        problem.spread(state.prices),
        float(point.variances.max()),
        (1 + steps) * newton_step(*problem.means.shape),
    )


def newton_step(patterns: int, cells: int) -> float:
    """Operations of a step over weights on patterns, a prior and prices."""
    bent = product(patterns, patterns, cells)
    return solved(patterns, 2 * cells) + 3 * bent + _PASSES * touched(patterns**2)


def _first(
    point: _Point, problem: _Problem, w: FloatArray, prior: FloatArray
) -> _State:
    """Prices proportional to the prior make all slacks of one sign per unit of mass."""
    gradient = point.slopes / point.mass
    prices = prior * float(1.02 * np.max(-gradient / point.mass))
    mean = float(prior @ point.variances)
    level = float(point.variances.max()) + 0.02 * abs(mean)
    slack = gradient + problem.means @ prices
    return _State(w, prior, prices, level, slack, level - point.variances)


def _direction(point: _Point, problem: _Problem, now: _State) -> _State:
    """One Newton step: weights eliminated by a Cholesky factor, then prior, prices and level."""
    from scipy.linalg import cho_factor, cho_solve

    v = problem.means
    mass = point.mass
    shares = point.shares
    count, n = v.shape
    aim_w = 0.1 * float(now.w @ now.s) / count
    aim_p = 0.1 * float(now.prior @ now.g) / n
    curvature = point.curvature(problem)
    along = -(shares / mass)[:, None] * v
    bent = curvature @ along
    cross = bent / mass[:, None] - (point.slopes / mass**2)[:, None] * v
    inner = along.T @ bent + (v * (2 * point.slopes * shares / mass**2)[:, None]).T @ v
    system = curvature / mass[:, None] / mass
    system[np.diag_indices(count)] += now.s / now.w
    factor = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    right = aim_w / now.w - point.slopes / mass - v @ now.prices
    solved = cho_solve(factor, np.column_stack([cross, v, right]), check_finite=False)
    by_prior = solved[:, :n]
    by_prices = solved[:, n:-1]
    rest = solved[:, -1]
    matrix = np.zeros((2 * n + 1, 2 * n + 1))
    sides = np.zeros(2 * n + 1)
    matrix[:n, :n] = inner - np.diag(now.g / now.prior) - cross.T @ by_prior
    matrix[:n, n:-1] = -cross.T @ by_prices
    matrix[:n, -1] = -1.0
    matrix[n:-1, :n] = -v.T @ by_prior
    matrix[n:-1, n:-1] = -v.T @ by_prices
    matrix[-1, :n] = 1.0
    sides[:n] = now.level - point.variances - aim_p / now.prior - cross.T @ rest
    sides[n:-1] = 1.0 - now.w @ v - v.T @ rest
    sides[-1] = 1.0 - float(now.prior.sum())
    answer = np.linalg.solve(matrix, sides)
    prior = answer[:n]
    prices = answer[n:-1]
    w = rest - by_prior @ prior - by_prices @ prices
    s = (aim_w - now.w * now.s - now.s * w) / now.w
    g = (aim_p - now.prior * now.g - now.g * prior) / now.prior

    return _State(w, prior, prices, float(answer[-1]), s, g)
