"""Few joint tables from which all wanted ones are summed: every row is then counted once in each.

A cover is a set of attributes that has at most a million or so joint cells. Ten two-way tables of
five attributes are sums of one joint table, which costs one count of every row instead of ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.workload.linear.tensor import sum_out

Names = tuple[str, ...]

MOST_CELLS = 2**20  # of one cover: counts that stay near the processor
_MOST_TOGETHER = 2**24  # of all covers: 128 MiB of counts
# of more, each is summed from a small cover: summing costs as much as counting
_FEW_TABLES = 64
_SMALL_CELLS = (
    2**14
)  # of such a cover: counts that stay in the processor's nearest memory
_MOST_TABLES = 6000  # beyond, looking for covers takes longer than they save


def covers_of(sizes: dict[str, int], subsets: Sequence[Names]) -> list[Names]:
    """Sets of attributes such that every subset lies in one of them."""
    distinct = list({frozenset(s): s for s in subsets}.values())
    limit = MOST_CELLS if len(distinct) <= _FEW_TABLES else _SMALL_CELLS
    while limit >= 2**8 and len(distinct) <= _MOST_TABLES:
        covers = _greedy(sizes, distinct, limit)
        if sum(_cells(sizes, cover) for cover in covers) <= _MOST_TOGETHER:
            return covers
        limit //= 8

    return distinct


def _cells(sizes: dict[str, int], names: Sequence[str]) -> int:
    return prod(sizes[name] for name in names)


def _greedy(sizes: dict[str, int], subsets: list[Names], limit: int) -> list[Names]:
    """From the largest table left, take in whichever attribute completes the most tables."""
    names = [name for name in sizes if any(name in subset for subset in subsets)]
    lengths = np.array([sizes[name] for name in names], dtype=np.float64)
    largest_first = sorted(subsets, key=lambda subset: -_cells(sizes, subset))
    held = [[name in subset for name in names] for subset in largest_first]
    left = np.array(held, dtype=np.bool_).reshape(len(subsets), len(names))

    covers: list[Names] = []
    while len(left):
        inside = _grown(left, lengths, limit)
        covers.append(tuple(names[place] for place in np.flatnonzero(inside)))
        left = left[(left & ~inside).any(axis=1)]

    return covers


def _grown(left: BoolArray, lengths: FloatArray, limit: int) -> BoolArray:
    """The first of the tables left, with whatever attributes complete others within the limit."""
    inside: BoolArray = left[0].copy()
    cells = float(np.prod(lengths[inside]))
    while not inside.all():
        absent = left & ~inside
        completed = absent[absent.sum(axis=1) == 1].sum(axis=0)
        completed = np.where(cells * lengths <= limit, completed, 0)
        best = int(np.argmax(completed))
        if not completed[best]:
            break

        inside[best] = True
        cells *= lengths[best]

    return inside


def smallest_cover(
    sizes: dict[str, int], covers: Sequence[Names], subset: Names
) -> int:
    """The number of the cover with the fewest cells that holds a subset."""
    holding = [i for i, cover in enumerate(covers) if set(subset) <= set(cover)]
    return min(holding, key=lambda i: _cells(sizes, covers[i]))


def marginal(
    sizes: dict[str, int], cover: Names, counts: IntArray, subset: Names
) -> IntArray:
    """One table, in its own order of attributes, summed from a cover's counts."""
    shape = tuple(sizes[name] for name in cover)
    kept = tuple(i for i, name in enumerate(cover) if name in subset)
    table = np.asarray(sum_out(counts.reshape(shape), shape, kept), dtype=np.int64)

    inner = [cover[i] for i in kept]
    own = table.reshape([sizes[name] for name in inner])
    asked = own.transpose([inner.index(name) for name in subset])
    return np.ascontiguousarray(asked).ravel()
