"""What is asked: a workload is a linear operator from cell counts to answers.

Everything a planner needs of a workload (products, Gram matrix, norms, sensitivity, labels) has a
closed form or a fast transform in each subclass; the dense matrix is built only when asked by name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import floor, isfinite
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.display import Shown, short_count
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.workload.linear.linear_map import LinearMap, check_order
from noisewright.workload.linear.tensor import Sizes
from noisewright.workload.questions.measures import COUNT, Measure

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.workload.linear.gram import Gram
    from noisewright.workload.questions.measures import Missing
    from noisewright.workload.questions.spec import Questions
    from noisewright.workload.questions.statistics import Statistic
    from noisewright.workload.structure import Structure, Term


_BLOCK_ENTRIES = 2**24  # of queries that are written out at a time


class Workload(Shown, LinearMap):
    """A set of linear queries over the cells of a domain.

    Cells are in C order: the last attribute runs fastest. Vectors may be `(size,)` or `(size, k)`;
    integer input stays integer wherever the workload's own entries are integers. Questions about a
    table (`from_spec`) have a domain and statistics; of any other workload every query is a plain
    count, and its cells have no names.
    """

    domain: Domain | None = None
    """What the cells mean, where the workload names attributes."""

    statistics: tuple[Statistic, ...] = ()
    """The named questions, where there are such."""

    spec: str = ""
    """The text that the questions were read from."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is added up over people: counts first."""
        return (COUNT,)

    @property
    def counts_only(self) -> bool:
        """Whether every answer is a number of people."""
        return True

    @property
    def answers(self) -> int:
        """Number of answers: the queries, unless answers are derived from them, as means are."""
        return self.queries

    def needs(self, sizes: Sequence[int]) -> list[tuple[Term, float]]:
        """All that is asked, on tables and plainly, with how much each error matters."""
        from noisewright.workload.structure import terms

        known = self.structure
        same = known.sizes == tuple(sizes)
        asked = known.terms if same else terms(self, sizes)

        return [(term, 1.0) for term in asked]

    def of_measure(self, measure: Measure) -> Workload:
        """The tables of one measure that are needed, each weighed as it matters."""
        return self

    def plain_parts(self) -> Sequence[Workload]:
        """The parts without the weights of named questions, each over all cells."""
        return (self,)

    def plain(self) -> Workload:
        """The queries as they are answered, without the weights of named questions."""
        from noisewright.workload.kinds.algebra import stack

        return stack(self.plain_parts())

    def narrowed(self) -> Workload:
        """The same over only those attributes that named questions ask about."""
        return self

    def reading(self, unsaid: Missing) -> Workload:
        """The same words, with another meaning where they say nothing of missing values."""
        return self

    def weighed(self, factors: Sequence[float]) -> Workload:
        """The same questions with weights so many times as large, one factor per statistic."""
        return self

    def joined(self, other: Workload) -> Workload:
        """What either asks, each question once."""
        return self if self.text() == other.text() else self + other

    def each_label(self, domain: Domain | None = None) -> Iterator[str]:
        """Every answer in words, one after the other: there may be more than memory holds."""
        from noisewright.workload.questions.table_axes import query_labels
        from noisewright.workload.structure import terms

        if domain is None:
            return map(self.label, range(self.queries))

        asked = terms(self, domain.shape)
        return chain.from_iterable(query_labels(domain, term) for term in asked)

    @property
    def queries(self) -> int:
        """Number of queries (rows)."""
        return self.shape[0]

    @abstractmethod
    def gram(self) -> Gram:
        """Gram matrix WᵀW as a structured operator."""

    @abstractmethod
    def text(self) -> str:
        """Short form that `workload()` parses back to an equal workload."""

    @abstractmethod
    def label(self, row: int) -> str:
        """Name of one query, for people."""

    def labels_of(self, name: str, values: Sequence[str]) -> list[str]:
        """Every query in words, where the cells are the values of an attribute of that name."""
        return [f"{name}: {self.label(row)}" for row in range(self.queries)]

    def labels(self) -> list[str]:
        """Names of all queries; refuses for more than a million of them."""
        if self.queries > 1_000_000:
            raise TooLarge(
                f"{self.queries} labels are too many at once; use label(row)"
            )

        return [self.label(row) for row in range(self.queries)]

    def rows(self, start: int, stop: int) -> FloatArray:
        numbers = np.arange(start, min(stop, self.queries))
        selector = np.zeros((self.queries, len(numbers)))
        selector[numbers, np.arange(len(numbers))] = 1.0

        return np.asarray(self.rmatvec(selector), dtype=np.float64).T

    def blocks_of_rows(self) -> Iterator[tuple[slice, FloatArray]]:
        """All queries as dense blocks of moderate size, and where each stands."""
        step = max(1, _BLOCK_ENTRIES // max(1, self.size))
        for start in range(0, self.queries, step):
            rows = self.rows(start, start + step)
            yield slice(start, start + len(rows)), rows

    def row_quadratics(self, matrix: FloatArray) -> FloatArray:
        """w·G·wᵀ for every query w: variances of all answers from a covariance G over cells."""
        result = np.empty(self.queries)
        for where, rows in self.blocks_of_rows():
            result[where] = np.einsum("ij,ij->i", rows @ matrix, rows)

        return result

    def row_squares(self, x: FloatArray) -> FloatArray:
        """(W∘W)x: every entry of the workload squared, then applied to `x`."""
        result = np.empty(self.queries)
        for where, rows in self.blocks_of_rows():
            result[where] = rows**2 @ x

        return result

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        """Σ weight·wᵀw over the queries w."""
        gram = np.zeros((self.size, self.size))
        for where, rows in self.blocks_of_rows():
            gram += rows.T @ (weights[where, None] * rows)

        return gram

    def column_norms(self, order: int = 2) -> FloatArray:
        if check_order(order) == 2:
            return np.sqrt(self.gram().diagonal())

        return super().column_norms(order)

    def _largest_distance(self, order: int) -> float:
        if order == 2:
            return float(np.sqrt(self.gram().largest_distance_squared()))

        return super()._largest_distance(order)

    @cached_property
    def structure(self) -> Structure:
        """What is asked, over the attributes that the workload's own form names."""
        from noisewright.workload.structure import Structure

        return Structure(self, self.named_sizes or (self.size,))

    @property
    def named_sizes(self) -> Sizes | None:
        """Sizes of the attributes that the workload's own form names; None where it names none."""
        return None

    @property
    def invariant_axes(self) -> Sizes | None:
        """Axes along which cyclic shifts leave the Gram matrix unchanged, if the form shows any."""
        return None

    @property
    def ignores_order(self) -> bool:
        """Whether no permutation of the cells changes the Gram matrix: histograms and totals."""
        return False

    def magnitudes(self) -> tuple[float, float]:
        """Decimal logarithms of the largest entries of the smallest and of the largest queries."""
        return 0.0, 0.0

    def brief(self) -> str:
        """The text form, shortened for messages."""
        text = self.text()
        return text if len(text) <= 60 else text[:57] + "..."

    @staticmethod
    def from_spec(
        source: str | Path | Mapping[str, object], domain: Domain
    ) -> Questions:
        """Questions about a table by attribute name, from YAML text, a path or plain values."""
        from noisewright.workload.questions.spec import questions

        return questions(source, domain)

    def __add__(self, other: Workload) -> Workload:
        from noisewright.workload.kinds.algebra import stack

        return stack([self, other])

    def __mul__(self, other: Workload) -> Workload:
        from noisewright.workload.kinds.algebra import kron

        return kron([self, other])

    def __rmatmul__(self, weight: float) -> Workload:  # type: ignore[override]
        """`2.5 @ workload`: a number from the left weighs the answers, as in the text form."""
        from noisewright.workload.kinds.algebra import Weighted

        return Weighted(float(weight), self)

    def __str__(self) -> str:
        return self.text()

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("workload", self.brief()),
            ("queries", short_count(self.queries)),
            ("cells", short_count(self.size)),
        ]


LARGEST_SIZE = 10**18
"""Values of one attribute: positions fit 64 bits."""

LARGEST_DOMAIN = 10**300
"""Cells or queries altogether: their number is still a float."""


def is_whole(value: object) -> bool:
    """Whether a number is whole: true, text, infinity and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False

    return isfinite(value) and floor(value) == value


def check_size(name: str, value: int) -> int:
    """Refuse sizes that are not whole numbers of at least one, or beyond counting."""
    if not is_whole(value) or value < 1:
        rule = "must be a whole number >= 1"
        raise InvalidParameter(name, value, rule, "give a positive size")
    if value > LARGEST_SIZE:
        raise TooLarge(
            f"{name} of 10^{len(str(value)) - 1} or more; at most 10^18 are counted"
        )

    return int(value)


def check_domain(workload: Workload) -> Workload:
    """Refuse workloads whose cells or queries are too many for any number of them to be told."""
    if max(workload.shape) > LARGEST_DOMAIN:
        raise TooLarge(
            "the workload has more than 10^300 cells or queries; ask about fewer attributes"
        )

    return workload
