"""Kinds of question: the linear terms that each needs, and what it says from their noisy answers.

A new kind of question is one class and one line of the parser (`spec`); those of a bounded number
are in `number_statistics`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter
from noisewright.workload.atoms import Prefix
from noisewright.workload.base import FloatArray
from noisewright.workload.measures import Weights
from noisewright.workload.quantiles import quantiles
from noisewright.workload.structure import Term
from noisewright.workload.table_axes import Axis, term_axes

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
        name = weighted_name(self.name, weights)
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


def weighted_name(name: str, weights: Weights) -> str:
    """The name of a question with every person weighed."""
    return f"{name} weighted by {weights.attribute}"


@dataclass(frozen=True, eq=False)
class Quantiles(Statistic):
    """Quantiles of a numeric attribute by group, from cumulative counts.

    Intervals are edges of bins; all of them hold at once.
    """

    kind: ClassVar[str] = "quantile"

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
