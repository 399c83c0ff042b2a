"""How wrong answers are: variances at given data or at the worst, and joint intervals."""

from __future__ import annotations

import numpy as np

from noisewright.errors import TooLarge
from noisewright.estimate.intervals import (
    normal_multiplier,
    sidak_multiplier,
    simultaneous_multiplier,
)
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.offsets import without_offsets
from noisewright.local.composed.table_strategy import TableData, TableStrategy
from noisewright.local.histogram.centred import CentredStrategy
from noisewright.local.strategy import DENSE_SIZE, Strategy
from noisewright.workload.algebra import Kron
from noisewright.workload.base import FloatArray, Workload

_SIMULATED_CELLS = 512
_SIMULATED_ENTRIES = 2**20
_TRIED_CELLS = 256
_QUADRATIC_WORK = 2**36  # multiplications: some ten seconds
_LISTED_ENTRIES = 2**24


def query_variances(
    strategy: Strategy, workload: Workload, people: int, histogram: FloatArray | None = None
) -> FloatArray:
    """Variance of every answer at a histogram, or at evenly spread people where none is given.

    Where a strategy has no formula for single queries at this size, each is given the mean over
    queries, which is exact for all of them together.
    """
    asked = _questions(strategy, workload)
    try:
        if _work(strategy, asked) > _QUADRATIC_WORK:
            raise TooLarge("a quadratic form for each of these queries takes minutes")
        if histogram is None:
            return strategy.uniform_query_variances(asked, people)
        return strategy.query_variances(asked, histogram)
    except TooLarge:
        gram = table_gram(workload)
        if histogram is None:
            together = people * strategy.average_variance(gram)
        else:
            together = float(strategy.type_variances(gram) @ histogram)
        return np.full(workload.queries, together / workload.queries)


def _questions(strategy: Strategy, workload: Workload) -> Workload:
    """The queries up to a constant each, of which no variance depends."""
    return without_offsets(workload) if strategy.lists_cells else workload


def _work(strategy: Strategy, workload: Workload) -> int:
    """Multiplications that the variances of all queries take, one by one."""
    large = workload.size > DENSE_SIZE
    by_tables = isinstance(strategy, TableStrategy) and strategy.by_tables
    if isinstance(strategy, CentredStrategy) or by_tables:
        return 0
    if large:
        return workload.queries * 2**6 * max(workload.size, strategy.collector.counters)
    shared = 64 if isinstance(workload, Kron) else workload.queries  # products are done in halves
    return shared * workload.size**2


def worst_query_variances(strategy: Strategy, workload: Workload, people: int) -> FloatArray:
    """The largest variance of every answer over all tables of so many people.

    The worst table holds people of one kind, which differs by query: exact for histogram mechanisms
    and by trying all kinds on small domains. Beyond, the largest variance of all answers together,
    which no single answer exceeds.
    """
    asked = _questions(strategy, workload)
    if isinstance(strategy, CentredStrategy) and _has_plain_formula(strategy):
        if workload.queries * workload.size <= _LISTED_ENTRIES:
            w = asked.dense()
            centred = (w - w.mean(axis=1, keepdims=True)) ** 2
            own = (strategy.own_spread * centred).max(axis=1)
            return np.asarray(people * (strategy.spread * centred.sum(axis=1) + own))
    elif workload.size <= _TRIED_CELLS:
        kinds = np.eye(workload.size) * people
        tried = np.array([strategy.query_variances(asked, kind) for kind in kinds])
        return np.asarray(tried.max(axis=0))
    return np.full(workload.queries, people * strategy.worst_variance(table_gram(workload)))


def _has_plain_formula(strategy: Strategy) -> bool:
    """Hashing to more than two values adds terms for cells in line."""
    return getattr(strategy, "buckets", 2) == 2


def sampling_variances(
    strategy: Strategy, workload: Workload, people: int, histogram: FloatArray | None = None
) -> FloatArray:
    """What the drawing of these people from a large population adds to each variance.

    At a histogram, or at evenly spread people where none is given.
    """
    if isinstance(strategy, TableStrategy) and strategy.by_tables:
        return TableData.even(strategy, workload, people).sampling_variances()
    x = np.full(workload.size, people / workload.size) if histogram is None else histogram
    asked = without_offsets(workload)
    return np.asarray(asked.row_squares(x) - asked.matvec(x) ** 2 / people)


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
    spread = np.asarray(_questions(strategy, workload).matvec(root))
    std = np.sqrt((spread**2).sum(axis=1))
    scaled = spread / np.where(std > 1e-9 * max(float(std.max()), 1e-300), std, np.inf)[:, None]

    def draw(count: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(rng.standard_normal((count, workload.size)) @ scaled.T)

    # Nothing here touches reports beyond the fitted histogram, so a fixed seed is right.
    rng = np.random.default_rng(0)
    joint = simultaneous_multiplier(draw, level, draws=4000, rng=rng)
    return max(joint, normal_multiplier(level))
