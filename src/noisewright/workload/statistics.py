"""Kinds of question: the linear terms that each needs, and what it says from their noisy answers.

A new kind of question is one class here and one line of the parser (`spec`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import sqrt
from typing import ClassVar

import numpy as np

from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter
from noisewright.workload.atoms import Prefix
from noisewright.workload.base import FloatArray
from noisewright.workload.measures import CentredSquares, CentredSum, WeightedSum, Weights
from noisewright.workload.quantiles import quantiles
from noisewright.workload.structure import Term
from noisewright.workload.table_axes import Axis, term_axes

Ends = tuple[FloatArray, FloatArray]

CLEAR = 4
"""Half-widths that a count must be for a ratio to it to be stated."""

PEOPLE = "people"
"""The unit of answers that count."""


@dataclass(frozen=True, eq=False)
class Column:
    """Answers with standard errors and the ends of their intervals.

    `each` holds every true answer with the stated probability, `all` all of them at once. A missing
    answer or standard error is NaN.
    """

    answers: FloatArray
    std: FloatArray
    each: Ends
    all: Ends

    @classmethod
    def around(cls, answers: FloatArray, std: FloatArray, each: float, all_: float) -> Column:
        """Intervals of so many standard errors either side."""
        ends = [(answers - width * std, answers + width * std) for width in (each, all_)]
        return cls(answers, std, *ends)

    def widened(self, bias: FloatArray) -> Column:
        """The same for answers that are off by as much as this on average."""
        ends = [(low - bias, high + bias) for low, high in (self.each, self.all)]
        return Column(self.answers, np.hypot(self.std, bias), *ends)

    def part(self, rows: slice) -> Column:
        """Some of the rows."""
        pieces = [values[rows] for values in (self.answers, self.std, *self.each, *self.all)]
        return Column(pieces[0], pieces[1], (pieces[2], pieces[3]), (pieces[4], pieces[5]))

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """One column below the other."""
        if len(columns) == 1:
            return columns[0]
        stacked = [
            np.concatenate(pieces)
            for pieces in zip(*((c.answers, c.std, *c.each, *c.all) for c in columns), strict=True)
        ]
        answers, std, low, high, low_all, high_all = stacked
        return cls(answers, std, (low, high), (low_all, high_all))


@dataclass(frozen=True, eq=False)
class Noisy:
    """Unbiased answers to one term, and their standard errors."""

    values: FloatArray
    std: FloatArray


@dataclass(frozen=True, eq=False)
class Widths:
    """Standard errors either side of an answer that hold it.

    `each(k)` holds k answers at once; `all` holds every answer of the release at once.
    """

    each: Callable[[int], float]
    all: float


@dataclass(frozen=True, eq=False)
class Statistic(ABC):
    """A named question over a domain; `weight` says how much its accuracy matters.

    `siblings` counts the tables that one question of a specification stands for.
    """

    domain: Domain
    name: str
    table: Term
    weight: float = 1.0
    siblings: int = 1

    kind: ClassVar[str]
    """What an answer is: a count, a sum, a mean, …"""

    note: ClassVar[str | None] = None
    """What must be known to read the answers, for the record."""

    @property
    def unit(self) -> str:
        """What the answers count, or the attribute whose values they are made of."""
        return PEOPLE

    @property
    def says(self) -> str:
        """What the answers are, in words: `count`, `mean of income`."""
        return self.kind if self.unit == PEOPLE else f"{self.kind} of {self.unit}"

    @property
    def needs(self) -> tuple[Term, ...]:
        """The linear terms that it is derived from."""
        return (self.table,)

    @property
    def weights(self) -> tuple[float, ...]:
        """How much the standard error of each term matters, in people."""
        return (self.weight,)

    @property
    def queries(self) -> int:
        """Number of answers."""
        return self.table.queries

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the answers are a tensor over, in C order; none where they are no such tensor."""
        return term_axes(self.domain, self.table)

    def each_label(self) -> Iterator[str]:
        """Every answer in words, one after the other."""
        from noisewright.workload.spec import query_labels

        return query_labels(self.domain, self.table)

    def labels(self) -> list[str]:
        """Every answer in words."""
        return list(self.each_label())

    def weighted(self, weights: Weights) -> Statistic:
        """The same question with every person weighed."""
        raise InvalidParameter(
            "weight", weights.attribute, f"weighs no {self.kind}", "leave it out"
        )

    @abstractmethod
    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        """The column of answers, from the answers to the terms."""


class Counts(Statistic):
    """Numbers of people."""

    kind = "count"

    def weighted(self, weights: Weights) -> Statistic:
        name = _weighted_name(self.name, weights)
        return WeightedCounts(self.domain, name, self.table, survey=weights)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (counts,) = parts
        return Column.around(counts.values, counts.std, widths.each(1), widths.all)


@dataclass(frozen=True, eq=False)
class WeightedCounts(Statistic):
    """Sums of survey weights of people, each up to its cap."""

    kind: ClassVar[str] = "weighted count"
    note: ClassVar[str | None] = "sums of weights, each of which counts up to its declared cap"

    survey: Weights | None = None

    @property
    def weights_of_people(self) -> Weights:
        """The weight of every person."""
        assert self.survey is not None
        return self.survey

    @property
    def needs(self) -> tuple[Term, ...]:
        return (replace(self.table, measure=self.weights_of_people),)

    @property
    def weights(self) -> tuple[float, ...]:
        """In people: one person adds at most the cap, and that counts as one."""
        return (self.weight / self.weights_of_people.reach,)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (noisy,) = parts
        unit = self.weights_of_people.unit
        return Column.around(unit * noisy.values, unit * noisy.std, widths.each(1), widths.all)


def _weighted_name(name: str, weights: Weights) -> str:
    return f"{name} weighted by {weights.attribute}"


@dataclass(frozen=True, eq=False)
class _OfNumber(Statistic):
    """A statistic of a bounded number, by group: from people and from centred sums."""

    measure: CentredSum | None = None
    survey: Weights | None = None

    @property
    def people(self) -> Term:
        """Numbers of people, or of their weights."""
        return self.table if self.survey is None else replace(self.table, measure=self.survey)

    @property
    def summed(self) -> CentredSum | WeightedSum:
        """What is summed of people."""
        return self.number if self.survey is None else WeightedSum(self.survey, self.number)

    def weighted(self, weights: Weights) -> Statistic:
        return replace(self, survey=weights, name=_weighted_name(self.name, weights))

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
    """Sum over count, whoever lacks a value adding nothing to the sum.

    A ratio to a count that noise may have made says nothing, and its expectation is far off: a mean
    is stated only where the count is at least four times its own half-width. Intervals are stated
    for every group and hold for each group of at least one person, though not given that its mean
    is stated.
    """

    kind = "mean"
    note = (
        "sum over count, whoever lacks a value adding nothing to the sum; left out where the noisy "
        "count is below four times its own half-width; intervals are given for every group and "
        "hold for each group of at least one person, though not given that its mean is stated"
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
        if self.number.missing:  # who has no value adds nothing to the sum and one to the count
            low, high = min(low, 0.0), max(high, 0.0)
        return np.clip(means, low, high)


class Variances(_OfNumber):
    """Mean square less squared mean of a number that nobody lacks, within a group.

    Stated, like means, where the count is clear of its noise; intervals hold likewise.
    """

    kind = "variance"
    note = (
        "mean square less squared mean, without a correction for small groups; left out where the "
        "noisy count is below four times its own half-width; intervals hold for each group of at "
        "least one person, though not given that its variance is stated"
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


@dataclass(frozen=True, eq=False)
class Quantiles(Statistic):
    """Quantiles of a numeric attribute by group, from cumulative counts.

    Intervals are edges of bins; all of them hold at once.
    """

    kind: ClassVar[str] = "quantile"

    levels: tuple[float, ...] = ()

    def weighted(self, weights: Weights) -> Statistic:
        table = replace(self.table, measure=weights)
        return replace(self, table=table, name=_weighted_name(self.name, weights))

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight / self.table.measure.reach,)

    @cached_property
    def _place(self) -> int:
        """The axis of the table along which counts accumulate."""
        assert self.table.factors is not None
        return next(k for k, f in enumerate(self.table.factors) if isinstance(f, Prefix))

    @property
    def attribute(self) -> Numeric:
        """Whose quantiles are asked."""
        attribute = self.domain.attributes[self.table.attributes[self._place]]
        assert isinstance(attribute, Numeric)
        return attribute

    @cached_property
    def _groups(self) -> tuple[Axis, ...]:
        axes = term_axes(self.domain, self.table)
        return axes[: self._place] + axes[self._place + 1 :]

    @property
    def unit(self) -> str:
        return self.attribute.name

    @property
    def queries(self) -> int:
        return len(self.labelled())

    @property
    def axes(self) -> tuple[Axis, ...]:
        levels = tuple(f"{level:g}" for level in self.levels)
        return (*self._groups, Axis(f"quantile of {self.attribute.name}", "query", levels))

    def labelled(self) -> list[tuple[str, float]]:
        """The group in words and the level of every answer."""
        columns = [[f"{axis.name} = {label}" for label in axis.labels] for axis in self._groups]
        groups = [", ".join(row) for row in product(*columns)]
        return list(product(groups, self.levels))

    def each_label(self) -> Iterator[str]:
        name = self.attribute.name
        return (
            ", ".join(filter(None, [group, f"quantile {level:g} of {name}"]))
            for group, level in self.labelled()
        )

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (noisy,) = parts
        shape = [len(axis.labels) for axis in term_axes(self.domain, self.table)]
        edges = np.asarray(self.attribute.edges, dtype=np.float64)
        values, std = (
            np.moveaxis(array.reshape(shape), self._place, -1).reshape(-1, shape[self._place])
            for array in (noisy.values, noisy.std)
        )
        bins = len(edges) - 1  # cells behind them hold people without a value, or outside
        results = [
            quantile
            for row, errors in zip(values[:, :bins], std[:, :bins], strict=True)
            for quantile in quantiles(row, errors, widths.all * errors, edges, self.levels)
        ]
        ends = np.array([q.lower for q in results]), np.array([q.upper for q in results])
        estimates = np.array([q.estimate for q in results])
        return Column(estimates, np.full(len(results), np.nan), ends, ends)
