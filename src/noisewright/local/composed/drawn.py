"""Strategies made of components: a public draw of one, then its report on what it looks at."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import WORD, categorical, thresholds
from noisewright.local.reading import listed, whole
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, IntArray, Settings, check_values
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray


class DrawnComponent(IndexStrategy):
    """The draw is independent of the person, so a report is as private as its component."""

    components: tuple[IndexStrategy, ...]
    weights: tuple[int, ...]
    """Chances of the components, out of 2^64."""

    @abstractmethod
    def looked_at(self, index: int, values: IntArray) -> IntArray:
        """The cells that a component sees of some cells of the domain."""

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """The largest ε of the components."""
        return max(component.epsilon for component in self.components)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First report of each component, and the number of reports at the end."""
        starts = tuple(accumulate((c.outputs for c in self.components), initial=0))
        whole("outputs", starts[-1])  # or sums of report numbers would wrap around
        return starts

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
        for index in np.unique(drawn).tolist():
            members = np.flatnonzero(drawn == index)
            seen = self.looked_at(index, values[members])
            own = handed(self.components[index], seen, source)
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

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        cells, blocks = np.arange(self.size), [np.empty((0, self.size))]
        for index, component in enumerate(self.components):
            first = self.starts[index]
            a, b = max(start - first, 0), min(stop - first, component.outputs)
            if a < b:
                own = component.rows(a, b)[:, self.looked_at(index, cells)]
                blocks.append(self._chances[index] * own)
        return np.concatenate(blocks)

    def packed(self) -> tuple[list[Settings], Arrays]:
        """The components' own parameters, side by side."""
        arrays: Arrays = {}
        parts: list[Settings] = []
        for index, component in enumerate(self.components):
            settings, own = pack(component)
            arrays |= {f"{index}.{name}": value for name, value in own.items()}
            parts.append(settings)
        return parts, arrays


def handed(component: IndexStrategy, cells: IntArray, source: ByteSource | None) -> IntArray:
    """A component's reports on what it is shown, which must be cells of its own domain.

    What a component sends of anything else, its ratio of chances says nothing about.
    """
    return component.sample(check_values(cells, component.size), source).astype(np.int64)


def unpacked(
    parts: Sequence[Settings], arrays: Arrays
) -> tuple[tuple[IndexStrategy, ...], list[dict[str, Any]]]:
    """The components that `packed` described, and the arrays beside each."""
    components, beside = [], []
    for index, settings in enumerate(listed("components", parts)):
        prefix = f"{index}."
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        component = unpack(cast("Settings", settings), own)
        if not isinstance(component, IndexStrategy):
            raise InvalidParameter("components", component.kind, "must report whole numbers")
        components.append(component)
        beside.append(own)
    return tuple(components), beside
