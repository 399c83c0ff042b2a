"""The search for strategies in L1: many starts race for a few steps of descent, the best go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import chain, islice, pairwise
from math import prod
from operator import itemgetter

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.norm.l1 import PowerMean, PublicTotal, TotalVariance, WeightedIdentity
from noisewright.workload.linear.gram import DenseGram, Gram

FEW_CELLS = 128
"""Cells up to which structure costs more than it saves, and what was found is remembered."""

_NEGLIGIBLE = 1e-9  # weight of a row, or gain over the cells alone, that is none

_FIRST_STEPS = 50  # of L-BFGS from every start
_MOST_STEPS = 700  # from those that go on, at most
_FINALISTS = ((32, 6), (512, 2))  # starts that go on, up to so many cells; beyond, one

# Exponents on the way to a p-th mean, each started where the one before ended; the last stands
# for the maximum.
_NORMS = (4.0, 16.0, 64.0)
_LARGEST_NORM = 256.0  # the mean of 1,000 errors is then within 3 % of the largest
_NORM_STEPS = 150  # of L-BFGS at each exponent, at most

# Cells in the smallest intervals of a hierarchy, and children of every larger one: the shapes that
# ended among the best two of some workload, prefix or ranges, between 64 and 1,024 cells.
_SHAPES = ((12, 3), (16, 4), (16, 6), (21, 3), (21, 4), (21, 6))
_GRIDS = (2, 3, 4, 5)  # parts of every attribute, where there are several
_START = 0.3  # weight of a start's row, in weights of a cell

# Rows of both signs are twice as many numbers: there are fewer of them.
_RANDOM_ROWS = (1, 2, 3, 4, 6, 16)  # in random starts
_RANDOM_CELLS = 512  # up to which there are any
_SIGNED_ROWS = (1, 2, 3, 4, 6, 8)  # in random starts of both signs
_SIGNED_CELLS = 256  # up to which there are any of these
_LARGE_STARTS = 2  # of the usual ones, where many would take long


def for_norm(
    squared: WeightedIdentity, queries: FloatArray, norm: float
) -> WeightedIdentity:
    """The rows moved on to the p-th mean of the errors, from small p to large ones."""
    rows = squared.rows
    if not len(rows):
        rows = np.full((1, queries.shape[1]), 1e-2)

    path = [p for p in _NORMS if p < norm]
    for p in (*path, min(norm, _LARGEST_NORM)):
        _, rows = PowerMean(queries, p / 2).descend(rows, _NORM_STEPS)
    return WeightedIdentity(rows)


def weighted_identity(
    gram: Gram, sizes: tuple[int, ...] | None = None, starts: Sequence[FloatArray] = ()
) -> WeightedIdentity:
    """The best found strategy of this kind for the total variance of queries with this Gram.

    `sizes` are the attributes whose product the cells are, where they are several; `starts` are
    tried besides the usual ones.
    """
    shape = sizes or (gram.size,)
    if gram.size > FEW_CELLS:
        return _unsigned(gram, shape, starts)
    given = tuple((start.tobytes(), start.shape) for start in starts)
    return _remembered(_entries(gram), shape, given, signed=False)


def signed_identity(gram: Gram, sizes: tuple[int, ...]) -> WeightedIdentity:
    """The best found rows, of both signs, beside the cells and the public total."""
    if gram.size > FEW_CELLS:
        return _signed(gram, sizes)
    return _remembered(_entries(gram), sizes, (), signed=True)


def _entries(gram: Gram) -> bytes:
    return gram.dense().astype(np.float64).tobytes()


@lru_cache(maxsize=32)  # the same queries are planned under budget after budget
def _remembered(
    content: bytes,
    sizes: tuple[int, ...],
    starts: tuple[tuple[bytes, tuple[int, ...]], ...],
    *,
    signed: bool,
) -> WeightedIdentity:
    """The search over few cells, for the entries of a Gram matrix and of starts."""
    cells = prod(sizes)
    gram = DenseGram(np.frombuffer(content).reshape(cells, cells))
    if signed:
        return _signed(gram, sizes)

    given = [np.frombuffer(entries).reshape(shape) for entries, shape in starts]
    return _unsigned(gram, sizes, given)


def _unsigned(
    gram: Gram, sizes: tuple[int, ...], starts: Sequence[FloatArray]
) -> WeightedIdentity:
    tried = chain(starts, _usual_starts(sizes))
    value, rows = best_of_starts(TotalVariance(gram), tried, gram.size)
    if value > gram.trace() * (1 - _NEGLIGIBLE):
        rows = rows[:0]
    return WeightedIdentity(rows[rows.max(axis=1, initial=0.0) > _NEGLIGIBLE])


def _signed(gram: Gram, sizes: tuple[int, ...]) -> WeightedIdentity:
    variance = PublicTotal(gram)
    plain, _ = variance(np.zeros(2 * gram.size))
    value, rows = best_of_starts(variance, _signed_starts(sizes), gram.size)
    if value > plain * (1 - _NEGLIGIBLE):
        return WeightedIdentity(np.zeros((0, gram.size)))

    plus, minus = np.split(rows, 2)
    t = plus - minus
    return WeightedIdentity(t[np.abs(t).max(axis=1) > _NEGLIGIBLE])


def best_of_starts(
    variance: TotalVariance, starts: Iterable[FloatArray], cells: int
) -> tuple[float, FloatArray]:
    """The best value and rows: a few steps from every start, then many from the best."""
    raced = [variance.descend(start, _FIRST_STEPS) for start in starts]
    raced.sort(key=itemgetter(0))

    finalists = next((count for most, count in _FINALISTS if cells <= most), 1)
    finished = [variance.descend(rows, _MOST_STEPS) for _, rows in raced[:finalists]]
    nothing = np.inf, np.zeros((0, cells))
    return min(finished, key=itemgetter(0), default=nothing)


def _usual_starts(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    """Hierarchies over one attribute, grids over several, and seeded random rows."""
    cells = prod(sizes)
    if cells < 2:
        return

    yield from _hierarchies(cells) if len(sizes) == 1 else _grids(sizes)
    if cells <= _RANDOM_CELLS:
        rng = np.random.default_rng(0)
        for count in _RANDOM_ROWS:
            yield rng.random((count, cells))


def _hierarchies(cells: int) -> Iterator[FloatArray]:
    levels = [_levels(cells, leaf, children) for leaf, children in _SHAPES]
    for counts in filter(None, dict.fromkeys(levels)):
        yield _START * np.concatenate([intervals(cells, count) for count in counts])


def _grids(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    grids = [tuple(min(n, count) for n in sizes) for count in _GRIDS]
    for grid in dict.fromkeys(grids):
        if 4 * prod(grid) <= prod(sizes):
            yield _START * reduce(_kron, map(intervals, sizes, grid))


def _signed_starts(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    """The usual rows with alternating signs, and random ones of both signs."""
    cells = prod(sizes)
    few = cells <= _SIGNED_CELLS
    for start in islice(_usual_starts(sizes), None if few else _LARGE_STARTS):
        yield np.concatenate([start, np.roll(start, 1, axis=0)])

    if few:
        rng = np.random.default_rng(1)
        for count in _SIGNED_ROWS:
            shape = 2 * count, cells
            yield rng.random(shape) * rng.integers(0, 2, shape)


def _levels(cells: int, leaf: int, children: int) -> tuple[int, ...]:
    """Numbers of intervals at every level of a hierarchy, coarsest first; cells are left out."""
    counts = []
    count = cells / leaf
    while count >= 2:
        counts.append(round(count))
        count /= children
    return tuple(reversed(counts))


def _kron(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.asarray(np.kron(first, second), dtype=np.float64)


def intervals(cells: int, count: int) -> FloatArray:
    """Rows that sum neighbouring cells."""
    edges = np.linspace(0, cells, count + 1).astype(np.int64)
    numbers = np.arange(cells)
    rows = [(first <= numbers) & (numbers < end) for first, end in pairwise(edges)]
    return np.array(rows, dtype=np.float64)
