"""Tallies of sets: counted by cell, whether all have one size or each its own."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.local.fixedpoint import WORD
from noisewright.local.randomizer.laws import Flip, Subset
from noisewright.local.randomizer.outcomes import values_and_places
from noisewright.local.reports.tally import Hull, Tally, exact_sum

_BLOCK_ENTRIES = 2**23
"""Bits of sets that are unpacked at a time: they fit the cache of most processors."""

_UNIT = 2**20
"""What a member of a set of the usual size counts."""

_BYTE = 255
"""Bits of a cell whose sum a byte holds."""


class SubsetTally(Tally):
    """How many sets hold each cell; all sets have the same size."""

    def __init__(self, law: Subset) -> None:
        self.counters = law.cells
        self.size = law.size
        self._own = int(law.threshold) / WORD

    def chance_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest chance, over all answers, that a set holds a given cell."""
        own = self._own
        others = own * (self.size - 1) + (1 - own) * self.size
        other = others / (self.counters - 1)

        least = np.full(self.counters, min(own, other))
        largest = np.full(self.counters, max(own, other))
        return least, largest

    def valid(self, reports: Array) -> BoolArray:
        right = _sizes(reports) == self.size
        return np.asarray(right & _within(reports, self.counters))

    def tally(self, reports: Array) -> IntArray:
        total = np.zeros(self.counters, dtype=np.int64)
        step = _BYTE * max(1, _BLOCK_ENTRIES // (_BYTE * self.counters))

        for start in range(0, len(reports), step):
            total += _held_by(reports[start : start + step], self.counters)

        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        within = bool(tally.min() >= 0 and tally.max() <= people)
        return within and int(exact_sum(tally)) == self.size * people

    def hull(self, cap: float | None) -> Hull:
        return Hull.below(1.0, self.counters, (self.size, self.size))

    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        ordered = np.sort(moved, axis=1)
        highest = ordered[:, -self.size :]
        lowest = ordered[:, : self.size]
        return np.asarray(highest.sum(axis=1) - lowest.sum(axis=1))


class FlipTally(Tally):
    """How many sets hold each cell, each set by a weight.

    A member of a small set says more than one of a large set: it counts 1/(n r0 + k (r1 − r0)) in
    a set of k, r1 and r0 being the likelihood ratios of a one and of a zero. That is the best
    linear estimate; weights are whole numbers.
    """

    def __init__(self, law: Flip) -> None:
        self.counters = law.cells
        self.chances = int(law.own) / WORD, int(law.other) / WORD

    @cached_property
    def weights(self) -> IntArray:
        """What a member counts, by the size of its set."""
        own, other = self.chances
        ratio_of_one = own / other
        ratio_of_zero = (1 - own) / (1 - other)

        rise = ratio_of_one - ratio_of_zero
        none = self.counters * ratio_of_zero
        mean_size, _ = self._usual
        usual = none + mean_size * rise
        by_size = none + np.arange(self.counters + 1) * rise
        exact = np.clip(_UNIT * usual / by_size, 1, _UNIT**2)

        return np.asarray(np.rint(exact), dtype=np.int64)

    def valid(self, reports: Array) -> BoolArray:
        return _within(reports, self.counters)

    def plausible(self, reports: Array, deviations: float) -> BoolArray:
        """Sets of about the usual size: a set of all cells would vote for everything."""
        return np.isin(_sizes(reports), self.usual_sizes(deviations))

    def can_set_aside(self, deviations: float) -> bool:
        return len(self.usual_sizes(deviations)) <= self.counters

    def usual_sizes(self, deviations: float | None) -> IntArray:
        """The sizes of sets that are not set aside."""
        sizes = np.arange(self.counters + 1)
        if deviations is None:
            return sizes

        mean, deviation = self._usual
        away = np.abs(sizes - mean)
        return np.flatnonzero(away <= deviations * deviation)

    @property
    def _usual(self) -> tuple[float, float]:
        """Mean and standard deviation of the size of an honest set."""
        own, other = self.chances
        others = self.counters - 1
        of_own = own * (1 - own)
        of_others = others * other * (1 - other)
        return own + others * other, (of_own + of_others) ** 0.5

    def tally(self, reports: Array) -> IntArray:
        total = np.zeros(self.counters, dtype=np.int64)
        step = max(1, _BLOCK_ENTRIES // self.counters)

        for start in range(0, len(reports), step):
            block = reports[start : start + step]
            sizes = _sizes(block)
            for size, members in values_and_places(sizes):
                held = _held_by(block[members], self.counters)
                total += self.weights[size] * held

        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        most = people * int(self.weights.max())
        return bool(tally.min() >= 0) and int(tally.max()) <= most

    def hull(self, cap: float | None) -> Hull:
        sizes = self.usual_sizes(cap)
        weights = self.weights[sizes].astype(np.float64)
        largest = weights[sizes > 0].max(initial=0.0)

        totals = sizes * weights
        least = float(totals.min())
        most = float(totals.max())

        return Hull.below(largest, self.counters, (least, most))

    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        # Sums of the smallest k entries; those of the largest k are the total less the rest's.
        smallest = np.zeros((len(moved), self.counters + 1))
        ordered = np.sort(moved, axis=1)
        smallest[:, 1:] = np.cumsum(ordered, axis=1)
        largest = smallest[:, -1:] - smallest[:, ::-1]

        usual = self.usual_sizes(cap)
        most = (largest * self.weights)[:, usual]
        least = (smallest * self.weights)[:, usual]

        return np.asarray(most.max(axis=1) - least.min(axis=1))


def _sizes(reports: Array) -> IntArray:
    """How many cells each packed set holds."""
    return np.asarray(np.bitwise_count(reports).sum(axis=1, dtype=np.int64))


def _within(reports: Array, cells: int) -> BoolArray:
    """Sets without bits beyond the last cell."""
    beyond = (1 << (-cells % 8)) - 1
    return np.asarray(reports[:, -1] & beyond == 0)


def _held_by(reports: Array, cells: int) -> IntArray:
    """How many of some packed sets hold each cell."""
    bits = np.unpackbits(reports, axis=1, count=cells)

    # Bytes add many times faster than wider numbers.
    full = len(bits) // _BYTE * _BYTE
    groups = bits[:full].reshape(-1, _BYTE, cells)
    sums = groups.sum(axis=1, dtype=np.uint8)
    rest = bits[full:].sum(axis=0, dtype=np.int64)

    return np.asarray(sums.sum(axis=0, dtype=np.int64) + rest)
