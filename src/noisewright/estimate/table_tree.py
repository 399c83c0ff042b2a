"""Made-up rows from tables that overlap, where the cells of the whole domain cannot be listed.

Attributes join one table at a time, that table first whose known attributes tell most about its new
ones; rows take the new values given the known ones, as that table has them. Tables that joined with
the known attributes of one earlier table come out as they are; of all others a row says what the
tables on the way say, as if nothing else were dependent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from noisewright.arrays import FloatArray, IntArray

Block = tuple[int, ...]


def join_order(
    sizes: Sequence[int],
    tables: Mapping[Block, FloatArray],
) -> list[tuple[Block, Block, Block]]:
    """Tables with the attributes known before them and those that they add."""

    @cache
    def information(block: Block, known: Block) -> float:
        return _information(sizes, block, known, tables[block])

    def rank(part: tuple[Block, Block]) -> tuple[float, int, int]:
        block, old = part
        return information(block, old), len(old), len(block)

    steps: list[tuple[Block, Block, Block]] = []
    known: set[int] = set()
    left = [block for block in tables if block]
    while left:
        left = [block for block in left if not known.issuperset(block)]
        if not left:
            break

        parts = [(block, tuple(i for i in block if i in known)) for block in left]
        block, old = max(parts, key=rank)
        new = tuple(i for i in block if i not in known)
        steps.append((block, old, new))
        known.update(new)

    return steps


def _information(
    sizes: Sequence[int],
    block: Block,
    known: Block,
    table: FloatArray,
) -> float:
    """What the known attributes of a table tell about its others: their mutual information."""
    if not known:
        return 0.0

    shares = table.reshape([sizes[i] for i in block]) / max(float(table.sum()), 1e-300)
    inside = tuple(k for k, i in enumerate(block) if i in known)
    outside = tuple(k for k, i in enumerate(block) if i not in known)
    apart = shares.sum(axis=outside, keepdims=True) * shares.sum(
        axis=inside, keepdims=True
    )
    held = shares > 0

    return float((shares[held] * np.log(shares[held] / apart[held])).sum())


def rows_of_tables(
    sizes: Sequence[int],
    tables: Mapping[Block, FloatArray],
    count: int,
    rng: np.random.Generator,
) -> IntArray:
    """Values of all attributes, one row per made-up person; attributes in no table are even."""
    rows = np.full((count, len(sizes)), -1, dtype=np.int64)
    for block, old, new in join_order(sizes, tables):
        shape = [sizes[i] for i in block]
        firsts = tuple(block.index(i) for i in old)
        tensor = np.moveaxis(
            tables[block].reshape(shape),
            firsts,
            tuple(range(len(old))),
        )
        old_shape = [sizes[i] for i in old]
        new_shape = [sizes[i] for i in new]
        chances = tensor.reshape(int(np.prod(old_shape, dtype=np.int64)), -1)
        parents = np.zeros(count, dtype=np.int64)
        if old:
            parents = np.ravel_multi_index(tuple(rows[:, i] for i in old), old_shape)

        for parent in np.unique(parents):
            people = np.flatnonzero(parents == parent)
            drawn = drawn_cells(chances[parent], len(people), rng)
            rows[people[:, None], np.array(new)] = np.stack(
                np.unravel_index(drawn, new_shape), axis=1
            )

    for i in map(int, np.flatnonzero(rows[0] < 0)):
        rows[:, i] = drawn_cells(np.zeros(sizes[i]), count, rng)

    return rows


def drawn_cells(
    histogram: FloatArray,
    count: int,
    rng: np.random.Generator,
) -> IntArray:
    """Cells of so many rows: whole parts for sure, fractions by systematic sampling.

    Every cell's number of rows is right on average and off by less than one, and so are sums over
    runs of cells.
    """
    total = float(histogram.sum())
    even = np.full(len(histogram), count / len(histogram))
    expected = even if total <= 0 else histogram * (count / total)
    ends = np.cumsum(expected)
    ends *= count / ends[-1]
    # Points at u, u + 1, ...: the last end is `count`, so exactly that many points lie below it.
    points = np.minimum(
        np.arange(count) + rng.random(),
        np.nextafter(ends[-1], 0.0),
    )

    return rng.permutation(np.searchsorted(ends, points, side="right"))


def drawn_within(
    kinds: IntArray,
    chances: FloatArray,
    numbers: IntArray,
    rng: np.random.Generator,
) -> IntArray:
    """Cells of so many rows of every kind, spread over the cells of that kind by their chances.

    The cells of a kind come in any order, so that systematic sampling meets no pattern of theirs.
    """
    order = np.lexsort((rng.random(len(kinds)), kinds))
    ends = np.cumsum(chances[order])
    masses = np.bincount(kinds, chances, minlength=len(numbers))
    first = np.concatenate([[0.0], ends])[
        np.searchsorted(kinds[order], np.arange(len(numbers)))
    ]
    rows = np.repeat(np.arange(len(numbers)), numbers)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    share = (position + rng.random(len(numbers))[rows]) / numbers[rows]
    points = first[rows] + share * masses[rows]
    found = order[
        np.minimum(
            np.searchsorted(ends, points, side="right"),
            len(order) - 1,
        )
    ]
    # A point within rounding of an end is that of its kind's last cell with a chance.
    strays = (kinds[found] != rows) | (chances[found] <= 0)
    last = np.zeros(len(numbers), dtype=np.int64)
    last[kinds[order[chances[order] > 0]]] = order[chances[order] > 0]

    return np.where(strays, last[rows], found)


def distance(
    sizes: Sequence[int],
    block: Block,
    table: FloatArray,
    rows: IntArray,
) -> float:
    """The share of rows that would have to move for a table to come out as it is."""
    shape = [sizes[i] for i in block]
    cells = np.ravel_multi_index(tuple(rows[:, i] for i in block), shape)
    shares = np.bincount(cells, minlength=len(table)) / max(len(rows), 1)
    total = float(table.sum())
    expected = table / total if total > 0 else np.full(len(table), 1 / len(table))
    return float(np.abs(shares - expected).sum() / 2)
