"""What every tally of reports says: which can be, what they add up to, and which sums can be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter

_LOW_HALF = 2**32 - 1
"""Marks the low half of a machine word."""


@dataclass(frozen=True, eq=False)
class Hull:
    """What one report adds to the statistics: limits of every counter, and of their sum."""

    low: FloatArray
    high: FloatArray
    total: tuple[float, float]

    @classmethod
    def below(cls, largest: float, counters: int, total: tuple[float, float]) -> Hull:
        """Nothing at least, and the same at most, for every counter."""
        low = np.zeros(counters)
        return cls(low, low + largest, total)


class Tally(ABC):
    """Sufficient statistics of the reports of one law."""

    counters: int
    """Length of the statistics."""

    counts_reports = False
    """Whether every counter is of one report."""

    @abstractmethod
    def valid(self, reports: Array) -> BoolArray:
        """Which reports a client could have produced."""

    def plausible(self, reports: Array, deviations: float) -> BoolArray:
        """Which valid reports an honest client would send, to that many standard deviations.

        A single report can do only bounded harm where reports are few; bits and vectors override.
        """
        return np.ones(len(reports), dtype=bool)

    def can_set_aside(self, deviations: float) -> bool:
        """Whether `plausible` would set any possible report aside."""
        return False

    @abstractmethod
    def tally(self, reports: Array) -> IntArray:
        """Statistics of valid reports: whole numbers that add over sets of reports."""

    @abstractmethod
    def possible(self, tally: IntArray, people: int) -> bool:
        """Whether statistics made elsewhere could be those of so many reports."""

    @abstractmethod
    def hull(self, cap: float | None) -> Hull:
        """Limits that no counted report breaks."""

    @abstractmethod
    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        """The most that one report in place of another changes sums over the counters.

        `moved` says how far a unit of each counter (column) moves every sum (row).
        """

    def chance_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """The least and the largest chance, over all answers, of what is counted.

        None where they are those of the reports themselves, or not known.
        """
        return None


def exact_sum(numbers: Array) -> IntArray:
    """Sums over the first axis; those that 64 bits do not hold are refused, never wrapped around.

    Halves of machine words cannot overflow in sums of less than 2^31 of them.
    """
    lower = (numbers & _LOW_HALF).sum(axis=0, dtype=np.int64)
    upper = (numbers >> 32).sum(axis=0, dtype=np.int64)
    upper = upper + (lower >> 32)
    if np.abs(upper).max(initial=0) >= 2**31:
        rule = "sum to more than 64 bits hold"
        remedy = "collect them apart, or set a cap on what a report may say"
        raise InvalidParameter("reports", f"{len(numbers)} to add", rule, remedy)

    return np.asarray((upper << 32) + (lower & _LOW_HALF))
