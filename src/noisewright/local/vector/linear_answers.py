"""Means over people of the entries of a matrix, from reports about their columns.

A person holds a column index; query i asks for the mean over people of Z[i, column]. Any strategy
over the columns answers it without bias as Z x̂/N, and how far the answers stray is known exactly
before anybody reports: the variance of one report's number, its range, and so Bernstein's tail.

The strategies offered are those of vectors: with Z = R·A, people report towards their column of A,
by one bit or by a near direction [000, 032, 033], over a public list of directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, FloatArray
from noisewright.display import Shown
from noisewright.errors import OutOfReach, require
from noisewright.local.analysis.analysis import report_estimates
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import ReportFormat
from noisewright.local.strategy import IndexStrategy
from noisewright.local.vector.codebook import Randomizer, codebook, padded_vectors
from noisewright.local.vector.tails import Tails

_BLOCK_ENTRIES = 2**23
"""Of a block of numbers that reports add to queries: 64 MiB."""

_CENTRING_STEPS = 40
"""Halvings: the centre is then right to 1e-12 of the range of a query."""

# of a query: where rank is lost it is nearly all, and less is counted as a bias
_LOST = 1e-2
_FEWEST_OWN = 16
"""Own directions at least, where ε is large.

With 7, 3 and 1 of 1,024, at ε = 5, 6 and 8, thresholds:32 takes 7,208, 11,365 and 15,435 people;
with 16 it takes 5,081, 3,918 and 3,382, with 32 4,754, 4,102 and 3,804. Other classes go likewise.
"""
# people and failure probability at which randomizers are compared
_TYPICAL = 10_000, 0.05


@dataclass(frozen=True, eq=False)
class LinearAnswers(Shown):
    """Estimates of the mean of `targets[:, column]` over people, for every query (row)."""

    strategy: IndexStrategy
    targets: FloatArray

    def __post_init__(self) -> None:
        require(
            self.targets.ndim == 2 and self.targets.shape[1] == self.strategy.size,
            "targets",
            f"array of shape {self.targets.shape}",
            f"must have a column for each of {self.strategy.size} types",
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("queries", f"{self.queries:,}"),
            ("columns", f"{self.strategy.size:,}"),
            ("strategy", self.strategy.kind),
        ]

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.targets)

    @cached_property
    def tails(self) -> Tails:
        """Variances and ranges of the number that one report adds to every estimate."""
        return self.tails_around(*self._biases())

    def tails_around(self, over: FloatArray, under: FloatArray) -> Tails:
        """The same where `targets` lie that far above and below what is asked.

        What rounding leaves between the mean of an estimate and its target is added to both.
        """
        variance, above, below, missed = self._spreads
        return Tails(variance, above, below, over + missed, under + missed)

    @cached_property
    def _spreads(self) -> tuple[FloatArray, ...]:
        parts = [self._moments(rows) for rows in self._blocks()]
        joined = map(np.concatenate, zip(*parts, strict=True))
        variance, high, low, missed = joined
        above = high - self.targets.min(axis=1)
        below = self.targets.max(axis=1) - low

        return variance, above, below, missed

    def _biases(self) -> tuple[FloatArray, FloatArray]:
        """How far the mean of an estimate can lie above and below the truth."""
        return np.zeros(self.queries), np.zeros(self.queries)

    def _blocks(self) -> Iterator[FloatArray]:
        step = max(1, _BLOCK_ENTRIES // max(self.strategy.outputs, self.strategy.size))
        for start in range(0, self.queries, step):
            yield self.targets[start : start + step]

    def _moments(self, rows: FloatArray) -> tuple[FloatArray, ...]:
        """Of some queries the largest variance, the largest and least number, and missed means.

        The variance over a population is E (V − c)² at the best c, so the largest over all
        populations is the least over c of the largest over columns.
        """
        numbers = rows @ self.reading
        missed = self._missed(rows, numbers)
        squares = numbers**2 @ self.chances
        low = rows.min(axis=1)
        high = rows.max(axis=1)

        # a convex function of c: its slope is that of the worst
        for _ in range(_CENTRING_STEPS):
            c = (low + high) / 2
            worst = np.argmax(squares - 2 * c[:, None] * rows, axis=1)
            rising = c > rows[np.arange(len(rows)), worst]
            low = np.where(rising, low, c)
            high = np.where(rising, c, high)

        c = (low + high) / 2
        variance = (squares - 2 * c[:, None] * rows).max(axis=1) + c**2

        return (
            np.maximum(variance, 0.0),
            numbers.max(axis=1),
            numbers.min(axis=1),
            missed,
        )

    def _missed(self, rows: FloatArray, numbers: FloatArray) -> FloatArray:
        """How far the means of numbers are from the queries.

        Small ε are lost in rounding; where ε is large, people may share all directions that they
        own. All figures rest on these means: a rank that is lost is seen nowhere else.
        """
        missed = np.abs(numbers @ self.chances - rows).max(axis=1)
        largest = np.maximum(np.abs(rows).max(axis=1), np.finfo(float).tiny)
        lost = float((missed / largest).max())
        if lost <= _LOST:
            return np.asarray(missed)
        if self.strategy.epsilon < 1:
            raise OutOfReach(
                f"epsilon={self.strategy.epsilon:g} is too small for these queries: a share of "
                f"{lost:.2g} of one is lost in the rounding of what reports say; try a larger one"
            )

        raise OutOfReach(
            f"reports of {self.strategy.kind} at epsilon={self.strategy.epsilon:g} do not tell "
            f"these queries apart: a share of {lost:.2g} of one is lost; try a smaller epsilon"
        )

    @cached_property
    def chances(self) -> FloatArray:
        """Of every report, for every column."""
        return self.strategy.dense()

    @cached_property
    def reading(self) -> FloatArray:
        """What every report adds to the estimated number of people with each column."""
        return report_estimates(self.strategy)

    # --- errors before any report -------------------------------------------------------------

    def deviation(self, people: int, beta: float) -> float:
        """With probability 1 − β at least, all estimates are this near their own expectations."""
        return self._unbiased.error(people, beta)

    def people_for(self, deviation: float, beta: float) -> int:
        """The fewest people for which that deviation holds."""
        return self._unbiased.people_for(deviation, beta)

    @cached_property
    def _unbiased(self) -> Tails:
        none = np.zeros(self.queries)
        return self.tails_around(none, none)

    # --- collection ---------------------------------------------------------------------------

    @cached_property
    def format(self) -> ReportFormat:
        """How reports are written and recognised."""
        return ReportFormat(self.strategy)

    def randomize(self, columns: npt.ArrayLike) -> Array:
        """One report per person, who holds that column."""
        return self.strategy.randomize(columns)

    def aggregate(self, reports: object = None) -> Aggregate:
        """Statistics of reports, which add; none gives an empty one to add to."""
        if isinstance(reports, Aggregate):
            self.format.check_same(reports.format.name)
            return reports

        total = Aggregate(self.format)
        return total if reports is None else total.add(reports)

    def estimate(self, reports: object) -> FloatArray:
        """The mean over people of every query."""
        collected = self.aggregate(reports)
        require(
            collected.people != 0,
            "reports",
            0,
            "hold no valid report of this plan",
            "collect some",
        )

        cells = self.strategy.estimate(collected.total, collected.people)

        return self.targets @ cells / collected.people


def fitted_answers(
    targets: FloatArray,
    columns: FloatArray,
    epsilon: float,
    *,
    signed: bool = False,
    randomizer: Randomizer | Literal["auto"] = "auto",
) -> LinearAnswers:
    """Estimates of means of `targets`, by people who report towards their column of A.

    With `targets` = R·A up to a constant per row, which costs nothing. With `signed`, people hold a
    point and a label ±1: column j is point j with label +1, column n + j the same with −1, which
    stands for the opposite vector. "auto" takes the randomizer whose answers stray less, of those
    whose reports tell the queries apart.
    """
    whole = np.hstack([targets, -targets]) if signed else targets
    vectors = padded_vectors(columns)
    vectors = np.hstack([vectors, -vectors]) if signed else vectors
    names: tuple[Randomizer, ...] = ("one-bit", "privunit")
    require(
        randomizer in ("auto", *names),
        "randomizer",
        randomizer,
        f"must be 'auto' or one of {names}",
    )

    tried: list[tuple[float, LinearAnswers]] = []
    refusals: list[OutOfReach] = []

    for name in names if randomizer == "auto" else (randomizer,):
        answers = LinearAnswers(codebook(vectors, epsilon, name, _FEWEST_OWN), whole)
        try:
            tried.append((answers.deviation(*_TYPICAL), answers))
        except OutOfReach as refusal:
            refusals.append(refusal)

    if not tried:
        raise refusals[0]

    return min(tried, key=lambda one: one[0])[1]
