"""From statistics of reports to answers: unbiased, with errors, and made to make sense on request.

Unbiased answers may be negative or fit no table of people. The histogram of non-negative counts
that agrees best with them is offered beside; intervals always stay around the unbiased answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.intervals import (
    normal_multiplier,
    sidak_multiplier,
    simultaneous_multiplier,
)
from noisewright.estimate.nonnegative import nonnegative_histogram, project_to_total
from noisewright.local.aggregate import Aggregate
from noisewright.local.histogram import CentredStrategy
from noisewright.local.strategy import DENSE_SIZE, IntArray, Strategy
from noisewright.local.tables import TableStrategy
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.quadratics import row_squares

Errors = Literal["plug-in", "worst"]

_MEDIAN_PRICE = float(np.sqrt(np.pi / 2))
"""Standard error of a median of many means over that of their mean."""

_SIMULATED_CELLS = 512
_SIMULATED_ENTRIES = 2**20
_TRIED_CELLS = 256
_QUADRATIC_WORK = 2**36  # multiplications: some ten seconds
_LISTED_ENTRIES = 2**24


@dataclass(frozen=True, eq=False)
class Estimates:
    """Answers in counts of people. `centre` holds the unbiased ones, about which intervals lie."""

    answers: FloatArray
    centre: FloatArray
    std: FloatArray
    halfwidth: FloatArray
    simultaneous_halfwidth: FloatArray
    people: int
    histogram: FloatArray | None
    """Estimated counts per cell, where the domain is small enough to list."""

    def shares(self) -> FloatArray:
        """Counts per cell as a distribution: none negative, summing to one."""
        if self.histogram is None:
            raise TooLarge("a distribution over cells needs a domain small enough to list")
        return project_to_total(self.histogram, float(self.people)) / self.people


def estimate(
    workload: Workload,
    aggregate: Aggregate,
    *,
    level: float = 0.95,
    errors: Errors = "plug-in",
    population: bool = False,
    non_negative: bool = False,
) -> Estimates:
    """Answers to a workload within the strategy's reach.

    With several groups in the aggregate, answers are medians over groups. `errors` says at which
    data standard errors are taken: at the estimated histogram, or at the worst one for each query.
    With `population` they also cover the drawing of these people from a large population. With
    `non_negative` the answers are those of the best-fitting table of people.
    """
    strategy, people = aggregate.format.strategy, aggregate.people
    if people == 0:
        aside = ", ".join(f"{count} {reason}" for reason, count in aggregate.set_aside.items())
        raise InvalidParameter(
            "reports", 0, "hold no valid report of this plan", f"set aside: {aside}"
        )
    if errors not in ("plug-in", "worst"):
        raise InvalidParameter("errors", errors, "must be 'plug-in' or 'worst'")
    strategy.check_reach(workload)
    if isinstance(strategy, TableStrategy) and strategy.by_tables and (population or non_negative):
        raise TooLarge(
            "sampling errors and non-negative fits need a domain small enough to list its cells; "
            "leave them out, or plan fewer attributes"
        )
    centre, histogram = _unbiased(strategy, workload, aggregate)
    likely = None if histogram is None else project_to_total(histogram, float(people))
    if errors == "worst":
        variances = worst_query_variances(strategy, workload, people)
    else:
        variances = query_variances(strategy, workload, people, likely)
    joint = joint_multiplier(strategy, workload, None if population else likely, level)
    if population:
        variances = variances + sampling_variances(workload, people, likely)
    price = _MEDIAN_PRICE if aggregate.groups > 1 else 1.0
    std = price * np.sqrt(np.maximum(variances, 0.0))
    answers = centre
    if non_negative:
        histogram = _fitted(workload, centre, std, people, histogram)
        answers = np.asarray(workload.matvec(histogram), dtype=np.float64)
    return Estimates(
        answers=answers,
        centre=centre,
        std=std,
        halfwidth=normal_multiplier(level) * std,
        simultaneous_halfwidth=joint * std,
        people=people,
        histogram=histogram,
    )


def _unbiased(
    strategy: Strategy, workload: Workload, aggregate: Aggregate
) -> tuple[FloatArray, FloatArray | None]:
    """Answers and the histogram behind them: of all reports, or medians over groups."""

    def once(tally: IntArray, people: int) -> tuple[FloatArray, FloatArray | None]:
        if not strategy.lists_cells:
            return strategy.answers(workload, tally, people), None
        x = strategy.estimate(tally, people)
        return np.asarray(workload.matvec(x), dtype=np.float64), x

    if aggregate.groups == 1:
        return once(aggregate.total, aggregate.people)
    filled = np.flatnonzero(aggregate.group_people)
    parts = [once(aggregate.tally[g], int(aggregate.group_people[g])) for g in filled]
    scale = aggregate.people / aggregate.group_people[filled]
    answers = np.median([s * a for s, (a, _) in zip(scale, parts, strict=True)], axis=0)
    cells = [s * x for s, (_, x) in zip(scale, parts, strict=True) if x is not None]
    return np.asarray(answers), np.median(cells, axis=0) if cells else None


def _fitted(
    workload: Workload,
    centre: FloatArray,
    std: FloatArray,
    people: int,
    histogram: FloatArray | None,
) -> FloatArray:
    if histogram is None:
        raise TooLarge("a table of non-negative counts needs a domain small enough to list")
    # Answers known exactly follow from the number of people, which the fit keeps anyway.
    largest = max(float(std.max()), np.finfo(float).tiny)
    weighted = np.where(std > 1e-6 * largest, std, largest)
    return nonnegative_histogram(workload, centre, weighted, total=float(people)).histogram


# --- errors -----------------------------------------------------------------------------------


def query_variances(
    strategy: Strategy, workload: Workload, people: int, histogram: FloatArray | None = None
) -> FloatArray:
    """Variance of every answer at a histogram, or at evenly spread people where none is given.

    Where a strategy has no formula for single queries at this size, each is given the mean over
    queries, which is exact for all of them together.
    """
    dense = not isinstance(strategy, CentredStrategy) and workload.size <= DENSE_SIZE
    try:
        if dense and workload.queries * workload.size**2 > _QUADRATIC_WORK:
            raise TooLarge("a quadratic form for each of these queries takes minutes")
        if histogram is None:
            return strategy.uniform_query_variances(workload, people)
        return strategy.query_variances(workload, histogram)
    except TooLarge:
        average = strategy.average_variance(workload.gram())
        return np.full(workload.queries, people * average / workload.queries)


def worst_query_variances(strategy: Strategy, workload: Workload, people: int) -> FloatArray:
    """The largest variance of every answer over all tables of so many people.

    The worst table holds people of one kind, which differs by query: exact for histogram mechanisms
    and by trying all kinds on small domains. Beyond, the largest variance of all answers together,
    which no single answer exceeds.
    """
    if isinstance(strategy, CentredStrategy) and _has_plain_formula(strategy):
        if workload.queries * workload.size <= _LISTED_ENTRIES:
            w = workload.dense()
            centred = (w - w.mean(axis=1, keepdims=True)) ** 2
            own = (strategy.own_spread * centred).max(axis=1)
            return np.asarray(people * (strategy.spread * centred.sum(axis=1) + own))
    elif workload.size <= _TRIED_CELLS:
        kinds = np.eye(workload.size) * people
        tried = np.array([strategy.query_variances(workload, kind) for kind in kinds])
        return np.asarray(tried.max(axis=0))
    return np.full(workload.queries, people * strategy.worst_variance(workload.gram()))


def _has_plain_formula(strategy: Strategy) -> bool:
    """Hashing to more than two values adds terms for cells in line."""
    return getattr(strategy, "buckets", 2) == 2


def sampling_variances(workload: Workload, people: int, histogram: FloatArray | None) -> FloatArray:
    """What the drawing of these people from a large population adds to each variance."""
    if histogram is None:
        raise TooLarge("the sampling error needs a domain small enough to list")
    means = workload.matvec(histogram)
    return np.asarray(row_squares(workload, histogram) - means**2 / people)


def joint_multiplier(
    strategy: Strategy, workload: Workload, histogram: FloatArray | None, level: float
) -> float:
    """Standard errors either side that cover all answers at once.

    Simulated from the covariance of the histogram on small domains; elsewhere Šidák's bound, which
    holds whatever the correlation. Sums over many reports are Gaussian to any practical precision.
    """
    large = workload.queries * workload.size > _SIMULATED_ENTRIES
    if histogram is None or large or workload.size > _SIMULATED_CELLS:
        return sidak_multiplier(workload.queries, level)
    values, vectors = np.linalg.eigh(strategy.covariance(histogram))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    spread = np.asarray(workload.matvec(root))
    std = np.sqrt((spread**2).sum(axis=1))
    scaled = spread / np.where(std > 1e-9 * max(float(std.max()), 1e-300), std, np.inf)[:, None]

    def draw(count: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(rng.standard_normal((count, workload.size)) @ scaled.T)

    # Nothing here touches reports beyond the fitted histogram, so a fixed seed is right.
    rng = np.random.default_rng(0)
    joint = simultaneous_multiplier(draw, level, draws=4000, rng=rng)
    return max(joint, normal_multiplier(level))
