"""Strategies made of components: a public draw of one, then its report on what it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import WORD
from noisewright.local.reading import listed, whole
from noisewright.local.storage import pack, unpack
from noisewright.local.strategy import Arrays, IndexStrategy, Settings


class DrawnComponent(IndexStrategy):
    """The draw is independent of the person, so a report is as private as its component."""

    components: tuple[IndexStrategy, ...]
    weights: tuple[int, ...]
    """Chances of the components, out of 2^64."""

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

    @cached_property
    def _chances(self) -> list[float]:
        return [w / WORD for w in self.weights]

    def packed(self) -> tuple[list[Settings], Arrays]:
        """The components' own parameters, side by side."""
        arrays: Arrays = {}
        parts: list[Settings] = []
        for index, component in enumerate(self.components):
            settings, own = pack(component)
            arrays |= {f"{index}.{name}": value for name, value in own.items()}
            parts.append(settings)
        return parts, arrays


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
