"""What a strategy costs on a workload: reach, variances, covariance and people needed.

Every figure is per person unless a histogram is given, exact for the chances that clients use, and
follows from the score and the information matrix alone (MATH: V = W X⁺ S, see `strategy`).

How far one report can move an answer, whatever it says: what liars can do at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.local.analysis.grams import squared_norm, table_gram, without_offsets
from noisewright.local.randomizer.chances import listed_reports
from noisewright.local.strategy import IndexStrategy, Strategy
from noisewright.privacy.exact.rounding import positive
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

_MATRIX_ENTRIES = 2**26
"""Of a covariance of answers: 512 MiB in doubles."""

_LEAST_ALPHA = 1e-100  # numbers of people, which go by its inverse, are floats


@dataclass(frozen=True, eq=False)
class Analysis:
    """The error of one strategy on one workload. Raises `OutOfReach` when it cannot answer it."""

    strategy: Strategy
    workload: Workload
    known_gram: Gram | None = None
    """The Gram matrix of the queries up to a constant each, where it is known already."""

    def __post_init__(self) -> None:
        size = self.workload.size
        if size != self.strategy.size:
            rule = f"has {size} cells where the strategy has {self.strategy.size}"
            remedy = "plan a strategy for this workload"
            raise InvalidParameter("workload", self.workload.brief(), rule, remedy)
        self.strategy.check_reach(self.questions)

    @cached_property
    def questions(self) -> Workload:
        """The queries up to a constant each; as they are for strategies that go by tables."""
        return (
            without_offsets(self.workload)
            if self.strategy.lists_cells
            else self.workload
        )

    @cached_property
    def gram(self) -> Gram:
        """Gram matrix of the queries up to a constant each."""
        return self.known_gram or table_gram(self.workload)

    @cached_property
    def type_variances(self) -> FloatArray:
        """Variance that one person of each type adds to all answers together."""
        return self.strategy.type_variances(self.gram)

    @cached_property
    def _by_questions(self) -> tuple[float, float] | None:
        return self.strategy.total_variances(self.workload)

    @cached_property
    def worst_case(self) -> float:
        """Largest of them: no data set of N people has a total variance above N times this."""
        if self._by_questions is not None:
            return self._by_questions[0]
        if self._plainly("worst_variance"):
            return float(self.type_variances.max())
        return self.strategy.worst_variance(self.gram)

    @cached_property
    def average_case(self) -> float:
        """Their mean over types."""
        if self._by_questions is not None:
            return self._by_questions[1]
        if self._plainly("average_variance"):
            return float(self.type_variances.mean())
        return self.strategy.average_variance(self.gram)

    def _plainly(self, name: str) -> bool:
        """Whether the strategy follows from its type variances, which are then worked out once."""
        return getattr(type(self.strategy), name) is getattr(Strategy, name)

    def total_variance(self, histogram: FloatArray) -> float:
        """Variance of all answers together on one histogram of people."""
        return float(
            self.type_variances @ _check_histogram(histogram, self.strategy.size)
        )

    @property
    def objective(self) -> float:
        """L = n·(mean variance) + ‖W‖_F²: tr[(Qᵀ D⁻¹ Q)⁺ M] with D = Diag(Q1) at an even prior."""
        return self.strategy.size * self.average_case + squared_norm(self.workload)

    def sample_complexity(self, alpha: float = 0.01) -> float:
        """People needed for a worst-case variance of `alpha` per query, of proportions."""
        return self.worst_case / (self.workload.queries * check_alpha(alpha))

    def query_variances(self, histogram: FloatArray) -> FloatArray:
        """Variance of each answer on one histogram of people."""
        x = _check_histogram(histogram, self.strategy.size)
        return self.strategy.query_variances(self.questions, x)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """Covariance of all answers on one histogram of people, dense."""
        x = _check_histogram(histogram, self.strategy.size)
        w = self.questions.dense()
        if w.shape[0] ** 2 > _MATRIX_ENTRIES:
            raise TooLarge(
                f"a covariance of {w.shape[0]} answers is too large; use variances"
            )
        return w @ self.strategy.covariance(x) @ w.T

    def reconstruction(self) -> FloatArray:
        """V with W = VQ: what each report adds to each answer, dense."""
        if not isinstance(self.strategy, IndexStrategy):
            raise TooLarge(
                f"the reports of {self.strategy.kind} are too many to be listed"
            )
        return self.workload.matvec(report_estimates(self.strategy))


def report_estimates(strategy: IndexStrategy) -> FloatArray:
    """What one report adds to the estimated histogram, a column per report."""
    if type(strategy).score is IndexStrategy.score:
        scores = scores_of(strategy.dense(), strategy.prior)
        return strategy.information.solve(scores.T)

    # A coarser statistic, or a faster one: ask it what each report adds.
    reports = np.eye(strategy.collector.counters, dtype=np.int64)
    estimates = [strategy.estimate(report, 1) for report in reports]
    return np.stack(estimates, axis=1)


def scores_of(chances: FloatArray, prior: FloatArray) -> FloatArray:
    """q_o / (q_oᵀπ), a row per report; rows of reports that never come are zero."""
    expected = np.maximum(chances @ prior, np.finfo(float).tiny)
    return np.asarray(chances / expected[:, None])


def check_alpha(alpha: float) -> float:
    """Refuse a variance target that is not a positive number, or for which none counts people."""
    positive("alpha", alpha, "0.01 is customary")
    require(
        alpha >= _LEAST_ALPHA,
        "alpha",
        alpha,
        f"must be >= {_LEAST_ALPHA:g}",
        "0.01 is customary",
    )

    return float(alpha)


def _check_histogram(histogram: FloatArray, size: int) -> FloatArray:
    """Non-negative finite counts, one per type."""
    x = np.asarray(histogram, dtype=np.float64)
    require(
        x.shape == (size,) and np.isfinite(x).all() and x.min(initial=0.0) >= 0,
        "histogram",
        f"array of shape {x.shape}",
        f"must be {size} finite counts >= 0",
    )

    return x


# --- influence ------------------------------------------------------------------------------------


_ENTRIES = 2**22
"""Of a matrix by reports: those of a second or two of estimates, one a report."""


def influence(
    strategy: Strategy, workload: Workload, cap: float | None = None
) -> FloatArray:
    """Per query, the most that one report in place of another changes the answer, in people.

    The answer is a sum over reports, so that k liars among any number of people move it by k times
    this at most. Exact over all reports that are counted; infinite for vectors without a `cap`.
    """
    collector = strategy.collector
    entries = collector.counters * max(strategy.size, workload.queries)
    if not strategy.lists_cells or entries > _ENTRIES:
        raise TooLarge(
            f"the influence of a report on {workload.queries:,} answers is not worked out"
        )

    added = added_by_one(strategy)
    moved = np.asarray(workload.matvec(added), dtype=np.float64)
    return collector.largest_change(moved, cap)


def added_by_one(strategy: Strategy) -> FloatArray:
    """What one more of everything that is counted adds to every cell; people stay as many."""
    none = np.zeros(strategy.collector.counters, dtype=np.int64)
    start = strategy.estimate(none, 1)
    cells = np.empty((strategy.size, len(none)))

    for place in range(len(none)):
        one = none.copy()
        one[place] = 1
        cells[:, place] = strategy.estimate(one, 1) - start

    return cells


def chances_of_reports(strategy: Strategy) -> FloatArray | None:
    """Chances of reports (rows) under answers, where they can be listed."""
    outputs = listed_reports(strategy.specification)
    if not strategy.collector.counts_reports or outputs is None:
        return None
    if outputs * strategy.size > _ENTRIES:
        return None

    return strategy.rows(0, outputs)
