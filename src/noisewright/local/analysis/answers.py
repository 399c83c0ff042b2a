"""From statistics of reports to answers: unbiased, with errors, and made to make sense on request.

Unbiased answers may be negative or fit no table of people. The histogram of non-negative counts
that agrees best with them is offered beside; intervals always stay around the unbiased answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.estimate.nearest import project_to_total
from noisewright.estimate.nonnegative import (
    nonnegative_histogram,
)
from noisewright.local.analysis.accuracy import Errors, LocalAccuracy
from noisewright.local.composed.table_strategy import TableData, TableStrategy
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.strategy import Strategy
from noisewright.workload.base import Workload

_MEDIAN_PRICE = float(np.sqrt(np.pi / 2))
"""Standard error of a median of many means over that of their mean."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Answers in counts of people. `centre` holds the unbiased ones, about which intervals lie."""

    answers: FloatArray
    centre: FloatArray
    accuracy: LocalAccuracy
    histogram: FloatArray | None
    """Estimated counts per cell, where the domain is small enough to list."""


def estimate(
    workload: Workload,
    aggregate: Aggregate,
    *,
    errors: Errors = "plug-in",
    population: bool = False,
    non_negative: bool = False,
) -> Estimates:
    """Answers to a workload within the strategy's reach.

    With several groups in the aggregate, answers are medians over groups. `errors` says at which
    data standard errors are taken: at the estimated histogram, or at the worst one for each query.
    With `population` they also cover the drawing of these people from a large population. With
    `non_negative` the answers are those of the best-fitting table of people, or over domains too
    large for one, of marginal tables that are not negative and agree where they overlap.
    """
    strategy = aggregate.format.strategy
    checked_people(aggregate)
    strategy.check_reach(workload)
    known = _known(strategy, workload, aggregate)
    price = _MEDIAN_PRICE if aggregate.groups > 1 else 1.0
    accuracy = replace(
        known.accuracy, errors=errors, population=population, price=price
    )
    answers = known.centre
    histogram = known.histogram
    if non_negative:
        answers, histogram = known.fitted(accuracy.std)

    return Estimates(answers, known.centre, accuracy, histogram)


def checked_people(aggregate: Aggregate) -> int:
    """How many people reported; nobody is refused."""
    if aggregate.people == 0:
        aside = [
            f"{n} {reason.replace('_', ' ')}"
            for reason, n in aggregate.set_aside.items()
            if n
        ]
        told = f"set aside: {', '.join(aside)}" if aside else "collect reports first"
        raise InvalidParameter("reports", 0, "hold no valid report of this plan", told)
    return aggregate.people


class _Known(Protocol):
    """What reports say: unbiased answers, their errors, and answers that make sense together."""

    @property
    def centre(self) -> FloatArray: ...

    @property
    def histogram(self) -> FloatArray | None: ...

    @property
    def accuracy(self) -> LocalAccuracy: ...

    def fitted(self, std: FloatArray) -> tuple[FloatArray, FloatArray | None]: ...


def _known(strategy: Strategy, workload: Workload, aggregate: Aggregate) -> _Known:
    """Over all cells, or table by table; of all reports, or medians over groups."""
    groups, scales = filled_groups(aggregate)
    people = aggregate.people
    if isinstance(strategy, TableStrategy) and strategy.by_tables:
        parts = [TableData.estimated(strategy, workload, *group) for group in groups]
        centre = median([part.answers() for part in parts], scales)
        tables = {
            block: median([part.tables[block] for part in parts], scales)
            for block in parts[0].tables
        }
        data = replace(parts[0], people=people, tables=tables)
        return _KnownTables(centre, data, workload)

    cells = [strategy.estimate(*group) for group in groups]
    answers = [np.asarray(workload.matvec(each), np.float64) for each in cells]
    centre = median(answers, scales)
    histogram = median(cells, scales)

    return _KnownCells(centre, histogram, strategy, workload, people)


def filled_groups(
    aggregate: Aggregate,
) -> tuple[list[tuple[IntArray, int]], FloatArray]:
    """Statistics and people of every group that has any, and what scales it to all people."""
    filled = np.flatnonzero(aggregate.group_people)
    people = aggregate.group_people[filled]
    tallies = aggregate.tally[filled]
    groups = list(zip(tallies, people.tolist(), strict=True))
    return groups, aggregate.people / people


def median(parts: list[FloatArray], scales: FloatArray) -> FloatArray:
    """What groups say of all people: their median, entry by entry."""
    if len(parts) == 1:
        return np.asarray(parts[0] * scales[0])

    scaled = [scale * part for scale, part in zip(scales, parts, strict=True)]
    return np.asarray(np.median(scaled, axis=0))


@dataclass(frozen=True, eq=False)
class _KnownCells:
    """Estimates over all cells."""

    centre: FloatArray
    histogram: FloatArray
    strategy: Strategy
    workload: Workload
    people: int

    @property
    def accuracy(self) -> LocalAccuracy:
        likely = project_to_total(self.histogram, float(self.people))
        return LocalAccuracy(
            self.strategy, self.workload, self.people, histogram=likely
        )

    def fitted(self, std: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        # Answers known exactly follow from the number of people, which the fit keeps anyway.
        largest = max(float(std.max()), np.finfo(float).tiny)
        weighted = np.where(std > 1e-6 * largest, std, largest)
        total = float(self.people)
        fit = nonnegative_histogram(
            self.workload, self.centre, weighted, total=total
        ).histogram

        answers = np.asarray(self.workload.matvec(fit), dtype=np.float64)
        return answers, fit


@dataclass(frozen=True, eq=False)
class _KnownTables:
    """Estimates table by table."""

    centre: FloatArray
    data: TableData
    workload: Workload
    histogram: FloatArray | None = None

    @property
    def accuracy(self) -> LocalAccuracy:
        likely = self.data.likely()
        return LocalAccuracy(
            likely.strategy, self.workload, likely.people, tables=likely
        )

    def fitted(self, std: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        return self.data.fitted().answers(), None
