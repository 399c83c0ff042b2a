"""Reports of many people at once: equal in law to `interpret`, in another order of random bytes.

A sampler holds the tables that its nodes need and nothing about anybody. People are led through
the specification in groups: those who come to the same node are handled together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from math import prod

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import (
    bernoulli,
    categorical,
    integers_below,
    thresholds,
)
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
from noisewright.local.randomizer.routers import (
    Axes,
    Blocks,
    Draw,
    Listed,
    Project,
    View,
)
from noisewright.local.randomizer.specification import Specification
from noisewright.local.randomizer.whole_numbers import UNIT, numbers
from noisewright.parallel import run_blocks
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource, uniform_integers

Outcomes = Callable[[IntArray, ByteSource | None], Array]
"""What a law reports of cells: numbers, or rows of bits or coordinates."""
Places = Callable[[int, ByteSource | None], IntArray]
"""A place for each of so many people."""


class Sampler:
    """Reports of many people at once."""

    def __init__(self, specification: Specification) -> None:
        self.layout, self.cells = specification.layout, specification.cells
        self._nodes, self._shapes = specification.nodes, specification.shapes
        require(
            not self._shapes[-1].payload or len(self._nodes) <= 1,
            "nodes",
            None,
            "must not lead a draw to sets or vectors",
        )

        self._law: dict[int, Outcomes] = {}
        self._drawn: dict[int, Places] = {}
        self._starts: dict[int, IntArray] = {}
        self._listed: dict[int, IntArray] = {}

        for place, node in enumerate(self._nodes):
            if isinstance(node, Draw):
                self._drawn[place] = _places(numbers(node.weights))
                counts = [self._shapes[child].outcomes for child in node.of]
                self._starts[place] = np.cumsum([0, *counts[:-1]])
            elif isinstance(node, Project):
                self._drawn[place] = _vectors(node)
                self._listed[place] = np.array(node.listed, dtype=np.int64)
            elif not isinstance(node, View):
                self._law[place] = outcomes(node)

    @property
    def block(self) -> int:
        """How many people at a time: few enough for the cache, many where they are grouped."""
        root = self._nodes[-1]
        if isinstance(root, Subset | Flip):
            return max(1, 2**24 // root.cells)
        if isinstance(root, Grid):
            return max(1, 2**22 // root.coordinates)
        return 2**20 if isinstance(root, Draw | Weigh) else 2**16

    def randomize(
        self, values: npt.ArrayLike, source: ByteSource | None = None
    ) -> Array:
        """One report per value, after checking that every value is a cell."""
        checked = check_values(values, self.cells)
        step = self.block
        reports = np.empty(self.layout.shape(len(checked)), dtype=self.layout.dtype)

        def fill(start: int) -> None:
            reports[start : start + step] = self.sample(
                checked[start : start + step], source
            )

        # A given source is read in order, so that a seed repeats; the system's has no order.
        run_blocks(fill, range(0, len(checked), step), together=source is None)
        return reports

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """One report per value, which is a cell."""
        root = len(self._nodes) - 1
        if root in self._law:
            return self._law[root](values, source)

        result = np.zeros(len(values), dtype=np.int64)
        cells = values.copy()
        waiting: dict[int, list[IntArray]] = {root: [np.arange(len(values))]}
        # Children stand before their parents: everybody has come to the last place that is left.
        while waiting:
            place = max(waiting)
            groups = waiting.pop(place)
            people = groups[0] if len(groups) == 1 else np.concatenate(groups)
            node = self._nodes[place]
            if isinstance(node, Draw):
                choices = self._drawn[place](len(people), source)
                result[people] += self._starts[place][choices]
                for index, members in grouped(choices):
                    waiting.setdefault(node.of[index], []).append(people[members])
                continue

            if isinstance(node, View):
                cells[people] = seen(node.through, cells[people])
            elif isinstance(node, Project):
                choices = self._drawn[place](len(people), source)
                result[people] += choices * self._shapes[node.of].outcomes
                vectors = self._listed[place][choices] if node.listed else choices
                cells[people] = hashed(node.base, vectors, cells[people])
            else:
                # What a law reports of anything but its own cells, its ratio says nothing about.
                own = check_values(cells[people], self._shapes[place].cells)
                result[people] += self._law[place](own, source)
                continue

            waiting.setdefault(node.of, []).append(people)

        return result


def check_values(values: npt.ArrayLike, size: int) -> IntArray:
    """Values as whole numbers of the domain; the message never quotes a person's value."""
    array = np.asarray(values)
    require(
        array.dtype.kind in "iu" and array.ndim <= 1,
        "values",
        f"array of {array.dtype}",
        "must be a list of whole numbers",
        "encode first",
    )

    array = np.atleast_1d(array)
    require(
        not array.size or (array.min() >= 0 and array.max() < size),
        "values",
        f"{array.size} values",
        f"must lie in 0..{size - 1}",
        "encode by the domain",
    )

    return array.astype(np.int64)


# --- routers --------------------------------------------------------------------------------------


def grouped(values: IntArray) -> list[tuple[int, IntArray]]:
    """Every value that occurs, and where."""
    order = np.argsort(values, kind="stable")
    present, firsts = np.unique(values[order], return_index=True)
    return list(zip(present.tolist(), np.split(order, firsts[1:]), strict=True))


def _places(weights: Sequence[int]) -> Places:
    """Places by chances out of 2^64; those without a chance never come."""
    some = np.flatnonzero([weight > 0 for weight in weights])
    upper = thresholds([weight for weight in weights if weight > 0])
    return lambda count, source: some[categorical(upper, count, source)]


def _vectors(node: Project) -> Places:
    """The place of a listed vector, or else any vector but zero."""
    if node.weights is not None:
        return _places(numbers(node.weights))
    reach = node.base**node.digits - 1
    return lambda count, source: 1 + integers_below(reach, count, source)


def seen(through: Axes | Blocks | Listed, cells: IntArray) -> IntArray:
    """What a view shows of cells."""
    if isinstance(through, Listed):
        return np.array(through.table)[cells]
    if isinstance(through, Blocks):
        return cells // through.width

    result = np.zeros_like(cells)
    for axis in through.keep:
        stride = prod(through.sizes[axis + 1 :])
        size = through.sizes[axis]
        result = result * size + cells // stride % size

    return result


def hashed(base: int, vectors: IntArray, cells: IntArray) -> IntArray:
    """Σ a_j u_j mod base over the digits of vectors and cells, which are broadcast together."""
    if base == 2:
        return np.asarray(np.bitwise_count(vectors & cells) & 1, dtype=np.int64)

    total: IntArray = np.zeros(np.broadcast(vectors, cells).shape, dtype=np.int64)
    while vectors.any() and cells.any():
        shorter = vectors // base
        fewer = cells // base
        total += (vectors - base * shorter) * (cells - base * fewer)
        vectors = shorter
        cells = fewer

    return total % base


# --- laws -----------------------------------------------------------------------------------------


@singledispatch
def outcomes(law: object) -> Outcomes:
    """How a law reports many cells."""
    raise NotImplementedError(type(law).__name__)


@outcomes.register
def _outcomes_of_favour(law: Favour) -> Outcomes:
    threshold = int(law.threshold)
    owner = law.owner
    rank = _same if isinstance(owner, Same) else _ranked(owner)
    others = owner.outcomes - owner.own

    def draw(cells: IntArray, source: ByteSource | None) -> IntArray:
        inside = bernoulli(threshold, len(cells), source)
        own = np.flatnonzero(inside)
        result = np.empty(len(cells), dtype=np.int64)

        for members, of_own in ((own, True), (np.flatnonzero(~inside), False)):
            ranks = integers_below(
                owner.own if of_own else others, len(members), source
            )
            result[members] = rank(cells[members], ranks, of_own)

        return result

    return draw


Ranked = Callable[[IntArray, IntArray, bool], IntArray]
"""The outcomes of some ranks among those that cells own, or among the others."""


def _same(cells: IntArray, ranks: IntArray, own: bool) -> IntArray:
    return cells if own else ranks + (ranks >= cells)


@singledispatch
def _ranked(owner: Owner) -> Ranked:
    raise NotImplementedError(type(owner).__name__)


@_ranked.register
def _ranked_of_rows(owner: Rows) -> Ranked:
    held = owner.owned
    lists = {
        own: np.nonzero(held == own)[1].reshape(owner.cells, -1)
        for own in (True, False)
    }
    return lambda cells, ranks, own: lists[own][cells, ranks]


@_ranked.register
def _ranked_of_translate(owner: Translate) -> Ranked:
    lists = {own: np.flatnonzero(owner.places == own) for own in (True, False)}
    return lambda cells, ranks, own: difference(owner.sizes, cells, lists[own][ranks])


@_ranked.register
def _ranked_of_parity(owner: Parity) -> Ranked:
    half = owner.width // 2

    def rank(cells: IntArray, ranks: IntArray, own: bool) -> IntArray:
        block, column = np.divmod(cells, owner.width - 1)
        first = block * owner.width
        if own:
            return first + _with_parity(ranks, column + 1, 0)

        beside = ranks - first  # in the own block where it is within its half
        within = (beside >= 0) & (beside < half)
        own_block = first + _with_parity(np.where(within, beside, 0), column + 1, 1)

        return np.where(within, own_block, ranks + half * (beside >= half))

    return rank


def _with_parity(ranks: IntArray, columns: IntArray, parity: int) -> IntArray:
    """The outcomes of some ranks with an even (0) or odd (1) number of bits in common.

    Outcomes that agree but for the lowest bit of the column have opposite parities: spread the
    rank over the other bits and set that bit as the parity needs.
    """
    lowest = columns & -columns
    spread = ((ranks & ~(lowest - 1)) << 1) | (ranks & (lowest - 1))
    return np.asarray(
        spread | lowest * (np.bitwise_count(spread & columns) % 2 != parity)
    )


def difference(sizes: Sequence[int], cells: IntArray, shifts: IntArray) -> IntArray:
    """cells − shifts, attribute by attribute."""
    if all(size == 2 for size in sizes):
        return cells ^ shifts

    result = np.zeros(np.broadcast(cells, shifts).shape, dtype=np.int64)
    stride = 1
    for size in reversed(sizes):
        result += (cells // stride - shifts // stride) % size * stride
        stride *= size

    return result


@outcomes.register
def _outcomes_of_weigh(law: Weigh) -> Outcomes:
    if len(law.rows) == 1:
        return lambda cells, source: np.zeros(len(cells), dtype=np.int64)

    upper = np.cumsum(law.matrix, axis=0).astype(np.uint64).T.copy()

    def draw(cells: IntArray, source: ByteSource | None) -> IntArray:
        words = uniform_integers(UNIT, len(cells), source)
        result = np.empty_like(cells)
        for cell, members in grouped(cells):
            result[members] = np.searchsorted(upper[cell], words[members], side="right")
        return result

    return draw


@outcomes.register
def _outcomes_of_subset(law: Subset) -> Outcomes:
    threshold = int(law.threshold)
    n = law.cells
    width = -(-law.cells // 8)

    def draw(cells: IntArray, source: ByteSource | None) -> Array:
        held = bernoulli(threshold, len(cells), source)
        others = uniform_sets(n - 1, law.size - held.astype(np.int64), source)
        reports = np.zeros((len(cells), width), dtype=np.uint8)
        reports[:, : others.shape[1]] = others[:, :width]
        # The others were drawn as 0 … n−2 in a world without the true cell: the cell that took
        # its place moves to the last one, and the true cell takes its own.
        set_bits(reports, np.full(len(cells), n - 1), get_bits(reports, cells))
        set_bits(reports, cells, held)

        return reports

    return draw


@outcomes.register
def _outcomes_of_flip(law: Flip) -> Outcomes:
    def draw(cells: IntArray, source: ByteSource | None) -> Array:
        reports = bernoulli_rows(int(law.other), len(cells), law.cells, source)
        set_bits(reports, cells, bernoulli(int(law.own), len(cells), source))
        return reports

    return draw


@outcomes.register
def _outcomes_of_grid(law: Grid) -> Outcomes:
    columns = np.array(law.columns, dtype=np.int64)
    noise = NoiseLaw(law.law, float(law.spread))
    return lambda cells, source: (
        columns[cells] + noise.sample((len(cells), len(columns.T)), source)
    )
