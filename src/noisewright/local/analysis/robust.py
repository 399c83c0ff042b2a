"""Answers that so many liars cannot move further than is said.

Of n reports up to k were sent by liars, who say anything; who they are does not depend on the dice
of the others. Write x for the honest people in every cell, d for what the liars' reports add to the
statistics t, and F for cells and questions together. The honest reports t − d are those of n − κ
people, so that for every row of F at once, with 95 %,

    |F x − (estimate from t − d of n − κ people)| ≤ z σ,    x ≥ 0, 1ᵀx = n − κ, κ ≤ k,

σ² being the largest variance that any data of n people has, and z Šidák's multiplier for all rows.
With d in the hull of what κ reports can add, all of this is linear: the least and the largest value
of an answer, liars' own answers being anything, are two linear programs. The hull may be too wide,
never too narrow, so that what is said holds.

The estimate takes away as few reports as it must (the least κ, and the d that goes with it), and
lies within the limits. If there are at most k liars the truth does so too, with 95 % for all
answers at once: the estimate is off by no more than its distance to the farther limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import (
    Contradiction,
    NoisewrightError,
    TooLarge,
    require,
)
from noisewright.estimate.intervals import sidak_multiplier
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.analysis.analysis import added_by_one, chances_of_reports
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.strategy import Strategy
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Identity

LEVEL = 0.95
"""How surely all limits hold together, if there are no more liars than allowed for."""

_WORK = 2**23
"""Entries of the program times the answers: some seconds."""
_ROUNDING = 1e-7  # shares of people that rounding may cost a row


@dataclass(frozen=True, eq=False)
class Robust:
    """Answers, and the limits between which the truth lies."""

    answers: FloatArray
    lower: FloatArray
    upper: FloatArray


def robust_answers(workload: Workload, aggregate: Aggregate, liars: float) -> Robust:
    """Answers with limits that hold whatever this share of the reports says."""
    most = ceil(liars * aggregate.people) / aggregate.people
    return _Program(aggregate, workload, LEVEL).answered(workload.dense(), most)


def least_liars(aggregate: Aggregate, level: float) -> int | None:
    """How many reports at least were not sent by honest devices; none where that takes long."""
    strategy = aggregate.format.strategy
    if not can_be_robust(strategy, Identity(1)):
        return None

    try:
        return _Program(aggregate, None, level).least_liars()
    except NoisewrightError:
        return None


def can_be_robust(strategy: Strategy, workload: Workload) -> bool:
    """Whether limits are found in seconds."""
    if not strategy.lists_cells:
        return False

    size = strategy.size
    counters = strategy.collector.counters
    rows = workload.queries + max(size, counters)
    return workload.queries * rows * (size + counters) <= _WORK


class _Constraints(NamedTuple):
    """What a program's variables keep, in the order in which a solver takes them."""

    limited: FloatArray
    most: FloatArray
    fixed: FloatArray
    level: FloatArray


class _Program:
    """The linear program of some reports, in shares of people: x, d in units of its own, and κ."""

    def __init__(
        self, aggregate: Aggregate, workload: Workload | None, level: float
    ) -> None:
        self.strategy = aggregate.format.strategy
        self.people = aggregate.people
        self.level = level
        total = np.asarray(aggregate.total, dtype=np.float64)
        self.statistics = total / self.people

        self.hull = self.strategy.collector.hull(aggregate.cap)
        farthest = np.maximum(np.abs(self.hull.low), np.abs(self.hull.high))
        self.unit = np.maximum(farthest, 1.0)

        self.listed = chances_of_reports(self.strategy)
        self.added = added_by_one(self.strategy)
        nothing = np.zeros(len(self.unit), dtype=np.int64)
        self.start = self.strategy.estimate(nothing, 1)
        self._check_linear(aggregate)
        self.seen = self._seen(workload)

    def _check_linear(self, aggregate: Aggregate) -> None:
        """Estimates add over reports: what all of this rests on."""
        whole = self.strategy.estimate(aggregate.total, self.people) / self.people
        parts = self.added @ self.statistics + self.start
        largest = max(1.0, np.abs(whole).max())
        if not np.allclose(whole, parts, rtol=1e-6, atol=1e-6 * largest):
            raise Contradiction("an estimate is not the sum of what its reports add")

    def _seen(
        self, workload: Workload | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows over x, d and κ; what they come to, but for noise; and what noise may do."""
        parts = [] if workload is None else [self._estimates_of(workload)]
        if self.listed is not None:
            # How often each report came says more than the cells that follow from it.
            nobody = np.zeros((len(self.listed), 1))
            counts = np.hstack([self.listed, np.diag(self.unit), nobody])
            variances = self.listed * (1 - self.listed)
            spread = self.people * variances.max(axis=1)
            parts.append((counts, self.statistics, spread))
        elif self.strategy.information.full_rank and not isinstance(workload, Identity):
            parts.append(self._estimates_of(Identity(self.strategy.size)))

        if not parts:
            raise TooLarge("what honest reports add up to is not listed")

        rows, estimates, variances = map(np.concatenate, zip(*parts, strict=True))
        scale = np.abs(rows).max(axis=1)
        multiplier = sidak_multiplier(len(rows), self.level)
        noise = multiplier * np.sqrt(variances) / self.people
        room = noise + _ROUNDING * scale

        return rows / scale[:, None], estimates / scale, room / scale

    def _estimates_of(
        self, workload: Workload
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The rows of some questions: estimates from what honest people sent are near the truth."""
        asked = workload.dense()
        added = asked @ (self.added * self.unit)
        start = asked @ self.start
        rows = np.hstack([asked, added, start[:, None]])
        estimates = asked @ (self.added @ self.statistics + self.start)
        accuracy = LocalAccuracy(self.strategy, workload, self.people, errors="worst")

        return rows, estimates, accuracy.variance

    @cached_property
    def constraints(self) -> _Constraints:
        """What holds for all x, d and κ that explain the reports."""
        rows, estimates, room = self.seen
        size = self.strategy.size
        hull = self._hull_rows()
        inside = np.hstack([np.zeros((len(hull), size)), hull])

        total = np.concatenate([np.ones(size), np.zeros(len(self.unit)), [1.0]])
        fixed = [total]
        if self._limits_sum and np.isclose(*self.hull.total):
            fixed.append(inside[-1])
            inside = inside[:-2]

        limits = [estimates + room, room - estimates, np.zeros(len(inside))]
        return _Constraints(
            limited=np.vstack([rows, -rows, inside]),
            most=np.concatenate(limits),
            fixed=np.vstack(fixed),
            level=np.array([1.0, 0.0])[: len(fixed)],
        )

    @property
    def _limits_sum(self) -> bool:
        """Whether what one report adds is limited in all."""
        return bool(np.isfinite(self.hull.total).all())

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Limits of x and d one by one; liars sent no more of anything than came."""
        low = np.minimum(self.hull.low, 0.0)
        high = self.hull.high
        came = high if (low < 0).any() else np.minimum(high, self.statistics)

        size = self.strategy.size
        least = np.append(np.zeros(size), low / self.unit)
        most = np.append(np.ones(size), came / self.unit)

        return least, most

    def _hull_rows(self) -> FloatArray:
        """Rows over d and κ that are at most zero: κ reports add no more than κ times one.

        The last two are of their sum, from above and from below, where that is limited.
        """
        low = self.hull.low
        high = self.hull.high
        unit = self.unit
        eye = np.eye(len(unit))
        parts = []
        if self.listed is None:  # or it follows from their sum
            parts.append(np.hstack([eye, -(high / unit)[:, None]]))

        if (low < 0).any():
            parts.append(np.hstack([-eye, (low / unit)[:, None]]))
        if self._limits_sum:
            least, most = self.hull.total
            sums = np.array([[*unit, -most], [*-unit, least]])
            parts.append(sums / float(unit.max()))

        return np.vstack(parts)

    def _solved(self, objective: FloatArray, most: float) -> tuple[float, FloatArray]:
        """A value that the objective does not fall below, and where it comes to about that.

        The value follows from the multipliers of the constraints alone: whatever they are, weak
        duality makes it true, so that the solver need not be believed.
        """
        from scipy.optimize import linprog

        constraints = self.constraints
        least, largest = self.bounds
        low = np.append(least, 0.0)
        high = np.append(largest, most)
        result = linprog(
            objective,
            *constraints,
            bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
            method="highs-ds",
            options={"presolve": False},
        )
        if result.status != 0:
            raise Contradiction(
                f"a linear program of limits ended with status {result.status}"
            )

        above = np.maximum(-result.ineqlin.marginals, 0.0)
        equal = result.eqlin.marginals
        rest = objective + above @ constraints.limited - equal @ constraints.fixed
        proved = float(equal @ constraints.level - above @ constraints.most)
        slack = np.minimum(rest * low, rest * high)

        return proved + float(slack.sum()), np.asarray(result.x)

    def least_liars(self) -> int:
        """A number that liars, with the level's chance, do not stay below."""
        return max(0, ceil(self._fewest[0] * self.people))

    @cached_property
    def _fewest(self) -> tuple[float, FloatArray]:
        nothing = np.zeros(self.strategy.size + len(self.unit))
        return self._solved(np.append(nothing, 1.0), 1.0)

    def answered(self, asked: FloatArray, most: float) -> Robust:
        """Limits of all answers, and answers within them."""
        least, fewest = self._fewest
        require(
            least <= most,
            "liars",
            most,
            f"are too few: {self.least_liars():,} reports or more fit no honest people",
            f"allow for {min(1.0, least + 0.001):.3f} of the reports",
        )

        limits = np.array([self._limits(row, most) for row in asked])
        lower, upper = self.people * limits.T

        taken = self.unit * fewest[self.strategy.size : -1]
        share = 1 - float(fewest[-1])
        honest = self.added @ (self.statistics - taken) + share * self.start
        whole = self.people / max(share, _ROUNDING)
        answers = np.clip(whole * (asked @ honest), lower, upper)

        return Robust(answers, lower, upper)

    def _limits(self, row: FloatArray, most: float) -> tuple[float, float]:
        """The least and the largest answer; liars may themselves be anybody."""
        between = np.zeros(len(self.unit))
        low = np.concatenate([row, between, [row.min()]])
        high = np.concatenate([-row, between, [-row.max()]])
        return self._solved(low, most)[0], -self._solved(high, most)[0]
