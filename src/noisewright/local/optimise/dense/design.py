"""Two-valued designs: subsets of cells with weights, the form in which some optimum always exists.

Row S has chance weight_S · e^ε on the cells of S and weight_S elsewhere. f(q) = qqᵀ/πᵀq is convex
and homogeneous, so splitting any row of a strategy into two-valued ones never raises its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import expm1

import numpy as np

from noisewright.local.optimise.dense.starts import BoolArray
from noisewright.workload.base import FloatArray

_ROUNDS = 30


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
        """The strategy matrix."""
        return np.asarray(self.weights[:, None] * self.relative)

    def merged(self) -> Design:
        """The same design with equal rows (and the two constant ones) as one."""
        full = np.asarray(self.patterns.all(axis=1))
        scale = np.where(full, 1.0 + expm1(self.epsilon), 1.0)
        patterns = self.patterns & ~full[:, None]
        packed, inverse = np.unique(np.packbits(patterns, axis=1), axis=0, return_inverse=True)
        weights = np.bincount(inverse.ravel(), self.weights * scale).astype(np.float64)
        unpacked = np.unpackbits(packed, axis=1, count=self.patterns.shape[1]).astype(bool)
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
            shrinking = step < 0
            limit = float(np.min(-w[shrinking] / step[shrinking], initial=np.inf))
            w = w + min(1.0, 0.9 * limit) * step
        return None


def split(positions: FloatArray, weights: FloatArray, epsilon: float) -> Design:
    """A strategy with positions between its bounds as two-valued rows, exactly.

    Row by row, the level sets of the positions are the patterns, and the steps between levels
    their shares of the row's weight.
    """
    patterns, parts = [], []
    for row, weight in zip(positions, weights, strict=True):
        levels = np.unique(np.concatenate([[0.0], row, [1.0]]))
        for low, high in pairwise(levels):
            patterns.append(row >= high)
            parts.append(weight * (high - low))
    return Design(np.array(patterns), np.array(parts), epsilon).merged()


def rounded(positions: FloatArray, weights: FloatArray, epsilon: float) -> Design | None:
    """Two-valued rows near a strategy: each entry goes to its nearer bound, weights make up for it.

    No more rows than before, and at ε near 1 the error falls more often than not. None where no
    positive weights balance the columns.
    """
    return Design(positions > 0.5, weights, epsilon).merged().balanced()
