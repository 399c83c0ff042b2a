"""Pure privacy for replaced people: their number is public, and rows with signs pay.

No replaced person changes the total, so it is measured for nothing: a row K·1ᵀ with a large K
beside A = [I; T]·Diag(1 + 1ᵀ|T|)⁻¹, T with both signs. Knowing it, the variance of W is that of
W − c1ᵀ at the best shift c = W z, z = C1/(1ᵀC1) with C = (AᵀA)⁻¹, so value and gradient are those
of the shifted queries. Columns of L1 norm one are at most two apart; how far exactly is taken from
the integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from math import inf

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.variance import unit_error
from noisewright.central.gaussian.products import as_one_axis, fine_grid
from noisewright.central.gaussian.replaced import PAIR_CELLS
from noisewright.central.laplace.pure_bound import LARGEST, pure_bound
from noisewright.central.laplace.pure_bound import NAME as L1_BOUND
from noisewright.central.laplace.weighted_identity import (
    FEW_CELLS,
    TotalVariance,
    WeightedIdentity,
    race,
    usual_starts,
)
from noisewright.central.laplace.weighted_products import MOST_BITS, finest
from noisewright.central.problem import Candidate
from noisewright.norm.factorize import factorize
from noisewright.workload import Workload
from noisewright.workload.base import Array, FloatArray
from noisewright.workload.gram import DenseGram, Gram

MOST_CELLS = 1024
"""Cells up to which strategies for replaced people are searched."""

L2_BOUND = "L2 bound over pairs of cells, valid for pure privacy too"
_FREE = 2**20  # times the sensitivity: what noise then does to the public total is not seen
_RANDOM_ROWS = (1, 2, 3, 4, 6, 8)
_RANDOM_CELLS = 256
_LARGE_STARTS = 2  # of the usual ones, where many would take long


@dataclass(frozen=True, eq=False)
class ShiftedGram(Gram):
    """The Gram matrix of W(I − z1ᵀ)."""

    inner: Gram
    z: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        """Product with `x`."""
        z = self.z.reshape((-1,) + (1,) * (x.ndim - 1))
        seen = self.inner.matvec(x - z * x.sum(axis=0))
        return np.asarray(seen - self.z @ seen)

    def diagonal(self) -> FloatArray:
        """Diagonal."""
        seen = self.inner.matvec(self.z)
        return np.asarray(self.inner.diagonal() - 2 * seen + self.z @ seen)


class PublicTotal(TotalVariance):
    """The total variance when the number of people is known, by T = P − N as [P; N] ≥ 0."""

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        plus, minus = flat.reshape(2, -1, len(self.diagonal))
        t, s = plus - minus, 1 + plus.sum(axis=0) + minus.sum(axis=0)
        seen = np.linalg.solve(np.eye(len(t)) + t @ t.T, t @ s)
        spread = s * (s - t.T @ seen)
        shifted = TotalVariance(ShiftedGram(self.gram, spread / spread.sum()))
        value, by_rows, by_norms = shifted.slopes(t, s)
        return value, np.concatenate([by_norms + by_rows, by_norms - by_rows]).ravel()


def signed_identity(gram: Gram, sizes: tuple[int, ...]) -> WeightedIdentity:
    """The best found rows, of both signs, beside the cells and the public total."""
    if gram.size > FEW_CELLS:
        return _searched(gram, sizes)
    return _found(gram.dense().astype(np.float64).tobytes(), gram.size, sizes)


@lru_cache(maxsize=16)  # the same queries are planned under budget after budget
def _found(content: bytes, cells: int, sizes: tuple[int, ...]) -> WeightedIdentity:
    """The search over few cells, for the entries of a Gram matrix."""
    return _searched(DenseGram(np.frombuffer(content).reshape(cells, cells)), sizes)


def _searched(gram: Gram, sizes: tuple[int, ...]) -> WeightedIdentity:
    variance = PublicTotal(gram)
    plain = variance(np.zeros(2 * gram.size))[0]
    value, rows = race(variance, _signed_starts(sizes), gram.size)
    if value > plain * (1 - 1e-9):
        return WeightedIdentity(np.zeros((0, gram.size)))
    plus, minus = np.split(rows, 2)
    both = plus - minus
    return WeightedIdentity(both[np.abs(both).max(axis=1) > 1e-9])


def _signed_starts(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    """The usual rows with alternating signs, and random ones of both signs."""
    cells = int(np.prod(sizes))
    count = None if cells <= _RANDOM_CELLS else _LARGE_STARTS
    for start in islice(usual_starts(sizes), count):
        yield np.concatenate([start, np.roll(start, 1, axis=0)])
    if cells <= _RANDOM_CELLS:
        rng = np.random.default_rng(1)
        for count in _RANDOM_ROWS:
            yield rng.random((2 * count, cells)) * rng.integers(0, 2, (2 * count, cells))


def replaced_laplace(
    workload: Workload, sizes: tuple[int, ...], norm: float, largest: float = inf
) -> Candidate:
    """A strategy over all cells for replaced people, with an L1 distance of at most `largest`."""
    best = signed_identity(workload.gram(), tuple(n for n in sizes if n > 1))

    def on_grid(bits: int) -> BlockStrategy:
        whole = best.integers(bits)
        total = _FREE * int(np.abs(whole).sum(axis=0).max())
        row: Integers = np.full((1, whole.shape[1]), total, dtype=np.int64)
        rows = np.concatenate([whole, row])
        block = Block((0,), (rows,), multiplier=fine_grid([whole]))
        return BlockStrategy((whole.shape[1],), (block,))

    strategy = finest(on_grid, MOST_BITS, 1, "replace-one", largest)
    value = unit_error(strategy, [as_one_axis(workload)], norm, 1, "replace-one")
    bound, name = replaced_bound(workload, norm)
    return Candidate(strategy, value, bound, name, "best of several starts", "replace-one")


def replaced_bound(workload: Workload, norm: float) -> tuple[float, str]:
    """The largest of the bounds known: L2 distances, and L1 of differences of columns.

    With R A = W, R maps a_u − a_v to w_u − w_v, and a_u − ā (at most 1 − 1/n of the largest
    distance) to w_u − w̄: strategies in the L1 ball for these columns.
    """
    size = workload.size
    gram = workload.gram().dense()
    bounds = []
    if size <= PAIR_CELLS:
        solved = factorize(workload, norm=norm, neighbours="replace-one", tolerance=1e-3)
        bounds.append((solved.lower_bound, L2_BOUND))
    if size * (size - 1) // 2 <= LARGEST:
        first, second = np.array(list(combinations(range(size), 2))).T
        rows = gram[first] - gram[second]
        bounds.append((pure_bound(rows[:, first] - rows[:, second], workload.queries), L1_BOUND))
    else:
        means = gram.mean(axis=0)
        centred = gram - means - means[:, None] + means.mean()
        bounds.append((pure_bound(centred, workload.queries) * size / (size - 1), L1_BOUND))
    return max(bounds)
