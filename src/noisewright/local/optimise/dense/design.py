"""Two-valued designs: subsets of cells with weights, the form in which some optimum always exists.

Row S has chance weight_S · e^ε on the cells of S and weight_S elsewhere.

A row q adds f(q) = qqᵀ/πᵀq to the information X (π: the prior); the error is tr(MX⁻¹), M the Gram
matrix. f is convex and homogeneous, so f(q + q′) ≼ f(q) + f(q′): splitting a row into two-valued
ones never lessens X nor raises the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.local.histogram.sets import best_subset_size, top_cells
from noisewright.local.shares import longest_step

_ROUNDS = 30  # of balancing: a few suffice, and what needs more is too far from balance
# Off one, of a column's sum: a thousand times the rounding of a float.
_BALANCED = 1e-13
# Of the way to where the first weight would vanish: all of them stay positive.
_STEP_SHARE = 0.9
_SINGLE_CELL_WEIGHT = 0.1
"""Of the pattern of each cell alone in a start, where others weigh one.

After 200 steps over 16 and 32 cells, prefix and random queries, half of it ended within 0.3 %
either way and double up to 0.8 % above.
"""


def _gaussian_factor(centred: FloatArray) -> FloatArray:
    """B with BBᵀ = M^{1/2} for the centred Gram matrix: the optimal X, up to scale.

    Of all X of one trace it has the least tr(MX⁻¹), where no bound binds.
    """
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
    """Where descents begin: spectral patterns, and lightly each cell alone, so that all is seen."""
    n = len(centred)
    patterns = spectral_patterns(_gaussian_factor(centred), epsilon, rows, rng)
    weights = np.concatenate([np.ones(rows), np.full(n, _SINGLE_CELL_WEIGHT)])
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
        """Of every report, given the cell: columns sum to one in a strategy."""
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
        present = weights > 0

        return Design(unpacked[present], weights[present], self.epsilon)

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
            if np.abs(missing).max() < _BALANCED:
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
            weights = weights + longest_step(weights, step, _STEP_SHARE) * step

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

    Positions lie between 0, the low chance of a row, and 1, which is e^ε times as much. No more
    rows than before, and at ε near 1 the error falls more often than not. None where no positive
    weights balance the columns.
    """
    return Design(positions > 0.5, weights, epsilon).merged().balanced()
