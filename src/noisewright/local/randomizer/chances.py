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
from noisewright.local.randomizer.batch import hash_digits
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
from noisewright.local.randomizer.outcomes import difference
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
            rows = 1 << law.cells
            return rows if rows <= _LISTED else None
        case _:
            root = specification.shapes[-1]
            return None if root.payload else root.outcomes


def report_chances(specification: Specification, start: int, stop: int) -> FloatArray:
    """Chances of the reports from `start` to `stop` under every cell."""
    if listed_reports(specification) is None:
        raise TooLarge("the reports are too many to be listed")

    entries = (stop - start) * specification.cells
    if entries > _LARGEST_BLOCK:
        raise TooLarge("that many rows are too large for a dense block")

    root = len(specification.nodes) - 1
    return _chances(specification, root, start, stop)


def _chances(
    specification: Specification, place: int, start: int, stop: int
) -> FloatArray:
    cells = np.arange(specification.shapes[place].cells)
    match specification.nodes[place]:
        case View() as node:
            inner = _chances(specification, node.of, start, stop)
            return inner[:, node.through.seen(cells)]

        case Draw() as node:
            none = np.empty((0, len(cells)))
            drawn = _drawn(specification, node, start, stop)
            return np.concatenate([none, *drawn])

        case Project() as node:
            count = specification.shapes[node.of].outcomes
            inner = _chances(specification, node.of, 0, count)

            index, number = np.divmod(np.arange(start, stop), count)
            vectors = np.array(node.listed)[index] if node.listed else index
            hashes = hash_digits(node.base, vectors[:, None], cells)
            told = inner[number[:, None], hashes]

            return told * _drawn_with(node, index)[:, None]

        case law:
            return _law_chances(law, start, stop)


def _drawn(
    specification: Specification, node: Draw, start: int, stop: int
) -> Iterator[FloatArray]:
    """The chances of some reports, child by child."""
    first = 0
    for weight, child in zip(numbers(node.weights), node.of, strict=True):
        count = specification.shapes[child].outcomes
        low = max(start - first, 0)
        high = min(stop - first, count)
        first += count
        if low < high:
            chances = _chances(specification, child, low, high)
            yield weight / WORD * chances


def _drawn_with(node: Project, index: IntArray) -> FloatArray:
    """The chances of vectors, by their places; the zero vector is never drawn."""
    if node.weights is not None:
        chances = [weight / WORD for weight in numbers(node.weights)]
        return np.array(chances)[index]

    vectors = node.base**node.digits - 1
    return np.where(index == 0, 0.0, 1.0 / vectors)


@singledispatch
def _law_chances(law: Primitive, start: int, stop: int) -> FloatArray:
    """Chances of a law's outcomes under its cells."""
    raise TooLarge("the reports are too many to be listed")


@_law_chances.register
def _law_chances_of_favour(law: Favour, start: int, stop: int) -> FloatArray:
    owner = law.owner
    inside = int(law.threshold) / WORD
    high = inside / owner.own
    low = (1 - inside) / (owner.outcomes - owner.own)
    return np.where(outcome_owners(owner, start, stop), high, low)


def outcome_owners(owner: Owner, start: int, stop: int) -> BoolArray:
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


@_law_chances.register
def _law_chances_of_weigh(law: Weigh, start: int, stop: int) -> FloatArray:
    return law.matrix[start:stop] / UNIT


@_law_chances.register
def _law_chances_of_subset(law: Subset, start: int, stop: int) -> FloatArray:
    n = law.cells
    d = law.size
    inside = int(law.threshold) / WORD
    high = inside / comb(n - 1, d - 1)
    low = (1 - inside) / comb(n - 1, d)

    block = np.full((stop - start, n), low)
    sets = islice(combinations(range(n), d), start, stop)
    for row, members in enumerate(sets):
        block[row, list(members)] = high

    return block


@_law_chances.register
def _law_chances_of_flip(law: Flip, start: int, stop: int) -> FloatArray:
    reports = np.arange(start, stop)[:, None]
    places = np.arange(law.cells)[::-1]
    bits = reports >> places & 1

    def chances(of_one: float) -> FloatArray:
        return np.where(bits, of_one, 1 - of_one)

    # All bits as if no cell were the true one, but for its own.
    others = chances(int(law.other) / WORD)
    every = others.prod(axis=1, keepdims=True)

    return np.asarray(every / others * chances(int(law.own) / WORD))
