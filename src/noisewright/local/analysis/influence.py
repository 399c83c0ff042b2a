"""How far one report can move an answer, whatever it says: what liars can do at most."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge
from noisewright.local.randomizer.chances import listed_reports
from noisewright.local.reports.tallies import (
    FlipTally,
    NumberTally,
    SubsetTally,
    VectorTally,
)
from noisewright.local.strategy import Strategy
from noisewright.workload.base import Workload

_ENTRIES = 2**22


def influence(
    strategy: Strategy, workload: Workload, cap: float | None = None
) -> FloatArray:
    """Per query, the most that one report in place of another changes the answer, in people.

    The answer is a sum over reports, so that k liars among any number of people move it by k times
    this at most. Exact over all reports that are counted; infinite for vectors without a `cap`.
    """
    counters = strategy.collector.counters
    if (
        not strategy.lists_cells
        or counters * max(strategy.size, workload.queries) > _ENTRIES
    ):
        raise TooLarge(
            f"the influence of a report on {workload.queries:,} answers is not worked out"
        )

    moved = np.asarray(workload.matvec(added_by_one(strategy)), dtype=np.float64)
    collector = strategy.collector
    if isinstance(collector, SubsetTally):
        ordered = np.sort(moved, axis=1)
        return np.asarray(
            ordered[:, -collector.size :].sum(axis=1)
            - ordered[:, : collector.size].sum(axis=1)
        )

    if isinstance(collector, FlipTally):
        sums = np.zeros((len(moved), counters + 1))
        sums[:, 1:] = np.cumsum(np.sort(moved, axis=1), axis=1)
        allowed = collector.usual_sizes(cap)
        # The largest k entries sum to the total less the smallest n − k.
        most = ((sums[:, -1:] - sums[:, ::-1]) * collector.weights)[:, allowed].max(
            axis=1
        )
        return np.asarray(most - (sums * collector.weights)[:, allowed].min(axis=1))

    if isinstance(collector, VectorTally):
        low, high = collector.reach(cap)
        return np.abs(moved) @ (high - low)

    sent = strategy.rows(0, listed_reports(strategy.specification) or 0).max(axis=1) > 0
    return np.asarray(np.ptp(moved[:, sent], axis=1))


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
    countable = isinstance(strategy.collector, NumberTally) and outputs is not None
    if not countable or (outputs or 0) * strategy.size > _ENTRIES:
        return None
    return strategy.rows(0, outputs or 0)
