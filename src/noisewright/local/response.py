"""Randomized response: the true cell, or any other, each other equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from noisewright.local.fixedpoint import (
    WORD,
    bernoulli,
    check_epsilon,
    exponential,
    integers_below,
    odds_threshold,
)
from noisewright.local.histogram import CentredStrategy, Support, check_cells
from noisewright.local.strategy import Arrays, IndexStrategy, IntArray, Settings
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray


@dataclass(frozen=True)
class RandomizedResponse(CentredStrategy, IndexStrategy):
    """Report the truth with odds e^ε against each other cell."""

    size: int
    epsilon: float

    kind = "randomized-response"

    def __post_init__(self) -> None:
        check_cells(self.size)
        check_epsilon(self.epsilon)

    @cached_property
    def threshold(self) -> int:
        """Chance of the truth, out of 2^64."""
        return odds_threshold(exponential(self.epsilon) / (self.size - 1))

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

    def worst_ratio(self) -> Fraction:
        """Truth against any one lie."""
        return Fraction(self.threshold * (self.size - 1), WORD - self.threshold)

    @property
    def two_valued(self) -> bool:
        """Truth and lie."""
        return True

    def parameters(self) -> tuple[Settings, Arrays]:
        """Size and ε."""
        return {"size": self.size, "epsilon": self.epsilon}, {}

    @classmethod
    def from_parameters(cls, settings: Settings, arrays: Arrays) -> RandomizedResponse:
        """The strategy that `parameters` described."""
        return cls(int(settings["size"]), float(settings["epsilon"]))
