"""Strategies that report a set of cells as bits, and subset selection [027, 028].

Subset selection meets the bound on unbiased linear estimates of histograms (see `bound`). There are
exponentially many reports; they are counted by cell and never enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from math import comb, exp

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.local.bounds.trace import contrast_limit
from noisewright.local.exact import exact_sum
from noisewright.local.fixedpoint import (
    WORD,
    bernoulli,
)
from noisewright.local.histogram.bits import get_bits, set_bits, uniform_sets
from noisewright.local.histogram.centred import CentredStrategy, Support
from noisewright.local.histogram.plain import FavouringStrategy, PlainStrategy
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Rows, Same, Subset
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.strategy import IndexStrategy, IntArray, ReportLayout
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray

_BLOCK_ENTRIES = 2**23
_LISTED = 2**16


class SetStrategy(CentredStrategy):
    """Reports are sets of cells, packed eight to a byte."""

    @property
    def layout(self) -> ReportLayout:
        """One bit per cell."""
        return ReportLayout("uint8", -(-self.size // 8))

    @property
    def counters(self) -> int:
        """One count per cell."""
        return self.size

    def valid(self, reports: Array) -> npt.NDArray[np.bool_]:
        """Sets without bits beyond the last cell."""
        spare = 8 * self.layout.width - self.size
        return np.asarray((reports[:, -1] & ((1 << spare) - 1)) == 0)

    def tally(self, reports: Array) -> IntArray:
        """How many sets hold each cell."""
        total = np.zeros(self.size, dtype=np.int64)
        step = 255 * max(1, _BLOCK_ENTRIES // (255 * self.size))
        for start in range(0, len(reports), step):
            total += held_by(reports[start : start + step], self.size)
        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        """Counts of people who hold each cell."""
        return bool(tally.min() >= 0 and tally.max() <= people)

    def supporters(self, tally: IntArray) -> IntArray:
        """The counts themselves."""
        return tally

    @property
    def sample_block(self) -> int:
        """As many sets as fit some megabytes: enough for the few slow ones not to be waited for."""
        return max(1, 2**24 // self.size)


@dataclass(frozen=True)
class SubsetSelection(FavouringStrategy, PlainStrategy, SetStrategy):
    """Report a set of `chosen` cells, e^ε times likelier when it holds the true one.

    With `chosen` near n/(1+e^ε) it meets the lower bound on the histogram exactly.
    """

    size: int
    epsilon: float
    chosen: int = 0

    kind = "subset-selection"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen == 0:
            object.__setattr__(self, "chosen", best_subset_size(self.size, self.epsilon))
        if not 1 <= self.chosen < self.size:
            raise InvalidParameter("chosen", self.chosen, f"must lie in 1..{self.size - 1}")

    @property
    def favoured(self) -> tuple[int, int]:
        """Sets with the true cell to those without are as `chosen` cells to the rest of them."""
        return self.chosen, self.size

    def express(self, nodes: Nodes) -> int:
        threshold = str(self.threshold)
        return nodes.add(Subset(cells=self.size, size=self.chosen, threshold=threshold))

    @cached_property
    def support(self) -> Support:
        """Given whether the true cell is in, the others are a uniform set."""
        n, d, p = self.size, self.chosen, self.threshold / WORD
        other = (d - p) / (n - 1)
        pairs = (d - 1) * (d - 2 * p) / ((n - 1) * (n - 2)) if n > 2 else 0.0
        return Support(p, other, p * (d - 1) / (n - 1), pairs)

    def valid(self, reports: Array) -> npt.NDArray[np.bool_]:
        """Sets of the right size."""
        held = np.bitwise_count(reports).sum(axis=1, dtype=np.int64)
        return np.asarray(super().valid(reports) & (held == self.chosen))

    def possible(self, tally: IntArray, people: int) -> bool:
        """As many members as people chose."""
        fits = super().possible(tally, people)
        return fits and int(exact_sum(tally)) == self.chosen * people

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """One packed set per value: with the true cell or without, and uniform others."""
        n = self.size
        held = bernoulli(self.threshold, len(values), source)
        others = uniform_sets(n - 1, self.chosen - held.astype(np.int64), source)
        reports = np.zeros((len(values), self.layout.width), dtype=np.uint8)
        reports[:, : others.shape[1]] = others[:, : reports.shape[1]]
        # The others were drawn as 0 … n−2 in a world without the true cell: the cell that took
        # its place moves to the last one, and the true cell takes its own.
        set_bits(reports, np.full(len(values), n - 1), get_bits(reports, values))
        set_bits(reports, values, held)
        return reports

    @property
    def outputs(self) -> int | None:
        """Number of sets, when few."""
        if self.size > _LISTED:
            return None  # no fewer sets than cells, and their number takes long to write out
        count = comb(self.size, self.chosen)
        return count if count <= _LISTED else None

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of the sets `start` to `stop` in lexicographic order."""
        if self.outputs is None:
            return super().rows(start, stop)
        n, d, p = self.size, self.chosen, self.threshold / WORD
        block = np.full((stop - start, n), (1 - p) / comb(n - 1, d))
        sets = islice(combinations(range(n), d), start, stop)
        for row, members in enumerate(sets):
            block[row, list(members)] = p / comb(n - 1, d - 1)
        return block


@dataclass(frozen=True)
class ListedSubsets(PlainStrategy, CentredStrategy, IndexStrategy):
    """Subset selection over few cells: the report is the set's number in a list of all sets."""

    size: int
    epsilon: float

    kind = "listed-subsets"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sets.outputs is None:
            raise TooLarge(f"the subsets of {self.size} cells are too many to be listed")

    @cached_property
    def sets(self) -> SubsetSelection:
        """The same law, reporting bits."""
        return SubsetSelection(self.size, self.epsilon)

    @cached_property
    def _membership(self) -> npt.NDArray[np.int64]:
        held = np.zeros((self.outputs, self.size), dtype=np.int64)
        for row, members in enumerate(combinations(range(self.size), self.sets.chosen)):
            held[row, list(members)] = 1
        return held

    @cached_property
    def _ranks(self) -> npt.NDArray[np.int64]:
        """Sets as numbers in base two, in the order of the list."""
        return self._membership @ (1 << np.arange(self.size - 1, -1, -1, dtype=np.int64))

    @property
    def outputs(self) -> int:
        """Number of sets."""
        return comb(self.size, self.sets.chosen)

    def express(self, nodes: Nodes) -> int:
        if self.sets.chosen == 1:  # sets in order are the cells in order
            return nodes.favour(self.sets.threshold, Same(cells=self.size))
        return nodes.favour(self.sets.threshold, Rows.of(self._membership.T == 1))

    @property
    def support(self) -> Support:
        """That of the sets."""
        return self.sets.support

    def supporters(self, tally: IntArray) -> IntArray:
        """How many reported sets hold each cell."""
        return np.asarray(tally @ self._membership)

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """The number of a random set."""
        packed = self.sets.sample(values, source)
        members = np.unpackbits(packed, axis=1, count=self.size)
        code = members @ (1 << np.arange(self.size - 1, -1, -1, dtype=np.int64))
        # Sets in lexicographic order have falling codes.
        return len(self._ranks) - 1 - np.searchsorted(self._ranks[::-1], code)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of the sets `start` to `stop`."""
        return self.sets.rows(start, stop)


def held_by(reports: Array, size: int) -> IntArray:
    """How many of some packed sets hold each cell."""
    bits = np.unpackbits(reports, axis=1, count=size)
    # Sums of 255 bits fit a byte, and bytes add many times faster than wider numbers.
    full = len(bits) // 255 * 255
    grouped = bits[:full].reshape(-1, 255, size).sum(axis=1, dtype=np.uint8)
    return np.asarray(grouped.sum(axis=0, dtype=np.int64) + bits[full:].sum(axis=0, dtype=np.int64))


def best_subset_size(size: int, epsilon: float) -> int:
    """The set size that tells cells apart best: a whole number next to n/(1+e^ε)."""
    near = int(size / (1 + exp(epsilon)))
    candidates = sorted({min(max(near + k, 1), size - 1) for k in (0, 1)})
    return max(candidates, key=lambda d: contrast_limit(size, epsilon, d))


ENTRY = LocalMechanism(
    "subset-selection",
    "a random set of cells",
    lambda problem: SubsetSelection(problem.listed_cells, problem.epsilon),
)
