"""Which relations the pairs of a few cells can have at all, listed.

A set of k cells is a table of k rows, one column per attribute. A column says which rows agree in
it: a partition of the rows into at most as many blocks as the attribute has values. The relation of
two rows follows from how many columns of each kind part them, so sets are listed as multisets of
partitions, of which there are few while k is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb, prod

import numpy as np

from noisewright.arrays import Array

MOST_CELLS = 7
"""Eight cells of four yes/no attributes, or seven of six, are more sets than `_MOST_LISTED`."""

_MOST_LISTED = 3 * 10**6
"""Multisets of partitions: only bounds memory and time."""

Groups = tuple[tuple[int, int], ...]
"""Attributes that are alike: how many, and of how many values."""


@lru_cache(maxsize=8)
def pair_counts(groups: Groups) -> dict[int, Array]:
    """For k = 2, 3, … as far as the list stays short: pairs by relation, one row a possible set.

    Relations are numbered as products of the groups are, the last group fastest.
    """
    known: dict[int, Array] = {}
    cells = prod(size**count for count, size in groups)
    for k in range(2, min(MOST_CELLS, cells - 1) + 1):
        listed = 1
        for count, size in groups:
            kinds = len(list(_partitions(k, size)))
            listed *= comb(kinds + count - 1, count)
        if listed > _MOST_LISTED:
            break
        known[k] = _counted(groups, k)

    return known


def _partitions(k: int, blocks: int) -> Iterator[tuple[int, ...]]:
    """Every partition of k rows into at most so many blocks: the block of each row."""

    def grow(row: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(row) == k:
            yield row
            return
        for block in range(min(max(row, default=-1) + 2, blocks)):
            yield from grow((*row, block))

    return grow(())


def _counted(groups: Groups, k: int) -> Array:
    """Distinct counts of pairs by relation over all sets of k cells."""
    relations = prod(count + 1 for count, _ in groups)
    sets = _relations(groups, k)

    # Rows that agree in all columns are one cell. Bytes are padded, to be compared eight at a time.
    sets = sets[(sets > 0).all(axis=1)]
    width = -(-(relations - 1) // 8) * 8
    counts = np.zeros((len(sets), width), dtype=np.uint8)
    for relation in range(1, relations):
        same = sets == relation
        counts[:, relation - 1] = np.count_nonzero(same, axis=1)

    distinct = _distinct(counts)[:, : relations - 1]
    return np.pad(distinct, ((0, 0), (1, 0)))


def _relations(groups: Groups, k: int) -> Array:
    """The relation of every pair of rows, for all multisets of columns."""
    first, second = np.triu_indices(k, 1)
    sets: Array = np.zeros((1, len(first)), dtype=np.uint8)
    stride = prod(count + 1 for count, _ in groups)
    for count, size in groups:
        stride //= count + 1
        rows = np.array(list(_partitions(k, size)))
        differ = rows[:, first] != rows[:, second]
        parted = np.uint8(stride) * differ

        # Columns in order of their kind: every multiset once.
        last = np.zeros(len(sets), dtype=np.intp)
        for _ in range(count):
            repeats = len(parted) - last
            origin = np.repeat(np.arange(len(sets)), repeats)
            starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
            last = last[origin] + np.arange(len(origin)) - starts
            sets = sets[origin] + parted[last]

    return sets


def _distinct(rows: Array) -> Array:
    """Distinct rows of bytes, compared eight at a time."""
    words = rows.view(np.uint64)
    if words.shape[1] > 1:
        return np.unique(rows, axis=0)
    distinct = np.unique(words[:, 0])
    return distinct[:, None].view(np.uint8)
