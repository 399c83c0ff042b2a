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
    check_not_negative,
    check_rising,
    largest_eigenvalue,
    symmetric,
)

MOST_CELLS = 256
"""Only bounds time: a check takes a spectrum over all cells for every size."""

LISTED = 3
"""Sets of up to so many cells are looked at one by one: those of four would take n⁴ steps."""


@dataclass(frozen=True, eq=False)
class SetProof(Proof):
    """ν and E for some set sizes, in between interpolated."""

    kind = "sets"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "sizes": (np.int64, "k"),
        "tilts": (np.float64, "kn"),
        "excess": (np.float32, "kt"),
    }
    sizes: IntArray
    tilts: FloatArray
    """ν."""
    excess: Array
    """Upper triangles of E, row by row, one row per size, in single precision."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.sizes), "sizes", 0, "must be one or more")
        check_rising("sizes", self.sizes, 1, self.size)
        check_not_negative(self, "excess")

    def multipliers(self, cells: int) -> tuple[FloatArray, FloatArray]:
        """ν and E for sets of so many cells: on the line between the two nearest sizes kept."""
        after = int(np.searchsorted(self.sizes, cells))
        low = max(after - 1, 0)
        high = min(after, len(self.sizes) - 1)
        start = float(self.sizes[low])
        gap = float(self.sizes[high]) - start
        share = (cells - start) / gap if gap else 0.0

        tilt = (1 - share) * self.tilts[low]
        tilt += share * self.tilts[high]
        packed = (1 - share) * self.excess[low].astype(np.float64)
        packed += share * self.excess[high]
        return tilt, symmetric(packed, self.size)

    def rise(self, epsilon: float) -> float:
        """By the largest value of any size, paid evenly or by π, whichever is cheaper."""
        n = self.size
        if n == 1:
            return 0.0

        condition = Condition.of(self, epsilon)
        few = min(LISTED, n)
        needed = [condition.listed(d) for d in range(1, few + 1)]
        needed += [condition.paid(d) for d in range(few + 1, n + 1)]

        evenly = max(by_even for by_even, _ in needed)
        by_prior = max(by_prior for _, by_prior in needed)
        least = min(evenly, by_prior)
        return float(least + 8 * n * EPS * abs(least))


@dataclass(frozen=True, eq=False)
class Condition:
    """vᵀΦv for all sets of one size, bounded from above with all that rounding may hide."""

    proof: SetProof
    r: float
    phi: FloatArray
    sums: FloatArray
    """s = Φ1."""
    total: float
    """σ = 1ᵀΦ1."""
    bound: FloatArray
    """An upper bound on the numbers that Φ is made of, entry by entry."""

    @classmethod
    def of(cls, proof: SetProof, epsilon: float) -> Condition:
        """That of a proof."""
        phi, bound = proof.condition()
        sums = phi.sum(axis=1)
        r = expm1(epsilon)
        return cls(proof, r, phi, sums, float(sums.sum()), bound)

    @property
    def _rounding(self) -> float:
        """Relative to the numbers in a sum: their count, twice over."""
        columns: int = self.proof.factor.shape[1]
        return 2 * (self.proof.size + columns + 16) * EPS

    # --- few cells, set by set ------------------------------------------------------------------

    def listed(self, d: int) -> tuple[float, float]:
        """κ that sets of d = 1, 2 or 3 cells ask for, one by one: paid evenly, and by π."""
        even_mass = 1 + self.r * d / self.proof.size
        by_even = by_prior = -inf
        for values, mass in self._values(d):
            values /= mass
            by_even = max(by_even, float(values.max()) / even_mass)
            values /= mass
            by_prior = max(by_prior, float(values.max()))

        return by_even, by_prior

    def _values(self, d: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """vᵀΦv and πᵀv of all sets of d cells; those of three by their first."""
        n = self.proof.size
        r = self.r
        prior = self.proof.prior
        constant = self.total + self._listed_rounding(d)
        single = r * r * np.diagonal(self.phi) + 2 * r * self.sums
        mass = 1 + r * prior
        if d == 1:
            yield constant + single, mass
            return

        twice = 2 * r * r * self.phi
        pairs = constant + single[:, None] + single + twice
        pairs[np.diag_indices(n)] = -inf
        masses = mass[:, None] + r * prior
        if d == 2:
            yield pairs, masses
            return

        for i in range(n - 2):
            later = slice(i + 1, None)
            along = single[i] / 2 + twice[i, later]
            triples = pairs[later, later] + along[:, None] + along
            yield triples, masses[later, later] + r * prior[i]

    def _listed_rounding(self, d: int) -> float:
        r = self.r
        sums = self.bound.sum(axis=1)
        within = (r * d) ** 2 * self.bound.max()
        across = 2 * r * d * sums.max()
        return self._rounding * float(within + across + sums.sum())

    # --- many cells, by an eigenvalue -----------------------------------------------------------

    def paid(self, d: int) -> tuple[float, float]:
        """κ that sets of d cells ask for: paid evenly, and by π."""
        n = self.proof.size
        excess = self.whole() if d == n else self.of_size(d)

        # The smallest or the largest πᵀv of d cells, whichever asks for more.
        ordered = np.sort(self.proof.prior)
        some = ordered[:d] if excess > 0 else ordered[n - d :]
        mass = 1 + self.r * float(some.sum())
        even_mass = 1 + self.r * d / n
        return excess / (even_mass * mass), excess / mass**2

    def whole(self) -> float:
        """Of all cells together."""
        growth = 1 + self.r
        rounding = self._rounding * float(self.bound.sum())
        return growth * growth * (self.total + rounding)

    def of_size(self, d: int) -> float:
        """Of any d cells."""
        r = self.r
        tilt, excess = self.proof.multipliers(d)
        g = r * r * self.phi + excess
        g += (tilt[:, None] + tilt) / 2
        diagonal = 2 * r * self.sums + self.total / d
        g[np.diag_indices(self.proof.size)] += diagonal - d * tilt

        # Sizes of the numbers that G is a sum of.
        sums = self.bound.sum(axis=1)
        size = r * r * np.linalg.norm(self.bound)
        size += np.linalg.norm(excess)
        size += (self.proof.size**0.5 + d) * np.linalg.norm(tilt)
        size += 2 * r * sums.max() + sums.sum() / d
        rounding = self._rounding * float(size)
        return d * (largest_eigenvalue(g) + rounding)
