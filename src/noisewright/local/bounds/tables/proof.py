"""A proof for tables and parities of yes/no attributes by triples of cells, and its check.

Cells are the vectors of {0, 1}^d, people are spread evenly, and Z is a function κ of the distance.
For a set S of k cells and a member u let y be its indicator as seen from u: y_v = 1 if u ⊕ v is in
S. In the mean over members, A_i = ⟨Σ_{|v|=i} y_v⟩ and T_ijc = ⟨Σ y_v y_w⟩ over |v| = i, |w| = j and
|v ⊕ w| = c. What xᵀZx = k·Σκ_i A_i can be follows from

- T_ijc ≥ 0 does not depend on the order of i, j, c; T_0ii = A_i, A_0 = 1, Σ_jc T_ijc = k·A_i;
- ⟨yᵀPy⟩ = ΣP_ijc T_ijc ≥ 0 where P(v, w) = P_ijc has no negative eigenvalue;
- seen from cells outside, where z takes the place of y: Σ_{u∉S} zᵀRz/k = ΣR_ijc(A_c·m_ijc − T_ijc)
  ≥ 0, with m_ijc the number of v and w for one v ⊕ w; for the same reason A_c·m_ijc ≥ T_ijc;
- Delsarte's Σ_i A_i Q_j(i) = Σ_χ ŝ(χ)²/k ≥ 0 over the characters χ of degree j. It is at least
  Q_j(0)/k where k is odd, since ŝ(χ) is odd too. Where k is twice an odd number, ŝ(χ)/2 is odd for
  those χ that are one at some cell a: ŝ(χ) + ŝ(ψ) + ŝ(χψ) + k is a multiple of four. The sum is
  then at least 2(Q_j(0) + Q_j(|a|))/k, for one weight |a| and all j.

A proof holds for some sizes k how these are to be added up; sets of other sizes are listed if they
have few cells (`small_sets`), else limited by the largest eigenvalue of Z. Nothing is believed:
matrices are looked at in full, and what is lacking is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import comb, expm1
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.bounds.proof import EPS, Layout, Proof, largest_eigenvalue
from noisewright.local.bounds.tables.small_sets import pair_counts

MOST_CELLS = 256


@dataclass(frozen=True, eq=False)
class TripleProof(Proof):
    """P, R, the prices of A_c·m_ijc ≥ T_ijc, ν and the prices of Delsarte's sums, for some k."""

    kind = "triples"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "sizes": (np.int64, 1),
        "inside": (np.float64, 4),
        "outside": (np.float64, 4),
        "apart": (np.float64, 4),
        "tilts": (np.float64, 2),
        "waves": (np.float64, 2),
    }
    sizes: IntArray
    inside: FloatArray
    outside: FloatArray
    apart: FloatArray
    tilts: FloatArray
    waves: FloatArray

    @property
    def bits(self) -> int:
        """How many attributes there are."""
        return self.size.bit_length() - 1

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        count = len(self.sizes)
        side = self.bits + 1
        return {
            "sizes": (count,),
            **dict.fromkeys(("inside", "outside", "apart"), (count, side, side, side)),
            **dict.fromkeys(("tilts", "waves"), (count, side)),
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.size
        require(
            n == 2**self.bits and np.array_equal(self.cells, np.arange(n)),
            "cells",
            n,
            "must be all cells of yes/no attributes",
        )
        require(
            np.ptp(self.prior) <= 0 and np.ptp(self.prices) <= 0,
            "prior, prices",
            "arrays",
            "must be even",
        )
        require(
            not (np.diff(self.sizes) <= 0).any()
            and not ((self.sizes < 2) | (self.sizes >= n)).any(),
            "sizes",
            "array",
            f"must rise between 2 and {n - 1}",
        )
        require(
            min(self.apart.min(initial=0.0), self.waves.min(initial=0.0)) >= 0,
            "apart, waves",
            "arrays",
            "must not be negative",
        )

    def rise(self, epsilon: float) -> float:
        return raised(self, epsilon)


def raised(proof: TripleProof, epsilon: float) -> float:
    """What prices must rise by, in sum, for every set to meet the condition."""
    n = proof.size
    r = expm1(epsilon)
    distances = _Distances(proof.bits)
    z = proof.factor @ proof.factor.T
    sums = distances.sums(z)
    heights = distances.sums(np.abs(proof.factor) @ np.abs(proof.factor).T)
    kernel = sums / (n * distances.valencies)
    # How far Z is from a function of the distance, by the largest row of what it lacks.
    lacking = float(np.abs(z - kernel[distances.apart]).sum(axis=1).max())
    lacking += 4 * (n + proof.factor.shape[1]) * EPS * float(heights.sum()) / n
    rows = kernel @ distances.valencies
    price = float(proof.prices[0])
    share = float(proof.prior.sum())
    needed = float(rows) + lacking  # by the set of no cells, and that of all

    for k in range(1, n):
        whole = r * r * k * distances.largest(proof, kernel, k) + (
            2 * r * k + n
        ) * float(rows)
        whole += ((r * r + 2 * r) * k + n) * lacking
        needed = max(needed, whole / n / (1 + r * k / n) ** 2)

    short = needed / share - price
    return float(n * short + 64 * n * EPS * (abs(short) + abs(price)))


class _Distances:
    """Counts in {0, 1}^d, by counting."""

    def __init__(self, bits: int) -> None:
        n = 2**bits
        side = bits + 1
        self.bits = bits
        self.cells = n
        weights = np.array([bin(cell).count("1") for cell in range(n)])
        self.apart = weights[np.bitwise_xor.outer(np.arange(n), np.arange(n))]
        self.place = weights[:, None], weights[None, :], self.apart
        self.valencies = np.bincount(weights, minlength=side).astype(np.float64)
        flat = np.ravel_multi_index(
            np.broadcast_arrays(*self.place), (side, side, side)
        )
        self.pairs = np.bincount(flat.ravel(), minlength=side**3).reshape(
            side, side, side
        )
        self.per_difference = self.pairs / self.valencies

    def sums(self, matrix: FloatArray) -> FloatArray:
        """Of the entries at each distance."""
        sums = np.bincount(self.apart.ravel(), matrix.ravel(), self.bits + 1)
        return np.asarray(sums, dtype=np.float64)

    @cached_property
    def waves(self) -> FloatArray:
        """Q_j(i)."""
        side = range(self.bits + 1)
        return np.array(
            [
                [
                    sum(
                        (-1) ** m * comb(i, m) * comb(self.bits - i, j - m)
                        for m in range(j + 1)
                    )
                    for i in side
                ]
                for j in side
            ],
            dtype=np.float64,
        )

    def largest(self, proof: TripleProof, kernel: FloatArray, k: int) -> float:
        """Σκ_i A_i of any k cells is at most this: the least of what is known."""
        # κ_i = Σ_j e_j Q_j(i)/n, and Σ_j Σ_i A_i Q_j(i) = n.
        spectrum = self.waves @ (kernel * self.valencies) / self.valencies
        rounding = 64 * self.cells * EPS * float(np.abs(kernel) @ self.valencies)
        top = float(spectrum[1:].max())
        share = k / self.cells
        limits: list[float] = [
            top * (1 - share) + float(spectrum[0]) * share + rounding
        ]
        listed = pair_counts(((self.bits, 2),)).get(k)
        if k == 1:
            limits.append(float(kernel[0]))
        elif listed is not None:
            limits.append(
                float(kernel[0] + (2.0 / k * (listed @ kernel)).max()) + rounding
            )

        at = np.searchsorted(proof.sizes, k)
        if at < len(proof.sizes) and proof.sizes[at] == k:
            limits.append(self._added_up(proof, kernel, k, int(at)))

        return min(limits)

    def _added_up(
        self, proof: TripleProof, kernel: FloatArray, k: int, at: int
    ) -> float:
        """Σκ_i A_i plus all that is not negative, as one sum over A_i and T_ijc; its largest."""
        n = self.cells
        pairs = self.pairs
        inside, outside, apart, tilts, prices = (
            getattr(proof, name)[at]
            for name in ("inside", "outside", "apart", "tilts", "waves")
        )
        both = outside + apart
        triples = inside - both + tilts[:, None, None]
        singles = kernel + (both * self.per_difference).sum(axis=(0, 1)) - k * tilts
        singles = singles + prices @ self.waves
        size = (
            np.abs(inside).sum()
            + np.abs(both).sum() * n
            + (n + k) * np.abs(tilts).sum()
        )
        size += np.abs(kernel).sum() + n * prices.sum()
        low = -self._least(inside) * k - self._least(outside) * (n - k)

        for i in range(1, self.bits + 1):  # two of the three are one cell
            singles[i] += triples[0, i, i] + triples[i, 0, i] + triples[i, i, 0]

        constant = singles[0] + triples[0, 0, 0] - self._waves_least(prices, k)
        threes = (
            sum(
                triples[1:, 1:, 1:].transpose(order) for order in permutations(range(3))
            )
            / 6
        )
        seen = pairs[1:, 1:, 1:] > 0
        more = max(float(singles[1:].max()), 0.0) * (k - 1)
        more += max(float(threes[seen].max(initial=0.0)), 0.0) * (k - 1) * (k - 2)
        rounding = 256 * (self.bits + k) ** 2 * EPS * float(size)  # ΣT is below k²

        return float(constant + more + low + rounding)

    def _least(self, by_distance: FloatArray) -> float:
        """The least eigenvalue, at most zero, of a matrix by classes, proved."""
        matrix = by_distance[self.place]
        matrix = (matrix + matrix.T) / 2
        return min(-largest_eigenvalue(-matrix), 0.0)

    def _waves_least(self, prices: FloatArray, k: int) -> float:
        """What Delsarte's sums, so priced, are at least."""
        if k % 2:
            return float(prices[1:] @ self.waves[1:, 0]) / k
        if k % 4:
            sums = self.waves[1:, :1] + self.waves[1:]
            return 2.0 * float((prices[1:] @ sums).min()) / k
        return 0.0
