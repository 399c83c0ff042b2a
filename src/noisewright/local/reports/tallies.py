"""What a collector keeps of reports: which can be, what they add up to, and which sums can be.

All of it follows from the law at the end of a specification: numbers are counted, sets and bits
are counted by cell, vectors are summed. Statistics are whole numbers that add.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.local.randomizer.laws import Flip, Grid, Subset
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Specification
from noisewright.local.reports.sets import FlipTally, SubsetTally
from noisewright.local.reports.tally import Hull, Tally, exact_sum
from noisewright.privacy.noise.law import NoiseLaw

FARTHEST = 2**50
"""Beyond this a coordinate cannot be an honest report."""


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
        last = len(specification.nodes) - 1
        if root.payload:
            rule = "must not lead a draw to sets or vectors"
            raise InvalidParameter("nodes", None, rule)

        self.counters = root.outcomes
        gaps = np.array(list(_gaps(specification, last)), dtype=np.int64)
        self._gaps = gaps.reshape(-1, 2)

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
        sums = moved[:, sent]
        return np.asarray(np.ptp(sums, axis=1))


def _gaps(specification: Specification, place: int) -> Iterator[tuple[int, int]]:
    """Intervals of numbers that never come: what no weight leads to, and the zero vector."""
    match specification.nodes[place]:
        case View() as node:
            yield from _gaps(specification, node.of)

        case Draw() as node:
            first = 0
            for weight, child in zip(node.weights, node.of, strict=True):
                count = specification.shapes[child].outcomes
                never: Iterable[tuple[int, int]] = [(0, count)]
                if weight != "0":
                    never = _gaps(specification, child)
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
