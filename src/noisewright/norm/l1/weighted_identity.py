"""Cells and a few weighted sums of them: the strategies of pure privacy, by descent [006].

A = [I; T]·Diag(1 + 1ᵀT)⁻¹ with T ≥ 0 and few rows, so that every column has L1 norm one. With
s = 1 + 1ᵀT and K = (I + TTᵀ)⁻¹ the inverse of AᵀA is D_s(I − TᵀKT)D_s, so the total variance and
its gradient need products of the Gram matrix with the rows of T only (cumulative sums, for
cumulative queries). The problem is not convex. Many starts race for a few steps; the best go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import chain, pairwise
from math import prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.workload.linear.gram import DenseGram, Gram

_HEAVIEST = 1000.0  # times the weight of a cell: keeps (AᵀA)⁻¹ well conditioned
_FIRST_STEPS = 50
_MOST_STEPS = 700
_ROUND = 100  # steps before entries at zero are looked at again
_PROGRESS = 1e-9
_NORMS = (4.0, 16.0, 64.0)
_LARGEST_NORM = 256.0  # stands for the maximum
_NORM_STEPS = 150
_FINALISTS = ((32, 6), (512, 2))  # starts that go on, up to so many cells; beyond, one
_RANDOM_CELLS = 512  # up to which random rows are tried
# Cells in the smallest intervals of a hierarchy, and children of every larger one: the shapes that
# ended among the best two of some workload, prefix or ranges, between 64 and 1,024 cells.
_SHAPES = ((12, 3), (16, 4), (16, 6), (21, 3), (21, 4), (21, 6))
_GRIDS = (2, 3, 4, 5)
_RANDOM_ROWS = (1, 2, 3, 4, 6, 16)
_ONE_THREAD = 2**18  # multiplications that stay on one thread
FEW_CELLS = 128
"""Cells up to which structure costs more than it saves, and what was found is remembered."""

_START = 0.3  # weight of a start's row, in weights of a cell


def _slices(rows: int, cells: int) -> Iterator[slice]:
    """Cells in pieces whose products the library does not spread over threads.

    Threads that wait for each other made these small products a hundred times slower on a machine
    that is busy otherwise.
    """
    step = max(1, _ONE_THREAD // max(1, rows * rows))
    return (slice(start, start + step) for start in range(0, cells, step))


def _products(a: FloatArray, b: FloatArray) -> FloatArray:
    """a bᵀ for two sets of rows."""
    if len(a) * len(b) * a.shape[1] <= _ONE_THREAD:
        return a @ b.T
    total = np.zeros((len(a), len(b)))
    for piece in _slices(len(a), a.shape[1]):
        total += a[:, piece] @ b[:, piece].T
    return total


def _combined(matrix: FloatArray, rows: FloatArray) -> FloatArray:
    """A small matrix times rows."""
    if matrix.size * rows.shape[1] <= _ONE_THREAD:
        return matrix @ rows
    result = np.empty((len(matrix), rows.shape[1]))
    for piece in _slices(len(matrix), rows.shape[1]):
        result[:, piece] = matrix @ rows[:, piece]
    return result


@dataclass(frozen=True, eq=False)
class WeightedIdentity:
    """The cells and a few weighted sums of them, every column of L1 norm one."""

    rows: FloatArray

    @cached_property
    def _norms(self) -> FloatArray:
        return np.asarray(1 + np.abs(self.rows).sum(axis=0))

    @property
    def strategy(self) -> FloatArray:
        """A."""
        return np.concatenate([np.eye(self.rows.shape[1]), self.rows]) / self._norms

    def integers(self, bits: int) -> IntArray:
        """A on an integer grid, its largest entry about 2^bits; no cell's own row is lost."""
        count = self.rows.shape[1]
        if not len(self.rows):
            return np.eye(count, dtype=np.int64)

        real = self.strategy
        whole = np.rint(real * (2.0**bits / np.abs(real).max())).astype(np.int64)
        whole[:count] = np.maximum(whole[:count], np.eye(count, dtype=np.int64))

        return np.asarray(whole)

    def covariance(self) -> FloatArray:
        """(AᵀA)⁻¹."""
        t = self.rows
        s = self._norms
        seen = t.T @ np.linalg.solve(np.eye(len(t)) + t @ t.T, t)
        return s[:, None] * (np.eye(len(s)) - seen) * s


class TotalVariance:
    """tr(G(AᵀA)⁻¹) of the queries with Gram matrix G, as a function of the rows T."""

    def __init__(self, gram: Gram) -> None:
        self.gram, self.diagonal = gram, gram.diagonal()

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        t = flat.reshape(-1, len(self.diagonal))
        value, by_rows, by_norms = self.slopes(t, 1 + t.sum(axis=0))
        return value, (by_rows + by_norms).ravel()

    def slopes(
        self, t: FloatArray, s: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """The value, and its derivatives by the rows T and by the norms s on their own."""
        inverse = np.asarray(
            np.linalg.inv(np.eye(len(t)) + _products(t, t)), dtype=np.float64
        )
        kt = _combined(inverse, t)
        product = self.gram.matvec((kt * s).T).T * s
        by_cell = s**2 * self.diagonal - np.einsum("ij,ij->j", product, t)
        by_rows = -2 * (product - _combined(_products(product, t), kt))

        return float(by_cell.sum()), by_rows, 2 * by_cell / s

    def descend(self, start: FloatArray, steps: int) -> tuple[float, FloatArray]:
        """The value and the rows after so many steps of L-BFGS.

        Few entries of the best rows are not zero, so each round moves only entries that are
        positive or would grow.
        """
        flat = start.ravel()
        last = np.inf
        while True:
            value, gradient = self(flat)
            free = (flat > 0) | (gradient < 0)
            if steps <= 0 or value > last * (1 - _PROGRESS) or not free.any():
                return value, flat.reshape(start.shape)
            last = value
            flat, taken = self._round(flat, free, min(steps, _ROUND))
            steps -= max(taken, 1)

    def _round(
        self, flat: FloatArray, free: BoolArray, steps: int
    ) -> tuple[FloatArray, int]:
        """Steps over the free entries; all others stay zero."""
        from scipy.optimize import Bounds, minimize

        def spread(part: FloatArray) -> FloatArray:
            full = np.zeros(len(flat))
            full[free] = part
            return full

        def restricted(part: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self(spread(part))
            return value, gradient[free]

        result = minimize(
            restricted,
            flat[free],
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0.0, _HEAVIEST),
            options={
                "maxiter": steps,
                "maxfun": 2 * steps,
                "maxcor": 10,
                "ftol": 1e-10,
            },
        )
        return spread(result.x), int(result.nit)


class PowerMean(TotalVariance):
    """(mean of s^q)^(1/q) over the variances s of queries W; a large q lowers the largest."""

    def __init__(self, queries: FloatArray, q: float) -> None:
        self.queries = queries
        self.q = q

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient: that of the total variance under the weights the mean gives."""
        covariance = WeightedIdentity(
            flat.reshape(-1, self.queries.shape[1])
        ).covariance()
        squares = np.einsum("ij,ij->i", self.queries @ covariance, self.queries)
        shares = np.maximum(squares, 0.0) / squares.max()
        mean = float(np.mean(shares**self.q) ** (1 / self.q))
        weights = (shares / mean) ** (self.q - 1) / len(squares)
        gram = DenseGram(self.queries.T @ (weights[:, None] * self.queries))

        return float(squares.max()) * mean, TotalVariance(gram)(flat)[1]


def for_norm(
    squared: WeightedIdentity, queries: FloatArray, norm: float
) -> WeightedIdentity:
    """The rows moved on to the p-th mean of the errors, from small p to large ones."""
    rows = squared.rows
    if not len(rows):
        rows = np.full((1, queries.shape[1]), 1e-2)
    for p in (*(p for p in _NORMS if p < norm), min(norm, _LARGEST_NORM)):
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
        return _searched(gram, shape, starts)
    own = tuple((start.tobytes(), start.shape) for start in starts)
    return _found(gram.dense().astype(np.float64).tobytes(), shape, own)


@lru_cache(maxsize=16)  # the same queries are planned under budget after budget
def _found(
    content: bytes,
    sizes: tuple[int, ...],
    starts: tuple[tuple[bytes, tuple[int, ...]], ...],
) -> WeightedIdentity:
    """The search over few cells, for the entries of a Gram matrix and of starts."""
    matrix = np.frombuffer(content).reshape(prod(sizes), prod(sizes))
    own = [np.frombuffer(entries).reshape(shape) for entries, shape in starts]
    return _searched(DenseGram(matrix), sizes, own)


def _searched(
    gram: Gram, sizes: tuple[int, ...], starts: Sequence[FloatArray]
) -> WeightedIdentity:
    value, rows = race(
        TotalVariance(gram), chain(starts, usual_starts(sizes)), gram.size
    )
    if value > gram.trace() * (1 - 1e-9):
        rows = rows[:0]
    return WeightedIdentity(rows[rows.max(axis=1, initial=0.0) > 1e-9])


def race(
    variance: TotalVariance, starts: Iterable[FloatArray], cells: int
) -> tuple[float, FloatArray]:
    """The best value and rows: a few steps from every start, then many from the best."""
    raced = [variance.descend(start, _FIRST_STEPS) for start in starts]
    raced.sort(key=lambda pair: pair[0])
    finalists = next((count for most, count in _FINALISTS if cells <= most), 1)
    finished = [variance.descend(rows, _MOST_STEPS) for _, rows in raced[:finalists]]

    return min(
        finished, key=lambda pair: pair[0], default=(np.inf, np.zeros((0, cells)))
    )


def usual_starts(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    """Hierarchies over one attribute, grids over several, and seeded random rows."""
    cells = prod(sizes)
    if cells < 2:
        return

    if len(sizes) == 1:
        shapes = dict.fromkeys(
            _levels(cells, leaf, children) for leaf, children in _SHAPES
        )
        for shape in filter(None, shapes):
            yield _START * np.concatenate([intervals(cells, count) for count in shape])
    else:
        grids = dict.fromkeys(tuple(min(n, count) for n in sizes) for count in _GRIDS)
        for grid in grids:
            if 4 * prod(grid) <= cells:
                yield _START * reduce(_kron, map(intervals, sizes, grid))

    if cells <= _RANDOM_CELLS:
        rng = np.random.default_rng(0)
        for count in _RANDOM_ROWS:
            yield rng.random((count, cells))


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
    return np.array(
        [(numbers >= a) & (numbers < b) for a, b in pairwise(edges)], dtype=np.float64
    )
