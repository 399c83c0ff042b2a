"""How wrong answers from people's reports are: the local model's `Accuracy`.

Sums over many reports are Gaussian to any practical precision, so the law is normal; what there is
to find are variances, exact for the chances that clients use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.accuracy import Accuracy, Kind
from noisewright.estimate.intervals import (
    normal_multiplier,
    sidak_multiplier,
    simultaneous_multiplier,
)
from noisewright.local.analysis.grams import table_gram, without_offsets
from noisewright.local.composed.table_strategy import TableData, TableStrategy
from noisewright.local.histogram.centred import CentredStrategy
from noisewright.local.strategy import DENSE_SIZE, Strategy
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron

Errors = Literal["plug-in", "worst"]

_SIMULATED_CELLS = 512
"""Cells up to which joint errors are simulated: their covariance takes an eigendecomposition."""

_SIMULATED_ENTRIES = 2**20
"""Queries times cells up to which they are: every draw is a product of that many."""

_DRAWS = 4000
"""Draws of all errors together: their 95 % quantile is then right to about one per cent."""

_TRIED_CELLS = 256
"""Cells up to which everybody is put into each in turn to find the worst: a covariance each."""

_QUADRATIC_WORK = 2**36  # multiplications: some ten seconds
_LISTED_ENTRIES = 2**24
"""Queries times cells of a workload that is written out: 128 MiB in doubles."""


@dataclass(frozen=True, eq=False)
class LocalAccuracy(Accuracy):
    """The errors of the answers to a workload from so many people's reports.

    They are taken at a histogram, or at the tables that a strategy goes by; at evenly spread people
    where neither is given. With `errors` "worst" every variance is the largest over all data, while
    answers vary together as they do here. `population` adds the drawing of these people from a
    large population; `price` is what a robust estimate multiplies all standard errors by.
    """

    strategy: Strategy
    workload: Workload
    people: int
    histogram: FloatArray | None = None
    tables: TableData | None = None
    errors: Errors = "plug-in"
    population: bool = False
    price: float = 1.0

    def __post_init__(self) -> None:
        if self.errors not in ("plug-in", "worst"):
            rule = "must be 'plug-in' or 'worst'"
            raise InvalidParameter("errors", self.errors, rule)

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return "bound" if self.errors == "worst" else "exact"

    @cached_property
    def variance(self) -> FloatArray:
        worst = self.errors == "worst"
        variances = self._worst() if worst else self._here()
        if self.population:
            variances = variances + self._sampling()

        return self.price**2 * np.maximum(variances, 0.0)

    def covariance(self, chosen: IntArray) -> FloatArray:
        unit = self._directions
        std = self.std
        correlation = unit @ unit[chosen].T
        return std[:, None] * correlation * std[chosen]

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        return self._standard_errors(count, rng) * self.std

    def multiplier(self, level: float) -> float:
        return normal_multiplier(level)

    def bounded_multiplier(self, answers: int, level: float) -> float:
        return sidak_multiplier(answers, level)

    def _find_joint(self, level: float) -> float:
        """Simulated on small domains; elsewhere Šidák's bound, whatever the correlation."""
        queries, size = self.workload.shape
        small = queries * size <= _SIMULATED_ENTRIES and size <= _SIMULATED_CELLS
        if self.population or not small or not self.strategy.lists_cells:
            return self.bounded_multiplier(queries, level)

        # Nothing here touches reports beyond the fitted histogram, so a fixed seed is right.
        rng = np.random.default_rng(0)
        joint = simultaneous_multiplier(
            self._standard_errors, level, draws=_DRAWS, rng=rng
        )

        return max(joint, self.multiplier(level))

    def _standard_errors(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Joint errors, each of unit variance, or zero where an answer is known exactly."""
        unit = self._directions
        normals = rng.standard_normal((count, unit.shape[1]))
        return normals @ unit.T

    @cached_property
    def _directions(self) -> FloatArray:
        """A unit vector for every answer, whose products are the correlations; zero if known."""
        queries, size = self.workload.shape
        if not self.strategy.lists_cells or queries * size > _LISTED_ENTRIES:
            raise TooLarge(
                f"how {queries} answers over {size:.3g} cells vary together is not worked out; "
                "use variances"
            )

        x = self._cells
        covariance = self.strategy.covariance(x)
        if self.population:
            sampled = np.outer(x, x) / self.people
            covariance = covariance + np.diag(x) - sampled

        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        spread = self._questions.matvec(root)
        std = np.sqrt((spread**2).sum(axis=1))
        largest = max(float(std.max()), 1e-300)
        lengths = np.where(std <= 1e-9 * largest, np.inf, std)

        return spread / lengths[:, None]

    @property
    def _cells(self) -> FloatArray:
        if self.histogram is not None:
            return self.histogram

        size = self.workload.size
        return np.full(size, self.people / size)

    @cached_property
    def _tables(self) -> TableData | None:
        strategy = self.strategy
        given = self.tables is not None or self.histogram is not None
        if given or not isinstance(strategy, TableStrategy) or not strategy.by_tables:
            return self.tables
        return TableData.even(strategy, self.workload, self.people)

    @cached_property
    def _questions(self) -> Workload:
        """The queries up to a constant each, of which no variance depends."""
        return (
            without_offsets(self.workload)
            if self.strategy.lists_cells
            else self.workload
        )

    def _here(self) -> FloatArray:
        """Variances at these people.

        Where a strategy has no formula for single queries at this size, each is given the mean over
        queries, which is exact for all of them together.
        """
        strategy = self.strategy
        try:
            if self._work > _QUADRATIC_WORK:
                raise TooLarge(
                    "a quadratic form for each of these queries takes minutes"
                )
            if self._tables is not None:
                return self._tables.variances()
            if self.histogram is None:
                return strategy.uniform_query_variances(self._questions, self.people)
            return strategy.query_variances(self._questions, self.histogram)
        except TooLarge:
            gram = table_gram(self.workload)
            queries = self.workload.queries
            if self.histogram is None:
                together = self.people * strategy.average_variance(gram)
            else:
                together = float(strategy.type_variances(gram) @ self.histogram)
            return np.full(queries, together / queries)

    @property
    def _work(self) -> int:
        """Multiplications that the variances of all queries take, one by one."""
        strategy = self.strategy
        asked = self._questions
        by_tables = isinstance(strategy, TableStrategy) and strategy.by_tables
        if isinstance(strategy, CentredStrategy) or by_tables:
            return 0
        if asked.size > DENSE_SIZE:
            entries = max(asked.size, strategy.collector.counters)
            return asked.queries * 2**6 * entries

        # products are done in halves
        shared = 64 if isinstance(asked, Kron) else asked.queries
        return shared * asked.size**2

    def _worst(self) -> FloatArray:
        """The largest variance of every answer over all tables of so many people.

        The worst table holds people of one kind, which differs by query: exact for histogram
        mechanisms, for small tables and by trying all kinds on small domains. Beyond, the largest
        variance of all answers together, which no single answer exceeds.
        """
        strategy = self.strategy
        queries, size = self.workload.shape
        if self._tables is not None:
            try:
                return self._tables.worst_variances()
            except TooLarge:
                pass
        elif isinstance(strategy, CentredStrategy) and strategy.alike:
            if queries * size <= _LISTED_ENTRIES:
                return self.people * strategy.worst_of_each(self._questions.dense())
        elif size <= _TRIED_CELLS:
            asked = self._questions
            kinds = np.eye(size) * self.people
            variances = [strategy.query_variances(asked, kind) for kind in kinds]
            return np.asarray(np.max(variances, axis=0))

        together = strategy.worst_variance(table_gram(self.workload))
        return np.full(queries, self.people * together)

    def _sampling(self) -> FloatArray:
        """What the drawing of these people from a large population adds to each variance."""
        if self._tables is not None:
            return self._tables.sampling_variances()

        x = self._cells
        asked = without_offsets(self.workload)
        means = asked.matvec(x) ** 2 / self.people
        return asked.row_squares(x) - means
