"""Lower bounds: what no ε-LDP strategy with an unbiased linear estimate can beat.

For a distribution π over types, Y = Π^{1/2} X Π^{1/2} fixes √π and has trace at most 1 + c, since a
variable in [z, e^ε z] has second moment at most 1 + sinh²(ε/2) times its squared mean. Minimising
tr(Π^{1/2} M Π^{1/2} Y⁻¹) under those two conditions bounds every strategy's mean second moment,
hence its objective, and less Σπ‖We_u‖² its worst-case variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sinh

import numpy as np

from noisewright.local.analysis import check_alpha
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.spectrum import centred_spectrum
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.gram import Gram, MarginalGram


@dataclass(frozen=True)
class LowerBound:
    """Floors under unbiased linear estimates from any ε-LDP strategy on a workload, per person."""

    second_moment: float
    mean_square: float
    size: int
    queries: int

    @property
    def variance(self) -> float:
        """Floor under the worst-case variance of all answers together."""
        return self.second_moment - self.mean_square

    @property
    def objective(self) -> float:
        """Floor under the average-case objective L (for the uniform distribution)."""
        return self.size * self.second_moment

    def sample_complexity(self, alpha: float = 0.01) -> float:
        """Floor under the number of people for a variance of `alpha` per query."""
        return max(self.variance, 0.0) / (self.queries * check_alpha(alpha))


def contrast_limit(size: int, epsilon: float, high: int | None = None) -> float:
    """C_n(ε): the largest variance of a row in [1, e^ε]^n over its squared mean.

    A row with d high entries out of n gives n(n−d+d·e^{2ε})/(n−d+d·e^ε)² − 1; the best d is one
    of the two whole numbers around n/(1+e^ε), unless `high` fixes it.
    """
    near = int(size / (1.0 + exp(epsilon)))
    candidates = {min(near + k, size) for k in (0, 1)} if high is None else {high}
    # As a variance, (d/n)(1−d/n) r², it is free of cancellation at small ε.
    r = expm1(epsilon)
    return max((d / size) * (1 - d / size) * (r / (1 + r * d / size)) ** 2 for d in candidates)


def lower_bound(workload: Workload, epsilon: float, gram: Gram | None = None) -> LowerBound:
    """The bound for the uniform distribution, with the exact finite-n constant."""
    n, gram = workload.size, gram or workload.gram()
    limit = contrast_limit(n, check_epsilon(epsilon))
    mean = _mean_answer(gram)
    nuclear = centred_spectrum(gram).nuclear / n**0.5
    spread = nuclear**2 / limit if limit > 0 else 0.0
    return LowerBound(mean + spread, gram.trace() / n, n, workload.queries)


def _mean_answer(gram: Gram) -> float:
    """‖Wπ‖² for uniform π."""
    if isinstance(gram, MarginalGram):  # no vector over the cells of a large domain
        return gram.eigenvalue(()) / gram.size
    ones = np.ones(gram.size)
    return float(ones @ gram.matvec(ones)) / gram.size**2


def prior_bound(workload: Workload, epsilon: float, prior: FloatArray) -> LowerBound:
    """The bound for any distribution π over types: a floor under the worst case only."""
    m = workload.gram().dense()
    value, _ = _prior_value(m, np.asarray(prior, dtype=np.float64), check_epsilon(epsilon))
    return LowerBound(
        value + float(prior @ np.diagonal(m)),
        float(prior @ np.diagonal(m)),
        workload.size,
        workload.queries,
    )


def optimised_prior(
    workload: Workload, epsilon: float, iterations: int = 40
) -> tuple[LowerBound, FloatArray]:
    """The largest bound found over distributions, by multiplicative ascent, and where it is.

    Any distribution gives a valid bound, so stopping early costs tightness, never truth.
    """
    m = workload.gram().dense()
    prior = np.full(workload.size, 1.0 / workload.size)
    value, gradient = _prior_value(m, prior, check_epsilon(epsilon))
    step = 1.0
    for _ in range(iterations):
        scale = max(float(np.abs(gradient - prior @ gradient).max()), np.finfo(float).tiny)
        trial = prior * np.exp(step * (gradient - prior @ gradient) / scale)
        trial /= trial.sum()
        trial_value, trial_gradient = _prior_value(m, trial, epsilon)
        if trial_value > value:
            prior, value, gradient, step = trial, trial_value, trial_gradient, step * 1.3
        else:
            step /= 3.0
            if step < 1e-4:
                break
    return prior_bound(workload, epsilon, prior), prior


def _prior_value(m: FloatArray, prior: FloatArray, epsilon: float) -> tuple[float, FloatArray]:
    """Worst-case floor at π and its gradient.

    ‖W Π^{1/2}(I − √π√πᵀ)‖_* = ‖(W − Wπ1ᵀ)Π^{1/2}‖_*, whose derivative in π_u is
    Σ_k s_k V_uk² / (2π_u): moving the centre Wπ has no first-order effect.
    """
    mean = m @ prior
    centred = m - mean[:, None] - mean[None, :] + prior @ mean
    root = np.sqrt(prior)
    values, vectors = np.linalg.eigh(root[:, None] * centred * root[None, :])
    s = np.sqrt(np.where(values > 1e-13 * values[-1], values, 0.0))
    nuclear, limit = float(s.sum()), sinh(epsilon / 2) ** 2
    diagonal = np.diagonal(m)
    value = float(prior @ mean) + nuclear**2 / limit - float(prior @ diagonal)
    slope = (vectors**2 @ s) / np.maximum(prior, np.finfo(float).tiny)
    return value, 2 * mean + nuclear * slope / limit - diagonal
