"""What a collector keeps of reports: which can be, what they add up to, and which sums can be.

All of it follows from the law at the end of a specification: numbers are counted, sets and bits
are counted by cell, vectors are summed. Statistics are whole numbers that add.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.local.fixedpoint import WORD
from noisewright.local.randomizer.batch import grouped
from noisewright.local.randomizer.laws import Flip, Grid, Subset
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Specification
from noisewright.privacy.noise.law import NoiseLaw

FARTHEST = 2**50
"""Beyond this a coordinate cannot be an honest report."""

_BLOCK_ENTRIES = 2**23
"""Bits of sets that are unpacked at a time: they fit the cache of most processors."""

_UNIT = 2**20
"""What a member of a set of the usual size counts."""

_BYTE = 255
"""Bits of a cell whose sum a byte holds."""

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


def tally_of(specification: Specification) -> Tally:
    """How the reports of a specification are counted."""
    match specification.nodes[-1]:
        case Subset() as law:
            return SubsetTally(law)
        case Flip() as law:
            return FlipTally(law)
        case Grid() as law:
            return VectorTally(law)
        case _:
            return NumberTally(specification)


# --- numbers --------------------------------------------------------------------------------------


class NumberTally(Tally):
    """How often each number came."""

    counts_reports = True

    def __init__(self, specification: Specification) -> None:
        root = specification.shapes[-1]
        if root.payload:
            rule = "must not lead a draw to sets or vectors"
            raise InvalidParameter("nodes", None, rule)

        self.counters = root.outcomes
        gaps = list(_gaps(specification, len(specification.nodes) - 1))
        self._gaps = np.array(gaps, dtype=np.int64).reshape(-1, 2)

    def valid(self, reports: Array) -> BoolArray:
        listed = (reports >= 0) & (reports < self.counters)
        if not len(self._gaps):
            return np.asarray(listed)

        starts, stops = self._gaps.T
        before = np.searchsorted(starts, reports, side="right") - 1
        beyond = reports >= stops[before]

        return np.asarray(listed & ((before < 0) | beyond))

    def tally(self, reports: Array) -> IntArray:
        return np.bincount(reports.astype(np.int64), minlength=self.counters)

    def possible(self, tally: IntArray, people: int) -> bool:
        if tally.min(initial=0) < 0 or int(exact_sum(tally)) != people:
            return False

        sent = np.flatnonzero(tally)
        return bool(self.valid(sent).all())

    def hull(self, cap: float | None) -> Hull:
        return Hull.below(1.0, self.counters, (1.0, 1.0))

    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        sent = self.valid(np.arange(self.counters))
        return np.asarray(np.ptp(moved[:, sent], axis=1))


def _gaps(specification: Specification, place: int) -> Iterator[tuple[int, int]]:
    """Intervals of numbers that never come: what no weight leads to, and the zero vector."""
    match specification.nodes[place]:
        case View() as node:
            yield from _gaps(specification, node.of)

        case Draw() as node:
            first = 0
            for weight, child in zip(node.weights, node.of, strict=True):
                count = specification.shapes[child].outcomes
                never = [(0, count)] if weight == "0" else _gaps(specification, child)
                for start, stop in never:
                    yield first + start, first + stop
                first += count

        case Project() as node:
            if list(_gaps(specification, node.of)):
                rule = "must not project on what never comes"
                raise InvalidParameter("nodes", place, rule)

            # Of vectors that are not listed, the zero vector alone.
            count = specification.shapes[node.of].outcomes
            for index, weight in enumerate(node.weights or ("0",)):
                if weight == "0":
                    yield index * count, (index + 1) * count


# --- sets -----------------------------------------------------------------------------------------


class SubsetTally(Tally):
    """How many sets hold each cell; all sets have the same size."""

    def __init__(self, law: Subset) -> None:
        self.counters = law.cells
        self.size = law.size
        self._own = int(law.threshold) / WORD

    def chance_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest chance, over all answers, that a set holds a given cell."""
        n = self.counters
        d = self.size
        own = self._own
        others = own * (d - 1) + (1 - own) * d
        other = others / (n - 1)
        return np.full(n, min(own, other)), np.full(n, max(own, other))

    def valid(self, reports: Array) -> BoolArray:
        right = _sizes(reports) == self.size
        return np.asarray(right & _within(reports, self.counters))

    def tally(self, reports: Array) -> IntArray:
        total = np.zeros(self.counters, dtype=np.int64)
        step = _BYTE * max(1, _BLOCK_ENTRIES // (_BYTE * self.counters))

        for start in range(0, len(reports), step):
            total += held_by(reports[start : start + step], self.counters)

        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        within = bool(tally.min() >= 0 and tally.max() <= people)
        return within and int(exact_sum(tally)) == self.size * people

    def hull(self, cap: float | None) -> Hull:
        return Hull.below(1.0, self.counters, (self.size, self.size))

    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        ordered = np.sort(moved, axis=1)
        highest = ordered[:, -self.size :].sum(axis=1)
        lowest = ordered[:, : self.size].sum(axis=1)
        return np.asarray(highest - lowest)


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
            for size, members in grouped(sizes):
                held = held_by(block[members], self.counters)
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
        most = (largest * self.weights)[:, usual].max(axis=1)
        least = (smallest * self.weights)[:, usual].min(axis=1)

        return np.asarray(most - least)


def _sizes(reports: Array) -> IntArray:
    """How many cells each packed set holds."""
    return np.asarray(np.bitwise_count(reports).sum(axis=1, dtype=np.int64))


def _within(reports: Array, cells: int) -> BoolArray:
    """Sets without bits beyond the last cell."""
    beyond = (1 << (-cells % 8)) - 1
    return np.asarray(reports[:, -1] & beyond == 0)


def held_by(reports: Array, cells: int) -> IntArray:
    """How many of some packed sets hold each cell."""
    bits = np.unpackbits(reports, axis=1, count=cells)

    # Bytes add many times faster than wider numbers.
    full = len(bits) // _BYTE * _BYTE
    groups = bits[:full].reshape(-1, _BYTE, cells)
    sums = groups.sum(axis=1, dtype=np.uint8)
    rest = bits[full:].sum(axis=0, dtype=np.int64)

    return np.asarray(sums.sum(axis=0, dtype=np.int64) + rest)


# --- vectors --------------------------------------------------------------------------------------


class VectorTally(Tally):
    """The sum of the vectors."""

    def __init__(self, law: Grid) -> None:
        self.counters = law.coordinates
        self._law = law

    def valid(self, reports: Array) -> BoolArray:
        """Vectors as far out as noise can reach; −2^63 is its own magnitude."""
        within = (reports < FARTHEST) & (reports > -FARTHEST)
        return np.asarray(within.all(axis=1))

    def plausible(self, reports: Array, deviations: float) -> BoolArray:
        """Vectors whose every coordinate lies near some cell's."""
        low, high = self._reach(deviations)
        near = (reports >= low) & (reports <= high)
        return np.asarray(near.all(axis=1))

    def can_set_aside(self, deviations: float) -> bool:
        return True

    def _reach(self, deviations: float | None) -> tuple[FloatArray, FloatArray]:
        """How far out coordinates may lie, below and above."""
        columns = np.array(self._law.columns, dtype=np.int64)
        reach = np.inf
        if deviations is not None:
            noise = NoiseLaw(self._law.law, float(self._law.spread))
            reach = deviations * noise.standard_deviation

        return columns.min(axis=0) - reach, columns.max(axis=0) + reach

    def tally(self, reports: Array) -> IntArray:
        return exact_sum(reports)

    def possible(self, tally: IntArray, people: int) -> bool:
        # The farthest from zero, also where that is −2^63.
        highest = int(tally.max(initial=0))
        lowest = int(tally.min(initial=0))
        return max(highest, -lowest) <= people * FARTHEST

    def hull(self, cap: float | None) -> Hull:
        if cap is None:
            rule = "can say any vector, which moves answers without limit"
            raise InvalidParameter("liars", cap, rule, "set a cap: --robust cap:6")
        return Hull(*self._reach(cap), (-np.inf, np.inf))

    def largest_change(self, moved: FloatArray, cap: float | None) -> FloatArray:
        low, high = self._reach(cap)
        return np.abs(moved) @ (high - low)


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
