"""What a proof needs of each set size, improved by alternating projections.

For sets of d cells the condition of `set_proof` holds where T = A(Φ) + B(ν) + E + S = 0 has a
solution with E ≥ 0 entry by entry and S ⪰ 0. Here A(Φ) = HΦHᵀ takes x/√d to v/ℓ with
ℓ = 1 + rd/n, and B(ν) = (νeᵀ + eνᵀ)/2 − d·Diag(eν) vanishes on sets of d cells. Cells are scaled
by e, so that cells that many reports favour and cells that few do move at one speed: all matrices
stand between two factors Diag(e), and Φ means Diag(e)·Φ·Diag(e).

One step of the alternating direction method finds ν in closed form, E by clipping, S by one
eigendecomposition, and moves the multipliers U by what is left of T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.folding import Folding
from noisewright.local.work import eigenvectors, product, touched

_RELAXATION = 1.6
_PASSES = 25  # over all entries of all sizes, in a step
_SINGLE_FROM = (
    # cells: what a search needs of its multipliers are four digits, in half the time
    128
)


@dataclass(eq=False)
class SetBlocks:
    """ν, E, S and U of some set sizes, for cells scaled by e."""

    sizes: IntArray
    slope: float
    """r = e^ε − 1."""
    scale: FloatArray
    """e."""
    folding: Folding
    tilts: FloatArray = field(init=False)
    excess: FloatArray = field(init=False)
    definite: FloatArray = field(init=False)
    duals: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.scale)
        count = len(self.sizes)
        d = self.sizes.astype(np.float64)
        self.even = 1 + self.slope * d / n
        self.own, self.shared = (
            np.sqrt(d) * self.slope / self.even,
            1 / (np.sqrt(d) * self.even),
        )
        self._shares = np.zeros((count, 2, 2))
        self._shares[:, 0, 1] = self._shares[:, 1, 0] = self.own * self.shared
        self._shares[:, 1, 1] = self.shared**2 * float(self.scale @ self.scale)
        self._sides = np.tensordot(self.own**2, self._shares, 1)
        self._even_weight = (self.own**4).sum()
        self.tilts = np.zeros((count, n))
        digits = np.float32 if n >= _SINGLE_FROM else np.float64
        self.excess, self.definite, self.duals = (
            np.zeros((count, n, n), digits) for _ in range(3)
        )

    @classmethod
    def of(
        cls, sizes: Sequence[int], slope: float, scale: FloatArray, folding: Folding
    ) -> SetBlocks:
        """Blocks at rest."""
        return cls(np.array(sorted(sizes), dtype=np.int64), slope, scale, folding)

    def only(self, keep: BoolArray) -> SetBlocks:
        """A copy with some of the sizes."""
        copy = SetBlocks(self.sizes[keep], self.slope, self.scale, self.folding)
        for name in ("tilts", "excess", "definite", "duals"):
            setattr(copy, name, getattr(self, name)[keep].copy())
        return copy

    def between(self, sizes: Sequence[int]) -> SetBlocks:
        """Blocks of other sizes, on the lines between the two nearest of these."""
        blocks = SetBlocks.of(sizes, self.slope, self.scale, self.folding)
        places = np.interp(blocks.sizes, self.sizes, np.arange(len(self.sizes)))
        low = np.minimum(places.astype(int), max(len(self.sizes) - 2, 0))
        high = np.minimum(low + 1, len(self.sizes) - 1)
        share = places - low

        for name in ("tilts", "excess", "definite", "duals"):
            known = getattr(self, name)
            part = share.reshape(-1, *[1] * (known.ndim - 1))
            mixed = (1 - part) * known[low] + part * known[high]
            setattr(blocks, name, mixed.astype(known.dtype))

        return blocks

    # --- the map from Φ and its adjoint ---------------------------------------------------------

    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ) = (aI + b·efᵀ) Φ (aI + b·feᵀ) of every size, f = 1/e."""
        e = self.scale
        f = 1.0 / self.scale
        sums = phi @ f
        digits = self.duals.dtype
        a, b = (
            by_size.astype(digits)[:, None, None] for by_size in (self.own, self.shared)
        )
        sides = np.outer(e, sums)
        both = sides + sides.T
        even = float(f @ sums) * np.outer(e, e)
        image = a * a * phi.astype(digits)
        image += a * b * both.astype(digits)
        image += b * b * even.astype(digits)

        return image

    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """Σ Aᵀ over sizes."""
        e = self.scale
        f = 1.0 / self.scale
        a = self.own
        b = self.shared
        sums = (matrices @ e.astype(matrices.dtype)).astype(np.float64)
        side = np.outer((a * b) @ sums, f)
        total = float((b * b) @ (sums @ e))
        weighed = np.tensordot((a * a).astype(matrices.dtype), matrices, 1)
        return weighed + side + side.T + total * np.outer(f, f)

    def normal(self, phi: FloatArray, e: FloatArray, f: FloatArray) -> FloatArray:
        """Σ AᵀA: (a²I + FgFᵀ)Φ(a²I + FgFᵀ) summed, F the columns e and f within a subspace."""
        even = float(self._even_weight) * phi
        if not e.any():
            return even

        columns = np.column_stack([e, f])
        side = columns @ self._sides @ (columns.T @ phi)
        middle = columns.T @ phi @ columns
        inner = np.einsum("kij,jl,klm->im", self._shares, middle, self._shares)

        return np.asarray(even + side + side.T + columns @ inner @ columns.T)

    @property
    def operations(self) -> float:
        """Of a step: a spectrum for every size, and passes over all entries."""
        count = len(self.sizes)
        n = len(self.scale)
        spectra = sum(
            eigenvectors(side) + product(side, side, side)
            for side in self.folding.sides
        )
        return count * spectra + _PASSES * touched(count * n**2)

    # --- one step -------------------------------------------------------------------------------

    def _tilted(self, tilts: FloatArray) -> FloatArray:
        """B(ν)."""
        e = self.scale
        cells = np.arange(len(self.scale))
        sides = (
            tilts[:, :, None].astype(self.duals.dtype) / 2 * e.astype(self.duals.dtype)
        )
        both = sides + sides.transpose(0, 2, 1)
        both[:, cells, cells] -= self.sizes[:, None] * tilts * e

        return both

    def _best_tilts(self, rest: FloatArray) -> FloatArray:
        """The ν that takes most off: BᵀB is a diagonal and eeᵀ/2."""
        e = self.scale
        d = self.sizes[:, None].astype(np.float64)
        right = d * e * np.diagonal(rest, axis1=1, axis2=2) - rest @ e.astype(
            rest.dtype
        )
        diagonal = 0.5 * float(e @ e) + (d * d - 2 * d) * e**2
        # for single cells ν has no effect
        diagonal = np.where(d == 1, np.inf, diagonal)
        plain = right / diagonal
        along = e / diagonal
        share = (plain @ e) / (2.0 + along @ e)

        return plain - share[:, None] * along

    def settle(self, image: FloatArray) -> FloatArray:
        """New ν, E and S for A(Φ); returns B(ν) + E + S."""
        base = image + self.duals
        rest = base + self.excess
        rest += self.definite
        self.tilts = self._best_tilts(rest)
        tilted = self._tilted(self.tilts)
        base += tilted
        np.add(base, self.definite, out=rest)
        np.negative(rest, out=rest)
        # no two cells are ever together: nothing off the diagonal counts
        if self.sizes[0] == 1:
            free = rest[0] - np.diag(np.diagonal(rest[0]))

        np.maximum(rest, 0.0, out=self.excess)
        if self.sizes[0] == 1:
            self.excess[0] = free

        base += self.excess
        self.definite = self.folding.negative_part(base)
        tilted += self.excess
        tilted += self.definite

        return tilted

    def push(self, left: FloatArray) -> None:
        """Move the multipliers by what is left of T."""
        self.duals += _RELAXATION * left

    # --- in the cells' own scale ------------------------------------------------------------------

    def plain(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ν and E as a proof states them, for a Φ in the cells' own scale."""
        d = self.sizes[:, None].astype(np.float64)
        sums = phi.sum(axis=1)
        factor = self.even[:, None] ** 2 / d
        tilts = factor * self.tilts / self.scale
        tilts += 2 * self.slope * sums / d + float(sums.sum()) / d**2
        excess = factor[:, :, None] * self.excess / np.outer(self.scale, self.scale)
        return (tilts), np.maximum(excess, 0.0)
