"""What a collector keeps of reports: which can be, what they add up to, and which sums can be.

All of it follows from the law at the end of a specification: numbers are counted, sets and bits
are counted by cell, vectors are summed. Statistics are whole numbers that add.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import WORD
from noisewright.local.randomizer.laws import Flip, Grid, Subset
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Specification
from noisewright.privacy.noise.law import NoiseLaw

FARTHEST = 2**50
"""Beyond this a coordinate cannot be an honest report."""

_BLOCK_ENTRIES = 2**23
_UNIT = 2**20
"""What a member of a set of the usual size counts."""


class Tally(ABC):
    """Sufficient statistics of the reports of one law."""

    counters: int
    """Length of the statistics."""

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


def tally_of(specification: Specification) -> Tally:
    """How the reports of a specification are counted."""
    law = specification.nodes[-1]
    if isinstance(law, Subset):
        return SubsetTally(law)
    if isinstance(law, Flip):
        return FlipTally(law)
    if isinstance(law, Grid):
        return VectorTally(law)
    require(
        not specification.shapes[-1].payload,
        "nodes",
        None,
        "must not lead a draw to sets or vectors",
    )

    return NumberTally(specification)


class NumberTally(Tally):
    """How often each number came."""

    def __init__(self, specification: Specification) -> None:
        self.counters = specification.shapes[-1].outcomes
        gaps = _gaps(specification, len(specification.nodes) - 1)
        self._gaps = np.array(gaps, dtype=np.int64).reshape(-1, 2)

    def valid(self, reports: Array) -> BoolArray:
        result = (reports >= 0) & (reports < self.counters)
        if len(self._gaps):
            before = np.searchsorted(self._gaps[:, 0], reports, side="right") - 1
            result &= (before < 0) | (reports >= self._gaps[before, 1])
        return result

    def tally(self, reports: Array) -> IntArray:
        return np.bincount(reports.astype(np.int64), minlength=self.counters)

    def possible(self, tally: IntArray, people: int) -> bool:
        counted = bool(tally.min(initial=0) >= 0) and int(exact_sum(tally)) == people
        return counted and bool(self.valid(np.flatnonzero(tally)).all())


def _gaps(specification: Specification, place: int) -> list[tuple[int, int]]:
    """Intervals of numbers that never come: what no weight leads to, and the zero vector."""
    node = specification.nodes[place]
    if isinstance(node, View):
        return _gaps(specification, node.of)

    if isinstance(node, Draw):
        gaps = []
        first = 0
        for weight, child in zip(node.weights, node.of, strict=True):
            count = specification.shapes[child].outcomes
            own = [(0, count)] if weight == "0" else _gaps(specification, child)
            gaps += [(first + start, first + stop) for start, stop in own]
            first += count
        return gaps

    if isinstance(node, Project):
        count = specification.shapes[node.of].outcomes
        require(
            not _gaps(specification, node.of),
            "nodes",
            place,
            "must not project on what never comes",
        )
        if node.weights is None:
            return [(0, count)]
        return [
            (i * count, (i + 1) * count) for i, w in enumerate(node.weights) if w == "0"
        ]

    return []


class SubsetTally(Tally):
    """How many sets hold each cell; all sets have the same size."""

    def __init__(self, law: Subset) -> None:
        self.counters, self.size = law.cells, law.size
        self._own = int(law.threshold) / WORD

    @property
    def chance_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest chance, over all answers, that a set holds a given cell."""
        n = self.counters
        d = self.size
        p = self._own
        other = (p * (d - 1) + (1 - p) * d) / (n - 1)
        return np.full(n, min(p, other)), np.full(n, max(p, other))

    def valid(self, reports: Array) -> BoolArray:
        held = np.bitwise_count(reports).sum(axis=1, dtype=np.int64)
        return np.asarray(_within(reports, self.counters) & (held == self.size))

    def tally(self, reports: Array) -> IntArray:
        total = np.zeros(self.counters, dtype=np.int64)
        step = 255 * max(1, _BLOCK_ENTRIES // (255 * self.counters))
        for start in range(0, len(reports), step):
            total += held_by(reports[start : start + step], self.counters)
        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        fits = bool(tally.min() >= 0 and tally.max() <= people)
        return fits and int(exact_sum(tally)) == self.size * people


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
        (p, q), n = self.chances, self.counters
        high = p / q
        low = (1 - p) / (1 - q)
        usual = n * low + (p + (n - 1) * q) * (high - low)
        exact = _UNIT * usual / (n * low + np.arange(n + 1) * (high - low))
        return np.asarray(np.rint(np.clip(exact, 1, _UNIT**2)), dtype=np.int64)

    def valid(self, reports: Array) -> BoolArray:
        return _within(reports, self.counters)

    def plausible(self, reports: Array, deviations: float) -> BoolArray:
        """Sets of about the usual size: a set of all cells would vote for everything."""
        held = np.bitwise_count(reports).sum(axis=1, dtype=np.int64)
        return np.isin(held, self.usual_sizes(deviations))

    def can_set_aside(self, deviations: float) -> bool:
        return len(self.usual_sizes(deviations)) <= self.counters

    def usual_sizes(self, deviations: float | None) -> IntArray:
        """The sizes of sets that are not set aside."""
        sizes = np.arange(self.counters + 1)
        if deviations is None:
            return sizes
        mean, deviation = self._usual
        return np.flatnonzero(np.abs(sizes - mean) <= deviations * deviation)

    @property
    def _usual(self) -> tuple[float, float]:
        (p, q), n = self.chances, self.counters
        return p + (n - 1) * q, (p * (1 - p) + (n - 1) * q * (1 - q)) ** 0.5

    def tally(self, reports: Array) -> IntArray:
        total = np.zeros(self.counters, dtype=np.int64)
        step = max(1, 2**24 // self.counters)
        for start in range(0, len(reports), step):
            block = reports[start : start + step]
            sizes = np.bitwise_count(block).sum(axis=1, dtype=np.int64)
            order = np.argsort(sizes, kind="stable")
            present, firsts = np.unique(sizes[order], return_index=True)
            for size, members in zip(present, np.split(order, firsts[1:]), strict=True):
                total += self.weights[size] * held_by(block[members], self.counters)

        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        return bool(tally.min() >= 0) and int(tally.max()) <= people * int(
            self.weights.max()
        )


class VectorTally(Tally):
    """The sum of the vectors."""

    def __init__(self, law: Grid) -> None:
        self.counters, self._law = law.coordinates, law

    def valid(self, reports: Array) -> BoolArray:
        """Vectors as far out as noise can reach; −2^63 is its own magnitude."""
        return np.asarray(((reports < FARTHEST) & (reports > -FARTHEST)).all(axis=1))

    def plausible(self, reports: Array, deviations: float) -> BoolArray:
        """Vectors whose every coordinate lies near some cell's."""
        low, high = self.reach(deviations)
        return np.asarray(((reports >= low) & (reports <= high)).all(axis=1))

    def can_set_aside(self, deviations: float) -> bool:
        return True

    def reach(self, deviations: float | None) -> tuple[FloatArray, FloatArray]:
        """How far out coordinates may lie, below and above."""
        columns = np.array(self._law.columns, dtype=np.int64)
        noise = NoiseLaw(self._law.law, float(self._law.spread))
        reach = np.inf if deviations is None else deviations * noise.standard_deviation
        return columns.min(axis=0) - reach, columns.max(axis=0) + reach

    def tally(self, reports: Array) -> IntArray:
        return exact_sum(reports)

    def possible(self, tally: IntArray, people: int) -> bool:
        # The farthest from zero, also where that is −2^63.
        return (
            max(int(tally.max(initial=0)), -int(tally.min(initial=0)))
            <= people * FARTHEST
        )


def _within(reports: Array, cells: int) -> BoolArray:
    """Sets without bits beyond the last cell."""
    return np.asarray((reports[:, -1] & ((1 << (-cells % 8)) - 1)) == 0)


def held_by(reports: Array, cells: int) -> IntArray:
    """How many of some packed sets hold each cell."""
    bits = np.unpackbits(reports, axis=1, count=cells)
    # Sums of 255 bits fit a byte, and bytes add many times faster than wider numbers.
    full = len(bits) // 255 * 255
    groups = bits[:full].reshape(-1, 255, cells).sum(axis=1, dtype=np.uint8)

    return np.asarray(
        groups.sum(axis=0, dtype=np.int64) + bits[full:].sum(axis=0, dtype=np.int64)
    )


def exact_sum(numbers: Array) -> IntArray:
    """Sums over the first axis; those that 64 bits do not hold are refused, never wrapped around.

    Halves of machine words cannot overflow in sums of less than 2^31 of them.
    """
    low = (numbers & 0xFFFFFFFF).sum(axis=0, dtype=np.int64)
    high = (numbers >> 32).sum(axis=0, dtype=np.int64) + (low >> 32)
    require(
        np.abs(high).max(initial=0) < 2**31,
        "reports",
        f"{len(numbers)} to add",
        "sum to more than 64 bits hold",
        "collect them apart, or set a cap on what a report may say",
    )

    return np.asarray((high << 32) + (low & 0xFFFFFFFF))
