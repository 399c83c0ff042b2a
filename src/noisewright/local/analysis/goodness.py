"""Do reports fit what any histogram of honest people could have produced?

Three tests, each of a property that holds whatever the people's answers are:

- counts: every report (or member of a set) is sent with a chance between the least and the largest
  that any answer gives it, so that its count lies between two binomials. Exact for any number of
  people, and it finds copies of one report;
- cells: no cell holds fewer than none or more than all people. Normal, for many reports;
- residual: frequencies of reports lie in the span of the chances of all answers. χ², where every
  report is expected five times at least.

An alarm is raised where one of them has a p-value below its share of the level, so that honest
people cause one with at most that chance. Reports may fit and still be lies: whoever lies about
their answer and randomises honestly cannot be told from an honest person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import NoisewrightError
from noisewright.estimate.nearest import project_to_total
from noisewright.local.analysis.analysis import chances_of_reports
from noisewright.local.analysis.robust import least_liars
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.strategy import Strategy
from noisewright.workload.kinds.atoms import Identity

LEVEL = 0.001
"""The chance of an alarm among honest people, at most."""

_LEAST_EXPECTED = 5.0
"""Reports of every kind: what is customary for the χ² law to hold."""

_LEAST_PEOPLE = 100
"""People from whom on sums over reports are taken to be normal."""

_MOST_CELLS = 1024
"""Cells beyond which the variance of each takes seconds."""


@dataclass(frozen=True)
class FitTest:
    """One property, and the p-value of its worst violation; None where it cannot be tested."""

    name: str
    about: str
    p_value: float | None


@dataclass(frozen=True)
class Fit:
    """All tests of one set of reports."""

    tests: tuple[FitTest, ...]
    level: float = LEVEL
    least_liars: int | None = None
    """Where it does not fit: reports that honest devices did not send, at least."""

    @property
    def status(self) -> Literal["fits", "alarm", "unknown"]:
        """Whether the reports could be those of honest people."""
        if self._least is None:
            return "unknown"
        return "alarm" if self._least <= self.level / len(self.tests) else "fits"

    @property
    def p_value(self) -> float | None:
        """The chance that honest people would look so bad or worse, at most."""
        if self._least is None:
            return None
        return min(1.0, len(self.tests) * self._least)

    @property
    def _least(self) -> float | None:
        known = [test.p_value for test in self.tests if test.p_value is not None]
        return min(known, default=None)

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        tests = {test.name: test.p_value for test in self.tests}
        told = {"status": self.status, "p_value": self.p_value, "level": self.level}
        return {**told, "least_liars": self.least_liars, **tests}


def goodness_of_fit(aggregate: Aggregate) -> Fit:
    """Test the statistics of reports; nothing else of them is looked at."""
    strategy = aggregate.format.strategy
    people = aggregate.people
    tally = np.asarray(aggregate.total, dtype=np.float64)
    counts = _counts(strategy, tally, people) if people else None
    enough = people >= _LEAST_PEOPLE and strategy.size <= _MOST_CELLS
    cells = _estimated(strategy, aggregate) if enough else None
    fit = Fit(
        (
            FitTest(
                "counts",
                "reports that come too often, or too seldom, for any answer",
                counts,
            ),
            FitTest(
                "cells",
                "cells with fewer than none, or more than all people",
                None if cells is None else _cells(strategy, cells, people),
            ),
            FitTest(
                "residual",
                "frequencies of reports that no mixture of answers has",
                None if cells is None else _residual(strategy, cells, tally, people),
            ),
        )
    )
    if fit.status != "alarm":
        return fit

    return replace(fit, least_liars=least_liars(aggregate, 1 - LEVEL))


def _estimated(strategy: Strategy, aggregate: Aggregate) -> FloatArray | None:
    try:
        return strategy.estimate(aggregate.total, aggregate.people)
    except NoisewrightError:
        return None


def _counts(strategy: Strategy, tally: FloatArray, people: int) -> float | None:
    from scipy.stats import binom

    bounds = _chance_bounds(strategy)
    if bounds is None:
        return None

    low, high = bounds
    often = binom.sf(tally - 1, people, high)
    seldom = binom.cdf(tally, people, low)
    tails = np.asarray([often, seldom])

    return float(min(1.0, tails.size * tails.min()))


def _chance_bounds(strategy: Strategy) -> tuple[FloatArray, FloatArray] | None:
    """The least and the largest chance that any answer gives to what the tally counts."""
    bounds = strategy.collector.chance_bounds()
    if bounds is not None:
        return bounds

    chances = chances_of_reports(strategy)
    if chances is None:
        return None
    return chances.min(axis=1), chances.max(axis=1)


def _cells(strategy: Strategy, cells: FloatArray, people: int) -> float | None:
    from scipy.stats import norm

    likely = project_to_total(cells, float(people))

    try:
        variances = strategy.query_variances(Identity(strategy.size), likely)
    except NoisewrightError:
        return None

    std = np.sqrt(np.maximum(variances, 0.0))
    largest = max(float(std.max()), 1e-300)
    known = std > 1e-9 * largest
    if not known.any():
        return None

    held = cells[known]
    beyond = np.maximum(-held, held - people) / std[known]
    tail = norm.sf(beyond.max())

    return float(min(1.0, 2 * known.sum() * tail))


def _residual(
    strategy: Strategy, cells: FloatArray, tally: FloatArray, people: int
) -> float | None:
    from scipy.stats import chi2

    chances = chances_of_reports(strategy)
    if chances is None:
        return None

    likely = project_to_total(cells, float(people))
    sent = chances.max(axis=1) > 0
    expected = chances[sent] @ likely
    if len(chances) <= strategy.size or expected.min() < _LEAST_EXPECTED:
        return None

    weights = 1 / np.sqrt(expected)
    matrix = chances[sent] * weights[:, None]
    seen = tally[sent] * weights
    fitted, _, rank, _ = np.linalg.lstsq(matrix, seen, rcond=None)
    freedom = len(seen) - int(rank)
    if freedom < 1:
        return None

    residual = seen - matrix @ fitted
    return float(chi2.sf((residual**2).sum(), freedom))
