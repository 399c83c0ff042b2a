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
from noisewright.local.analysis.information import centred
from noisewright.local.composed.mixture import DrawnComponents
from noisewright.local.composed.table_strategy import (
    DrawnTables,
    counts_or_even,
    shown_table,
)
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
        count = len(self.tables)
        paired = count == len(self.components) > 0
        require(paired, "tables", count, "need one component each")
        different = count == len(set(self.tables))
        require(different, "tables", count, "must be different ones")

        check_weights(self.weights, count)
        sizes = check_sizes(self.sizes)

        for table, component in zip(self.tables, self.components, strict=True):
            check_axes("tables", table, len(sizes))
            fits = component.size == self.cells(table)
            require(fits, "tables", table, "must fit their components")

    @classmethod
    def of(
        cls,
        sizes: tuple[int, ...],
        tables: tuple[Block, ...],
        components: tuple[IndexStrategy, ...],
        shares: FloatArray,
    ) -> Self:
        """Tables drawn with these shares."""
        weights = tuple(whole_weights(shares))
        return cls(sizes, tables, components, weights)

    # --- estimates ----------------------------------------------------------------------------

    def reaches(self, attributes: Block) -> bool:
        """Whether the table has a component of its own; the number of people is known."""
        return not attributes or attributes in self.tables

    @cached_property
    def _offsets(self) -> IntArray:
        cells = [self.cells(table) for table in self.tables]
        return np.cumsum([1, *cells])

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """The number of people, then all estimated tables."""
        blocks = [np.array([float(people)])]
        parts = zip(self.components, self.chances, self.tallies(tally), strict=True)

        for component, chance, part in parts:
            reports = int(part.sum())
            held = component.estimate(part, reports) / chance
            even = people / component.size
            blocks.append(held - held.mean() + even)

        return np.concatenate(blocks)

    def table(self, interactions: FloatArray, attributes: Block) -> FloatArray:
        """Estimated counts of one table."""
        if not attributes:
            return interactions[:1]

        index = self.tables.index(attributes)
        first, stop = self._offsets[index : index + 2]
        return interactions[first:stop]

    def table_covariance(
        self, attributes: Block, people: float, counts: FloatArray | None = None
    ) -> FloatArray:
        """Covariance of one estimated table, at its true counts or at even ones."""
        if not attributes:
            return np.zeros((1, 1))

        index = self.tables.index(attributes)
        component = self.components[index]
        chance = self.chances[index]
        x = counts_or_even(counts, component.size, people)

        reporting = component.covariance(x) / chance
        drawing = (1 / chance - 1) * np.diag(x)

        return centred(reporting + drawing)

    def total_variances(self, workload: Workload) -> tuple[float, float]:
        """Largest and mean variance of all answers that one person adds.

        The largest is summed table by table: at most that, and exactly that where the tables share
        no attribute or their components treat all cells alike.
        """
        worst = 0.0
        mean = 0.0

        for table, gram in table_grams(workload, self.sizes).items():
            index = self.tables.index(table)
            moments, squares = person_moments(self.components[index], gram)
            added = moments / self.chances[index] - squares
            worst += float(added.max())
            mean += float(added.mean())

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


def table_grams(workload: Workload, sizes: tuple[int, ...]) -> dict[Block, FloatArray]:
    """P G P for what is asked of every table; the total, which is known, is left out."""
    grams: dict[Block, FloatArray] = {}
    for term in terms(workload, sizes):
        table = term.attributes
        if table:
            gram = term.weight**2 * table_gram(term.inner).dense()
            grams[table] = grams.get(table, 0.0) + gram

    return {table: centred(gram) for table, gram in grams.items()}


def person_moments(
    component: IndexStrategy, gram: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Second moments and squared means of what a person of each type adds to a table's answers."""
    squares = np.diagonal(gram).copy()
    return component.type_variances(DenseGram(gram)) + squares, squares
