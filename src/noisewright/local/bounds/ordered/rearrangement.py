"""Kernels for ordered cells: a set's gain is limited by rearrangement.

Let T(i, j) fall with the distance of i and j, on a line or round a cycle. No set of d cells has a
larger Σ_{i,j∈S} T(i, j) than d neighbours: a reflection that moves members of S to the side where
an interval I has its middle, wherever their mirror images are free, does not lower the sum, since
T falls with distance; and if S is not I, some reflection swaps a member outside I for a missing one
inside, so finitely many lead to I. Sums of such T have the same property. Hence, for K = P T P with
P = I − 11ᵀ/n, row sums g of T and v = 1 + r·1_S,

    vᵀKv ≤ r²(τ_d − d²ḡ/n) − 2r²(d/n) Σ_{i∈S} (g_i − ḡ),

where τ_d is the sum over d neighbours. With λ_i = Λ/n − β(g_i − ḡ) the condition of the proof asks
for a Λ that is a maximum over d, the last sum running over the d largest or smallest g_i − ḡ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, expm1

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.analysis.information import centred
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.bounds.ordered.intervals import centred_root, fidelity
from noisewright.local.bounds.ordered.search import (
    DESCENT,
    KernelLoss,
    SizeLimits,
)
from noisewright.local.bounds.proof import MARGIN

_MOST_STEPS = 64
"""Widths on the line: at 64 cells 32 prove 0.1 % less, at 32 cells as much."""

_LEAST_EIGENVALUE = 1e-13
"""Of the largest: above the rounding of the eigenvalues of a kernel."""


@dataclass(frozen=True, eq=False)
class OrderedBound:
    """The search for a falling kernel that proves most, and the proof itself (`floor`).

    T is a sum of steps 1[distance ≤ width] with weights `heights` ≥ 0.
    """

    gram: FloatArray
    epsilon: float

    @property
    def cells(self) -> int:
        return len(self.gram)

    @cached_property
    def steps(self) -> FloatArray:
        """Steps of all widths (or of about so many, closer when small), as functions of |i − j|."""
        n = self.cells
        widths = np.arange(n - 1)
        if n > _MOST_STEPS:
            spaced = np.geomspace(1, n - 1, _MOST_STEPS) - 1
            widths = np.unique(np.rint(spaced)).astype(np.int64)

        lags = np.arange(n)
        round_cycle = widths[(widths > 0) & (widths < n // 2)]
        line = lags <= widths[:, None]
        cycle = np.minimum(lags, n - lags) <= round_cycle[:, None]
        steps: FloatArray = np.concatenate([line, cycle]).astype(float)
        return steps

    @cached_property
    def _lags(self) -> IntArray:
        """|i − j|."""
        cells = np.arange(self.cells)
        return np.asarray(np.abs(cells[:, None] - cells))

    @cached_property
    def _root(self) -> FloatArray:
        """R with RᵀR = P M P."""
        even = np.full(self.cells, 1.0 / self.cells)
        return centred_root(self.gram, even)[0]

    def _kernel(self, heights: FloatArray) -> FloatArray:
        """T."""
        return np.asarray((heights @ self.steps)[self._lags])

    @cached_property
    def _sizes(self) -> FloatArray:
        """1 … n − 1."""
        return np.arange(1.0, self.cells)

    # --- the proof ----------------------------------------------------------------------------

    def floor(self, heights: FloatArray, tilt: float) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from T's steps and β."""
        total = heights.sum()
        finite = np.isfinite(total) and np.isfinite(tilt)
        if not finite or heights.min() < 0 or total <= 0:
            return 0.0

        kernel = _made_definite(self._kernel(heights / total))
        limit = self._limit(kernel, tilt)
        # R is centred already.
        nuclear = fidelity(self._root, kernel)
        return nuclear**2 / limit if limit > 0 else 0.0

    def _limit(self, kernel: FloatArray, tilt: float) -> float:
        """The least Λ for which no set breaks the condition."""
        n = self.cells
        d = self._sizes
        r = expm1(self.epsilon)
        gains, smallest, largest = _set_sums(kernel)

        rates = r * (n + r * d)
        slope = tilt * rates - 2 * r**2 * d / n
        sums = np.where(slope > 0, largest, smallest)
        limits = r**2 * gains + slope * sums

        # Sizes of the numbers that these are sums of.
        mean = kernel.sum() / n
        within = r**2 * (gains + d**2 * mean / n)
        across = np.abs(slope) * mean * d
        limits += MARGIN * (within + across)
        mass = (n + r * d) * (1 + r * d / n)
        return float((limits / mass).max())

    # --- the search ---------------------------------------------------------------------------

    def best(self) -> float:
        """The largest floor found, from the identity kernel on."""
        if self.cells < 3 or not len(self._root):
            return 0.0

        n = self.cells
        r = expm1(self.epsilon)
        likely = max(1.0, n / (1 + exp(self.epsilon)))
        unit = 2 * r * likely / (n * (n + r * likely))

        heights = np.full(len(self.steps), DESCENT.start_height / n)
        heights[0] = 1.0
        point = np.append(np.sqrt(heights), 1.0)
        identity = np.eye(len(heights))[0]
        best = self.floor(identity, 0.0)
        for end in self.loss(unit).descents(point, DESCENT.sharpness):
            tilt = float(end[-1]) * unit
            best = max(best, self.floor(end[:-1] ** 2, tilt))
        return best

    def loss(self, unit: float) -> KernelLoss:
        """What the search descends on, β in multiples of a unit."""
        n = self.cells
        d = self._sizes
        r = expm1(self.epsilon)
        by_step = [np.array(_set_sums(step[self._lags])) for step in self.steps]
        gains, smallest, largest = np.stack(by_step, axis=1)
        limits = SizeLimits(
            gains=gains,
            smallest=smallest,
            largest=largest,
            rates=unit * r * (n + r * d),
            offsets=2 * r**2 * d / n,
            scale=(n + r * d) * (1 + r * d / n),
        )
        return KernelLoss(self._root, r, limits, self._kernel, self._traces)

    def _traces(self, matrix: FloatArray) -> FloatArray:
        """tr(T_k A) of every step: sums along diagonals, all but the main one twice."""
        sums = np.array([np.trace(matrix, lag) for lag in range(self.cells)])
        sums[1:] *= 2
        return np.asarray(self.steps @ sums)


def _set_sums(kernel: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """τ_d − d²ḡ/n, and sums of the d smallest and of the d largest g_i − ḡ, d = 1 … n − 1."""
    n = len(kernel)
    d = np.arange(1.0, n)
    sums = kernel.sum(axis=1)
    mean = sums.mean()
    above = np.cumsum(kernel, axis=0)
    corners = np.cumsum(above, axis=1)
    neighbours = corners.diagonal()[:-1]

    ordered = np.cumsum(np.sort(sums - mean))
    smallest = ordered[:-1]
    largest = ordered[-1] - ordered[-2::-1]
    return neighbours - d**2 * mean / n, smallest, largest


def _made_definite(kernel: FloatArray) -> FloatArray:
    """Enough of the identity added that no centred vector has a negative square."""
    inner = centred(kernel)
    values = np.linalg.eigvalsh(symmetrised(inner))
    rounding = _LEAST_EIGENVALUE * float(values[-1])
    short = max(-float(values[0]), 0.0) + rounding
    return kernel + short * np.eye(len(kernel))
