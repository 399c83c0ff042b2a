"""Two-valued designs: subsets of cells with weights, the form in which some optimum always exists.

Row S has chance weight_S · e^ε on the cells of S and weight_S elsewhere. f(q) = qqᵀ/πᵀq is convex
and homogeneous, so splitting any row of a strategy into two-valued ones never raises its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.histogram.sets import best_subset_size, top_cells
from noisewright.local.shares import longest_step

_ROUNDS = 30
_DIGITS = 9


def gaussian_factor(centred: FloatArray) -> FloatArray:
    """A matrix B with BBᵀ = (PMP)^{1/2}, what optimal information looks like when nothing binds."""
    values, vectors = np.linalg.eigh(centred)
    return np.asarray(vectors * np.clip(values, 0.0, None) ** 0.25)


def spectral_patterns(
    factor: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> BoolArray:
    """Gaussian rows with the given covariance factor, high at their largest entries."""
    draws = rng.standard_normal((rows, factor.shape[1])) @ factor.T
    return top_cells(draws, best_subset_size(len(factor), epsilon))


def dense_start(
    centred: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Where descents begin: spectral patterns, and lightly every cell, so that all is seen."""
    n = len(centred)
    patterns = spectral_patterns(gaussian_factor(centred), epsilon, rows, rng)
    weights = np.concatenate([np.ones(rows), np.full(n, 0.1)])
    return np.concatenate([patterns, np.eye(n)]), weights


@dataclass(frozen=True, eq=False)
class Design:
    """Subsets of cells (rows of `patterns`) and the low chance of each."""

    patterns: BoolArray
    weights: FloatArray
    epsilon: float

    @property
    def relative(self) -> FloatArray:
        """Chances over the low chance of their row: 1 or e^ε."""
        return np.asarray(1.0 + expm1(self.epsilon) * self.patterns)

    def chances(self) -> FloatArray:
        return np.asarray(self.weights[:, None] * self.relative)

    def merged(self) -> Design:
        """The same design with equal rows (and the two constant ones) as one."""
        full = np.asarray(self.patterns.all(axis=1))
        scale = np.where(full, 1.0 + expm1(self.epsilon), 1.0)
        patterns = self.patterns & ~full[:, None]
        packed, inverse = np.unique(
            np.packbits(patterns, axis=1), axis=0, return_inverse=True
        )
        weights = np.bincount(inverse.ravel(), self.weights * scale).astype(np.float64)
        unpacked = np.unpackbits(packed, axis=1, count=self.patterns.shape[1]).astype(
            bool
        )
        some = weights > 0

        return Design(unpacked[some], weights[some], self.epsilon)

    def balanced(self) -> Design | None:
        """The nearest weights, relative to these, that make every column sum to one exactly.

        None where they cannot be found positive: the patterns are then too far from balance.
        """
        v = self.relative
        w = self.weights / float(self.weights @ v.mean(axis=1))
        for _ in range(_ROUNDS):
            rooted = v * w[:, None]
            missing = 1.0 - w @ v
            if np.abs(missing).max() < 1e-13:
                return Design(self.patterns, w, self.epsilon)
            try:
                answer = np.linalg.lstsq(rooted.T @ rooted, missing, rcond=1e-12)[0]
            except np.linalg.LinAlgError:
                return None
            step = w * (rooted @ answer)
            w = w + longest_step(w, step, 0.9) * step

        return None


def split(positions: FloatArray, weights: FloatArray, epsilon: float) -> Design:
    """A strategy with positions between its bounds as two-valued rows, exactly.

    Row by row, the level sets of the positions are the patterns, and the steps between levels
    their shares of the row's weight.
    """
    patterns = []
    parts = []
    for row, weight in zip(positions, weights, strict=True):
        levels = np.unique(np.concatenate([[0.0], row, [1.0]]))
        for low, high in pairwise(levels):
            patterns.append(row >= high)
            parts.append(weight * (high - low))

    return Design(np.array(patterns), np.array(parts), epsilon).merged()


def rounded(
    positions: FloatArray, weights: FloatArray, epsilon: float
) -> Design | None:
    """Two-valued rows near a strategy: each entry goes to its nearer bound, weights make up for it.

    No more rows than before, and at ε near 1 the error falls more often than not. None where no
    positive weights balance the columns.
    """
    return Design(positions > 0.5, weights, epsilon).merged().balanced()


@dataclass(frozen=True, eq=False)
class Types:
    """Cells that no query tells apart, taken together: every cell's group, one cell of each.

    If W has equal columns at two cells, M = PMP for the mean P over groups of such cells, and
    giving all cells of a group the mean of their chances turns X into PXP. The inverse of a
    compression is at most the compression of the inverse, so no error rises: a search over groups
    loses nothing.
    """

    group: IntArray
    first: IntArray

    @classmethod
    def of(cls, gram: FloatArray) -> Types:
        """Groups of equal rows of a Gram matrix, told apart by their products with random vectors.

        Rows that differ have equal products only by a coincidence of nine digits in all of them.
        """
        random = np.random.default_rng(0).standard_normal((len(gram), 3))
        image = gram @ random
        scale = max(float(np.abs(image).max(initial=0.0)), 1e-300)
        # Rounding after a shift: equal numbers but for the last bit round alike almost surely.
        keys = np.round(image / scale + 0.314159e-9, _DIGITS)
        _, first, group = np.unique(
            keys, axis=0, return_index=True, return_inverse=True
        )
        # as cells are: runs of cells and mirror images go by their order
        order = np.argsort(first)

        return cls(np.argsort(order)[group.ravel()], first[order])

    @property
    def count(self) -> int:
        return len(self.first)

    def merged_gram(self, gram: FloatArray) -> FloatArray:
        """The Gram matrix over groups."""
        return gram[np.ix_(self.first, self.first)]

    def merged(self, prior: FloatArray) -> FloatArray:
        """A distribution over cells, summed over groups."""
        return np.bincount(self.group, prior, minlength=self.count).astype(np.float64)

    def spread(self, merged: FloatArray, prior: FloatArray) -> FloatArray:
        """A distribution over groups, spread over their cells as `prior` is."""
        return np.asarray(prior * (merged / self.merged(prior))[self.group])
