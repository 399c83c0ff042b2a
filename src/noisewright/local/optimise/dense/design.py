"""Two-valued designs: subsets of cells with weights, the form in which some optimum always exists.

Row S has chance weight_S · e^ε on the cells of S and weight_S elsewhere. f(q) = qqᵀ/πᵀq is convex
and homogeneous, so splitting any row of a strategy into two-valued ones never raises its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.histogram.sets import best_subset_size, top_cells
from noisewright.local.shares import longest_step

_ROUNDS = 30  # of balancing: a few suffice, and what needs more is too far from balance
_DIGITS = 9  # of products with random vectors, by which types are told apart


def _gaussian_factor(centred: FloatArray) -> FloatArray:
    """A matrix B with BBᵀ = (PMP)^{1/2}, what optimal information looks like when nothing binds."""
    values, vectors = np.linalg.eigh(centred)
    return np.asarray(vectors * np.clip(values, 0.0, None) ** 0.25)


def spectral_patterns(
    factor: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> BoolArray:
    """Gaussian rows with the given covariance factor, high at their largest entries."""
    draws = rng.standard_normal((rows, factor.shape[1])) @ factor.T
    return top_cells(draws, best_subset_size(len(factor), epsilon))


def every_pattern(cells: int) -> BoolArray:
    """All subsets but the empty and the full one."""
    numbers = np.arange(1, 2**cells - 1)
    return np.asarray(numbers[:, None] >> np.arange(cells) & 1, dtype=bool)


def dense_start(
    centred: FloatArray, epsilon: float, rows: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Where descents begin: spectral patterns, and lightly every cell, so that all is seen."""
    n = len(centred)
    patterns = spectral_patterns(_gaussian_factor(centred), epsilon, rows, rng)
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
        packed, row = np.unique(
            np.packbits(patterns, axis=1), axis=0, return_inverse=True
        )

        weights = np.bincount(row.ravel(), self.weights * scale).astype(np.float64)
        unpacked = np.unpackbits(packed, axis=1, count=patterns.shape[1]).astype(bool)
        some = weights > 0

        return Design(unpacked[some], weights[some], self.epsilon)

    def with_light(self, patterns: BoolArray, weight: float) -> Design:
        """Some patterns more, of a share of the median weight."""
        weights = np.full(len(patterns), weight * float(np.median(self.weights)))
        return Design(
            np.concatenate([self.patterns, patterns]),
            np.concatenate([self.weights, weights]),
            self.epsilon,
        ).merged()

    def heaviest(self, prior: FloatArray, most: int | None, least: float) -> Design:
        """The patterns that are reported most, at most so many and not below some share."""
        shares = self.weights * (self.relative @ prior)
        heavy = np.argsort(-shares, kind="stable")[:most]
        heavy = heavy[shares[heavy] > least * float(shares.sum())]
        return Design(self.patterns[heavy], self.weights[heavy], self.epsilon)

    def balanced(self) -> Design | None:
        """The nearest weights, relative to these, that make every column sum to one exactly.

        None where they cannot be found positive: the patterns are then too far from balance.
        """
        v = self.relative
        weights = self.weights / float(self.weights @ v.mean(axis=1))
        for _ in range(_ROUNDS):
            missing = 1.0 - weights @ v
            if np.abs(missing).max() < 1e-13:
                return Design(self.patterns, weights, self.epsilon)

            # The least change relative to the weights: normal equations over cells.
            weighted = v * weights[:, None]
            try:
                multipliers = np.linalg.lstsq(
                    weighted.T @ weighted, missing, rcond=1e-12
                )[0]
            except np.linalg.LinAlgError:
                return None
            step = weights * (weighted @ multipliers)
            weights = weights + longest_step(weights, step, 0.9) * step

        return None


@dataclass(frozen=True, eq=False)
class Priced:
    """A design with what its optimum says about other patterns."""

    design: Design
    prior: FloatArray
    """What its estimate is best for."""
    quadratic: FloatArray
    """Σ = X⁻¹MX⁻¹."""
    prices: FloatArray
    """λ, the multipliers of Σ_S w_S v_S = 1."""
    variance: float
    """The error that counts, per person."""


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
