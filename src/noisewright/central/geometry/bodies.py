"""What one person can change, as bodies with whole corners: counted and sampled exactly.

Every person is in one cell of a table. One who is replaced leaves a cell and enters another; one
who is added enters a cell, which moves the table's cells against each other by one step and the
number of people by another. `Replaced`, `Entered` and `Headcount` are the hulls of these steps; a
product of such bodies holds what a person can change in several tables at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Protocol

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.privacy.noise.source import (
    ByteSource,
    uniform_below,
    uniform_integers,
)


class Body(Protocol):
    """A body in the space of a table's cells."""

    @property
    def cells(self) -> int:
        """How many cells the table has."""

    @property
    def dimension(self) -> int:
        """The dimension of what it spans: too large wastes noise, too small is not private."""

    def points(self, level: int) -> int:
        """How many whole vectors the dilate by `level` holds."""

    def squares(self, levels: int) -> list[Fraction]:
        """Σ(z_a - mean)² over the whole vectors of each dilate from 0 to `levels`."""

    def draw(self, level: int, source: ByteSource | None) -> IntArray:
        """One of the whole vectors in the dilate by `level`, each as likely."""

    def shadow(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Uniform points of the body itself, one a row, less their means: for simulation only."""


@dataclass(frozen=True)
class Headcount:
    """The number of people, one up or down."""

    cells: int = 1

    @property
    def dimension(self) -> int:
        return 1

    def points(self, level: int) -> int:
        return 2 * level + 1

    def squares(self, levels: int) -> list[Fraction]:
        return [Fraction(m * (m + 1) * (2 * m + 1), 3) for m in range(levels + 1)]

    def draw(self, level: int, source: ByteSource | None) -> IntArray:
        return np.array([uniform_below(2 * level + 1, source) - level])

    def shadow(self, count: int, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-1, 1, (count, 1))


@dataclass(frozen=True)
class Replaced:
    """Hull of all e_a - e_b: vectors that add up to zero and whose positive part is at most one.

    Its whole vectors, by the number j of positive entries and their sum P: these are j cuts
    a_1 < ... < a_j = P, the others n - j - 1 cuts b_1 <= b_2 <= ... <= P. Cuts drawn without
    regard to each other are kept where no b exceeds P.
    """

    cells: int

    @property
    def dimension(self) -> int:
        return self.cells - 1

    def points(self, level: int) -> int:
        d = self.cells - 1
        return sum(
            comb(d, i) ** 2 * comb(level - i + d, d) for i in range(min(d, level) + 1)
        )

    def squares(self, levels: int) -> list[Fraction]:
        total = Fraction(0)
        result = []
        for positive_sum in range(levels + 1):
            total += sum(
                self._squares_at(positive_sum, j) for j in range(1, self.cells)
            )
            result.append(total)

        return result

    def _squares_at(self, positive_sum: int, positives: int) -> Fraction:
        """Σz² over vectors with so many positive entries of this sum: they are compositions."""
        n = self.cells
        j = positives
        p = positive_sum
        if p < j:
            return Fraction(0)

        vectors = comb(n, j) * comb(p - 1, j - 1) * comb(p + n - j - 1, n - j - 1)
        above, above_square = _bin_means(p - j, j)
        _, below_square = _bin_means(p, n - j)

        return vectors * (j * (1 + 2 * above + above_square) + (n - j) * below_square)

    def draw(self, level: int, source: ByteSource | None) -> IntArray:
        n = self.cells
        weights = [1]
        weights += [
            comb(n, j) * comb(level, j) * comb(level + n - j - 1, n - j - 1)
            for j in range(1, n)
        ]

        while True:
            j = _chosen(weights, source)
            if j == 0:
                return np.zeros(n, dtype=np.int64)

            upward = np.sort(_distinct(j, level, source)) + 1
            below = n - j - 1
            downward = np.sort(_distinct(below, level + below, source)) - np.arange(
                below
            )
            if below and downward[-1] > upward[-1]:
                continue

            result = np.empty(n, dtype=np.int64)
            positive = np.zeros(n, dtype=bool)
            positive[_distinct(j, n, source)] = True
            result[positive] = np.diff(upward, prepend=0)
            result[~positive] = -np.diff(downward, prepend=0, append=upward[-1])

            return result

    def shadow(self, count: int, rng: np.random.Generator) -> FloatArray:
        n = self.cells
        weights = np.array(
            [comb(n, j) * comb(n - 2, j - 1) for j in range(1, n)],
            dtype=float,
        )
        positives = 1 + rng.choice(n - 1, size=count, p=weights / weights.sum())
        order = rng.random((count, n)).argsort(axis=1)
        upward = order < positives[:, None]
        sizes = rng.standard_exponential((count, n))
        parts = np.where(upward, sizes, 0.0)
        up = parts / parts.sum(axis=1, keepdims=True)
        parts = np.where(upward, 0.0, sizes)
        down = parts / parts.sum(axis=1, keepdims=True)

        return np.asarray(rng.random((count, 1)) ** (1 / (n - 1)) * (up - down))


@dataclass(frozen=True)
class Entered:
    """Hull of all ±e_a, less what moves all cells alike: told by differences of cells alone.

    Of the vectors that differ by a constant, the one whose lower median is zero is the nearest to
    zero: at most half its entries are positive, fewer than half negative.
    """

    cells: int

    @property
    def dimension(self) -> int:
        return self.cells - 1

    @cached_property
    def _signs(self) -> list[tuple[int, int, int]]:
        """Numbers of positive and of negative entries, and the ways to place them."""
        n = self.cells
        return [
            (p, m, comb(n, p) * comb(n - p, m))
            for p in range(n // 2 + 1)
            for m in range((n - 1) // 2 + 1)
        ]

    @cached_property
    def _by_entries(self) -> list[tuple[int, int]]:
        """Ways to place so many entries, and these times the squared sum of their signs."""
        result = [(0, 0)] * self.cells
        for p, m, ways in self._signs:
            placed, squared = result[p + m]
            result[p + m] = placed + ways, squared + ways * (p - m) ** 2
        return result

    def points(self, level: int) -> int:
        return sum(
            ways * comb(level, s) for s, (ways, _) in enumerate(self._by_entries)
        )

    def squares(self, levels: int) -> list[Fraction]:
        return [
            sum(
                (self._squares_at(level, s) for s in range(self.cells)),
                Fraction(0),
            )
            for level in range(levels + 1)
        ]

    def _squares_at(self, level: int, entries: int) -> Fraction:
        """Entries and what is left of the level are a composition of it."""
        if level < entries:
            return Fraction(0)

        ways, squared_signs = self._by_entries[entries]
        left = level - entries
        mean, square = _bin_means(left, entries + 1)
        product = Fraction(left * (left - 1), (entries + 1) * (entries + 2))
        squares = 1 + 2 * mean + square
        cross = 1 + 2 * mean + product
        summed = ways * entries * squares + (squared_signs - ways * entries) * cross

        return comb(level, entries) * (ways * entries * squares - summed / self.cells)

    def draw(self, level: int, source: ByteSource | None) -> IntArray:
        weights = [ways * comb(level, p + m) for p, m, ways in self._signs]
        positives, negatives, _ = self._signs[_chosen(weights, source)]
        entries = positives + negatives
        result = np.zeros(self.cells, dtype=np.int64)
        sizes = np.diff(np.sort(_distinct(entries, level, source)) + 1, prepend=0)
        sizes[positives:] *= -1
        result[_distinct(entries, self.cells, source)] = sizes

        return result

    def shadow(self, count: int, rng: np.random.Generator) -> FloatArray:
        # Only entries besides the median's are left of the simplices that fill the body.
        n = self.cells
        p = n // 2
        m = (n - 1) // 2
        order = rng.random((count, n)).argsort(axis=1)
        sizes = rng.standard_exponential((count, n))
        sizes /= sizes.sum(axis=1, keepdims=True)
        signs = np.where(order < p, 1.0, np.where(order < p + m, -1.0, 0.0))
        vectors = signs * sizes

        return np.asarray(vectors - vectors.mean(axis=1, keepdims=True))


def _bin_means(balls: int, bins: int) -> tuple[Fraction, Fraction]:
    """Mean and mean square of one bin, over all ways to put alike balls into bins."""
    mean = Fraction(balls, bins)
    return mean, Fraction(balls * (2 * balls + bins - 1), bins * (bins + 1))


def _chosen(weights: Sequence[int], source: ByteSource | None) -> int:
    """A position, with chances proportional to whole weights."""
    drawn = uniform_below(sum(weights), source)
    for position, weight in enumerate(weights):
        if drawn < weight:
            return position
        drawn -= weight
    raise AssertionError("a number below the sum lies below some partial sum")


def _distinct(
    count: int,
    bound: int,
    source: ByteSource | None,
) -> IntArray:
    """So many different numbers below a bound, in the order drawn, every sequence as likely."""
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        drawn = uniform_integers(bound, count - len(numbers), source)
        numbers |= dict.fromkeys(int(number) for number in drawn)
    return np.fromiter(numbers, dtype=np.int64, count=count)
