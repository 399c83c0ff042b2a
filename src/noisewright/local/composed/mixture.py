"""Several strategies, each on its own coarsening of the domain, one drawn by every client.

The draw is public and independent of the person, so scores and information matrices add:
X = Σ_c w_c G_cᵀ X_c G_c, where G_c sums the cells that the c-th coarsening makes one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Self

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.analysis.information import DenseInformation, Information
from noisewright.local.fixedpoint import WORD, whole_weights
from noisewright.local.randomizer.routers import Axes, Blocks, Listed
from noisewright.local.randomizer.specification import Nodes, Through
from noisewright.local.storage import (
    Stored,
    check_weights,
    described_parts,
    whole_number,
)
from noisewright.local.strategy import Arrays, IndexStrategy, Settings, check_dense


class Drawn(IndexStrategy):
    """One of some components is drawn, and reports what a linear map makes of the cells.

    The draw is independent of the person, so a report is as private as its component.
    """

    components: tuple[IndexStrategy, ...]
    weights: tuple[int, ...]
    """Chances of the components, out of 2^64."""

    @property
    @abstractmethod
    def views(self) -> Sequence[Through]:
        """What every component is shown of a cell."""

    def express(self, nodes: Nodes) -> int:
        seen = []
        for component, through in zip(self.components, self.views, strict=True):
            seen.append(nodes.view(component.express(nodes), through))

        return nodes.draw(self.weights, seen)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First report of each component, and the number of reports at the end."""
        starts = tuple(accumulate((c.outputs for c in self.components), initial=0))
        whole_number(
            "outputs", starts[-1]
        )  # or sums of report numbers would wrap around
        return starts

    @cached_property
    def chances(self) -> FloatArray:
        """The same as fractions."""
        return np.array([weight / WORD for weight in self.weights])

    def tallies(self, tally: IntArray) -> list[IntArray]:
        """Every component's own part of the statistics."""
        return np.split(tally, self.starts[1:-1])


class DrawnComponents(Drawn):
    """Any components, which files describe one by one."""

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The largest ε of the components."""
        return max(component.epsilon for component in self.components)

    def beside(self) -> tuple[Settings, Arrays]:
        return described_parts(self.components)


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Which coarse cell each cell belongs to: `width` neighbours each, or as a table says."""

    size: int
    width: int = 1
    table: IntArray | None = None

    def __post_init__(self) -> None:
        whole_number("size", self.size, 1)
        whole_number("widths", self.width, 1, self.size if self.table is None else 1)
        if self.table is None:
            return

        shape = self.table.dtype.name, self.table.shape
        require(
            shape == ("int64", (self.size,)) and self.table.min() >= 0,
            "table",
            shape,
            f"must be {self.size} whole numbers >= 0",
        )

    @property
    def cells(self) -> int:
        """Number of coarse cells."""
        if self.table is not None:
            return int(self.table.max()) + 1
        return -(-self.size // self.width)

    @classmethod
    def of(cls, through: Through | None, size: int) -> Coarsening:
        """What a client's view makes of so many cells."""
        match through:
            case None:
                return cls(size)
            case Blocks():
                return cls(size, through.width)
            case Listed():
                return cls(size, table=np.array(through.table, dtype=np.int64))
            case Axes():
                rule = "must be blocks or a table"
                raise InvalidParameter("through", through.keep, rule)

    @property
    def through(self) -> Blocks | Listed:
        """The same for clients."""
        if self.table is not None:
            return Listed(table=tuple(self.table.tolist()))
        return Blocks(domain=str(self.size), width=self.width)

    @cached_property
    def map(self) -> IntArray:
        """The coarse cell of every cell."""
        return np.arange(self.size) // self.width if self.table is None else self.table

    def gather(self, x: FloatArray) -> FloatArray:
        """G x: sums over the cells of each coarse cell (first axis)."""
        if self.table is None:
            starts = np.arange(0, self.size, self.width)
            return np.add.reduceat(x, starts, axis=0)

        result = np.zeros((self.cells, *x.shape[1:]))
        np.add.at(result, self.table, x)

        return result

    def spread(self, z: FloatArray) -> FloatArray:
        """Gᵀ z: each cell gets the value of its coarse cell (first axis)."""
        return z[self.map]


@dataclass(frozen=True, eq=False)
class Mixture(DrawnComponents):
    """A public draw of a component, then its report on the coarsened cell."""

    components: tuple[IndexStrategy, ...]
    coarsenings: tuple[Coarsening, ...]
    weights: tuple[int, ...]
    """Chances of the components, out of 2^64."""

    kind = "mixture"

    def __post_init__(self) -> None:
        count = len(self.components)
        require(
            count == len(self.coarsenings) > 0,
            "components",
            count,
            "need one map each",
        )
        check_weights(self.weights, count)

        for component, coarsening in self._pairs:
            fits = component.size == coarsening.cells and coarsening.size == self.size
            rule = "must fit their coarsenings"
            require(fits, "components", component.kind, rule)

    @property
    def _pairs(self) -> Iterator[tuple[IndexStrategy, Coarsening]]:
        return zip(self.components, self.coarsenings, strict=True)

    @classmethod
    def of(
        cls,
        components: Sequence[IndexStrategy],
        coarsenings: Sequence[Coarsening],
        weights: npt.ArrayLike,
    ) -> Self:
        """Components with weights as fractions; those with no weight are left out."""
        parts = zip(components, coarsenings, whole_weights(weights), strict=True)
        kept = [part for part in parts if part[2] > 0]
        return cls(*zip(*kept, strict=True))

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return self.coarsenings[0].size

    @property
    def views(self) -> Sequence[Through]:
        """The coarsenings, for clients."""
        return [coarsening.through for coarsening in self.coarsenings]

    @property
    def counts_people(self) -> bool:
        """Not where blocks of uneven size share one mechanism."""
        return False

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Scores of the components, spread over their cells."""
        total = np.zeros(self.size)
        parts = self.tallies(tally)

        for (component, coarsening), part in zip(self._pairs, parts, strict=True):
            scores = component.score(part, int(part.sum()))
            total += coarsening.spread(scores)

        return total

    @cached_property
    def information(self) -> Information:
        """X = Σ_c w_c G_cᵀ X_c G_c."""
        check_dense(self.size)
        parts = [component.information.dense() for component in self.components]
        return DenseInformation(self._total(parts))

    def _total(self, parts: list[FloatArray]) -> FloatArray:
        """Σ_c w_c G_cᵀ M_c G_c."""
        result = np.zeros((self.size, self.size))
        for chance, coarsening, part in zip(
            self.chances, self.coarsenings, parts, strict=True
        ):
            cells = coarsening.map
            result += chance * part[np.ix_(cells, cells)]

        return result

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_c w_c G_cᵀ E_c[s sᵀ] G_c at the coarsened histogram."""
        check_dense(self.size)
        parts = []

        for component, coarsening in self._pairs:
            coarse = coarsening.gather(histogram)
            parts.append(component.moment(coarse))

        return self._total(parts)

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Energies of the components at the coarsened quadratic form."""
        result = np.zeros(self.size)

        for chance, (component, coarsening) in zip(
            self.chances, self._pairs, strict=True
        ):
            half = coarsening.gather(quadratic)
            coarse = coarsening.gather(half.T)
            result += chance * coarsening.spread(component.energy(coarse))

        return result

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        weights, shown = stored.drawn()
        size = stored.cells
        coarsenings = tuple(Coarsening.of(through, size) for through, _ in shown)
        return cls(stored.components(shown), coarsenings, weights)
