"""Several strategies, each on its own coarsening of the domain, one drawn by every client.

The draw is public and independent of the person, so scores and information matrices add:
X = Σ_c w_c G_cᵀ X_c G_c, where G_c sums the cells that the c-th coarsening makes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import WORD, categorical, thresholds, whole_weights
from noisewright.local.information import DenseInformation, Information
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, IntArray, Settings, check_dense
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray


@dataclass(frozen=True, eq=False)
class Coarsening:
    """Which coarse cell each cell belongs to: `width` neighbours each, or as a table says."""

    size: int
    width: int = 1
    table: IntArray | None = None

    @property
    def cells(self) -> int:
        """Number of coarse cells."""
        if self.table is not None:
            return int(self.table.max()) + 1
        return -(-self.size // self.width)

    @cached_property
    def map(self) -> IntArray:
        """The coarse cell of every cell."""
        return np.arange(self.size) // self.width if self.table is None else self.table

    def of(self, values: IntArray) -> IntArray:
        """The coarse cells of some cells."""
        if self.table is not None:
            return self.table[values]
        return values if self.width == 1 else values // self.width

    def gather(self, x: FloatArray) -> FloatArray:
        """G x: sums over the cells of each coarse cell (first axis)."""
        if self.table is None:
            return np.asarray(np.add.reduceat(x, np.arange(0, self.size, self.width), axis=0))
        result = np.zeros((self.cells, *x.shape[1:]))
        np.add.at(result, self.table, x)
        return result

    def spread(self, z: FloatArray) -> FloatArray:
        """Gᵀ z: each cell gets the value of its coarse cell (first axis)."""
        return np.asarray(z[self.map])


@dataclass(frozen=True, eq=False)
class Mixture(IndexStrategy):
    """A public draw of a component, then its report on the coarsened cell."""

    components: tuple[IndexStrategy, ...]
    coarsenings: tuple[Coarsening, ...]
    weights: tuple[int, ...]
    """Chances of the components, out of 2^64."""

    kind = "mixture"

    def __post_init__(self) -> None:
        if not len(self.components) == len(self.coarsenings) == len(self.weights) > 0:
            raise InvalidParameter(
                "components", len(self.components), "need one weight and map each"
            )
        if sum(self.weights) != WORD or min(self.weights) < 0:
            raise InvalidParameter("weights", len(self.weights), "must sum to 2^64 exactly")
        for component, coarsening in zip(self.components, self.coarsenings, strict=True):
            if component.size != coarsening.cells or coarsening.size != self.coarsenings[0].size:
                raise InvalidParameter("components", component.kind, "must fit their coarsenings")

    @classmethod
    def of(
        cls,
        components: list[IndexStrategy],
        coarsenings: list[Coarsening],
        weights: npt.ArrayLike,
    ) -> Self:
        """Components with weights as fractions; those with no weight are left out."""
        whole = whole_weights(weights)
        kept = [i for i, w in enumerate(whole) if w > 0]
        return cls(
            tuple(components[i] for i in kept),
            tuple(coarsenings[i] for i in kept),
            tuple(whole[i] for i in kept),
        )

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return self.coarsenings[0].size

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The largest ε of the components."""
        return max(component.epsilon for component in self.components)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First report of each component, and the number of reports at the end."""
        return tuple(np.cumsum([0, *(c.outputs for c in self.components)]).tolist())

    @property
    def outputs(self) -> int:
        """All reports of all components."""
        return self.starts[-1]

    @cached_property
    def _thresholds(self) -> npt.NDArray[np.uint64]:
        return thresholds(list(self.weights))

    @cached_property
    def _chances(self) -> list[float]:
        return [w / WORD for w in self.weights]

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """Draw a component for each value, then let it report."""
        drawn = categorical(self._thresholds, len(values), source)
        reports = np.empty(len(values), dtype=np.int64)
        for index in np.unique(drawn):
            members = np.flatnonzero(drawn == index)
            coarse = self.coarsenings[index].of(values[members])
            own = self.components[index].sample(coarse, source).astype(np.int64)
            reports[members] = self.starts[index] + own
        return reports

    def valid(self, reports: Array) -> npt.NDArray[np.bool_]:
        """Reports that their component could have produced."""
        result = super().valid(reports)
        for index, component in enumerate(self.components):
            part = (reports >= self.starts[index]) & (reports < self.starts[index + 1])
            local = reports[part].astype(np.int64) - self.starts[index]
            result[part] &= component.valid(local)
        return result

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Scores of the components, spread over their cells."""
        total = np.zeros(self.size)
        for index, component in enumerate(self.components):
            part = tally[self.starts[index] : self.starts[index + 1]]
            total += self.coarsenings[index].spread(component.score(part, int(part.sum())))
        return total

    @cached_property
    def information(self) -> Information:
        """X = Σ_c w_c G_cᵀ X_c G_c."""
        check_dense(self.size)
        return DenseInformation(self._total([c.information.dense() for c in self.components]))

    def _total(self, parts: list[FloatArray]) -> FloatArray:
        result = np.zeros((self.size, self.size))
        for chance, coarsening, part in zip(self._chances, self.coarsenings, parts, strict=True):
            result += chance * part[np.ix_(coarsening.map, coarsening.map)]
        return result

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_c w_c G_cᵀ E_c[s sᵀ] G_c at the coarsened histogram."""
        check_dense(self.size)
        pairs = zip(self.components, self.coarsenings, strict=True)
        return self._total([c.moment(g.gather(histogram)) for c, g in pairs])

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Energies of the components at the coarsened quadratic form."""
        result = np.zeros(self.size)
        parts = zip(self._chances, self.components, self.coarsenings, strict=True)
        for chance, component, coarsening in parts:
            coarse = coarsening.gather(coarsening.gather(quadratic).T)
            result += chance * coarsening.spread(component.energy(coarse))
        return result

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        blocks = [np.empty((0, self.size))]
        for index, component in enumerate(self.components):
            first = self.starts[index]
            a, b = max(start - first, 0), min(stop - first, component.outputs)
            if a < b:
                block = component.rows(a, b)[:, self.coarsenings[index].map]
                blocks.append(self._chances[index] * block)
        return np.concatenate(blocks)

    def worst_ratio(self) -> Fraction:
        """The worst of the components."""
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
            coarsening = self.coarsenings[index]
            parts.append({"strategy": settings, "width": coarsening.width})
            if coarsening.table is not None:
                arrays[f"{index}.table"] = coarsening.table
        weights = [str(weight) for weight in self.weights]  # beyond what JSON numbers hold
        return {"size": self.size, "weights": weights, "components": parts}, arrays

    @classmethod
    def from_parameters(cls, settings: Settings, arrays: Arrays) -> Self:
        """The strategy that `parameters` described."""
        components, coarsenings = [], []
        for index, part in enumerate(settings["components"]):
            own = {
                name.split(".", 1)[1]: value
                for name, value in arrays.items()
                if name.split(".", 1)[0] == str(index)
            }
            table = own.pop("table", None)
            coarsenings.append(Coarsening(int(settings["size"]), int(part["width"]), table))
            component = unpack(part["strategy"], own)
            if not isinstance(component, IndexStrategy):
                raise InvalidParameter("components", component.kind, "must report whole numbers")
            components.append(component)
        weights = tuple(int(weight) for weight in settings["weights"])
        return cls(tuple(components), tuple(coarsenings), weights)
