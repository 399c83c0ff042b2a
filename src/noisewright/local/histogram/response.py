"""Randomized response [023]: the true cell, or any other, each other equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from noisewright.local.fixedpoint import WORD
from noisewright.local.histogram.centred import (
    CentredStrategy,
    FavouringStrategy,
    PlainStrategy,
    Support,
)
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Same
from noisewright.local.randomizer.specification import Nodes, Place
from noisewright.local.strategy import Arrays, IndexStrategy, Settings


@dataclass(frozen=True)
class RandomizedResponse(FavouringStrategy, PlainStrategy, CentredStrategy, IndexStrategy):
    """Report the truth with odds e^ε against each other cell."""

    size: int
    epsilon: float

    kind = "randomized-response"

    @property
    def favoured(self) -> tuple[int, int]:
        """The true cell."""
        return 1, self.size

    def express(self, nodes: Nodes) -> int:
        return nodes.favour(self.threshold, Same(cells=self.size))

    @classmethod
    def restored(cls, place: Place, settings: Settings, arrays: Arrays) -> RandomizedResponse:
        return cls(place.cells, settings["epsilon"])

    @cached_property
    def support(self) -> Support:
        """A report supports its own cell alone."""
        own = self.threshold / WORD
        return Support(own, (1 - own) / (self.size - 1), 0.0, 0.0)


ENTRY = LocalMechanism(
    "randomized-response",
    "the true cell, or any other",
    lambda problem: RandomizedResponse(problem.listed_cells, problem.epsilon),
)
