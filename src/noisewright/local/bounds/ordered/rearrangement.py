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
from noisewright.local.bounds.ordered.search import (
    SHARPNESS,
    START_HEIGHT,
    KernelLoss,
    SizeLimits,
)
from noisewright.local.transform.spectrum import lowered

_MOST_STEPS = (
    64  # widths on the line: at 64 cells 32 prove 0.1 % less, at 32 cells as much
)
_MARGIN = 2.0**-40  # of the numbers in a limit: above what sums over n² entries lose
_LEAST_EIGENVALUE = (
    1e-13  # of the largest: above the rounding of the eigenvalues of a kernel
)


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
        values, vectors = np.linalg.eigh(_doubly_centred(self.gram))
        values = lowered(values, float(np.diagonal(self.gram).max()))
        some = values > 0
        return np.asarray(np.sqrt(values[some])[:, None] * vectors[:, some].T)

    # --- the proof ----------------------------------------------------------------------------

    def floor(self, heights: FloatArray, tilt: float) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from T's steps and β."""
        total = heights.sum()
        if heights.min() < 0 or not 0 < total < np.inf or not np.isfinite(tilt):
            return 0.0

        kernel = _made_definite((heights / total @ self.steps)[self._lags])
        inner = self._root @ kernel @ self._root.T  # R is centred already
        values = np.linalg.eigvalsh((inner + inner.T) / 2)
        values = lowered(values, float(np.diagonal(inner).max()))
        fidelity = float(np.sqrt(values).sum())
        limit = self._limit(kernel, tilt)
        return fidelity**2 / limit if limit > 0 else 0.0

    def _limit(self, kernel: FloatArray, tilt: float) -> float:
        """The least Λ for which no set breaks the condition."""
        n = self.cells
        r = expm1(self.epsilon)
        d = np.arange(1, n)
        sums = kernel.sum(axis=1)
        neighbours = np.cumsum(np.cumsum(kernel, axis=0), axis=1).diagonal()[:-1]

        # Sums of the d smallest and of the d largest g_i − ḡ.
        ordered = np.cumsum(np.sort(sums - sums.mean()))
        smallest = ordered[:-1]
        largest = ordered[-1] - ordered[-2::-1]

        slope = tilt * r * (n + r * d) - 2 * r**2 * d / n
        gain = r**2 * (neighbours - d**2 * sums.mean() / n)
        gain += np.where(slope > 0, slope * largest, slope * smallest)
        sizes = r**2 * neighbours + np.abs(slope) * sums.mean() * d
        gain += _MARGIN * sizes
        return float((gain / ((n + r * d) * (1 + r * d / n))).max())

    # --- the search ---------------------------------------------------------------------------

    def _limits(self, unit: float) -> SizeLimits:
        """What sets of d cells gain by every step, β in multiples of a unit."""
        n = self.cells
        r = expm1(self.epsilon)
        d = np.arange(1, n)
        gains = []
        smallest = []
        largest = []

        for by_lag in self.steps:
            step = by_lag[self._lags]
            sums = step.sum(axis=1)
            inside = np.cumsum(np.cumsum(step, axis=0), axis=1).diagonal()[:-1]
            gains.append(inside - d**2 * sums.mean() / n)
            ordered = np.cumsum(np.sort(sums - sums.mean()))
            smallest.append(ordered[:-1])
            largest.append(ordered[-1] - ordered[-2::-1])

        return SizeLimits(
            gains=np.array(gains),
            smallest=np.array(smallest),
            largest=np.array(largest),
            rates=np.asarray(unit * r * (n + r * d)),
            offsets=2 * r**2 * d / n,
            scale=(n + r * d) * (1 + r * d / n),
        )

    def _traces(self, matrix: FloatArray) -> FloatArray:
        """tr(T_k A) of every step: sums along diagonals, all but the main one twice."""
        sums = np.array([np.trace(matrix, lag) for lag in range(self.cells)])
        sums[1:] *= 2
        return np.asarray(self.steps @ sums)

    def loss(self, unit: float) -> KernelLoss:
        """What the search descends on."""
        return KernelLoss(
            root=self._root,
            r=expm1(self.epsilon),
            limits=self._limits(unit),
            kernel=lambda heights: (heights @ self.steps)[self._lags],
            traces=self._traces,
        )

    def best(self) -> float:
        """The largest floor found, from the identity kernel on."""
        if self.cells < 3 or not len(self._root):
            return 0.0

        n = self.cells
        r = expm1(self.epsilon)
        likely = max(1.0, n / (1 + exp(self.epsilon)))
        unit = 2 * r * likely / (n * (n + r * likely))
        loss = self.loss(unit)
        point = np.append(np.full(len(self.steps), (START_HEIGHT / n) ** 0.5), 1.0)
        point[0] = 1.0
        floors = [self.floor(np.eye(len(self.steps))[0], 0.0)]
        floors += [
            self.floor(point[:-1] ** 2, float(point[-1]) * unit)
            for point in loss.descents(point, SHARPNESS)
        ]
        return max(floors)


def _doubly_centred(matrix: FloatArray) -> FloatArray:
    """P A P."""
    centred = matrix - matrix.mean(axis=0)
    centred = centred - centred.mean(axis=1)[:, None]
    return np.asarray((centred + centred.T) / 2)


def _made_definite(kernel: FloatArray) -> FloatArray:
    """Enough of the identity added that no centred vector has a negative square."""
    values = np.linalg.eigvalsh(_doubly_centred(kernel))
    short = max(-float(values[0]), 0.0) + _LEAST_EIGENVALUE * float(values[-1])
    return kernel + short * np.eye(len(kernel))
