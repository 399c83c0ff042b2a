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
from math import expm1
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.bounds.proof import (
    EPS,
    Layout,
    Proof,
    check_not_negative,
    check_rising,
    largest_eigenvalue,
)
from noisewright.local.bounds.tables.small_sets import pair_counts

MOST_CELLS = 256
"""Eight attributes: a check takes two spectra over all cells for every size that it looks at."""


@dataclass(frozen=True, eq=False)
class TripleProof(Proof):
    """P, R, the prices of A_c·m_ijc ≥ T_ijc, ν and the prices of Delsarte's sums, for some k."""

    kind = "triples"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "sizes": (np.int64, "k"),
        "inside": (np.float64, "kbbb"),
        "outside": (np.float64, "kbbb"),
        "apart": (np.float64, "kbbb"),
        "tilts": (np.float64, "kb"),
        "waves": (np.float64, "kb"),
    }
    sizes: IntArray
    inside: FloatArray
    """P."""
    outside: FloatArray
    """R."""
    apart: FloatArray
    tilts: FloatArray
    """ν."""
    waves: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        n = self.size
        rule = "must be all cells of yes/no attributes"
        require(n == 2**self.bits, "cells", n, rule)
        require(self.cells[-1] == n - 1, "cells", n, rule)

        for name in ("prior", "prices"):
            spread = np.ptp(getattr(self, name))
            require(spread <= 0, name, "array", "must be even")
        check_rising("sizes", self.sizes, 2, n - 1)
        check_not_negative(self, "apart", "waves")

    @property
    def bits(self) -> int:
        """How many attributes there are."""
        return self.size.bit_length() - 1

    def rise(self, epsilon: float) -> float:
        """By the largest Σκ_i A_i of every size."""
        n = self.size
        r = expm1(epsilon)
        distances = Distances(self.bits)
        kernel, lacking = self._kernel(distances)
        row = float(kernel @ distances.valencies)

        # vᵀZv/n over (πᵀv)² for the set of no cells, and for that of all, which is as much.
        needed = row + lacking
        for k in range(1, n):
            within = r * r * k * distances.largest(self, kernel, k)
            across = (2 * r * k + n) * row
            error = ((r * r + 2 * r) * k + n) * lacking
            mass = 1 + r * k / n
            per_person = (within + across + error) / n
            needed = max(needed, per_person / mass**2)

        price = float(self.prices[0])
        short = needed / float(self.prior.sum()) - price
        rounding = 64 * EPS * (abs(short) + abs(price))
        return float(n * (short + rounding))

    def _kernel(self, distances: Distances) -> tuple[FloatArray, float]:
        """κ, and how far Z is from that function of the distance, by the largest row it lacks."""
        y = self.factor
        z = y @ y.T
        kernel = distances.sums(z) / (self.size * distances.valencies)
        left = np.abs(z - kernel[distances.apart])
        lacking = left.sum(axis=1).max()

        sizes = np.abs(y) @ np.abs(y).T
        terms = 4 * (self.size + y.shape[1])
        rounding = terms * EPS * float(sizes.sum()) / self.size
        return kernel, float(lacking) + rounding


class Distances:
    """Counts in {0, 1}^d, by counting."""

    def __init__(self, bits: int) -> None:
        n = 2**bits
        side = bits + 1
        self.bits = bits
        self.cells = n
        cells = np.arange(n)
        weights = np.array([f"{cell:b}".count("1") for cell in range(n)])
        self.apart = weights[cells[:, None] ^ cells]
        self.place = (weights[:, None], weights, self.apart)
        self.valencies = np.bincount(weights).astype(np.float64)

        self.pairs = np.zeros((side, side, side))
        np.add.at(self.pairs, self.place, 1.0)
        self.per_difference = self.pairs / self.valencies

        # Q_j(i): characters of weight j, summed at a cell of weight i, whose first i bits are one.
        distances = np.arange(side)
        both = weights[cells[:, None] & (2**distances - 1)]
        signs = 1.0 - 2.0 * (both % 2)
        of_weight = weights == distances[:, None]
        self.waves = of_weight @ signs

    def sums(self, matrix: FloatArray) -> FloatArray:
        """Of the entries at each distance."""
        sums = np.bincount(self.apart.ravel(), matrix.ravel())
        return np.asarray(sums, dtype=np.float64)

    @cached_property
    def listed(self) -> dict[int, FloatArray]:
        """Pairs by distance of all sets of a few cells."""
        return pair_counts(((self.bits, 2),))

    def largest(
        self,
        proof: TripleProof,
        kernel: FloatArray,
        k: int,
    ) -> float:
        """Σκ_i A_i of any k cells is at most this: the least of what is known."""
        # κ_i = Σ_j e_j Q_j(i)/n, and Σ_j Σ_i A_i Q_j(i) = n.
        spectrum = self.waves @ (kernel * self.valencies) / self.valencies
        size = float(np.abs(kernel) @ self.valencies)
        rounding = 64 * self.cells * EPS * size
        share = k / self.cells
        top = float(spectrum[1:].max())
        by_spectrum = top * (1 - share) + float(spectrum[0]) * share
        limits: list[float] = [by_spectrum + rounding]

        if k == 1:
            limits.append(float(kernel[0]))
        elif k in self.listed:
            sums = 2.0 / k * (self.listed[k] @ kernel)
            limits.append(float(kernel[0] + sums.max()) + rounding)

        at = np.flatnonzero(proof.sizes == k)
        if len(at):
            place = int(at[0])
            limits.append(self._added_up(proof, kernel, k, place))
        return min(limits)

    def _added_up(
        self,
        proof: TripleProof,
        kernel: FloatArray,
        k: int,
        at: int,
    ) -> float:
        """Σκ_i A_i plus all that is not negative, as one sum over A_i and T_ijc; its largest."""
        n = self.cells
        inside = proof.inside[at]
        outside = proof.outside[at]
        both = outside + proof.apart[at]
        tilts = proof.tilts[at]
        prices = proof.waves[at]

        # Coefficients of T_ijc, and of A_i.
        triples = inside - both + tilts[:, None, None]
        singles = kernel + (both * self.per_difference).sum(axis=(0, 1))
        singles = singles - k * tilts + prices @ self.waves
        waves = self._waves_least(prices, k)
        constant = singles[0] + triples[0, 0, 0] - waves
        most = self._most(singles, triples, k)

        # P and R may have negative eigenvalues: what they are is taken off.
        negative = self._least(inside) * k
        negative += self._least(outside) * (n - k)
        size = np.abs(inside).sum()
        size += n * np.abs(both).sum()
        size += (n + k) * np.abs(tilts).sum()
        size += np.abs(kernel).sum() + n * prices.sum()
        rounding = 256 * (self.bits + k) ** 2 * EPS * float(size)
        return float(constant + most - negative + rounding)

    def _most(self, singles: FloatArray, triples: FloatArray, k: int) -> float:
        """The sum over members that differ, at most: ΣA_i = k and ΣT_ijc is below k²."""
        for axis in range(3):  # two of the three are one cell
            equal = np.moveaxis(triples, axis, 0)[0].diagonal()
            singles = singles + equal
        different = triples[1:, 1:, 1:]
        orders = permutations(range(3))
        turned = [different.transpose(order) for order in orders]
        threes = np.mean(turned, axis=0)

        occurring = self.pairs[1:, 1:, 1:] > 0
        by_single = max(float(singles[1:].max()), 0.0)
        by_triple = float(threes[occurring].max(initial=0.0))
        return (by_single + by_triple * (k - 2)) * (k - 1)

    def _least(self, by_distance: FloatArray) -> float:
        """The least eigenvalue, at most zero, of a matrix by classes, proved."""
        matrix = by_distance[self.place]
        matrix = symmetrised(matrix)
        return min(-largest_eigenvalue(-matrix), 0.0)

    def _waves_least(self, prices: FloatArray, k: int) -> float:
        """What Delsarte's sums, so priced, are at least."""
        if k % 2:
            return float(prices[1:] @ self.waves[1:, 0]) / k
        if k % 4:
            sums = self.waves[1:, :1] + self.waves[1:]
            least = (prices[1:] @ sums).min()
            return 2.0 * float(least) / k
        return 0.0
