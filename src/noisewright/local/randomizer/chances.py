"""The chances of all reports that can be listed, as a matrix: what a specification says, in floats.

Reports are listed by their number. Sets of cells and rows of bits have none: sets come in
lexicographic order, rows of bits by the number that they are, the first cell being the highest bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from itertools import combinations, islice
from math import comb

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.fixedpoint import UNIT, WORD, numbers
from noisewright.local.randomizer.batch import difference, hashed
from noisewright.local.randomizer.laws import (
    Favour,
    Flip,
    Owner,
    Parity,
    Rows,
    Same,
    Subset,
    Translate,
    Weigh,
)
from noisewright.local.randomizer.routers import Draw, Project, View
from noisewright.local.randomizer.specification import Primitive, Specification

_LISTED = 2**16
"""Sets or rows of bits that are still listed one by one."""

_LARGEST_BLOCK = 2**26
"""Entries of a dense block: half a gigabyte in doubles."""


def listed_reports(specification: Specification) -> int | None:
    """Number of reports; None where there are too many sets or vectors to be listed."""
    match specification.nodes[-1]:
        case Subset() as law:
            # No fewer sets than cells, and their number takes long to write out.
            few = law.cells <= _LISTED and comb(law.cells, law.size) <= _LISTED
            return comb(law.cells, law.size) if few else None
        case Flip() as law:
            return 1 << law.cells if 1 << law.cells <= _LISTED else None
        case _:
            root = specification.shapes[-1]
            return None if root.payload else root.outcomes


def report_chances(specification: Specification, start: int, stop: int) -> FloatArray:
    """Chances of the reports from `start` to `stop` under every cell."""
    if listed_reports(specification) is None:
        raise TooLarge("the reports are too many to be listed")
    if (stop - start) * specification.cells > _LARGEST_BLOCK:
        raise TooLarge("that many rows are too large for a dense block")
    return _chances(specification, len(specification.nodes) - 1, start, stop)


def _chances(
    specification: Specification, place: int, start: int, stop: int
) -> FloatArray:
    cells = np.arange(specification.shapes[place].cells)
    match specification.nodes[place]:
        case View() as node:
            inner = _chances(specification, node.of, start, stop)
            return inner[:, node.through.seen(cells)]
        case Draw() as node:
            drawn = _drawn(specification, node, start, stop)
            return np.concatenate([np.empty((0, len(cells))), *drawn])
        case Project() as node:
            count = specification.shapes[node.of].outcomes
            inner = _chances(specification, node.of, 0, count)
            index, number = np.divmod(np.arange(start, stop), count)
            vectors = np.array(node.listed)[index] if node.listed else index
            hashes = hashed(node.base, vectors[:, None], cells[None, :])
            return inner[number[:, None], hashes] * _drawn_with(node, index)[:, None]
        case law:
            return law_chances(law, start, stop)


def _drawn(
    specification: Specification, node: Draw, start: int, stop: int
) -> Iterator[FloatArray]:
    """The chances of some reports, child by child."""
    first = 0
    for weight, child in zip(numbers(node.weights), node.of, strict=True):
        shape = specification.shapes[child]
        low = max(start - first, 0)
        high = max(min(stop - first, shape.outcomes), low)
        first += shape.outcomes
        if low < high:
            yield weight / WORD * _chances(specification, child, low, high)


def _drawn_with(node: Project, index: IntArray) -> FloatArray:
    """The chances of vectors, by their places; the zero vector is never drawn."""
    if node.weights is not None:
        return np.array([weight / WORD for weight in numbers(node.weights)])[index]
    return np.where(index == 0, 0.0, 1.0 / (node.base**node.digits - 1))


@singledispatch
def law_chances(law: Primitive, start: int, stop: int) -> FloatArray:
    """Chances of a law's outcomes under its cells."""
    raise TooLarge("the reports are too many to be listed")


@law_chances.register
def _law_chances_of_favour(law: Favour, start: int, stop: int) -> FloatArray:
    owner = law.owner
    inside = int(law.threshold) / WORD
    others = owner.outcomes - owner.own
    own = owned(owner, start, stop)
    return np.where(own, inside / owner.own, (1 - inside) / others)


def owned(owner: Owner, start: int, stop: int) -> BoolArray:
    """Which cells own the outcomes from `start` to `stop`."""
    outcomes = np.arange(start, stop)[:, None]
    cells = np.arange(owner.cells)[None, :]

    match owner:
        case Same():
            return np.asarray(outcomes == cells)
        case Rows():
            return owner.owned[:, start:stop].T
        case Translate():
            return owner.places[difference(owner.sizes, cells, outcomes)]
        case Parity():
            block, column = np.divmod(cells, owner.width - 1)
            of_block, output = np.divmod(outcomes, owner.width)
            even = np.bitwise_count(output & (column + 1)) % 2 == 0
            return np.asarray(even & (of_block == block))


@law_chances.register
def _law_chances_of_weigh(law: Weigh, start: int, stop: int) -> FloatArray:
    return law.matrix[start:stop] / UNIT


@law_chances.register
def _law_chances_of_subset(law: Subset, start: int, stop: int) -> FloatArray:
    n = law.cells
    d = law.size
    p = int(law.threshold) / WORD
    block = np.full((stop - start, n), (1 - p) / comb(n - 1, d))

    for row, members in enumerate(islice(combinations(range(n), d), start, stop)):
        block[row, list(members)] = p / comb(n - 1, d - 1)

    return block


@law_chances.register
def _law_chances_of_flip(law: Flip, start: int, stop: int) -> FloatArray:
    p = int(law.own) / WORD
    q = int(law.other) / WORD
    places = np.arange(law.cells - 1, -1, -1)
    bits = np.arange(start, stop)[:, None] >> places & 1

    # All bits as if no cell were the true one, but for its own.
    others = np.where(bits, q, 1 - q)
    own = np.where(bits, p, 1 - p)
    every = others.prod(axis=1, keepdims=True)

    return np.asarray(every / others * own)
