"""What the laws report of many cells at once: equal in law to `interpret`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

import numpy as np

from noisewright.arrays import Array, IntArray
from noisewright.local.fixedpoint import UNIT, bernoulli, integers_below
from noisewright.local.randomizer.bits import (
    bernoulli_rows,
    get_bits,
    set_bits,
    uniform_sets,
)
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Grid,
    Owner,
    Parity,
    Rows,
    Same,
    Subset,
    Translate,
    Weigh,
)
from noisewright.local.randomizer.specification import Primitive
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource, uniform_integers

Outcomes = Callable[[IntArray, ByteSource | None], Array]
"""What a law reports of cells: numbers, or rows of bits or coordinates."""


def values_and_places(values: IntArray) -> list[tuple[int, IntArray]]:
    """Every value that occurs, and where."""
    order = np.argsort(values, kind="stable")
    present, firsts = np.unique(values[order], return_index=True)
    members = np.split(order, firsts[1:])
    return list(zip(present.tolist(), members, strict=True))


@singledispatch
def outcomes(law: Primitive) -> Outcomes:
    """How a law reports many cells."""
    raise NotImplementedError(type(law).__name__)


@outcomes.register
def _outcomes_of_favour(law: Favour) -> Outcomes:
    threshold = int(law.threshold)
    ranked = ranked_outcomes(law.owner)
    own = law.owner.own
    counts = {True: own, False: law.owner.outcomes - own}

    def draw(cells: IntArray, source: ByteSource | None) -> IntArray:
        inside = bernoulli(threshold, len(cells), source)
        result = np.empty(len(cells), dtype=np.int64)

        for of_own, count in counts.items():
            members = np.flatnonzero(inside == of_own)
            ranks = integers_below(count, len(members), source)
            result[members] = ranked(cells[members], ranks, of_own)

        return result

    return draw


Ranked = Callable[[IntArray, IntArray, bool], IntArray]
"""The outcomes of some ranks among those that cells own, or among the others."""


@singledispatch
def ranked_outcomes(owner: Owner) -> Ranked:
    """How outcomes follow from their ranks."""
    raise NotImplementedError(type(owner).__name__)


@ranked_outcomes.register
def _ranked_outcomes_of_same(owner: Same) -> Ranked:
    return lambda cells, ranks, own: cells if own else ranks + (ranks >= cells)


@ranked_outcomes.register
def _ranked_outcomes_of_rows(owner: Rows) -> Ranked:
    def places(own: bool) -> IntArray:
        _, outcomes = np.nonzero(owner.owned == own)
        return outcomes.reshape(owner.cells, -1)

    lists = {own: places(own) for own in (True, False)}
    return lambda cells, ranks, own: lists[own][cells, ranks]


@ranked_outcomes.register
def _ranked_outcomes_of_translate(owner: Translate) -> Ranked:
    sizes = owner.sizes
    lists = {own: np.flatnonzero(owner.places == own) for own in (True, False)}
    return lambda cells, ranks, own: difference(sizes, cells, lists[own][ranks])


@ranked_outcomes.register
def _ranked_outcomes_of_parity(owner: Parity) -> Ranked:
    half = owner.width // 2

    def ranked(cells: IntArray, ranks: IntArray, own: bool) -> IntArray:
        block, column = np.divmod(cells, owner.width - 1)
        first = block * owner.width
        if own:
            return first + _with_parity(ranks, column + 1, 0)

        # In the cell's own block where the rank lies within its half of others.
        beside = ranks - first
        within = (beside >= 0) & (beside < half)
        ranks_within = np.where(within, beside, 0)
        odd = first + _with_parity(ranks_within, column + 1, 1)
        elsewhere = ranks + half * (beside >= half)

        return np.where(within, odd, elsewhere)

    return ranked


def _with_parity(ranks: IntArray, columns: IntArray, parity: int) -> IntArray:
    """The outcomes of some ranks with an even (0) or odd (1) number of bits in common.

    Outcomes that agree but for the lowest bit of the column have opposite parities: spread the
    rank over the other bits and set that bit as the parity needs.
    """
    lowest = columns & -columns
    below = lowest - 1
    spread = (ranks & ~below) << 1 | ranks & below
    wrong = np.bitwise_count(spread & columns) % 2 != parity
    return np.asarray(spread | lowest * wrong)


def difference(sizes: Sequence[int], cells: IntArray, shifts: IntArray) -> IntArray:
    """cells − shifts, attribute by attribute."""
    if all(size == 2 for size in sizes):
        return cells ^ shifts

    shape = np.broadcast(cells, shifts).shape
    result = np.zeros(shape, dtype=np.int64)
    stride = 1

    for size in reversed(sizes):
        moved = cells // stride - shifts // stride
        result += moved % size * stride
        stride *= size

    return result


@outcomes.register
def _outcomes_of_weigh(law: Weigh) -> Outcomes:
    if len(law.rows) == 1:
        return lambda cells, source: np.zeros(len(cells), dtype=np.int64)

    sums = np.cumsum(law.matrix, axis=0)
    upper = sums.T.astype(np.uint64, order="C")

    def draw(cells: IntArray, source: ByteSource | None) -> IntArray:
        words = uniform_integers(UNIT, len(cells), source)
        result = np.empty_like(cells)

        for cell, members in values_and_places(cells):
            drawn = words[members]
            result[members] = np.searchsorted(upper[cell], drawn, side="right")

        return result

    return draw


@outcomes.register
def _outcomes_of_subset(law: Subset) -> Outcomes:
    threshold = int(law.threshold)
    last = law.cells - 1
    width = -(-law.cells // 8)

    def draw(cells: IntArray, source: ByteSource | None) -> Array:
        held = bernoulli(threshold, len(cells), source)
        counts = law.size - held.astype(np.int64)
        others = uniform_sets(last, counts, source)

        reports = np.zeros((len(cells), width), dtype=np.uint8)
        reports[:, : others.shape[1]] = others[:, :width]

        # The others were drawn as 0 … n−2 in a world without the true cell: the cell that took
        # its place moves to the last one, and the true cell takes its own.
        displaced = get_bits(reports, cells)
        set_bits(reports, np.full(len(cells), last), displaced)
        set_bits(reports, cells, held)

        return reports

    return draw


@outcomes.register
def _outcomes_of_flip(law: Flip) -> Outcomes:
    own = int(law.own)
    other = int(law.other)

    def draw(cells: IntArray, source: ByteSource | None) -> Array:
        people = len(cells)
        reports = bernoulli_rows(other, people, law.cells, source)
        set_bits(reports, cells, bernoulli(own, people, source))
        return reports

    return draw


@outcomes.register
def _outcomes_of_grid(law: Grid) -> Outcomes:
    columns = np.array(law.columns, dtype=np.int64)
    noise = NoiseLaw(law.law, float(law.spread))

    def draw(cells: IntArray, source: ByteSource | None) -> Array:
        held = columns[cells]
        return held + noise.sample(held.shape, source)

    return draw
