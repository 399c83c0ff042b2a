"""The error of a strategy matrix as a function to be minimised, and its gradient.

For a distribution π over types (the prior) and d = Qπ, the information is X = Σ_o q_o q_oᵀ / d_o
and the mean second moment of one person's contribution is tr(M X⁻¹). The total of a histogram is
public, so the Gram matrix is first centred, M ← (I − 1πᵀ)ᵀ M (I − 1πᵀ): no variance changes. Then
only the centred information Σ_o (q_o − d_o1)(q_o − d_o1)ᵀ / d_o matters, which keeps its digits at
small ε; the multiple of 11ᵀ added to make it invertible has no effect on the value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray

# Of the mean information: far below the rest, far above a number's last digits.
_RIDGE = 1e-9
# Entries from which a gradient is in single precision.
_SINGLE_PRECISION = 2**22


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Value, gradient in Q, and the second moment of each report's contribution."""

    value: float
    gradient: FloatArray
    energies: FloatArray


@dataclass(frozen=True, eq=False)
class Objective:
    """tr(M (offset + X(Q))⁻¹) for a Gram matrix over types, a prior and information at hand.

    `offset` is information that other reports already give (centred: it maps π to zero).
    """

    gram: FloatArray
    prior: FloatArray
    offset: FloatArray | None = None

    @cached_property
    def centred(self) -> FloatArray:
        """(I − 1πᵀ)ᵀ M (I − 1πᵀ)... transposed so that it maps π to zero."""
        mean = self.gram @ self.prior
        spread = self.gram - mean[:, None] - mean[None, :] + float(self.prior @ mean)
        return np.asarray((spread + spread.T) / 2)

    @cached_property
    def known(self) -> float:
        """Σ_u π_u M_uu of the centred matrix: what the second moment exceeds the variance by."""
        return float(self.prior @ np.diagonal(self.centred))

    def evaluate(self, q: FloatArray) -> Evaluation:
        """Value and gradient at Q; raises `numpy.linalg.LinAlgError` where X is singular.

        With Y = D⁻¹Q and S = X⁻¹MX⁻¹ the gradient is −2YS + diag(YSYᵀ)πᵀ; S maps 1 to zero, so
        Y may be replaced by its centred form throughout.
        """
        chance = q @ self.prior
        scores = q / chance[:, None]
        scores -= 1.0
        value, quadratic = self.solve(self.information(scores, chance))
        # a direction of descent: seven digits do, in half the time
        if q.size > _SINGLE_PRECISION:
            scores = scores.astype(np.float32)
            quadratic = quadratic.astype(np.float32)

        pulled = scores @ quadratic
        energies = np.einsum("ou,ou->o", pulled, scores)
        pulled *= -2.0
        pulled += energies[:, None] * self.prior.astype(pulled.dtype)

        return Evaluation(value, pulled, energies.astype(np.float64))

    def information(self, scores: FloatArray, chance: FloatArray) -> FloatArray:
        """Centred information of reports with these centred scores and chances."""
        rooted = scores * np.sqrt(chance)[:, None]
        x = rooted.T @ rooted
        return x if self.offset is None else np.asarray(x + self.offset)

    def solve(self, x: FloatArray) -> tuple[float, FloatArray]:
        """tr(M X⁻¹) and X⁻¹MX⁻¹ for a centred information matrix."""
        from scipy.linalg import cho_solve

        factor = _factor(x)
        half = cho_solve(factor, self.centred, check_finite=False)
        quadratic = cho_solve(factor, half.T, check_finite=False)
        value = float(np.trace(half))
        if not (0 <= value < np.inf and np.isfinite(quadratic).all()):
            raise np.linalg.LinAlgError("singular information")

        return value, np.asarray((quadratic + quadratic.T) / 2)

    def variance(self, value: float) -> float:
        """Mean variance under the prior of a strategy whose value this is."""
        return value - self.known

    def type_variances(self, q: FloatArray, energies: FloatArray) -> FloatArray:
        """Variance that one person of each type adds to all answers together."""
        return np.asarray(energies @ q - np.diagonal(self.centred))


def _factor(x: FloatArray) -> tuple[FloatArray, bool]:
    """Cholesky factor of a centred information matrix, the direction of the total filled in.

    Any positive multiple of 11ᵀ fills it; this one is well scaled. Information on what no query
    asks may fade to nothing during a descent: then a ridge far below the rest steps in.
    """
    from scipy.linalg import cho_factor

    n = len(x)
    size = float(np.trace(x)) / n
    filled = x + size / n

    try:
        return cho_factor(filled, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        filled[np.diag_indices(n)] += _RIDGE * size
        return cho_factor(filled, lower=True, check_finite=False)


def saddle_prior(objective: Objective, q: FloatArray, steps: int = 20) -> FloatArray:
    """The prior whose best estimate from Q has the smallest worst case, by multiplicative ascent.

    For fixed Q, the mean variance of the best estimate for π is concave in π, its gradient is the
    variance of each type, and its maximum equals the smallest worst case.
    """
    uniform = np.full(q.shape[1], 1.0 / q.shape[1])
    mean_variance, variances = _prior_value(objective, q)
    best = objective.prior
    best_worst = float(variances.max())
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
            objective = moved
            mean_variance = trial_mean
            variances = trial_variances
            step *= 1.3
            if variances.max() < best_worst:
                best = objective.prior
                best_worst = float(variances.max())
        else:
            step /= 3.0
            if step < 1e-3:
                break

    return best


def _prior_value(objective: Objective, q: FloatArray) -> tuple[float, FloatArray]:
    there = objective.evaluate(q)
    return objective.variance(there.value), objective.type_variances(q, there.energies)


def worst_variance(objective: Objective, q: FloatArray) -> float:
    """Largest variance over types, when the estimate is best for the objective's prior."""
    return float(_prior_value(objective, q)[1].max())
