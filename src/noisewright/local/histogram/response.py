"""Randomized response [023]: the true cell, or any other, each other equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.local.fixedpoint import WORD, bernoulli, integers_below
from noisewright.local.histogram.centred import CentredStrategy, Support
from noisewright.local.histogram.plain import FavouringStrategy, PlainStrategy
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Same
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.strategy import IndexStrategy, IntArray
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray


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

    @property
    def outputs(self) -> int:
        """One per cell."""
        return self.size

    @cached_property
    def support(self) -> Support:
        """A report supports its own cell alone."""
        own = self.threshold / WORD
        return Support(own, (1 - own) / (self.size - 1), 0.0, 0.0)

    def supporters(self, tally: IntArray) -> IntArray:
        """The counts themselves."""
        return tally

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """The truth, or a uniform other cell."""
        reports = values.copy()
        lie = np.flatnonzero(~bernoulli(self.threshold, len(values), source))
        other = integers_below(self.size - 1, len(lie), source)
        reports[lie] = other + (other >= values[lie])
        return reports

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        block = np.full((stop - start, self.size), self.support.other)
        block[np.arange(stop - start), np.arange(start, stop)] = self.support.own
        return block


ENTRY = LocalMechanism(
    "randomized-response",
    "the true cell, or any other",
    lambda problem: RandomizedResponse(problem.listed_cells, problem.epsilon),
)
