"""Questions about a bounded number, by group: sums, means and variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from noisewright.workload.base import FloatArray
from noisewright.workload.measures import (
    COUNT,
    CentredSquares,
    CentredSum,
    Measure,
    Respondents,
    WeightedRespondents,
    WeightedSum,
    Weights,
)
from noisewright.workload.statistics import Column, Ends, Noisy, Statistic, Widths, weighted_name
from noisewright.workload.structure import Term

CLEAR = 4
"""Half-widths that a count must be for a ratio to it to be stated."""


@dataclass(frozen=True, eq=False)
class _OfNumber(Statistic):
    """A statistic of a bounded number, by group: from people and from centred sums.

    People without a value are in neither, unless `missing: zero` was asked for.
    """

    measure: CentredSum | None = None
    survey: Weights | None = None

    @property
    def people(self) -> Term:
        """Numbers of the people whose values are summed, or of their weights."""
        return replace(self.table, measure=self._counted)

    @property
    def _counted(self) -> Measure:
        if self.number.missing != "left-out":
            return COUNT if self.survey is None else self.survey
        holds = Respondents(self.number.attribute)
        return holds if self.survey is None else WeightedRespondents(self.survey, holds)

    @property
    def summed(self) -> CentredSum | WeightedSum:
        """What is summed of people."""
        return self.number if self.survey is None else WeightedSum(self.survey, self.number)

    def weighted(self, weights: Weights) -> Statistic:
        return replace(self, survey=weights, name=weighted_name(self.name, weights))

    @property
    def number(self) -> CentredSum:
        """The number that is summed."""
        assert self.measure is not None
        return self.measure

    @property
    def unit(self) -> str:
        return self.number.attribute

    @property
    def needs(self) -> tuple[Term, ...]:
        return self.people, replace(self.table, measure=self.summed)

    @property
    def weights(self) -> tuple[float, ...]:
        """In people: one person adds at most `reach` to a centred sum, and that counts as one."""
        return self.weight / self.people.measure.reach, self.weight / self.summed.reach


_COUNTED_AS_ZERO = "whoever lacks a value counts as one person with zero"


class Sums(_OfNumber):
    """Sums of a number, whoever lacks it adding nothing."""

    kind = "sum"

    @property
    def weights(self) -> tuple[float, ...]:
        middle = (self.number.low + self.number.high) / self.number.reach
        people, summed = super().weights
        return people * sqrt(1 + middle**2), summed

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred = parts
        number = self.number
        scale = 1.0 if self.survey is None else self.survey.unit
        middle, unit = abs(number.low + number.high), number.unit * scale
        sums = scale * number.total(counts.values, centred.values)
        # The two tables have noise of their own.
        std = unit / 2 * np.hypot(centred.std, middle * counts.std)
        wide = widths.all * unit / 2 * (centred.std + middle * counts.std)
        half = widths.each(1) * std
        return Column(sums, std, (sums - half, sums + half), (sums - wide, sums + wide))


class Means(_OfNumber):
    """Sum over count, both of those who have a value.

    A ratio to a count that noise may have made says nothing, and its expectation is far off: a mean
    is stated only where the count is at least four times its own half-width. Intervals are stated
    for every group and hold for each group of at least one person, though not given that its mean
    is stated.
    """

    kind = "mean"

    @property
    def note(self) -> str:  # type: ignore[override]
        who = {
            False: "sum over count",
            True: f"sum over count, where {_COUNTED_AS_ZERO}",
            "left-out": "sum over count of those who have a value",
        }[self.number.missing]
        return (
            f"{who}; left out where the noisy count is below four times its own half-width; "
            "intervals are given for every group and hold for each group of at least one person "
            "who counts, though not given that its mean is stated"
        )

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred = parts
        # Two figures make a ratio: both must hold.
        unit, clear = self.number.unit / 2, _clear(counts, widths.each(2))
        mean = self._possible(self._middle + unit * centred.values / clear)
        ends = [
            tuple(
                self._possible(self._middle + unit * end) for end in _ratio(counts, centred, width)
            )
            for width in (widths.each(2), widths.all)
        ]
        each, all_ = ((np.fmin(low, mean), np.fmax(high, mean)) for low, high in ends)
        return Column(mean, np.full(len(mean), np.nan), each, all_)

    @property
    def _middle(self) -> float:
        return self.number.unit * (self.number.low + self.number.high) / 2

    def _possible(self, means: FloatArray) -> FloatArray:
        low, high = self.number.unit * self.number.low, self.number.unit * self.number.high
        if (
            self.number.missing is True
        ):  # who has no value adds nothing to the sum and one to the count
            low, high = min(low, 0.0), max(high, 0.0)
        return np.clip(means, low, high)


class Variances(_OfNumber):
    """Mean square less squared mean of those who have a value, within a group.

    Stated, like means, where the count is clear of its noise; intervals hold likewise.
    """

    kind = "variance"

    @property
    def note(self) -> str:  # type: ignore[override]
        who = {
            False: "",
            True: f", where {_COUNTED_AS_ZERO}",
            "left-out": " of those who have a value",
        }[self.number.missing]
        return (
            f"mean square less squared mean{who}, without a correction for small groups; left out "
            "where the noisy count is below four times its own half-width; intervals hold for each "
            "group of at least one person who counts, though not given that its variance is stated"
        )

    def weighted(self, weights: Weights) -> Statistic:
        return Statistic.weighted(self, weights)

    @property
    def needs(self) -> tuple[Term, ...]:
        squares = CentredSquares(self.number)
        return *super().needs, replace(self.table, measure=squares)

    @property
    def weights(self) -> tuple[float, ...]:
        return *super().weights, self.weight / self.number.reach**2

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred, squares = parts
        whole = CentredSquares(self.number).squares(counts.values, squares.values)
        clear = _clear(counts, widths.each(3))
        variance = self._possible(whole / clear - (centred.values / clear) ** 2)
        ends = [self._ends(counts, centred, squares, w) for w in (widths.each(3), widths.all)]
        each, all_ = ((np.fmin(low, variance), np.fmax(high, variance)) for low, high in ends)
        return Column(variance, np.full(len(variance), np.nan), each, all_)

    def _ends(self, counts: Noisy, centred: Noisy, squares: Noisy, width: float) -> Ends:
        low, high = _ratio(counts, centred, width)
        nearest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
        farthest = np.maximum(np.abs(low), np.abs(high))
        reach = self.number.reach**2  # Σc² = (squares + reach·people)/2
        least, most = ((end + reach) / 2 for end in _ratio(counts, squares, width))
        return self._possible(least - farthest**2), self._possible(most - nearest**2)

    def _possible(self, squares: FloatArray) -> FloatArray:
        """In the number's own unit, and no more than a number between its bounds can vary."""
        return (self.number.unit / 2) ** 2 * np.clip(squares, 0.0, self.number.reach**2)


def _clear(counts: Noisy, width: float) -> FloatArray:
    """Counts that are clear of their noise; NaN for others."""
    people = counts.values
    return np.where((people > 0) & (people >= CLEAR * width * counts.std), people, np.nan)


def _ratio(counts: Noisy, sums: Noisy, width: float) -> Ends:
    """Ends of a sum over a count of at least one person, where both are within so many errors."""
    half, spread = width * counts.std, width * sums.std
    fewest, most = np.maximum(counts.values - half, 1.0), np.maximum(counts.values + half, 1.0)
    lower, upper = sums.values - spread, sums.values + spread
    return (
        lower / np.where(lower < 0, fewest, most),
        upper / np.where(upper < 0, most, fewest),
    )
