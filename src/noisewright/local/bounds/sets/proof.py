"""A proof for any workload, set size by set size, and its check.

The condition of `proof` is checked for all sets of d cells at once, d = 1 … n. With x = 1_S and
Φ = Z − (λπᵀ + πλᵀ)/2, s = Φ1, σ = 1ᵀΦ1, any ν, and any symmetric E without a negative entry,

    vᵀΦv = r²xᵀΦx + 2r·sᵀx + σ ≤ xᵀGx ≤ d·λmax(G),
    G = r²Φ + Diag(2r·s + σ/d) + (ν1ᵀ + 1νᵀ)/2 − d·Diag(ν) + E,

since ‖x‖² = 1ᵀx = d, the terms in ν cancel, and xᵀEx ≥ 0. Sets of up to three cells are looked at
one by one instead, and need no multipliers. What is left above zero is paid for by prices: λ + κc,
with c even or π, takes κ(cᵀv)(πᵀv) off.

Nothing here is believed: E is kept as its upper triangle, Z as its factor, λmax is proved by a
Cholesky factorization, and every rounding is counted. A proof that is wrong proves less, not more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1, inf
from typing import ClassVar

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.bounds.proof import (
    EPS,
    Layout,
    Proof,
    largest_eigenvalue,
    symmetric,
)

MOST_CELLS = 256
LISTED = 3
"""Sets of up to so many cells are looked at one by one."""


@dataclass(frozen=True, eq=False)
class SetProof(Proof):
    """ν and E for some set sizes, in between interpolated."""

    kind = "sets"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "sizes": (np.int64, 1),
        "tilts": (np.float64, 2),
        "excess": (np.float32, 2),
    }
    sizes: IntArray
    tilts: FloatArray
    excess: Array
    """Upper triangles of E, row by row, one row per size, in single precision."""

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n = self.size
        count = len(self.sizes)
        return {
            "sizes": (count,),
            "tilts": (count, n),
            "excess": (count, n * (n + 1) // 2),
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            len(self.sizes) and not (np.diff(self.sizes) <= 0).any(),
            "sizes",
            "array",
            "must rise",
        )
        require(
            self.sizes[0] >= 1 and self.sizes[-1] <= self.size,
            "sizes",
            "array",
            f"must lie between 1 and {self.size}",
        )
        require(self.excess.min() >= 0, "excess", "array", "must not be negative")

    def rise(self, epsilon: float) -> float:
        return repair(self, epsilon)

    def multipliers(self, cells: int) -> tuple[FloatArray, FloatArray]:
        """ν and E for sets of so many cells: on the line between the two nearest sizes kept."""
        after = int(np.searchsorted(self.sizes, cells))
        low = max(after - 1, 0)
        high = min(after, len(self.sizes) - 1)
        gap = float(self.sizes[high] - self.sizes[low])
        share = (cells - float(self.sizes[low])) / gap if gap else 0.0
        tilt = (1 - share) * self.tilts[low] + share * self.tilts[high]
        packed = (1 - share) * self.excess[low].astype(np.float64)
        packed += share * self.excess[high]

        return (tilt), symmetric(packed, self.size)


@dataclass(frozen=True, eq=False)
class _Condition:
    """vᵀΦv for all sets of one size, bounded from above with all that rounding may hide."""

    proof: SetProof
    epsilon: float
    phi: FloatArray
    bound: FloatArray
    """An upper bound on the numbers that Φ is made of, entry by entry."""

    @classmethod
    def of(cls, proof: SetProof, epsilon: float) -> _Condition:
        y = proof.factor
        prices = proof.prices
        prior = proof.prior
        phi = y @ y.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        heights = np.outer(np.abs(prices), prior)
        bound = np.abs(y) @ np.abs(y).T + (heights + heights.T) / 2
        return cls(proof, epsilon, (phi + phi.T) / 2, bound)

    @property
    def _rounding(self) -> float:
        """Relative to the numbers in a sum: their count, twice over."""
        columns: int = self.proof.factor.shape[1]
        return 2 * (self.proof.size + columns + 16) * EPS

    def listed(self, d: int) -> tuple[float, float]:
        """κ that sets of d = 1, 2 or 3 cells ask for, one by one: paid evenly, and by π."""
        by_even = by_prior = -inf
        for values, mass in self._listed(d):
            values /= mass
            by_even = max(by_even, float(values.max()))
            values /= mass
            by_prior = max(by_prior, float(values.max()))

        return by_even / (1 + expm1(self.epsilon) * d / self.proof.size), by_prior

    def _listed(self, d: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """vᵀΦv and πᵀv of all sets of d cells; those of three by their first."""
        n = self.proof.size
        r = expm1(self.epsilon)
        prior = self.proof.prior
        sums = self.phi.sum(axis=1)
        bounds = self.bound.sum(axis=1)
        largest = (
            (r * d) ** 2 * self.bound.max() + 2 * r * d * bounds.max() + bounds.sum()
        )
        hidden = float(sums.sum()) + self._rounding * float(largest)
        cell = r * r * np.diagonal(self.phi) + 2 * r * sums
        mass = 1 + r * prior
        if d == 1:
            yield hidden + cell, mass
            return

        pairs = hidden + cell[:, None] + cell + 2 * r * r * self.phi
        pairs[np.diag_indices(n)] = -inf
        masses = mass[:, None] + r * prior
        if d == 2:
            yield pairs, masses
            return

        for i in range(n - 2):
            along = cell[i] / 2 + 2 * r * r * self.phi[i, i + 1 :]
            later = slice(i + 1, None)
            yield (
                pairs[later, later] + along[:, None] + along,
                masses[later, later] + r * prior[i],
            )

    def whole(self) -> float:
        """Of all cells together."""
        growth = 1 + expm1(self.epsilon)
        rounding = self._rounding * float(self.bound.sum())
        return growth * growth * (float(self.phi.sum()) + rounding)

    def of_size(self, d: int) -> float:
        """Of any d cells."""
        n, r, (tilt, excess) = (
            self.proof.size,
            expm1(self.epsilon),
            self.proof.multipliers(d),
        )
        sums = self.phi.sum(axis=1)
        bounds = self.bound.sum(axis=1)
        g = r * r * self.phi + (tilt[:, None] + tilt[None, :]) / 2 + excess
        g[np.diag_indices(n)] += 2 * r * sums + float(sums.sum()) / d - d * tilt
        size = float(
            r * r * np.linalg.norm(self.bound)
            + (n**0.5 + d) * np.linalg.norm(tilt)
            + np.linalg.norm(excess)
            + 2 * r * bounds.max()
            + bounds.sum() / d
        )

        return d * (largest_eigenvalue(g) + self._rounding * size)


def repair(proof: SetProof, epsilon: float) -> float:
    """κ: what prices must rise by, in sum, for every set to meet the condition."""
    n = proof.size
    r = expm1(epsilon)
    prior = proof.prior
    if n == 1:
        return 0.0

    condition = _Condition.of(proof, epsilon)
    ordered = np.sort(prior)
    least = 1 + r * np.cumsum(ordered)  # the smallest and the largest πᵀv of d cells
    most = 1 + r * np.cumsum(ordered[::-1])
    asked = [condition.listed(d) for d in range(1, min(LISTED, n) + 1)]

    for d in range(LISTED + 1, n + 1):
        excess = condition.whole() if d == n else condition.of_size(d)
        mass = least[d - 1] if excess > 0 else most[d - 1]
        asked.append((excess / ((1 + r * d / n) * mass), excess / mass**2))

    least_rise = min(
        max(by_even for by_even, _ in asked), max(by_prior for _, by_prior in asked)
    )
    return float(least_rise + 8 * n * EPS * abs(least_rise))
