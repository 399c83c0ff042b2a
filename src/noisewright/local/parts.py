"""Each person answers about one part of the questions: a strategy of its own for every table.

For questions of any kind over domains too large for one strategy. Every client draws a table by
public chances and reports its cell of it; a table is estimated from its own reports alone. With
chance w, and since the number of people N is known, the estimate of a table of n cells from the
component's estimate y is N/n + P y/w with P = I − 11ᵀ/n; a person of type u adds the variance
P[Cov_u/w + (1/w − 1) e_u e_uᵀ]P to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.fixedpoint import WORD, categorical, thresholds, whole_weights
from noisewright.local.information import Information, UnformedInformation
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, IntArray, Settings
from noisewright.local.tables import TableStrategy
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray, Workload
from noisewright.workload.gram import DenseGram
from noisewright.workload.terms import terms

Block = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Parts(TableStrategy, IndexStrategy):
    """Draw one of `tables`, and report the person's cell of it by that table's component."""

    sizes: tuple[int, ...]
    tables: tuple[Block, ...]
    components: tuple[IndexStrategy, ...]
    weights: tuple[int, ...]
    """Chances of the tables, out of 2^64."""

    kind = "parts"

    def __post_init__(self) -> None:
        if not len(self.tables) == len(self.components) == len(self.weights) > 0:
            raise InvalidParameter("tables", len(self.tables), "need one component and weight each")
        if sum(self.weights) != WORD or min(self.weights) <= 0:
            raise InvalidParameter("weights", len(self.weights), "must be positive, sum 2^64")
        for table, component in zip(self.tables, self.components, strict=True):
            known = all(0 <= i < len(self.sizes) for i in table) and len(set(table)) == len(table)
            if not table or not known or component.size != self.cells(table):
                raise InvalidParameter("tables", table, "must fit their components")
        if self.size > 1 << 62:
            raise TooLarge(f"a domain of {self.size:.3g} cells has no whole-number types")

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

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of cells of the whole domain."""
        return prod(self.sizes)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The largest ε of the components."""
        return max(component.epsilon for component in self.components)

    @property
    def by_tables(self) -> bool:
        """Always: nothing over the whole domain is formed."""
        return True

    def cells(self, block: Block) -> int:
        """Number of cells of a table."""
        return prod(self.sizes[i] for i in block)

    @cached_property
    def starts(self) -> IntArray:
        """First report of each component, and the number of reports at the end."""
        return np.cumsum([0, *(component.outputs for component in self.components)])

    @property
    def outputs(self) -> int:
        """All reports of all components."""
        return int(self.starts[-1])

    @cached_property
    def _chances(self) -> list[float]:
        return [weight / WORD for weight in self.weights]

    # --- clients ------------------------------------------------------------------------------

    @cached_property
    def _thresholds(self) -> npt.NDArray[np.uint64]:
        return thresholds(list(self.weights))

    def coarse(self, values: IntArray, block: Block) -> IntArray:
        """The cells of a table that some cells of the domain belong to."""
        result = np.zeros(len(values), dtype=np.int64)
        for attribute in block:
            stride, n = prod(self.sizes[attribute + 1 :]), self.sizes[attribute]
            result = result * n + (values // stride) % n
        return result

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """Draw a table for each value, then let its component report."""
        drawn = categorical(self._thresholds, len(values), source)
        reports = np.empty(len(values), dtype=np.int64)
        for index in np.unique(drawn):
            members = np.flatnonzero(drawn == index)
            cells = self.coarse(values[members], self.tables[index])
            own = self.components[index].sample(cells, source).astype(np.int64)
            reports[members] = self.starts[index] + own
        return reports

    def valid(self, reports: Array) -> npt.NDArray[np.bool_]:
        """Reports that their component could have produced."""
        result = super().valid(reports)
        for index, component in enumerate(self.components):
            part = (reports >= self.starts[index]) & (reports < self.starts[index + 1])
            result[part] &= component.valid(reports[part].astype(np.int64) - self.starts[index])
        return result

    # --- estimates ----------------------------------------------------------------------------

    @property
    def information(self) -> Information:
        """Never formed."""
        return UnformedInformation(self.size)

    def reaches(self, attributes: Block) -> bool:
        """Whether the table has a component of its own; the number of people is known."""
        return not attributes or attributes in self.tables

    @cached_property
    def _offsets(self) -> IntArray:
        return np.cumsum([1, *(self.cells(table) for table in self.tables)])

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """The number of people, then all estimated tables."""
        found = [np.array([float(people)])]
        for index, component in enumerate(self.components):
            part = tally[self.starts[index] : self.starts[index + 1]]
            held = component.estimate(part, int(part.sum())) / self._chances[index]
            found.append(held - held.mean() + people / component.size)
        return np.concatenate(found)

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
        component, chance = self.components[index], self._chances[index]
        x = np.full(component.size, people / component.size) if counts is None else counts
        return centred(component.covariance(x) / chance + (1 / chance - 1) * np.diag(x))

    def total_variances(self, workload: Workload) -> tuple[float, float]:
        """Largest and mean variance of all answers that one person adds.

        The largest is summed table by table: at most that, and exactly that where the tables share
        no attribute or their components treat all cells alike.
        """
        worst, mean = 0.0, 0.0
        asked = table_grams(workload, self.sizes)
        for table, gram in asked.items():
            index = self.tables.index(table)
            moments, squares = person_moments(self.components[index], gram)
            added = moments / self._chances[index] - squares
            worst, mean = worst + float(added.max()), mean + float(added.mean())
        return worst, mean

    # --- privacy and form ---------------------------------------------------------------------

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        if (stop - start) * self.size > 2**26:
            raise TooLarge("that many rows are too large for a dense block")
        cells, blocks = np.arange(self.size), [np.empty((0, self.size))]
        for index, component in enumerate(self.components):
            first = int(self.starts[index])
            a, b = max(start - first, 0), min(stop - first, component.outputs)
            if a < b:
                own = component.rows(a, b)[:, self.coarse(cells, self.tables[index])]
                blocks.append(self._chances[index] * own)
        return np.concatenate(blocks)

    def worst_ratio(self) -> Fraction:
        """The worst of the components: which table was drawn says nothing."""
        return max(component.worst_ratio() for component in self.components)

    @property
    def two_valued(self) -> bool:
        """Whether all components are."""
        return all(component.two_valued for component in self.components)

    def parameters(self) -> tuple[Settings, Arrays]:
        """The components' own parameters, side by side."""
        arrays: Arrays = {}
        parts: list[dict[str, Any]] = []
        for index, component in enumerate(self.components):
            settings, own = pack(component)
            arrays |= {f"{index}.{name}": value for name, value in own.items()}
            parts.append({"strategy": settings, "table": list(self.tables[index])})
        weights = [str(weight) for weight in self.weights]  # beyond what JSON numbers hold
        return {"sizes": list(self.sizes), "weights": weights, "parts": parts}, arrays

    @classmethod
    def from_parameters(cls, settings: Settings, arrays: Arrays) -> Parts:
        """The strategy that `parameters` described."""
        components = []
        for index, part in enumerate(settings["parts"]):
            prefix = f"{index}."
            own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            component = unpack(part["strategy"], own)
            if not isinstance(component, IndexStrategy):
                raise InvalidParameter("parts", component.kind, "must report whole numbers")
            components.append(component)
        return cls(
            tuple(int(size) for size in settings["sizes"]),
            tuple(tuple(int(i) for i in part["table"]) for part in settings["parts"]),
            tuple(components),
            tuple(int(weight) for weight in settings["weights"]),
        )


def centred(matrix: FloatArray) -> FloatArray:
    """P M P: what a matrix says of vectors that sum to zero."""
    half = matrix - matrix.mean(axis=0)
    return np.asarray(half - half.mean(axis=1)[:, None])


def table_grams(workload: Workload, sizes: tuple[int, ...]) -> dict[Block, FloatArray]:
    """P G P for what is asked of every table; the total, which is known, is left out."""
    found: dict[Block, FloatArray] = {}
    for term in terms(workload, sizes):
        if term.attributes:
            own = term.weight**2 * term.inner.gram().dense()
            found[term.attributes] = found.get(term.attributes, 0.0) + own
    return {table: centred(gram) for table, gram in found.items()}


def person_moments(component: IndexStrategy, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Second moments and squared means of what a person of each type adds to a table's answers."""
    squares = np.diagonal(gram).copy()
    return component.type_variances(DenseGram(gram)) + squares, squares
