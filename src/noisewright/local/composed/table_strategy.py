"""Strategies that answer marginal tables one by one, over domains too large for a vector."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.agreeing_tables import Block, agreeing_tables
from noisewright.estimate.nearest import project_to_total
from noisewright.local.analysis.grams import without_offsets
from noisewright.local.analysis.information import Information, UnformedInformation
from noisewright.local.fixedpoint import numbers
from noisewright.local.randomizer.routers import Axes, Draw
from noisewright.local.randomizer.specification import Place
from noisewright.local.strategy import Strategy, out_of_reach
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


def drawn_tables(
    place: Place, sizes: tuple[int, ...]
) -> tuple[tuple[Block, ...], list[Place], tuple[int, ...]]:
    """The tables that a client draws from, the places below them, and their chances."""
    draw = place.node(Draw)
    tables = []
    places = []
    for child in draw.of:
        through, below = place.below(child).shown
        if through is not None and not isinstance(through, Axes):
            raise InvalidParameter("through", type(through).__name__, "must be a table")
        tables.append(tuple(range(len(sizes))) if through is None else through.keep)
        places.append(below)

    return tuple(tables), places, numbers(draw.weights)


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
        queries = tuple(terms(workload, strategy.sizes))
        parts = strategy.interactions(tally, people)
        return cls(
            strategy,
            queries,
            people,
            {b: strategy.table(parts, b) for b in _blocks(queries)},
        )

    @classmethod
    def even(
        cls, strategy: TableStrategy, workload: Workload, people: int
    ) -> TableData:
        """People spread evenly over the cells."""
        queries = tuple(terms(workload, strategy.sizes))
        cells = {b: prod(strategy.sizes[i] for i in b) for b in _blocks(queries)}
        return cls(
            strategy,
            queries,
            people,
            {b: np.full(n, people / n) for b, n in cells.items()},
        )

    def likely(self) -> TableData:
        """The same without negative counts, each table on its own."""
        total = float(self.people)
        return replace(
            self, tables={b: project_to_total(t, total) for b, t in self.tables.items()}
        )

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
        return self._quadratics(
            lambda block: list(self.people * np.eye(len(self.tables[block])))
        )

    def _quadratics(self, counts: Callable[[Block], list[FloatArray]]) -> FloatArray:
        pieces = []
        for term in self.terms:
            block = term.attributes
            if len(self.tables[block]) > _LARGEST_COVARIANCE:
                raise TooLarge(
                    f"covariances of {len(self.tables[block])} cells take long"
                )

            covariances = [
                self.strategy.table_covariance(block, self.people, x)
                for x in counts(block)
            ]
            queries = without_offsets(term.inner)
            quadratics = [
                queries.row_quadratics(covariance) for covariance in covariances
            ]
            pieces.append(term.weight**2 * np.max(quadratics, axis=0))

        return np.concatenate(pieces)

    def sampling_variances(self) -> FloatArray:
        """What the drawing of these people from a large population adds to each variance."""
        pieces = []
        for term in self.terms:
            x = self.tables[term.attributes]
            queries = without_offsets(term.inner)
            squares = queries.row_squares(x) - queries.matvec(x) ** 2 / self.people
            pieces.append(term.weight**2 * squares)
        return np.concatenate(pieces)

    def fitted(self) -> TableData:
        """The nearest tables that are not negative and agree where they overlap."""
        likely = self.likely().tables
        std = {}
        for block, counts in likely.items():
            variances = np.diagonal(
                self.strategy.table_covariance(block, self.people, counts)
            )
            std[block] = float(np.sqrt(max(variances.mean(), 0.0)))

        total = float(self.people)
        return replace(
            self, tables=agreeing_tables(self.strategy.sizes, self.tables, std, total)
        )


def _blocks(queries: tuple[Term, ...]) -> list[Block]:
    return list(dict.fromkeys(term.attributes for term in queries))
