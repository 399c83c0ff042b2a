"""Biased estimates where they err less: the affine estimate whose worst squared error is least.

The mean squared error of an affine estimate is convex in the histogram, so that its worst case
over all tables of N people is one where everybody is alike. The minimax estimate is the best one
for a least favourable distribution π of that kind: with X_π = QᵀD_π⁻¹Q,

    x̂ = N Π (I + (N − 1)X_π Π)⁻¹ QᵀD_π⁻¹ y,

found by multiplicative steps on π. The mean error under π bounds every affine estimate from below
(`affine_bound`, worked out anew from π), the largest is that of this one: their distance is the
gap. Where reports are too many to list, the same is done with the strategy's own scores in
place of the reports.

What no affine estimate from a strategy's reports goes below, from a distribution over types.

Where all N people are of one type u, drawn from π, the counts of reports have second moments
N·D + N(N − 1)QΠQᵀ with D = Diag(Qπ), and N²ΠQᵀ with the table itself. The least mean squared error
of a linear estimate is what is left of N²·tr(MΠ), and with S = Π^½QᵀD⁻¹QΠ^½ that is

    N² Σ_k (1 − s_k)/(1 + (N − 1)s_k) · v_kᵀΠ^½MΠ^½v_k

over the eigenvalues s_k ≤ 1 and eigenvectors v_k of S. Constants are linear in the counts, whose
sum is N; the worst case of an estimate is at least its mean. Where reports are too many to list,
their scores stand in place of counts: D is then their second moment and Q their means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.analysis.analysis import scores_of
from noisewright.local.strategy import IndexStrategy, Strategy, check_dense
from noisewright.local.time_limit import TimeLimit
from noisewright.solution import BoundClass, Certificate, Solution, Status
from noisewright.workload.linear.gram import Gram

_STEPS = 400
"""Multiplicative steps at most; the gap to the bound, which ends them, is stated beside."""

_LEAST = 1e-9  # share of π that every type keeps, so that matrices stay regular
NO_MATTER = 0.99
"""Where the shrunk root mean square error is above this share of the unbiased one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LeastFavourable(Certificate):
    """A distribution over types on which no affine estimate errs less on average."""

    name: str = "least favourable distribution"
    bound_class: BoundClass = BoundClass.AFFINE
    prior: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Shrinkage(Solution):
    """The worst squared error over all queries together, in people², and how to estimate.

    `unbiased` is that of the unbiased estimate, `errors` those where all people are of each type.
    """

    people: int
    unbiased: float
    errors: FloatArray
    certificate: LeastFavourable
    histogram: Callable[[IntArray], FloatArray]
    """The estimated counts of cells from the statistics of all reports."""

    @property
    def share(self) -> float:
        """The worst root mean square error over that of the unbiased estimate."""
        if self.unbiased <= 0:
            return 1.0
        return float(np.sqrt(self.value / self.unbiased))


@dataclass(frozen=True, eq=False)
class _Reports:
    """Estimates that are linear in the counts of single reports."""

    chances: FloatArray

    def estimate(self, prior: FloatArray, people: int) -> FloatArray:
        q = self.chances
        scores = scores_of(q, prior)
        information = (people - 1) * (scores.T @ q) * prior
        solved = np.linalg.solve(np.eye(len(prior)) + information, scores.T)
        return people * prior[:, None] * solved

    def mean(self, estimate: FloatArray) -> FloatArray:
        return estimate @ self.chances

    def square(self, estimate: FloatArray, gram: FloatArray) -> FloatArray:
        """E of the squared answers to one report, of every type."""
        squares = np.einsum("uo,uo->o", gram @ estimate, estimate)
        return np.asarray(squares @ self.chances)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Estimates that are linear in the strategy's own scores."""

    strategy: Strategy

    @cached_property
    def information(self) -> FloatArray:
        return self.strategy.information.dense()

    def estimate(self, prior: FloatArray, people: int) -> FloatArray:
        seen = self.information * prior
        others = (people - 1) * seen @ self.information
        spread = self.strategy.moment(prior) + others
        solved, *_ = np.linalg.lstsq(spread, seen, rcond=1e-12)
        return np.asarray(people * solved.T)

    def mean(self, estimate: FloatArray) -> FloatArray:
        return estimate @ self.information

    def square(self, estimate: FloatArray, gram: FloatArray) -> FloatArray:
        return self.strategy.energy(estimate.T @ gram @ estimate)


def minimax_affine(
    strategy: Strategy, gram: Gram, people: int, tolerance: float = 1e-3
) -> Shrinkage:
    """The affine estimate from so many people whose worst squared error is least, with its proof.

    `gram` is that of the queries up to a constant each: the number of people is public.
    """
    began = TimeLimit()
    check_dense(strategy.size)
    m = gram.dense()
    listed = _lists_reports(strategy)
    law: _Reports | _Scores = _Scores(strategy)
    if listed:
        law = _Reports(strategy.dense())

    found = _saddle(law, m, people, tolerance)

    def histogram(tally: IntArray) -> FloatArray:
        counted = tally.astype(np.float64)
        seen = counted if listed else strategy.score(tally, people)
        return found.estimate @ seen

    return Shrinkage(
        value=float(found.errors.max()),
        lower_bound=affine_bound(strategy, m, people, found.prior),
        people=people,
        unbiased=people * strategy.worst_variance(gram),
        errors=found.errors,
        certificate=LeastFavourable(prior=found.prior),
        histogram=histogram,
        status=found.status,
        iterations=found.iterations,
        seconds=began.seconds,
    )


class _Saddle(NamedTuple):
    """The best estimate and its errors, and the least favourable of the distributions tried."""

    estimate: FloatArray
    errors: FloatArray
    prior: FloatArray
    status: Status
    iterations: int


def _saddle(
    law: _Reports | _Scores, gram: FloatArray, people: int, tolerance: float
) -> _Saddle:
    """Multiplicative steps on π until the worst error is near the mean one."""
    n = len(gram)
    prior = np.full(n, 1.0 / n)
    best = prior
    bound = 0.0
    upper = np.inf

    for count in range(1, _STEPS + 1):
        tried = law.estimate(prior, people)
        each = _errors(law, tried, gram, people)
        lower = float(prior @ each)
        if each.max() < upper:
            upper = float(each.max())
            estimate = tried
            errors = each

        if lower > bound:
            bound = lower
            best = prior

        if upper <= bound * (1 + tolerance):
            return _Saddle(estimate, errors, best, Status.CONVERGED, count)

        gains = np.maximum(each, 0) / max(lower, 1e-300)
        prior = prior * gains ** (1.5 if count < 50 else 0.7)
        prior = np.maximum(prior / prior.sum(), _LEAST / n)
        prior /= prior.sum()

    return _Saddle(estimate, errors, best, Status.ITERATION_LIMIT, _STEPS)


def _errors(
    law: _Reports | _Scores, estimate: FloatArray, gram: FloatArray, people: int
) -> FloatArray:
    """N²‖W(EQ − I)e_u‖² + N(E‖W E report‖² − ‖W E Q e_u‖²) for every type u."""
    mean = law.mean(estimate)
    away = mean - np.eye(len(mean))
    bias = np.einsum("iu,iu->u", gram @ away, away)
    seen = np.einsum("iu,iu->u", gram @ mean, mean)
    variance = law.square(estimate, gram) - seen
    return np.asarray(people**2 * bias + people * variance)


def people_where_it_ends(strategy: Strategy, gram: Gram) -> int:
    """The fewest people, up to a few per cent, from whom shrinking no longer matters."""
    low = high = 1

    def matters(people: int) -> bool:
        return minimax_affine(strategy, gram, people, 1e-2).share < NO_MATTER

    while matters(high) and high < 2**60:
        low = high
        high = 4 * high

    while high > 1.05 * low + 1:
        middle = int(np.sqrt(low * high)) + 1
        if matters(middle):
            low = middle
        else:
            high = middle

    return high


# --- affine bound ---------------------------------------------------------------------------------


_LISTED_ENTRIES = 2**22
"""Chances that are listed: each of the steps takes products of their matrix."""

_ROUNDING = 64 * np.finfo(float).eps


def _lists_reports(strategy: Strategy) -> bool:
    """Whether estimates may be linear in counts of single reports, not of their scores alone."""
    if not isinstance(strategy, IndexStrategy):
        return False
    return strategy.outputs * strategy.size <= _LISTED_ENTRIES


def affine_bound(
    strategy: Strategy, gram: FloatArray, people: int, prior: FloatArray
) -> float:
    """A number just below the worst squared error of every affine estimate from so many people."""
    told = _told(strategy, prior)
    values, vectors = np.linalg.eigh(told)

    # The sum falls with every eigenvalue: each gives up what rounding can have taken from it.
    rounding = _ROUNDING * len(values)
    raised = values + rounding * max(1.0, float(values[-1]))
    seen = np.clip(raised, 0.0, 1.0)
    left = (1 - seen) / (1 + (people - 1) * seen)

    root = np.sqrt(prior)[:, None] * vectors
    sizes = np.einsum("uk,uk->k", root, gram @ root)
    total = np.sum(left * np.maximum(sizes, 0.0))

    return float(people**2 * total) * (1 - rounding)


def _told(strategy: Strategy, prior: FloatArray) -> FloatArray:
    """S: how much of each type one report tells, under the distribution."""
    root = np.sqrt(prior)
    if _lists_reports(strategy):
        chances = strategy.dense()
        seen = chances @ prior
        used = seen > 0
        scaled = chances[used] * root / np.sqrt(seen[used])[:, None]
        return scaled.T @ scaled

    means = strategy.information.dense() * root
    values, vectors = np.linalg.eigh(strategy.moment(prior))
    least = len(values) * np.finfo(float).eps * values[-1]
    kept = values > least
    whitened = vectors[:, kept] / np.sqrt(values[kept])
    scaled = whitened.T @ means

    return np.asarray(scaled.T @ scaled)
