"""Strategies for ℓp means of the errors of single queries, by reweighting the queries.

With v_i the variance of query i, the aim is q·(mean v^{p/2})^{2/p}: for p = 2 the total variance,
for p = ∞ the worst query. Its minimum over strategies is that of Σ w_i v_i at weights w_i ∝
v_i^{p/2−1}, so weights and strategy are found in turn. By Hölder's inequality Σ w_i v_i is at most
the aim for all weights of dual mean one, so for p ≥ 2 their lower bounds bound it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isnan

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.offsets import without_offsets
from noisewright.local.optimise.optimised import Optimised
from noisewright.workload.base import FloatArray, Workload

_ROUNDS = 12
_LEAST = 1e-6


def check_norm(norm: float, objective: str, prior: object) -> float:
    """Refuse exponents below one, and the worst case over people with any but two."""
    if isnan(norm) or norm < 1:
        raise InvalidParameter("norm", norm, "must be >= 1", "2 is the mean square, inf the worst")
    if norm != 2 and objective == "worst" and prior is None:
        raise InvalidParameter(
            "norm", norm, "is about average errors", "add objective='average' or a prior"
        )
    return float(norm)


def power_mean(values: FloatArray, exponent: float) -> float:
    """(mean v^r)^{1/r}, the largest value for r = ∞."""
    top = float(values.max(initial=0.0))
    if top <= 0 or exponent == inf:
        return top
    return float(top * np.mean((values / top) ** exponent) ** (1 / exponent))


def dual_weights(weights: FloatArray, norm: float) -> FloatArray:
    """Weights scaled so that Σ w_i v_i never exceeds the ℓp aim (p ≥ 2)."""
    r = norm / 2
    dual = inf if r == 1 else 1.0 if r == inf else r / (r - 1)
    return np.asarray(weights / power_mean(weights, dual))


def optimise_norm(
    workload: Workload,
    norm: float,
    histogram: FloatArray,
    solve: Callable[[FloatArray, bool], Optimised],
) -> Optimised:
    """The best strategy met; `solve(weights, last)` finds one for weighted queries."""
    weights, asked = np.ones(workload.queries), without_offsets(workload)
    met: list[tuple[float, FloatArray, Optimised]] = []
    for step in range(_ROUNDS + 1):
        last = step == _ROUNDS
        if last:  # once more, as hard as was asked, where it was best
            weights = min(met, key=lambda one: one[0])[1]
        found = solve(weights, last)
        variances = np.maximum(found.strategy.query_variances(asked, histogram), 0.0)
        met.append((workload.queries * power_mean(variances, norm / 2), weights, found))
        weights = _answered(weights, variances, norm, step)
    value, _, best = min(met, key=lambda one: one[0])
    floor, proof = 0.0, None
    if norm >= 2:
        highest = max((found for _, _, found in met), key=lambda found: found.lower_bound)
        floor, proof = highest.lower_bound, highest.certificate
    told = f"norm {norm:g}"
    return replace(best, value=value, lower_bound=floor, certificate=proof, objective=told)


def _answered(weights: FloatArray, variances: FloatArray, norm: float, step: int) -> FloatArray:
    """The next weights: the fixed point is v^{p/2−1}; large exponents are approached in steps."""
    v = np.maximum(variances / max(float(variances.max()), 1e-300), _LEAST)
    if norm < 2:
        raw = v ** (norm / 2 - 1)
        return np.asarray(raw / raw.mean())
    raw = weights * v ** (4 / (4 + step)) if norm == inf else (weights * v) ** (1 - 2 / norm)
    return dual_weights(np.maximum(raw, _LEAST * raw.max()), norm)
