"""Strategies that answer marginal tables one by one, over domains too large for a vector."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from noisewright.local.strategy import IntArray, Strategy, out_of_reach
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.quadratics import row_quadratics
from noisewright.workload.terms import terms


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
    def reaches(self, attributes: tuple[int, ...]) -> bool:
        """Whether the table of these attributes can be estimated."""

    @abstractmethod
    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """What all tables are made of, one after the other: first the number of people."""

    @abstractmethod
    def table(self, interactions: FloatArray, attributes: tuple[int, ...]) -> FloatArray:
        """Estimated counts of one marginal table, flattened."""

    @abstractmethod
    def table_covariance(
        self, attributes: tuple[int, ...], people: int, counts: FloatArray | None = None
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
        parts = self.interactions(tally, people)
        asked = terms(workload, self.sizes)
        return np.concatenate([t.answers(self.table(parts, t.attributes)) for t in asked])

    def uniform_query_variances(self, workload: Workload, people: int) -> FloatArray:
        """Variance of every answer when people are spread evenly, table by table."""
        if not self.by_tables:
            return super().uniform_query_variances(workload, people)
        pieces = []
        for term in terms(workload, self.sizes):
            covariance = self.table_covariance(term.attributes, people)
            pieces.append(term.weight**2 * row_quadratics(term.inner, covariance))
        return np.concatenate(pieces)
