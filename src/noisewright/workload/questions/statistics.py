"""Kinds of question: the linear terms that each needs, and what it says from their noisy answers.

A new kind of question is one class and one line of the parser (`spec`); those of a bounded number
are in `number_statistics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.workload.questions.measures import Weights
from noisewright.workload.questions.table_axes import Axis, term_axes
from noisewright.workload.structure import Term

Ends = tuple[FloatArray, FloatArray]

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

    @classmethod
    def without_errors(cls, answers: FloatArray, each: Ends, all_: Ends) -> Column:
        """Answers that have intervals and no standard errors."""
        unknown = np.full(len(answers), np.nan)
        return cls(answers, unknown, each, all_)

    def widened(self, bias: FloatArray) -> Column:
        """The same for answers that are off by as much as this on average."""
        intervals = self.each, self.all
        ends = [(low - bias, high + bias) for low, high in intervals]
        std = np.hypot(self.std, bias)

        return Column(self.answers, std, *ends)

    def part(self, rows: slice | IntArray) -> Column:
        """Some of the rows."""
        return Column._of([values[rows] for values in self._values])

    @classmethod
    def joined(cls, columns: Sequence[Column]) -> Column:
        """One column below the other."""
        if len(columns) == 1:
            return columns[0]

        together = zip(*(column._values for column in columns), strict=True)
        return cls._of([np.concatenate(values) for values in together])

    @property
    def _values(self) -> tuple[FloatArray, ...]:
        """Answers, standard errors and ends, one after the other."""
        return self.answers, self.std, *self.each, *self.all

    @classmethod
    def _of(cls, values: Sequence[FloatArray]) -> Column:
        answers, std, low, high, low_all, high_all = values
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
        pairs = zip(errors, parts, strict=True)
        columns = [standardised_errors(drawn, part.std) for drawn, part in pairs]

        return np.hstack(columns)

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

        sums = unit * noisy.values
        std = unit * noisy.std

        return Column.around(sums, std, widths.each, widths.all)


def derived_column(
    statistics: Iterable[Statistic],
    parts: Mapping[tuple[object, ...], Noisy],
    widths: Widths,
) -> Column:
    """The answers to all questions, from the noisy answers to every term by its key."""
    columns = []
    for statistic in statistics:
        own = [parts[need.key] for need in statistic.needs]
        columns.append(statistic.derive(own, widths))

    return Column.joined(columns)


def standardised_errors(errors: FloatArray, std: FloatArray) -> FloatArray:
    """Errors over their standard errors; zero where there is none."""
    scales = np.where(std > 0, std, np.inf)
    return np.asarray(errors / scales)


def watched_places(count: int, most: int) -> IntArray:
    """At most so many of some places, evenly spread."""
    places = np.linspace(0, count - 1, min(most, count))
    return np.unique(places.round().astype(np.int64))


def weighted_name(name: str, weights: Weights) -> str:
    """The name of a question with every person weighed."""
    return f"{name} weighted by {weights.attribute}"
