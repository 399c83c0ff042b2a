"""Strategies made of components: a public draw of one, then its report on what it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import cast

from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import WORD
from noisewright.local.randomizer.specification import Place
from noisewright.local.reading import listed, whole
from noisewright.local.storage import described, restored
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

    def beside(self) -> tuple[Settings, Arrays]:
        parts = [described(component) for component in self.components]
        arrays = {f"{i}.{name}": a for i, (_, own) in enumerate(parts) for name, a in own.items()}
        return {"components": [settings for settings, _ in parts]}, arrays


def restored_parts(
    places: Sequence[Place], settings: Settings, arrays: Arrays
) -> tuple[IndexStrategy, ...]:
    """The components that begin at some places."""
    components = []
    parts = zip(places, listed("components", settings["components"]), strict=True)
    for index, (place, described_part) in enumerate(parts):
        prefix = f"{index}."
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        component = restored(place, cast("Settings", described_part), own)
        if not isinstance(component, IndexStrategy):
            raise InvalidParameter("components", component.kind, "must report whole numbers")
        components.append(component)
    return tuple(components)
