"""The worst case: which distribution over types a strategy must be estimated for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noisewright.local.optimise.dense.objective import Objective
from noisewright.workload.base import FloatArray


def saddle_prior(objective: Objective, q: FloatArray, steps: int = 20) -> FloatArray:
    """The prior whose best estimate from Q has the smallest worst case, by multiplicative ascent.

    For fixed Q, the mean variance of the best estimate for π is concave in π, its gradient is the
    variance of each type, and its maximum equals the smallest worst case.
    """
    uniform = np.full(q.shape[1], 1.0 / q.shape[1])
    mean_variance, variances = _prior_value(objective, q)
    best, best_worst = objective.prior, float(variances.max())
    step = 2.0
    for _ in range(steps):
        if variances.max() <= mean_variance * (1 + 1e-4) or mean_variance <= 0:
            break
        trial = objective.prior * np.exp(step * (variances / variances.max() - 1.0))
        # A type that nearly never occurs would make reports about it nearly unweighted.
        trial = np.maximum(trial / trial.sum(), 1e-3 * uniform)
        moved = replace(objective, prior=trial / trial.sum())
        trial_mean, trial_variances = _prior_value(moved, q)
        if trial_mean > mean_variance:
            objective, mean_variance, variances = moved, trial_mean, trial_variances
            step *= 1.3
            if variances.max() < best_worst:
                best, best_worst = objective.prior, float(variances.max())
        else:
            step /= 3.0
            if step < 1e-3:
                break
    return best


def _prior_value(objective: Objective, q: FloatArray) -> tuple[float, FloatArray]:
    found = objective.evaluate(q)
    return objective.variance(found.value), objective.type_variances(q, found.energies)


def worst_variance(objective: Objective, q: FloatArray) -> float:
    """Largest variance over types, when the estimate is best for the objective's prior."""
    return float(_prior_value(objective, q)[1].max())
