"""Questions about a bounded number, by group: sums, means and variances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.workload.questions.measures import (
    COUNT,
    CentredSquares,
    CentredSum,
    Measure,
    Respondents,
    WeightedRespondents,
    WeightedSum,
    Weights,
)
from noisewright.workload.questions.ratios import clear_counts, ratio_ends
from noisewright.workload.questions.statistics import (
    Column,
    Ends,
    Noisy,
    Statistic,
    Widths,
    standardised_errors,
    watched_places,
    weighted_name,
)
from noisewright.workload.structure import Term

_COARSE = 50
"""Units between the bounds, below which rounding may move a value by more than 1 % of them."""

_OF_THE_MEAN = 0.1
"""Share of what may fail of a variance that its mean takes: under Gaussian noise the narrowest of
0.02 to 0.2 (the others up to 2 % wider); under pure noise 0.2 is 3 % narrower and covers more."""

_MEANS = 33
"""Means tried for a variance: between two of them its ends differ by 1/1000 of the mean's."""

_WATCHED_GROUPS = 8  # whose laws are simulated: they differ little
_WATCHED_RATIOS = 5  # likewise


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
        if self.survey is None:
            return self.number

        return WeightedSum(self.survey, self.number)

    def weighted(self, weights: Weights) -> Statistic:
        return replace(self, survey=weights, name=weighted_name(self.name, weights))

    @property
    def number(self) -> CentredSum:
        """The number that is summed."""
        assert self.measure is not None
        return self.measure

    @cached_property
    def unit(self) -> str:
        return self.number.attribute

    @property
    def _of_whom(self) -> str:
        """Who is meant, where somebody may lack a value."""
        return {
            False: "",
            True: ", where whoever lacks a value counts as one person with zero",
            "left-out": " of those who have a value",
        }[self.number.missing]

    @property
    def _rounding(self) -> str | None:
        """What must be known of the unit, where it is coarse."""
        if self.number.high - self.number.low >= _COARSE:
            return None

        return f"what rounding to multiples of {self.number.unit:g} changes is in no interval"

    def _noted(self, told: str) -> str:
        return "; ".join(filter(None, (told, self._rounding)))

    @cached_property
    def needs(self) -> tuple[Term, ...]:
        return self.people, replace(self.table, measure=self.summed)

    @property
    def weights(self) -> tuple[float, ...]:
        """In people: one person adds at most `reach` to a centred sum, and that counts as one."""
        people = self.weight / self.people.measure.reach
        summed = self.weight / self.summed.reach

        return people, summed


class Sums(_OfNumber):
    """Sums of a number, whoever lacks it adding nothing."""

    kind = "sum"
    reading = "sum"
    summands = 2

    @property
    def note(self) -> str | None:  # type: ignore[override]
        return self._rounding

    @property
    def weights(self) -> tuple[float, ...]:
        middle = (self.number.low + self.number.high) / self.number.reach
        people, summed = super().weights

        return people * sqrt(1 + middle**2), summed

    @property
    def _middle(self) -> int:
        """Twice the value, in units, around which sums are centred."""
        return self.number.low + self.number.high

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        (counts, centred), (people, sums) = parts, errors
        std = np.hypot(centred.std, self._middle * counts.std)

        return standardised_errors(sums + self._middle * people, std)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred = parts
        number = self.number
        scale = 1.0 if self.survey is None else self.survey.unit
        sums = scale * number.total(counts.values, centred.values)

        # The two tables have noise of their own.
        std = np.hypot(centred.std, self._middle * counts.std)
        std = number.unit * scale / 2 * std

        return Column.around(sums, std, widths.each_test(1.0), widths.all)


class Means(_OfNumber):
    """Sum over count, both of those who have a value.

    A mean is r where the sum less r times the count is nothing but noise, whose law is known: its
    interval holds every r that this test does not reject (Fieller). A ratio to a count that noise
    may have made says nothing, and its expectation is far off: a mean is stated only where the
    count is at least four times its own half-width. Intervals are stated for every group and hold
    for each group of at least one person, though not given that its mean is stated.
    """

    kind = "mean"
    reading = "test"
    summands = 2

    @property
    def note(self) -> str:  # type: ignore[override]
        return self._noted(
            f"sum over count{self._of_whom}; left out where the noisy count is below four times "
            "its own half-width; intervals are given for every group and hold for each group of "
            "at least one person who counts, though not given that its mean is stated"
        )

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        groups = watched_places(len(parts[0].std), _WATCHED_GROUPS)
        (counts, sums), (people, drawn) = _some(parts, errors, groups)
        columns = []

        for ratio in np.linspace(0, self.number.reach, _WATCHED_RATIOS):
            std = np.hypot(sums.std, ratio * counts.std)
            columns.append(standardised_errors(drawn - ratio * people, std))

        return np.hstack(columns)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred = parts
        reach = float(self.number.reach)
        clear = clear_counts(counts, widths.each)
        mean = self._possible(centred.values / clear)

        def ends(test: Callable[[float], float]) -> Ends:
            low, high = ratio_ends(counts, centred, test(1.0), -reach, reach)
            return self._possible(low), self._possible(high)

        return _tested(mean, ends, widths)

    def _possible(self, centred: FloatArray) -> FloatArray:
        """Means of centred values as means in the number's own unit, between its bounds."""
        number = self.number
        low = number.unit * number.low
        high = number.unit * number.high
        # who has no value adds nothing to the sum and one to the count
        if number.missing is True:
            low = min(low, 0.0)
            high = max(high, 0.0)

        means = number.unit * (number.low + number.high + centred) / 2
        return np.clip(means, low, high)


class Variances(_OfNumber):
    """Mean square less squared mean of those who have a value, within a group.

    With m the true mean, a variance is v where the sum of squares around m less v times the count
    is nothing but noise. An interval holds every v that this test does not reject for some m within
    an interval of its own, which takes a small share of what may fail. Stated, like means, where
    the count is clear of its noise; intervals hold likewise.
    """

    kind = "variance"
    reading = "test"
    summands = 3

    @property
    def note(self) -> str:  # type: ignore[override]
        return self._noted(
            f"mean square less squared mean{self._of_whom}, without a correction for small "
            "groups; left out where the noisy count is below four times its own half-width; "
            "intervals hold for each group of at least one person who counts, though not given "
            "that its variance is stated"
        )

    def weighted(self, weights: Weights) -> Statistic:
        return Statistic.weighted(self, weights)

    @cached_property
    def needs(self) -> tuple[Term, ...]:
        squares = CentredSquares(self.number)
        return *super().needs, replace(self.table, measure=squares)

    @property
    def weights(self) -> tuple[float, ...]:
        return *super().weights, self.weight / self.number.reach**2

    @property
    def _most(self) -> float:
        """The largest variance of centred values, which is half of what squares are centred by."""
        return float(self.number.reach**2)

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        groups = watched_places(len(parts[0].std), _WATCHED_GROUPS)
        chosen, drawn = _some(parts, errors, groups)
        counts, sums, squares = chosen
        of_counts, of_sums, of_squares = drawn
        columns = []

        for mean in np.linspace(0, self.number.reach, _WATCHED_RATIOS):
            around = _around_mean(sums, squares, mean)
            least = -mean * mean
            for excess in np.linspace(least, self._most + least, _WATCHED_RATIOS):
                ratio = excess - self._most / 2
                noise = of_squares / 2 - 2 * mean * of_sums - ratio * of_counts
                std = np.hypot(around.std, ratio * counts.std)
                columns.append(standardised_errors(noise, std))

        return np.hstack(columns)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        counts, centred, squares = parts
        whole = CentredSquares(self.number).squares(counts.values, squares.values)
        clear = clear_counts(counts, widths.each)
        mean = centred.values / clear
        variance = self._possible(whole / clear - mean**2)

        def ends(test: Callable[[float], float]) -> Ends:
            return self._ends(counts, centred, squares, test)

        return _tested(variance, ends, widths)

    def _ends(
        self,
        counts: Noisy,
        centred: Noisy,
        squares: Noisy,
        test: Callable[[float], float],
    ) -> Ends:
        """The least and the largest variance for any mean that is possible."""
        reach = float(self.number.reach)
        most = self._most
        first, last = ratio_ends(counts, centred, test(_OF_THE_MEAN), -reach, reach)
        least = np.full(len(first), most)
        largest = np.zeros(len(first))

        for share in np.linspace(0, 1, _MEANS):
            mean = first + share * (last - first)
            # Σ(c − m)² = (squares + most·people)/2 − 2m·sum + m²·people, and v people are left.
            about = mean**2 + most / 2
            around = _around_mean(centred, squares, mean)
            width = test(1 - _OF_THE_MEAN)
            low, high = ratio_ends(counts, around, width, -about, most - about)
            least = np.fmin(least, low + about)
            largest = np.fmax(largest, high + about)

        return self._possible(least), self._possible(largest)

    def _possible(self, squares: FloatArray) -> FloatArray:
        """In the number's own unit, and no more than a number between its bounds can vary."""
        half = self.number.unit / 2  # centred values are twice those asked about
        return half**2 * np.clip(squares, 0.0, self._most)


def _some(
    parts: Sequence[Noisy], errors: Sequence[FloatArray], groups: IntArray
) -> tuple[list[Noisy], list[FloatArray]]:
    """The answers and drawn errors of some groups."""
    chosen = [Noisy(part.values[groups], part.std[groups]) for part in parts]
    return chosen, [drawn[:, groups] for drawn in errors]


def _around_mean(sums: Noisy, squares: Noisy, mean: FloatArray | float) -> Noisy:
    """Half of centred squares less 2m times the sum: what squares around m are made of."""
    return Noisy(
        squares.values / 2 - 2 * mean * sums.values,
        np.hypot(squares.std / 2, 2 * mean * sums.std),
    )


def _tested(
    answers: FloatArray,
    ends: Callable[[Callable[[float], float]], Ends],
    widths: Widths,
) -> Column:
    """Answers with the ends that tests leave, which hold the answer where there is one."""
    intervals = []
    for test in (widths.each_test, widths.all_tests):
        low, high = ends(test)
        first = np.fmin(low, answers)
        last = np.fmax(high, answers)
        intervals.append((first, last))

    return Column.without_errors(answers, *intervals)
