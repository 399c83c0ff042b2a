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

from noisewright.arrays import FloatArray
from noisewright.local.transform.spectrum import lowered

_MOST_STEPS = 64
_SHARPNESS = (30.0, 300.0, 3000.0)
_START = 1e-3


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
        spread = np.geomspace(1, n - 1, _MOST_STEPS) - 1
        widths = np.unique(np.rint(spread if n > _MOST_STEPS else np.arange(n - 1)))[
            :, None
        ]
        lags = np.arange(n)
        line = lags <= widths
        cycle = (
            np.minimum(lags, n - lags)
            <= widths[(widths > 0) & (widths < n // 2)][:, None]
        )

        return np.concatenate([line, cycle]).astype(float)

    @cached_property
    def _root(self) -> FloatArray:
        """R with RᵀR = P M P."""
        m = self.gram - self.gram.mean(axis=0)
        m = m - m.mean(axis=1)[:, None]
        values, vectors = np.linalg.eigh((m + m.T) / 2)
        values = lowered(values, float(np.diagonal(self.gram).max()))
        support = values > 0
        return np.asarray(np.sqrt(values[support])[:, None] * vectors[:, support].T)

    # --- the proof ----------------------------------------------------------------------------

    def floor(self, heights: FloatArray, tilt: float) -> float:
        """Proven floor under tr(MX⁻¹) off the total, from T's steps and β."""
        falling = np.asarray(heights, dtype=np.float64)
        if falling.min() < 0 or not 0 < falling.sum() < np.inf or not np.isfinite(tilt):
            return 0.0

        lags = np.arange(self.cells)
        kernel = (falling / falling.sum() @ self.steps)[np.abs(lags[:, None] - lags)]
        kernel = _made_definite(kernel)
        inner = self._root @ kernel @ self._root.T  # R is centred already
        values = np.linalg.eigvalsh((inner + inner.T) / 2)
        fidelity = float(
            np.sqrt(lowered(values, float(np.diagonal(inner).max()))).sum()
        )
        limit = self._limit(kernel, tilt)

        return fidelity**2 / limit if limit > 0 else 0.0

    def _limit(self, kernel: FloatArray, tilt: float) -> float:
        """The least Λ for which no set breaks the condition."""
        n = self.cells
        r = expm1(self.epsilon)
        d = np.arange(1, n)
        sums = kernel.sum(axis=1)
        neighbours = np.cumsum(np.cumsum(kernel, axis=0), axis=1).diagonal()[:-1]
        above = sums - sums.mean()
        ordered = np.cumsum(np.sort(above))
        smallest = ordered[:-1]
        largest = ordered[-1] - ordered[-2::-1]
        slope = tilt * r * (n + r * d) - 2 * r**2 * d / n
        gain = r**2 * (neighbours - d**2 * sums.mean() / n)
        gain += np.where(slope > 0, slope * largest, slope * smallest)
        # Differences of sums over n² entries at most: rounded up by far more than they lose.
        gain += 2.0**-40 * (r**2 * neighbours + np.abs(slope) * sums.mean() * d)

        return float((gain / ((n + r * d) * (1 + r * d / n))).max())

    # --- the search ---------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For every step (row) and d (column): τ_d − d²ḡ/n, and sums of the extreme g_i − ḡ."""
        n = self.cells
        lags = np.abs(np.arange(n)[:, None] - np.arange(n))
        d = np.arange(1, n)
        gains = []
        small = []
        large = []

        for by_lag in self.steps:
            step = by_lag[lags]
            sums = step.sum(axis=1)
            inside = np.cumsum(np.cumsum(step, axis=0), axis=1).diagonal()[:-1]
            gains.append(inside - d**2 * sums.mean() / n)
            ordered = np.cumsum(np.sort(sums - sums.mean()))
            small.append(ordered[:-1])
            large.append(ordered[-1] - ordered[-2::-1])

        return np.array(gains), np.array(small), np.array(large)

    def _loss(
        self, point: FloatArray, sharpness: float, unit: float
    ) -> tuple[float, FloatArray]:
        """−log of the floor with a softened maximum over d, and its gradient."""
        n = self.cells
        r = expm1(self.epsilon)
        heights = point[:-1] ** 2
        tilt = point[-1] * unit
        lags = np.arange(n)
        kernel = (heights @ self.steps)[np.abs(lags[:, None] - lags)]
        inner = self._root @ kernel @ self._root.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        roots = np.sqrt(np.maximum(values, 1e-12 * np.abs(values).max()))
        half = (vectors / np.sqrt(roots)).T @ self._root
        information = half.T @ half
        diagonals = np.array(
            [np.trace(information, lag) * (2 if lag else 1) for lag in range(n)]
        )
        pull = self.steps @ diagonals / roots.sum()

        d = np.arange(1, n)
        gains, small, large = self._tables
        slope = tilt * r * (n + r * d) - 2 * r**2 * d / n
        extreme = np.where(slope > 0, large, small)
        scale = (n + r * d) * (1 + r * d / n)
        table = (r**2 * gains + slope * extreme) / scale
        limits = heights @ table
        logs = sharpness * np.log(np.maximum(limits, 1e-300))
        peak = logs.max()
        soft = np.exp(logs - peak)
        weights = soft / soft.sum() / np.maximum(limits, 1e-300)
        push = table @ weights
        push_tilt = float((heights @ extreme * r * (n + r * d) / scale) @ weights)
        value = -2 * np.log(roots.sum()) + (peak + np.log(soft.sum())) / sharpness
        gradient = np.append((push - pull) * 2 * point[:-1], push_tilt * unit)

        return float(value), gradient

    def best(self, evaluations: int = 25) -> float:
        """The largest floor found, from the identity kernel on."""
        from scipy.optimize import minimize

        if self.cells < 3 or not len(self._root):
            return 0.0

        n = self.cells
        r = expm1(self.epsilon)
        likely = max(1.0, n / (1 + exp(self.epsilon)))
        unit = 2 * r * likely / (n * (n + r * likely))
        point = np.append(np.full(len(self.steps), (_START / n) ** 0.5), 1.0)
        point[0] = 1.0
        floor = self.floor(np.eye(len(self.steps))[0], 0.0)

        for sharpness in _SHARPNESS:
            try:
                point = minimize(
                    self._loss,
                    point,
                    (sharpness, unit),
                    jac=True,
                    method="L-BFGS-B",
                    options={"maxiter": evaluations, "maxfun": evaluations},
                ).x
            except np.linalg.LinAlgError:
                # a step beyond double precision: every point before it proves its floor
                break
            floor = max(floor, self.floor(point[:-1] ** 2, float(point[-1]) * unit))

        return floor


def _made_definite(kernel: FloatArray) -> FloatArray:
    """Enough of the identity added that no centred vector has a negative square."""
    centred = kernel - kernel.mean(axis=0)
    centred = centred - centred.mean(axis=1)[:, None]
    values = np.linalg.eigvalsh((centred + centred.T) / 2)
    short = max(-float(values[0]), 0.0) + 1e-13 * float(values[-1])
    return kernel + short * np.eye(len(kernel))
