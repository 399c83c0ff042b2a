"""Nested blocks of neighbouring cells: sums of Gram matrices over them, and what X is on them.

With block widths 1 = w_0 | w_1 | … | w_L = n, let Π_l project on vectors constant on blocks of
width w_l that sum to zero in every block of width w_{l+1}. Histogram mechanisms on the levels
commute with these projections: X = Σ_l λ_l Π_l + 11ᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.analysis.information import Information
from noisewright.local.strategy import DENSE_SIZE
from noisewright.workload.linear.gram import (
    Gram,
    IdentityGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
)


@dataclass(frozen=True, eq=False)
class SummedGram(Gram):
    """A Gram matrix with its sums over [0, i) × [0, j): sums over any blocks are then immediate."""

    inner: Gram
    sums: FloatArray

    @classmethod
    def of(cls, gram: Gram) -> SummedGram:
        """Sum once what will be asked many times."""
        if gram.size > DENSE_SIZE:
            raise TooLarge(f"no closed form for sums over blocks of {gram.size} cells")
        sums = np.zeros((gram.size + 1, gram.size + 1))
        np.cumsum(np.cumsum(gram.dense(), axis=0), axis=1, out=sums[1:, 1:])
        return cls(gram, sums)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        """Product with `x`."""
        return self.inner.matvec(x)

    def diagonal(self) -> FloatArray:
        """Diagonal."""
        return self.inner.diagonal()


def block_traces(gram: Gram, width: int) -> float:
    """Σ over blocks of 1ᵀM1: the trace of the Gram matrix of block totals."""
    starts = np.arange(0, gram.size, width)
    stops = np.minimum(starts + width, gram.size)
    return float(interval_products(gram, starts, stops, starts, stops).sum())


def has_closed_form(gram: Gram) -> bool:
    """Whether sums over blocks need no matrix."""
    if isinstance(gram, ScaledGram):
        return has_closed_form(gram.inner)
    if isinstance(gram, SumGram):
        return all(has_closed_form(part) for part in gram.parts)
    return isinstance(
        gram, IdentityGram | OnesGram | PrefixGram | RangesGram | SummedGram
    )


@singledispatch
def interval_products(
    gram: Gram,
    start: IntArray,
    stop: IntArray,
    outer_start: IntArray,
    outer_stop: IntArray,
) -> FloatArray:
    """1ᵀM1' over intervals [start, stop) of cells, each inside its outer interval."""
    raise TooLarge(f"no closed form for sums over blocks of {gram.size} cells")


@interval_products.register
def _interval_products_of_summed_gram(
    gram: SummedGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    s = gram.sums
    return s[b, d] - s[a, d] - s[b, c] + s[a, c]


@interval_products.register
def _interval_products_of_identity_gram(
    gram: IdentityGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    return np.asarray(b - a, dtype=np.float64)


@interval_products.register
def _interval_products_of_ones_gram(
    gram: OnesGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    return (b - a).astype(np.float64) * (d - c)


def _prefix_products(
    n: int, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    """Σ_t S(t) S'(t): prefix sums rise by one a cell inside an interval and stay after it."""
    w = (b - a).astype(np.float64)
    outer = (d - c).astype(np.float64)
    lead = a - c
    inside = lead * w * (w + 1) / 2 + w * (w + 1) * (2 * w + 1) / 6
    reached = b - c
    between = w * (outer * (outer + 1) - reached * (reached + 1.0)) / 2
    return inside + between + (n - d) * w * outer


@interval_products.register
def _interval_products_of_prefix_gram(
    gram: PrefixGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    return _prefix_products(gram.size, a, b, c, d)


@interval_products.register
def _interval_products_of_ranges_gram(
    gram: RangesGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    # (n+1) ΣSS' − ΣS ΣS' over the n+1 prefix sums S and S'.
    n = gram.size

    def total(start: IntArray, stop: IntArray) -> FloatArray:
        w = (stop - start).astype(np.float64)
        return w * (w + 1) / 2 + (n - stop) * w

    return (n + 1) * _prefix_products(n, a, b, c, d) - total(a, b) * total(c, d)


@interval_products.register
def _interval_products_of_scaled_gram(
    gram: ScaledGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    return gram.weight * interval_products(gram.inner, a, b, c, d)


@interval_products.register
def _interval_products_of_sum_gram(
    gram: SumGram, a: IntArray, b: IntArray, c: IntArray, d: IntArray
) -> FloatArray:
    return np.asarray(sum(interval_products(part, a, b, c, d) for part in gram.parts))


@dataclass(frozen=True, eq=False)
class TreeInformation(Information):
    """X = Σ_l λ_l Π_l + 11ᵀ for widths that divide one another, the last below n."""

    cells: int
    widths: tuple[int, ...]
    eigenvalues: FloatArray

    @property
    def size(self) -> int:
        """Number of types."""
        return self.cells

    @property
    def full_rank(self) -> bool:
        """Whether every level is seen."""
        return bool((self.eigenvalues > 0).all())

    def _filtered(
        self, x: FloatArray, gains: Sequence[float], total: float
    ) -> FloatArray:
        tail = x.shape[1:]
        mean = x.mean(axis=0)
        result = np.broadcast_to(total * mean, x.shape).copy()
        above = np.broadcast_to(mean, x.shape)

        for width, gain in zip(self.widths[::-1], gains[::-1], strict=True):
            blocks = x.reshape(self.cells // width, width, *tail).mean(axis=1)
            here = np.repeat(blocks, width, axis=0)
            result += gain * (here - above)
            above = here

        return result

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        return self._filtered(x, self.eigenvalues.tolist(), float(self.cells))

    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to `x`."""
        seen = self.eigenvalues > 0
        gains = np.where(seen, 1.0 / np.where(seen, self.eigenvalues, 1.0), 0.0)
        return self._filtered(x, gains.tolist(), 1.0 / self.cells)

    def inverse_products(self, gram: Gram, level: int) -> FloatArray:
        """(X⁻¹1_B)ᵀ M (X⁻¹1_B) for every block B of a level, without a matrix over cells.

        X⁻¹1_B is a combination of the indicators of the blocks around B, one per level above.
        """
        widths = [*self.widths[level:], self.cells]
        inverse = 1.0 / np.append(self.eigenvalues[level:], float(self.cells))
        share = widths[0] / np.array(widths)
        k = share * np.diff(inverse, prepend=0.0)
        starts = np.arange(0, self.cells, widths[0])
        total = np.zeros(len(starts))

        for i, inner in enumerate(widths):
            # Products over blocks of one level are needed once per block, not once per B.
            first = np.arange(0, self.cells, inner)
            part = np.zeros(len(first))
            for j in range(i, len(widths)):
                outer = first // widths[j] * widths[j]
                twice = 1.0 if i == j else 2.0
                product = interval_products(
                    gram, first, first + inner, outer, outer + widths[j]
                )
                part += twice * k[i] * k[j] * product
            total += part[starts // inner]

        return total
