"""Kinds of question: the linear terms that each needs, and what it says from their noisy answers.

A new kind of question is one class and one line of the parser (`spec`); those of a bounded number
are in `number_statistics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter
from noisewright.workload.kinds.atoms import Prefix
from noisewright.workload.questions.measures import Weights
from noisewright.workload.questions.quantiles import quantiles
from noisewright.workload.questions.table_axes import Axis, term_axes
from noisewright.workload.structure import Term

Ends = tuple[FloatArray, FloatArray]

PEOPLE = "people"
"""The unit of answers that count."""

_WATCHED_GROUPS, _WATCHED_BINS = 4, 8  # whose laws are simulated: they differ little


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
    def around(
        cls, answers: FloatArray, std: FloatArray, each: float, all_: float
    ) -> Column:
        """Intervals of so many standard errors either side."""
        ends = [
            (answers - width * std, answers + width * std) for width in (each, all_)
        ]
        return cls(answers, std, *ends)

    @property
    def half(self) -> FloatArray:
        """How far the interval of each answer reaches to either side."""
        low, high = self.each
        return (high - low) / 2

    def widened(self, bias: FloatArray) -> Column:
        """The same for answers that are off by as much as this on average."""
        ends = [(low - bias, high + bias) for low, high in (self.each, self.all)]
        return Column(self.answers, np.hypot(self.std, bias), *ends)

    def part(self, rows: slice | IntArray) -> Column:
        """Some of the rows."""
        pieces = [
            values[rows] for values in (self.answers, self.std, *self.each, *self.all)
        ]
        return Column(
            pieces[0], pieces[1], (pieces[2], pieces[3]), (pieces[4], pieces[5])
        )

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """One column below the other."""
        if len(columns) == 1:
            return columns[0]

        stacked = [
            np.concatenate(pieces)
            for pieces in zip(
                *((c.answers, c.std, *c.each, *c.all) for c in columns), strict=True
            )
        ]
        answers, std, low, high, low_all, high_all = stacked
        return cls(answers, std, (low, high), (low_all, high_all))


@dataclass(frozen=True, eq=False)
class Noisy:
    """Unbiased answers to one term, and their standard errors.

    `covariance` gives the covariances of all of them with those at some places; None where they
    are not known, or too many to work out.
    """

    values: FloatArray
    std: FloatArray
    covariance: Callable[[tuple[int, ...]], FloatArray | None] = lambda _: None


@dataclass(frozen=True, eq=False)
class Widths:
    """How many standard errors either side hold an answer.

    `each` holds an answer to a term, `all` every answer that is linear in the noise at once.
    What is not linear is judged by tests: a combination of noisy answers that is nothing but noise
    where the truth is what is asked about. `each_test(share)` and `all_tests(share)` hold such a
    combination, with this share of what each answer, or all at once, may fail.
    """

    each: float
    all: float
    each_test: Callable[[float], float]
    all_tests: Callable[[float], float]

    @classmethod
    def of_one(cls) -> Widths:
        """One standard error for everything, where intervals are not looked at."""
        return cls(1.0, 1.0, lambda _: 1.0, lambda _: 1.0)


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

    reading: ClassVar[Literal["term", "sum", "test"]] = "term"
    """What an interval is read from: answers to a term, a fixed sum of such to several, or tests
    of sums that depend on what is true."""

    summands: ClassVar[int] = 1
    """Answers that such a sum is made of."""

    @cached_property
    def unit(self) -> str:
        """What the answers count, or the attribute whose values they are made of."""
        return PEOPLE

    @cached_property
    def says(self) -> str:
        """What the answers are, in words: `count`, `mean of income`."""
        return self.kind if self.unit == PEOPLE else f"{self.kind} of {self.unit}"

    @cached_property
    def needs(self) -> tuple[Term, ...]:
        """The linear terms that it is derived from."""
        return (self.table,)

    @property
    def weights(self) -> tuple[float, ...]:
        """How much the standard error of each term matters, in people."""
        return (self.weight,)

    @cached_property
    def queries(self) -> int:
        """Number of answers."""
        return self.table.queries

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """What the answers are a tensor over, in C order; none where they are no such tensor."""
        return term_axes(self.domain, self.table)

    def each_label(self) -> Iterator[str]:
        """Every answer in words, one after the other."""
        from noisewright.workload.questions.table_axes import query_labels

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

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        """Errors that intervals are read from, over their standard errors, one draw a row.

        `errors` are drawn errors of the terms. Of tests, whose sums depend on what is true, some
        are taken that lie between the extremes.
        """
        return np.hstack(
            [standardised(e, part.std) for e, part in zip(errors, parts, strict=True)]
        )

    def spread(self, parts: Sequence[Noisy]) -> float:
        """Standard errors of the summands together, over that of their sum, at most."""
        return sqrt(self.summands)  # of independent ones, by Cauchy and Schwarz


class Counts(Statistic):
    """Numbers of people."""

    kind = "count"

    def weighted(self, weights: Weights) -> Statistic:
        name = weighted_name(self.name, weights)
        return WeightedCounts(self.domain, name, self.table, survey=weights)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (counts,) = parts
        return Column.around(counts.values, counts.std, widths.each, widths.all)


@dataclass(frozen=True, eq=False)
class WeightedCounts(Statistic):
    """Sums of survey weights of people, each up to its cap."""

    kind: ClassVar[str] = "weighted count"
    note: ClassVar[str | None] = (
        "sums of weights, each of which counts up to its declared cap"
    )

    survey: Weights | None = None

    @property
    def weights_of_people(self) -> Weights:
        """The weight of every person."""
        assert self.survey is not None
        return self.survey

    @cached_property
    def needs(self) -> tuple[Term, ...]:
        return (replace(self.table, measure=self.weights_of_people),)

    @property
    def weights(self) -> tuple[float, ...]:
        """In people: one person adds at most the cap, and that counts as one."""
        return (self.weight / self.weights_of_people.reach,)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (noisy,) = parts
        unit = self.weights_of_people.unit
        return Column.around(
            unit * noisy.values, unit * noisy.std, widths.each, widths.all
        )


def derived_column(
    statistics: Iterable[Statistic],
    parts: Mapping[tuple[object, ...], Noisy],
    widths: Widths,
) -> Column:
    """The answers to all questions, from the noisy answers to every term by its key."""
    return Column.joined(
        [
            statistic.derive([parts[need.key] for need in statistic.needs], widths)
            for statistic in statistics
        ]
    )


def standardised(errors: FloatArray, std: FloatArray) -> FloatArray:
    """Errors over their standard errors; zero where there is none."""
    return np.asarray(errors / np.where(std > 0, std, np.inf))


def watched(count: int, most: int) -> IntArray:
    """At most so many of some places, evenly spread."""
    return np.unique(
        np.linspace(0, count - 1, min(most, count)).round().astype(np.int64)
    )


def weighted_name(name: str, weights: Weights) -> str:
    """The name of a question with every person weighed."""
    return f"{name} weighted by {weights.attribute}"


@dataclass(frozen=True, eq=False)
class Quantiles(Statistic):
    """Quantiles of a numeric attribute by group, from cumulative counts.

    Intervals are edges of bins. A bin is ruled out by what the noisy counts up to its ends say of
    people below less the share of all people: one test, with a standard error of its own, for each
    quantile.
    """

    kind: ClassVar[str] = "quantile"
    reading: ClassVar[Literal["term", "sum", "test"]] = "test"
    summands: ClassVar[int] = 2

    levels: tuple[float, ...] = ()

    def weighted(self, weights: Weights) -> Statistic:
        table = replace(self.table, measure=weights)
        return replace(self, table=table, name=weighted_name(self.name, weights))

    @property
    def weights(self) -> tuple[float, ...]:
        return (self.weight / self.table.measure.reach,)

    @cached_property
    def _place(self) -> int:
        """The axis of the table along which counts accumulate."""
        assert self.table.factors is not None
        return next(
            k for k, f in enumerate(self.table.factors) if isinstance(f, Prefix)
        )

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

    @cached_property
    def unit(self) -> str:
        return self.attribute.name

    @cached_property
    def queries(self) -> int:
        return len(self.labelled())

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        levels = tuple(f"{level:g}" for level in self.levels)
        return (
            *self._groups,
            Axis(f"quantile of {self.attribute.name}", "query", levels),
        )

    def labelled(self) -> list[tuple[str, float]]:
        """The group in words and the level of every answer."""
        columns = [
            [f"{axis.name} = {label}" for label in axis.labels] for axis in self._groups
        ]
        groups = [", ".join(row) for row in product(*columns)]
        return list(product(groups, self.levels))

    def each_label(self) -> Iterator[str]:
        name = self.attribute.name
        return (
            ", ".join(filter(None, [group, f"quantile {level:g} of {name}"]))
            for group, level in self.labelled()
        )

    @property
    def _bins(self) -> int:
        """Cells behind them hold people without a value, or outside."""
        return len(self.attribute.edges) - 1

    def _by_group(self, answers: Array) -> Array:
        """Answers to the term (the last axis) as groups × bins."""
        shape = [len(axis.labels) for axis in term_axes(self.domain, self.table)]
        split = answers.reshape(*answers.shape[:-1], *shape)
        along = np.moveaxis(split, answers.ndim - 1 + self._place, -1)

        return along.reshape(*answers.shape[:-1], -1, shape[self._place])[
            ..., : self._bins
        ]

    def _test_errors(self, noisy: Noisy) -> FloatArray:
        """Standard errors of people up to every bin less a share of all: groups × levels × bins."""
        std = self._by_group(noisy.std)
        shares = np.asarray(self.levels)[None, :, None]
        below = std[:, None, :]
        people = std[:, None, -1:]
        places = self._by_group(np.arange(noisy.std.size))
        covariance = noisy.covariance(tuple(places[:, -1].tolist()))
        if covariance is None:  # whatever it is, errors add up to no more than this
            return np.asarray(below + shares * people)

        own = covariance[places, np.arange(len(places))[:, None]][:, None, :]
        squares = below**2 + (shares * people) ** 2
        variance = squares - 2 * shares * own

        # What is left of what is exactly nothing, as of a public number of people, is rounding.
        return np.sqrt(np.where(variance > 1e-12 * squares, variance, 0.0))

    def spread(self, parts: Sequence[Noisy]) -> float:
        (noisy,) = parts
        together = self._test_errors(replace(noisy, covariance=lambda _: None))
        return float(standardised(together, self._test_errors(noisy)).max(initial=0.0))

    def judged(
        self, parts: Sequence[Noisy], errors: Sequence[FloatArray]
    ) -> FloatArray:
        (noisy,), (drawn,) = parts, errors
        std = self._test_errors(noisy)
        by_group = self._by_group(drawn)
        groups = watched(std.shape[0], _WATCHED_GROUPS)
        bins = watched(self._bins, _WATCHED_BINS)
        columns = [
            standardised(
                by_group[:, g, bins] - level * by_group[:, g, -1:], std[g, k, bins]
            )
            for g in groups
            for k, level in enumerate(self.levels)
        ]

        return np.hstack(columns)

    def derive(self, parts: Sequence[Noisy], widths: Widths) -> Column:
        (noisy,) = parts
        edges = np.asarray(self.attribute.edges, dtype=np.float64)
        values = self._by_group(noisy.values)
        std = self._by_group(noisy.std)
        tests = self._test_errors(noisy)
        found = [
            [
                quantile
                for row, errors, own in zip(values, std, tests, strict=True)
                for quantile in quantiles(row, errors, width * own, edges, self.levels)
            ]
            for width in (widths.each_test(1.0), widths.all_tests(1.0))
        ]
        each, all_ = (
            (_array(q.lower for q in own), _array(q.upper for q in own))
            for own in found
        )
        estimates = _array(q.estimate for q in found[0])

        return Column(estimates, np.full(len(estimates), np.nan), each, all_)


def _array(values: Iterable[float]) -> FloatArray:
    return np.array(list(values), dtype=np.float64)
