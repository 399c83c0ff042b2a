"""Reports of many people at once: equal in law to `interpret`, in another order of random bytes.

A sampler holds the tables that its nodes need and nothing about anybody. People are led through
the specification in groups: those who come to the same node are handled together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisewright.arrays import Array, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import (
    categorical,
    integers_below,
    numbers,
    thresholds,
)
from noisewright.local.randomizer.laws import (
    Flip,
    Grid,
    Subset,
    Weigh,
)
from noisewright.local.randomizer.outcomes import outcomes, values_and_places
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Primitive, Specification
from noisewright.parallel import run_blocks
from noisewright.privacy.noise.source import ByteSource

Places = Callable[[int, ByteSource | None], IntArray]
"""A place for each of so many people."""


class Led(NamedTuple):
    """Some of the people who came to a node, what it adds to their numbers, and where they go."""

    members: IntArray | slice
    added: Array | int
    cells: IntArray
    to: int | None
    """The next node, or None where the report is made."""


Step = Callable[[IntArray, ByteSource | None], Iterator[Led]]
"""What a node makes of the cells of those who come to it."""

_EVERYBODY = slice(None)


class Sampler:
    """Reports of many people at once."""

    def __init__(self, specification: Specification) -> None:
        self.layout = specification.layout
        self.cells = specification.cells
        nodes = specification.nodes
        root = nodes[-1]
        alone = len(nodes) == 1
        plain = alone or not specification.shapes[-1].payload
        require(plain, "nodes", None, "must not lead a draw to sets or vectors")

        self.block = _people_at_once(root)
        self._law = outcomes(root) if alone else None
        self._steps = [_step_of(node, specification) for node in nodes]

    def randomize(
        self, values: npt.ArrayLike, source: ByteSource | None = None
    ) -> Array:
        """One report per value, after checking that every value is a cell."""
        checked = check_values(values, self.cells)
        shape = self.layout.shape(len(checked))
        reports = np.empty(shape, dtype=self.layout.dtype)

        def fill(start: int) -> None:
            some = slice(start, start + self.block)
            reports[some] = self.sample(checked[some], source)

        # A given source is read in order, so that a seed repeats; the system's has no order.
        starts = range(0, len(checked), self.block)
        run_blocks(fill, starts, together=source is None)

        return reports

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """One report per value, which is a cell."""
        if self._law is not None:
            return self._law(values, source)

        result = np.zeros(len(values), dtype=np.int64)
        cells = values.copy()
        root = len(self._steps) - 1
        everybody = np.arange(len(values))
        waiting: dict[int, list[IntArray]] = {root: [everybody]}

        # Children stand before their parents: everybody has come to the last place that is left.
        while waiting:
            place = max(waiting)
            people = np.concatenate(waiting.pop(place))
            step = self._steps[place]

            for led in step(cells[people], source):
                members = people[led.members]
                result[members] += led.added
                cells[members] = led.cells
                if led.to is not None:
                    waiting.setdefault(led.to, []).append(members)

        return result


def check_values(values: npt.ArrayLike, size: int) -> IntArray:
    """Values as whole numbers of the domain; the message never quotes a person's value."""
    array = np.asarray(values)
    plain = array.dtype.kind in "iu" and array.ndim <= 1
    given = f"array of {array.dtype}"
    require(plain, "values", given, "must be a list of whole numbers", "encode first")

    array = np.atleast_1d(array)
    within = not array.size or (array.min() >= 0 and array.max() < size)
    rule = f"must lie in 0..{size - 1}"
    require(within, "values", f"{array.size} values", rule, "encode by the domain")

    return array.astype(np.int64)


def _people_at_once(root: Primitive) -> int:
    """How many people at a time: few enough for the cache, many where they are grouped."""
    match root:
        case Subset() | Flip():
            return max(1, 2**24 // root.cells)
        case Grid():
            return max(1, 2**22 // root.coordinates)
        case Draw() | Weigh():
            return 2**20
        case _:
            return 2**16


# --- routers --------------------------------------------------------------------------------------


@singledispatch
def _step_of(node: Primitive, specification: Specification) -> Step:
    """What becomes of people at a node; at a law, their reports."""
    report = outcomes(node)
    size = node.shape([]).cells

    def step(cells: IntArray, source: ByteSource | None) -> Iterator[Led]:
        # What a law reports of anything but its own cells, its ratio says nothing about.
        checked = check_values(cells, size)
        yield Led(_EVERYBODY, report(checked, source), cells, None)

    return step


@_step_of.register
def _step_of_draw(node: Draw, specification: Specification) -> Step:
    places = _places(numbers(node.weights))
    counts = [specification.shapes[child].outcomes for child in node.of]
    starts = np.cumsum([0, *counts])

    def step(cells: IntArray, source: ByteSource | None) -> Iterator[Led]:
        drawn = places(len(cells), source)
        for index, members in values_and_places(drawn):
            yield Led(members, starts[index], cells[members], node.of[index])

    return step


@_step_of.register
def _step_of_view(node: View, specification: Specification) -> Step:
    def step(cells: IntArray, source: ByteSource | None) -> Iterator[Led]:
        seen = node.through.seen(cells)
        yield Led(_EVERYBODY, 0, seen, node.of)

    return step


@_step_of.register
def _step_of_project(node: Project, specification: Specification) -> Step:
    places = _vectors(node)
    listed = np.array(node.listed, dtype=np.int64)
    outcomes_below = specification.shapes[node.of].outcomes

    def step(cells: IntArray, source: ByteSource | None) -> Iterator[Led]:
        drawn = places(len(cells), source)
        vectors = listed[drawn] if node.listed else drawn
        hashes = hash_digits(node.base, vectors, cells)
        yield Led(_EVERYBODY, drawn * outcomes_below, hashes, node.of)

    return step


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


def hash_digits(base: int, vectors: IntArray, cells: IntArray) -> IntArray:
    """Σ a_j u_j mod base over the digits of vectors and cells, which are broadcast together."""
    if base == 2:
        common = np.bitwise_count(vectors & cells)
        return np.asarray(common & 1, dtype=np.int64)

    shape = np.broadcast(vectors, cells).shape
    total: IntArray = np.zeros(shape, dtype=np.int64)

    while vectors.any() and cells.any():
        # Several times as quick as a division with remainder.
        shorter = vectors // base
        fewer = cells // base
        a = vectors - base * shorter
        u = cells - base * fewer
        total += a * u
        vectors = shorter
        cells = fewer

    return total % base
