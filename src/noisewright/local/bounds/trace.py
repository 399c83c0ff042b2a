"""Lower bounds: what no ε-LDP strategy with an unbiased linear estimate can beat.

For a distribution π over types, Y = Π^{1/2} X Π^{1/2} fixes √π and has trace at most 1 + c, since a
variable in [z, e^ε z] has second moment at most 1 + sinh²(ε/2) times its squared mean. Minimising
tr(Π^{1/2} M Π^{1/2} Y⁻¹) under those two conditions bounds every strategy's mean second moment,
hence its objective, and less Σπ‖We_u‖² its worst-case variance.

Queries count up to a constant each (see `offsets`). Every bound is rounded down: eigenvalues by
what rounding may have added to them (`spectrum.lowered`), and the bound itself by `MARGIN` of the
two numbers whose difference it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, sinh

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.analysis.analysis import check_alpha
from noisewright.local.analysis.grams import squared_norm, table_gram
from noisewright.local.bounds.centring import centred_at
from noisewright.local.bounds.ordered.search import merged
from noisewright.local.bounds.proof import MARGIN
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.transform.spectrum import centred_spectrum, lowered_eigenvalues
from noisewright.solution import BoundClass, Certificate, lifted_to_bound, quotient
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.marginal_gram import MarginalGram


@dataclass(frozen=True)
class Ascent:
    """How a prior is looked for: any prior gives a valid bound."""

    merged_from: int = 512
    """Cells beyond which it is looked for over runs of neighbours: only bounds time."""
    steps: int = 40
    """Half of them prove up to 0.1 % less on random queries, double as much more."""
    longer: float = 1.3
    """By which a step grows that went uphill."""
    shorter: float = 3.0
    """By which one shrinks that did not."""
    least_step: float = 1e-4
    """In the logarithm of a share: shorter ones change nothing that is seen."""
    least_share: float = 1e-12
    """Of a type, so that its slope stays finite: a thousand times more or less prove as much."""


_ASCENT = Ascent()

_TINY = float(np.finfo(float).tiny)
"""Keeps quotients finite where nothing is asked, or a type has no share."""

_RANK = 1e-13
"""Of the largest eigenvalue: those below have no part in a slope."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LowerBound(Certificate):
    """Floors under unbiased linear estimates from any ε-LDP strategy on a workload, per person.

    `variance` is the floor under the worst-case variance of all answers together (under the mean
    variance as well, where the distribution it was proved with is even), `mean_square` what
    the second moment exceeds it by: the mean of ‖We_u‖² over that distribution.
    """

    name: str = "trace"
    bound_class: BoundClass = BoundClass.UNBIASED
    variance: float
    mean_square: float
    size: int
    queries: int

    @property
    def objective(self) -> float:
        """Floor under the average-case objective L (for the uniform distribution)."""
        return self.size * (self.variance + self.mean_square)

    def sample_complexity(self, alpha: float = 0.01) -> float:
        """Floor under the number of people for a variance of `alpha` per query."""
        return max(self.variance, 0.0) / (self.queries * check_alpha(alpha))

    def ratio(self, variance: float) -> float | None:
        """A strategy's variance over the floor; None where the floor says nothing."""
        floor = max(self.variance, 0.0)
        cost = lifted_to_bound(max(variance, 0.0), floor, "strategy")
        return quotient(cost, floor) if floor > 0 else None


def rounded_down(
    moment: float,
    mean_square: float,
    total: float,
) -> float:
    """moment − mean_square, both at least zero, less all that rounding may have added.

    `total` is the size of the numbers that `mean_square` itself is the difference of.
    """
    return moment - mean_square - MARGIN * (moment + total)


def contrast_limit(
    size: int,
    epsilon: float,
    high: int | None = None,
) -> float:
    """C_n(ε): the largest variance of a row in [1, e^ε]^n over its squared mean.

    A row with d high entries out of n gives n(n−d+d·e^{2ε})/(n−d+d·e^ε)² − 1; the best d is one
    of the two whole numbers around n/(1+e^ε), unless `high` fixes it.
    """
    near = int(size / (1.0 + exp(epsilon)))
    candidates = (near, near + 1) if high is None else (high,)

    # As a variance, (d/n)(1−d/n) r², it is free of cancellation at small ε.
    r = expm1(epsilon)

    def contrast(high: int) -> float:
        share = min(high, size) / size
        return share * (1 - share) * (r / (1 + r * share)) ** 2

    return max(map(contrast, candidates))


# --- people spread evenly -----------------------------------------------------------------------


def lower_bound(
    workload: Workload,
    epsilon: float,
    gram: Gram | None = None,
) -> LowerBound:
    """The bound for the uniform distribution, with the exact finite-n constant."""
    gram = gram or table_gram(workload)
    return off_the_total(workload, gram, even_moment(gram, epsilon))


def even_moment(gram: Gram, epsilon: float) -> float:
    """Floor under the second moment off the total, for people spread evenly."""
    limit = contrast_limit(gram.size, check_epsilon(epsilon))
    nuclear = centred_spectrum(gram).nuclear / gram.size**0.5
    return nuclear**2 / limit if limit > 0 else 0.0


def off_the_total(
    workload: Workload,
    gram: Gram,
    moment: float,
    proof: str = "trace",
) -> LowerBound:
    """From a floor under the second moment, less that of the total, which is known."""
    return LowerBound(
        name=proof,
        variance=variance_off_the_total(gram, moment),
        mean_square=squared_norm(workload) / workload.size,
        size=workload.size,
        queries=workload.queries,
    )


def variance_off_the_total(gram: Gram, moment: float) -> float:
    """Floor under the variance, from one under the second moment."""
    mean_square = gram.trace() / gram.size
    known = max(mean_square - _mean_answer(gram), 0.0)
    return rounded_down(moment, known, mean_square)


def _mean_answer(gram: Gram) -> float:
    """‖Wπ‖² for uniform π."""
    if isinstance(gram, MarginalGram):  # no vector over the cells of a large domain
        return gram.eigenvalue(()) / gram.size
    ones = np.ones(gram.size)
    return float(ones @ gram.matvec(ones)) / gram.size**2


# --- people spread in any way -------------------------------------------------------------------


def prior_bound(
    workload: Workload,
    epsilon: float,
    prior: FloatArray,
) -> LowerBound:
    """The bound for any distribution π over types: a floor under the worst case only."""
    weights = np.asarray(prior, dtype=np.float64)
    return LowerBound(
        name="prior",
        variance=prior_variance(table_gram(workload), epsilon, weights),
        mean_square=float(weights @ workload.gram().diagonal()),
        size=workload.size,
        queries=workload.queries,
    )


def prior_variance(
    gram: Gram,
    epsilon: float,
    prior: FloatArray,
) -> float:
    """Floor under the mean variance of people distributed as π."""
    m = gram.dense()
    centred = centred_at(m, prior)
    root = np.sqrt(prior)
    values = np.linalg.eigvalsh(root[:, None] * centred * root)

    mean_square = float(np.diagonal(m) @ prior)
    singular = np.sqrt(lowered_eigenvalues(values, mean_square))
    nuclear = float(singular.sum())
    moment = nuclear**2 / sinh(check_epsilon(epsilon) / 2) ** 2
    known = max(float(prior @ np.diagonal(centred)), 0.0)
    return rounded_down(moment, known, mean_square)


@lru_cache(maxsize=4)  # a plan states this bound beside the highest
def optimised_prior(
    workload: Workload, epsilon: float
) -> tuple[LowerBound, FloatArray]:
    """The largest bound found over distributions, by multiplicative ascent, and where it is.

    Any distribution gives a valid bound, so stopping early costs tightness, never truth. Large
    domains get the best distribution over runs of neighbours, spread evenly within each.
    """
    m = table_gram(workload).dense()
    prior = np.full(workload.size, 1.0 / workload.size)
    if workload.size <= _ASCENT.merged_from:
        prior = _ascended(m, prior, check_epsilon(epsilon))
    else:
        few, coarse, runs = merged(m, prior, _ASCENT.merged_from // 2)
        coarse = _ascended(few, coarse, check_epsilon(epsilon))
        prior = (coarse / np.bincount(runs))[runs]

    return prior_bound(workload, epsilon, prior), prior


def _ascended(
    m: FloatArray,
    prior: FloatArray,
    epsilon: float,
) -> FloatArray:
    """Uphill from a distribution."""
    value, gradient = _prior_value(m, prior, epsilon)
    step = 1.0
    for _ in range(_ASCENT.steps):
        uphill = gradient - prior @ gradient
        steepest = np.abs(uphill).max(initial=_TINY)
        trial = _moved(prior, step * uphill / steepest)
        trial_value, trial_gradient = _prior_value(m, trial, epsilon)

        if trial_value > value:
            prior = trial
            value = trial_value
            gradient = trial_gradient
            step *= _ASCENT.longer
            continue

        step /= _ASCENT.shorter
        if step < _ASCENT.least_step:
            break

    return prior


def _moved(prior: FloatArray, logs: FloatArray) -> FloatArray:
    """π·exp(logs) as a distribution, in which no type fades so far that its slope overflows."""
    moved = prior * np.exp(logs - logs.max())
    moved = np.maximum(moved / moved.sum(), _ASCENT.least_share)
    return np.asarray(moved / moved.sum())


def _prior_value(
    m: FloatArray,
    prior: FloatArray,
    epsilon: float,
) -> tuple[float, FloatArray]:
    """Worst-case floor at π and its gradient.

    ‖W Π^{1/2}(I − √π√πᵀ)‖_* = ‖(W − Wπ1ᵀ)Π^{1/2}‖_*, whose derivative in π_u is
    Σ_k s_k V_uk² / (2π_u): moving the centre Wπ has no first-order effect.
    """
    centred = centred_at(m, prior)
    root = np.sqrt(prior)
    scaled = root[:, None] * centred * root
    values, vectors = np.linalg.eigh(scaled)
    seen = values > _RANK * values[-1]
    singular = np.sqrt(np.where(seen, values, 0.0))
    nuclear = float(singular.sum())
    slopes = vectors**2 @ singular / np.maximum(prior, _TINY)

    limit = sinh(epsilon / 2) ** 2
    known = np.diagonal(centred)
    value = nuclear**2 / limit - float(prior @ known)
    return value, nuclear * slopes / limit - known
