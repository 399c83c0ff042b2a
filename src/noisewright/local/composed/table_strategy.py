"""Strategies that answer marginal tables one by one, over domains too large for a vector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.agreeing_tables import Block, agreeing_tables
from noisewright.estimate.nearest import project_to_total
from noisewright.local.analysis.grams import without_offsets
from noisewright.local.analysis.information import (
    Information,
    UnformedInformation,
    out_of_reach,
)
from noisewright.local.composed.mixture import Drawn
from noisewright.local.randomizer.routers import Axes
from noisewright.local.randomizer.specification import Through
from noisewright.local.strategy import Strategy
from noisewright.workload.base import Workload
from noisewright.workload.structure import Term, terms

_LARGEST_COVARIANCE = 1024
"""Cells of a table whose covariance is formed for every query of it."""


class TableStrategy(Strategy):
    """A strategy over attributes that estimates any table within reach from its statistics."""

    sizes: tuple[int, ...]
    """Number of values of each attribute."""

    @property
    @abstractmethod
    def by_tables(self) -> bool:
        """Whether the domain is too large for a vector over its cells."""

    @property
    def lists_cells(self) -> bool:
        """Only where the domain is handled as a vector."""
        return not self.by_tables

    @abstractmethod
    def reaches(self, attributes: Block) -> bool:
        """Whether the table of these attributes can be estimated."""

    @abstractmethod
    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """What all tables are made of, one after the other: first the number of people."""

    @abstractmethod
    def table(self, interactions: FloatArray, attributes: Block) -> FloatArray:
        """Estimated counts of one marginal table, flattened."""

    @abstractmethod
    def table_covariance(
        self, attributes: Block, people: float, counts: FloatArray | None = None
    ) -> FloatArray:
        """Covariance of one estimated table, at its true counts or at even ones."""

    def check_reach(self, workload: Workload) -> None:
        """Raise `OutOfReach` naming the first query of the first table out of reach."""
        row = 0
        for term in terms(workload, self.sizes):
            if not self.reaches(term.attributes):
                raise out_of_reach(self.kind, workload, row, 1.0)
            row += term.queries

    def answers(self, workload: Workload, tally: IntArray, people: int) -> FloatArray:
        """Unbiased answers, table by table where the domain is too large."""
        if not self.by_tables:
            return super().answers(workload, tally, people)
        return TableData.estimated(self, workload, tally, people).answers()

    def uniform_query_variances(self, workload: Workload, people: int) -> FloatArray:
        """Variance of every answer when people are spread evenly, table by table."""
        if not self.by_tables:
            return super().uniform_query_variances(workload, people)
        return TableData.even(self, workload, people).variances()


class ManyTables(TableStrategy):
    """Some tables of a domain over which nothing is formed: its information is known by them."""

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of cells of the whole domain."""
        return prod(self.sizes)

    @property
    def by_tables(self) -> bool:
        """Always: nothing over the whole domain is formed."""
        return True

    def cells(self, block: Block) -> int:
        """Number of cells of a table."""
        return prod(self.sizes[i] for i in block)

    @property
    def information(self) -> Information:
        """Never formed."""
        return UnformedInformation(self.size)


class DrawnTables(ManyTables, Drawn):
    """One of some tables is drawn, and the person's cell of it reported."""

    tables: tuple[Block, ...]

    @property
    def views(self) -> Sequence[Through]:
        """The tables, for clients."""
        return [Axes(sizes=self.sizes, keep=table) for table in self.tables]


def counts_or_even(counts: FloatArray | None, cells: int, people: float) -> FloatArray:
    """The true counts of a table, or people spread evenly where they are not told."""
    return np.full(cells, people / cells) if counts is None else counts


def shown_table(through: Through | None, attributes: int) -> Block:
    """The table of so many attributes that a client is shown."""
    match through:
        case None:
            return tuple(range(attributes))
        case Axes():
            return through.keep
        case _:
            kind = type(through).__name__
            raise InvalidParameter("through", kind, "must be a table")


@dataclass(frozen=True, eq=False)
class TableData:
    """The tables that a workload asks, with counts in them: estimated, likely or even."""

    strategy: TableStrategy
    terms: tuple[Term, ...]
    people: int
    tables: Mapping[Block, FloatArray]

    @classmethod
    def estimated(
        cls, strategy: TableStrategy, workload: Workload, tally: IntArray, people: int
    ) -> TableData:
        """Unbiased estimates from the statistics of all reports."""
        parts = strategy.interactions(tally, people)

        def estimated(block: Block) -> FloatArray:
            return strategy.table(parts, block)

        return cls._of(strategy, workload, people, estimated)

    @classmethod
    def even(
        cls, strategy: TableStrategy, workload: Workload, people: int
    ) -> TableData:
        """People spread evenly over the cells."""

        def even(block: Block) -> FloatArray:
            cells = prod(strategy.sizes[i] for i in block)
            return counts_or_even(None, cells, people)

        return cls._of(strategy, workload, people, even)

    @classmethod
    def _of(
        cls,
        strategy: TableStrategy,
        workload: Workload,
        people: int,
        table: Callable[[Block], FloatArray],
    ) -> TableData:
        queries = tuple(terms(workload, strategy.sizes))
        blocks = dict.fromkeys(term.attributes for term in queries)
        tables = {block: table(block) for block in blocks}
        return cls(strategy, queries, people, tables)

    def likely(self) -> TableData:
        """The same without negative counts, each table on its own."""
        total = float(self.people)
        tables = {
            block: project_to_total(counts, total)
            for block, counts in self.tables.items()
        }
        return replace(self, tables=tables)

    def answers(self) -> FloatArray:
        """Answers from the tables."""
        pieces = [term.answers(self.tables[term.attributes]) for term in self.terms]
        return np.concatenate(pieces).astype(np.float64)

    def variances(self) -> FloatArray:
        """Variance of every answer at these counts."""
        return self._quadratics(lambda block: [self.tables[block]])

    def worst_variances(self) -> FloatArray:
        """The largest variance of every answer over all tables of as many people.

        Variances are linear in the counts, so the worst table has everybody in one cell.
        """

        def extremes(block: Block) -> list[FloatArray]:
            cells = len(self.tables[block])
            return list(self.people * np.eye(cells))

        return self._quadratics(extremes)

    def _quadratics(self, counts: Callable[[Block], list[FloatArray]]) -> FloatArray:
        """Of every answer, the largest variance over some counts of its table."""
        pieces = []

        for term in self.terms:
            block = term.attributes
            cells = len(self.tables[block])
            if cells > _LARGEST_COVARIANCE:
                raise TooLarge(f"covariances of {cells} cells take long")

            queries = without_offsets(term.inner)
            quadratics = []
            for x in counts(block):
                covariance = self.strategy.table_covariance(block, self.people, x)
                quadratics.append(queries.row_quadratics(covariance))

            largest = np.max(quadratics, axis=0)
            pieces.append(term.weight**2 * largest)

        return np.concatenate(pieces)

    def sampling_variances(self) -> FloatArray:
        """What the drawing of these people from a large population adds to each variance."""
        pieces = []

        for term in self.terms:
            x = self.tables[term.attributes]
            queries = without_offsets(term.inner)
            means = queries.matvec(x) ** 2 / self.people
            squares = queries.row_squares(x) - means
            pieces.append(term.weight**2 * squares)

        return np.concatenate(pieces)

    def fitted(self) -> TableData:
        """The nearest tables that are not negative and agree where they overlap."""
        strategy = self.strategy
        std = {}

        for block, counts in self.likely().tables.items():
            covariance = strategy.table_covariance(block, self.people, counts)
            mean = float(np.diagonal(covariance).mean())
            std[block] = max(mean, 0.0) ** 0.5

        total = float(self.people)
        tables = agreeing_tables(strategy.sizes, self.tables, std, total)

        return replace(self, tables=tables)
