"""Each person answers about one part of the questions: a strategy of its own for every table.

For questions of any kind over domains too large for one strategy. Every client draws a table by
public chances and reports its cell of it; a table is estimated from its own reports alone. With
chance w, and since the number of people N is known, the estimate of a table of n cells from the
component's estimate y is N/n + P y/w with P = I − 11ᵀ/n; a person of type u adds the variance
P[Cov_u/w + (1/w − 1) e_u e_uᵀ]P to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.analysis.grams import table_gram
from noisewright.local.composed.mixture import DrawnComponents
from noisewright.local.composed.table_strategy import DrawnTables, shown_table
from noisewright.local.fixedpoint import whole_weights
from noisewright.local.storage import Stored, check_axes, check_sizes, check_weights
from noisewright.local.strategy import Arrays, IndexStrategy, Settings
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import DenseGram
from noisewright.workload.structure import terms

Block = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Parts(DrawnTables, DrawnComponents):
    """Draw one of `tables`, and report the person's cell of it by that table's component."""

    sizes: tuple[int, ...]
    tables: tuple[Block, ...]
    components: tuple[IndexStrategy, ...]
    weights: tuple[int, ...]
    """Chances of the tables, out of 2^64."""

    kind = "parts"

    def __post_init__(self) -> None:
        require(
            len(self.tables) == len(self.components) == len(self.weights) > 0,
            "tables",
            len(self.tables),
            "need one component and weight each",
        )

        check_weights(self.weights, len(self.tables))
        sizes = check_sizes(self.sizes)

        for table, component in zip(self.tables, self.components, strict=True):
            check_axes("tables", table, len(sizes))
            require(
                component.size == self.cells(table),
                "tables",
                table,
                "must fit their components",
            )

        different = len(set(self.tables)) == len(self.tables)
        require(different, "tables", len(self.tables), "must be different ones")

    @classmethod
    def of(
        cls,
        sizes: tuple[int, ...],
        tables: tuple[Block, ...],
        components: tuple[IndexStrategy, ...],
        shares: FloatArray,
    ) -> Parts:
        """Tables drawn with these shares."""
        return cls(sizes, tables, components, tuple(whole_weights(shares)))

    # --- estimates ----------------------------------------------------------------------------

    def reaches(self, attributes: Block) -> bool:
        """Whether the table has a component of its own; the number of people is known."""
        return not attributes or attributes in self.tables

    @cached_property
    def _offsets(self) -> IntArray:
        return np.cumsum([1, *(self.cells(table) for table in self.tables)])

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """The number of people, then all estimated tables."""
        blocks = [np.array([float(people)])]
        parts = zip(self.components, self.chances, self.tallies(tally), strict=True)

        for component, chance, part in parts:
            held = component.estimate(part, int(part.sum())) / chance
            blocks.append(held - held.mean() + people / component.size)

        return np.concatenate(blocks)

    def table(self, interactions: FloatArray, attributes: Block) -> FloatArray:
        """Estimated counts of one table."""
        if not attributes:
            return interactions[:1]
        index = self.tables.index(attributes)
        return interactions[self._offsets[index] : self._offsets[index + 1]]

    def table_covariance(
        self, attributes: Block, people: float, counts: FloatArray | None = None
    ) -> FloatArray:
        """Covariance of one estimated table, at its true counts or at even ones."""
        if not attributes:
            return np.zeros((1, 1))

        index = self.tables.index(attributes)
        component = self.components[index]
        chance = self.chances[index]
        n = component.size
        x = np.full(n, people / n) if counts is None else counts
        drawing = (1 / chance - 1) * np.diag(x)

        return centred(component.covariance(x) / chance + drawing)

    def total_variances(self, workload: Workload) -> tuple[float, float]:
        """Largest and mean variance of all answers that one person adds.

        The largest is summed table by table: at most that, and exactly that where the tables share
        no attribute or their components treat all cells alike.
        """
        worst = 0.0
        mean = 0.0
        grams = table_grams(workload, self.sizes)

        for table, gram in grams.items():
            index = self.tables.index(table)
            moments, squares = person_moments(self.components[index], gram)
            added = moments / self.chances[index] - squares
            worst = worst + float(added.max())
            mean = mean + float(added.mean())

        return worst, mean

    def beside(self) -> tuple[Settings, Arrays]:
        settings, arrays = super().beside()
        return {"sizes": list(self.sizes), **settings}, arrays

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        sizes = stored.sizes
        weights, shown = stored.drawn()
        tables = tuple(shown_table(through, len(sizes)) for through, _ in shown)
        return cls(sizes, tables, stored.components(shown), weights)


def centred(matrix: FloatArray) -> FloatArray:
    """P M P: what a matrix says of vectors that sum to zero."""
    half = matrix - matrix.mean(axis=0)
    return np.asarray(half - half.mean(axis=1)[:, None])


def table_grams(workload: Workload, sizes: tuple[int, ...]) -> dict[Block, FloatArray]:
    """P G P for what is asked of every table; the total, which is known, is left out."""
    grams: dict[Block, FloatArray] = {}
    for term in terms(workload, sizes):
        if term.attributes:
            own = term.weight**2 * table_gram(term.inner).dense()
            grams[term.attributes] = grams.get(term.attributes, 0.0) + own

    return {table: centred(gram) for table, gram in grams.items()}


def person_moments(
    component: IndexStrategy, gram: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Second moments and squared means of what a person of each type adds to a table's answers."""
    squares = np.diagonal(gram).copy()
    return component.type_variances(DenseGram(gram)) + squares, squares
