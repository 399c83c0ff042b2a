"""Gaussian strategies near the best linear one, for products over subsets of attributes.

Every group of attributes gets one axis (totals against contrasts, see `axes`), every block of
attributes its own share of the budget in closed form. The axis itself is the optimal factorization
of its queries together with τ times the total, one number per group: τ = 0 is the Kronecker
optimum, plain counts have the same axis for every τ, and in between a fixed point finds the τ at
which neither the total nor the contrasts would gain from more budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.central.blocks.axes import Axis, centred, from_strategy
from noisewright.central.gaussian.product_families import Family, Table
from noisewright.norm.problems import GramProblem
from noisewright.norm.solver import Weights, solve
from noisewright.norm.tridiagonal import TridiagonalProblem, prefix_gram_inverse
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import PrefixGram

_ROUNDS = 12
_TOLERANCE = 1e-5
_SETTLED = 1e-5
_ITERATIONS = 500
_RIDGE = 1e-7  # of the mean eigenvalue: gives queries that leave cells apart a full-rank strategy


@dataclass(frozen=True, eq=False)
class MixedDesign:
    """Axes per group, budget share per block, and the error they give at unit noise.

    `value` is the root mean squared error over all queries (weights included) when the noise is
    scaled to the strategy's L2 sensitivity; `dual` holds cell weights per group that certify it.
    """

    family: Family
    axes: tuple[Axis, ...]
    dual: tuple[FloatArray, ...]
    variances: FloatArray

    @property
    def value(self) -> float:
        """Root mean squared error per unit of noise."""
        return float(np.sqrt(self.variances).sum()) / float(np.sqrt(self.family.queries))

    @property
    def shares(self) -> FloatArray:
        """Share of the squared sensitivity spent on each block; they sum to one."""
        roots = np.sqrt(self.variances)
        return np.asarray(roots / roots.sum())

    def axis(self, attribute: int) -> Axis:
        """The axis of one attribute."""
        return self.axes[self.family.groups[attribute]]

    def noise(self, block: Table, share: float) -> float:
        """Standard deviation of a block's integer contrasts that spends `share`."""
        length = 1.0
        for attribute in block:
            length *= float(self.axis(attribute).length)
        return float(np.sqrt(length / share))


def design(family: Family, bits: int = 12) -> MixedDesign:
    """Optimise the axes for total weighted variance; exact for counts, certified otherwise."""
    totals, contrasts = np.ones(len(family.kinds)), np.ones(len(family.kinds))
    states = [_start(family, group, bits) for group in range(len(family.group_sizes))]
    _evaluate(family, states, totals, contrasts)
    best = np.inf
    chosen = list(states)
    for _ in range(_ROUNDS):
        contributions = family.contributions(totals, contrasts)
        value = float(np.sqrt(family.block_variances(contributions)).sum())
        if value < best:
            chosen = list(states)
        if value > best * (1 - _SETTLED) or all(s.exact for s in states):
            break
        best = value
        slopes = family.gradients(contributions, totals, contrasts)
        for group, state in enumerate(states):
            if not state.exact:
                states[group] = _improve(family, group, state, totals, contrasts, slopes, bits)
        _evaluate(family, states, totals, contrasts)
    return evaluated(family, [s.axis for s in chosen], [s.dual for s in chosen])


def evaluated(family: Family, axes: Sequence[Axis], dual: Sequence[FloatArray]) -> MixedDesign:
    """The design with given axes, one per group of attributes."""
    totals = np.array([axes[k.group].total_variance(k.gram) for k in family.kinds])
    contrasts = np.array([axes[k.group].contrast_variance(k.gram) for k in family.kinds])
    variances = family.block_variances(family.contributions(totals, contrasts))
    return MixedDesign(family, tuple(axes), tuple(dual), variances)


@dataclass(frozen=True, eq=False)
class _State:
    axis: Axis
    dual: FloatArray
    exact: bool


def _start(family: Family, group: int, bits: int) -> _State:
    size = family.group_sizes[group]
    grams = [kind.gram for kind in family.kinds if kind.group == group]
    if all(exchangeable(gram) for gram in grams):
        return _State(centred(size), np.full(size, 1.0 / size), True)
    mean = sum(gram / np.trace(gram) for gram in grams)
    return _solve(np.asarray(mean), 0.0, None, bits)


def exchangeable(gram: FloatArray) -> bool:
    """Whether all cells are alike, G = aI + c11ᵀ: then uniform weights are optimal."""
    if len(gram) == 1:
        return True
    a = gram[0, 0] - gram[0, 1]
    rest = gram - a * np.eye(len(gram)) - gram[0, 1]
    return bool(np.abs(rest).max() <= 1e-12 * np.abs(gram).max())


def _solve(gram: FloatArray, tau_squared: float, start: FloatArray | None, bits: int) -> _State:
    problem = _problem(gram, tau_squared)
    begin = None if start is None else Weights(None, start)
    solution = solve(problem, 2, tolerance=_TOLERANCE, iterations=_ITERATIONS, start=begin)
    axis = from_strategy(problem.factors(solution.primal).strategy, bits)
    return _State(axis, solution.dual.b, False)


def optimal_strategy(gram: FloatArray) -> FloatArray:
    """The best strategy for queries on one attribute with this Gram matrix."""
    problem = _problem(gram, 0.0)
    solution = solve(problem, 2, tolerance=_TOLERANCE, iterations=_ITERATIONS)
    return problem.factors(solution.primal).strategy


def _problem(gram: FloatArray, tau_squared: float) -> GramProblem | TridiagonalProblem:
    scale = float(gram[-1, -1])
    prefix = scale * PrefixGram(len(gram)).dense()
    if len(gram) > 1 and scale > 0 and np.allclose(gram, prefix, rtol=1e-12, atol=0.0):
        # Adding 11ᵀ to the Gram matrix of prefix sums changes one entry of its inverse.
        plain = prefix_gram_inverse(len(gram))
        diagonal = plain.diagonal.copy()
        diagonal[-1] -= tau_squared / (scale + tau_squared)
        return TridiagonalProblem(diagonal / scale, plain.off_diagonal / scale)
    ridge = _RIDGE * float(np.trace(gram)) / len(gram)
    return GramProblem(gram + tau_squared + ridge * np.eye(len(gram)))


def _improve(
    family: Family,
    group: int,
    state: _State,
    totals: FloatArray,
    contrasts: FloatArray,
    slopes: tuple[FloatArray, FloatArray],
    bits: int,
) -> _State:
    """The axis whose own optimality conditions match the slopes of the whole objective.

    For one attribute with the total weighted by τ the optimum minimises √(g + τ²) + √t, so its
    slopes by g and t are 1/(2√(g + τ²)) and 1/(2√t); matching their ratio gives τ.
    """
    own = np.array([k for k, kind in enumerate(family.kinds) if kind.group == group])
    by_total, by_contrast = slopes[0][own], slopes[1][own]
    shares = by_contrast / by_contrast.sum()
    gram = np.asarray(
        sum(s * family.kinds[k].gram for s, k in zip(shares, own, strict=True)), dtype=np.float64
    )
    g, t = float(shares @ totals[own]), float(shares @ contrasts[own])
    slope = float(by_total @ totals[own]) / g
    tau_squared = max(0.0, (float(by_contrast.sum()) / slope) ** 2 * t - g)
    return _solve(gram, tau_squared, state.dual, bits)


def _evaluate(
    family: Family, states: Sequence[_State], totals: FloatArray, contrasts: FloatArray
) -> None:
    for k, kind in enumerate(family.kinds):
        axis = states[kind.group].axis
        totals[k] = axis.total_variance(kind.gram)
        contrasts[k] = axis.contrast_variance(kind.gram)
