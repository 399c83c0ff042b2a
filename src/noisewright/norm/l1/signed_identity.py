"""Cells and weighted sums of both signs: strategies in L1 where the number of people is known.

A = [I; T]·Diag(1 + 1ᵀ|T|)⁻¹ beside the public total. Knowing that, the variance of W is that of
W − c1ᵀ at the best shift c = W z, z = C1/(1ᵀC1) with C = (AᵀA)⁻¹, so value and gradient are those
of the shifted queries. These are the strategies of Laplace noise for replaced people, drawn by a
curator or on each person's device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.norm.l1.weighted_identity import (
    FEW_CELLS,
    TotalVariance,
    WeightedIdentity,
    race,
    usual_starts,
)
from noisewright.workload.linear.gram import DenseGram, Gram

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
        return seen - self.z @ seen

    def diagonal(self) -> FloatArray:
        """Diagonal."""
        seen = self.inner.matvec(self.z)
        return np.asarray(self.inner.diagonal() - 2 * seen + self.z @ seen)


class PublicTotal(TotalVariance):
    """The total variance when the number of people is known, by T = P − N as [P; N] ≥ 0."""

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient."""
        plus, minus = flat.reshape(2, -1, len(self.diagonal))
        t = plus - minus
        s = 1 + plus.sum(axis=0) + minus.sum(axis=0)
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
            yield rng.random((2 * count, cells)) * rng.integers(
                0, 2, (2 * count, cells)
            )
