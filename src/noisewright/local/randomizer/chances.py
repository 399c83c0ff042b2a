"""The chances of all reports that can be listed, as a matrix: what a specification says, in floats.

Reports are listed by their number. Sets of cells and rows of bits have none: sets come in
lexicographic order, rows of bits by the number that they are, the first cell being the highest bit.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import combinations, islice
from math import comb

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.errors import TooLarge
from noisewright.local.randomizer.batch import difference, hashed, seen
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
from noisewright.local.randomizer.specification import Specification
from noisewright.local.randomizer.whole_numbers import UNIT, WORD, numbers

_LISTED = 2**16
_LARGEST_BLOCK = 2**26


def listed_reports(specification: Specification) -> int | None:
    """Number of reports; None where there are too many sets or vectors to be listed."""
    law = specification.nodes[-1]
    if isinstance(law, Subset):
        # No fewer sets than cells, and their number takes long to write out.
        count = comb(law.cells, law.size) if law.cells <= _LISTED else _LISTED + 1
        return count if count <= _LISTED else None

    if isinstance(law, Flip):
        return 1 << law.cells if law.cells <= 16 else None

    outcomes, payload = specification.shapes[-1][1:]
    return None if payload else outcomes


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
    node = specification.nodes[place]
    cells = specification.shapes[place].cells
    if isinstance(node, View):
        inner = _chances(specification, node.of, start, stop)
        return inner[:, seen(node.through, np.arange(cells))]

    if isinstance(node, Draw):
        pieces = [np.empty((0, cells))]
        first = 0
        for weight, child in zip(numbers(node.weights), node.of, strict=True):
            count = specification.shapes[child].outcomes
            a = max(start - first, 0)
            b = min(stop - first, count)
            if a < b:
                pieces.append(weight / WORD * _chances(specification, child, a, b))
            first += count
        return np.concatenate(pieces)

    if isinstance(node, Project):
        own = _chances(
            specification, node.of, 0, specification.shapes[node.of].outcomes
        )
        index, number = np.divmod(np.arange(start, stop), len(own))
        chance = 1.0 / (node.base**node.digits - 1)
        weights = (
            np.array([w / WORD for w in numbers(node.weights)])
            if node.weights
            else None
        )
        vectors = np.array(node.listed)[index] if node.listed else index
        each = np.where(index == 0, 0.0, chance) if weights is None else weights[index]
        hashes = hashed(node.base, vectors[:, None], np.arange(cells)[None, :])

        return own[number[:, None], hashes] * each[:, None]

    return law_chances(node, start, stop)


@singledispatch
def law_chances(law: object, start: int, stop: int) -> FloatArray:
    """Chances of a law's outcomes under its cells."""
    raise TooLarge("the reports are too many to be listed")


@law_chances.register
def _law_chances_of_favour(law: Favour, start: int, stop: int) -> FloatArray:
    p = int(law.threshold) / WORD
    own = law.owner.own
    every = law.owner.outcomes
    return np.where(owned(law.owner, start, stop), p / own, (1 - p) / (every - own))


def owned(owner: Owner, start: int, stop: int) -> BoolArray:
    """Which cells own the outcomes from `start` to `stop`."""
    outcomes = np.arange(start, stop)[:, None]
    cells = np.arange(owner.cells)[None, :]
    if isinstance(owner, Same):
        return np.asarray(outcomes == cells)
    if isinstance(owner, Rows):
        return owner.owned[:, start:stop].T
    if isinstance(owner, Translate):
        return owner.places[difference(owner.sizes, cells, outcomes)]

    assert isinstance(owner, Parity)
    block, column = np.divmod(cells, owner.width - 1)
    own, output = np.divmod(outcomes, owner.width)

    return np.asarray(
        (np.bitwise_count(output & (column + 1)) % 2 == 0) & (own == block)
    )


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
    bits = (np.arange(start, stop)[:, None] >> np.arange(law.cells - 1, -1, -1)) & 1
    others = np.where(bits, q, 1 - q)
    own = np.where(bits, p, 1 - p)
    return np.asarray(others.prod(axis=1, keepdims=True) / others * own)
