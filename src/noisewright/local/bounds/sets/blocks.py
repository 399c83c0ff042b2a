"""What a proof needs of each set size, improved by alternating projections.

For sets of d cells the condition of `sets.proof` holds where T = A(Φ) + B(ν) + E + S = 0 has a
solution with E ≥ 0 entry by entry and S ⪰ 0. Here A(Φ) = HΦHᵀ takes x/√d to v/ℓ with
ℓ = 1 + rd/n, and B(ν) = (νeᵀ + eνᵀ)/2 − d·Diag(eν) vanishes on sets of d cells. Cells are scaled
by e: all matrices stand between two factors Diag(e).

One step of the alternating direction method finds ν in closed form, E by clipping and S by one
eigendecomposition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.local.bounds.folding import Folding
from noisewright.local.bounds.joint_problem import Blocks
from noisewright.local.work import eigenvectors, product, touched

_PASSES = 25  # over all entries of all sizes, in a step: for counting operations
_SINGLE_FROM = 128
"""Cells: what a search needs of its multipliers are four digits, in half the time."""

_STATE = ("tilts", "excess", "definite", "duals")
"""What changes from step to step, a row each per size."""


@dataclass(eq=False)
class SetBlocks(Blocks):
    """ν, E, S and U of some set sizes, for cells scaled by e."""

    sizes: IntArray
    tilts: FloatArray = field(init=False)
    """ν."""

    def __post_init__(self) -> None:
        n = len(self.scale)
        d = self.sizes.astype(np.float64)

        # H = aI + b·efᵀ of every size: a = √d·r/ℓ, b = 1/(√d·ℓ).
        self.lengths = 1 + self.slope * d / n
        self.gains = np.sqrt(d) * self.slope / self.lengths
        self.shared = 1 / (np.sqrt(d) * self.lengths)

        # HᵀH = a²I + FgFᵀ, F the columns e and f: g of every size, and Σ a²g.
        self._inner = np.zeros((len(d), 2, 2))
        self._inner[:, 0, 1] = self._inner[:, 1, 0] = self.gains * self.shared
        self._inner[:, 1, 1] = self.shared**2 * float(self.scale @ self.scale)
        self._sides = np.tensordot(self.gains**2, self._inner, 1)

        self.tilts = np.zeros((len(d), n))
        self.excess = np.zeros_like(self.duals)
        self.definite = np.zeros_like(self.duals)

    @classmethod
    def of(
        cls, sizes: Sequence[int], slope: float, scale: FloatArray, folding: Folding
    ) -> SetBlocks:
        """Blocks at rest."""
        n = len(scale)
        digits = np.float32 if n >= _SINGLE_FROM else np.float64
        duals = np.zeros((len(sizes), n, n), digits)
        return cls(slope, scale, folding, duals, np.array(sorted(sizes), np.int64))

    def only(self, keep: BoolArray) -> SetBlocks:
        """A copy with some of the sizes."""
        sizes = self.sizes[keep].tolist()
        copy = SetBlocks.of(sizes, self.slope, self.scale, self.folding)
        for name in _STATE:
            setattr(copy, name, getattr(self, name)[keep].copy())
        return copy

    def between(self, sizes: Sequence[int]) -> SetBlocks:
        """Blocks of other sizes, on the lines between the two nearest of these."""
        blocks = SetBlocks.of(sizes, self.slope, self.scale, self.folding)
        places = np.interp(blocks.sizes, self.sizes, np.arange(len(self.sizes)))
        low = np.minimum(places.astype(int), max(len(self.sizes) - 2, 0))
        high = np.minimum(low + 1, len(self.sizes) - 1)

        for name in _STATE:
            known = getattr(self, name)
            share = (places - low).reshape(-1, *[1] * (known.ndim - 1))
            mixed = (1 - share) * known[low] + share * known[high]
            setattr(blocks, name, mixed.astype(known.dtype))

        return blocks

    # --- the map from Φ and its adjoint ---------------------------------------------------------

    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ) = (aI + b·efᵀ) Φ (aI + b·feᵀ) of every size."""
        digits = self.duals.dtype
        e = self.scale
        f = 1.0 / self.scale
        sums = phi @ f
        sides = np.outer(e, sums)
        both = (sides + sides.T).astype(digits)
        even = (float(f @ sums) * np.outer(e, e)).astype(digits)
        a = self.gains.astype(digits)[:, None, None]
        b = self.shared.astype(digits)[:, None, None]
        image = a * a * phi.astype(digits)
        image += a * b * both
        image += b * b * even
        return np.asarray(image)

    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """Σ Aᵀ over sizes."""
        digits = matrices.dtype
        e = self.scale
        f = 1.0 / self.scale
        a = self.gains
        b = self.shared
        sums = (matrices @ e.astype(digits)).astype(np.float64)
        side = np.outer((a * b) @ sums, f)
        total = float((b * b) @ (sums @ e))
        weighted = np.tensordot((a * a).astype(digits), matrices, 1)
        return np.asarray(weighted + side + side.T + total * np.outer(f, f))

    def normal(self, phi: FloatArray, e: FloatArray, f: FloatArray) -> FloatArray:
        """Σ AᵀA: (a²I + FgFᵀ)Φ(a²I + FgFᵀ) summed, F the columns e and f within a subspace."""
        even: FloatArray = float((self.gains**4).sum()) * phi
        if not e.any():
            return even

        columns = np.column_stack([e, f])
        images = columns.T @ phi
        side = columns @ self._sides @ images
        middle = images @ columns
        inner = np.einsum("kij,jl,klm->im", self._inner, middle, self._inner)
        return np.asarray(even + side + side.T + columns @ inner @ columns.T)

    @property
    def operations(self) -> float:
        """Of a step: a spectrum for every size, and passes over all entries."""
        count = len(self.sizes)
        n = len(self.scale)
        sides = self.folding.sides
        spectra = sum(eigenvectors(side) + product(side, side, side) for side in sides)
        return count * spectra + _PASSES * touched(count * n**2)

    # --- one step -------------------------------------------------------------------------------

    def _tilted(self, tilts: FloatArray) -> FloatArray:
        """B(ν)."""
        digits = self.duals.dtype
        cells = np.arange(len(self.scale))
        sides = tilts[:, :, None].astype(digits) / 2 * self.scale.astype(digits)
        both = sides + sides.transpose(0, 2, 1)
        both[:, cells, cells] -= self.sizes[:, None] * tilts * self.scale
        return np.asarray(both)

    def _best_tilts(self, rest: FloatArray) -> FloatArray:
        """The ν that takes most off: BᵀB is a diagonal and eeᵀ/2."""
        e = self.scale
        d = self.sizes[:, None].astype(np.float64)
        traces = np.diagonal(rest, axis1=1, axis2=2)
        right = d * e * traces - rest @ e.astype(rest.dtype)
        diagonal = 0.5 * float(e @ e) + (d * d - 2 * d) * e**2
        diagonal = np.where(
            d == 1, np.inf, diagonal
        )  # for single cells ν has no effect

        # The inverse of a diagonal and one product, by Sherman and Morrison.
        plain = right / diagonal
        along = e / diagonal
        share = (plain @ e) / (2.0 + along @ e)
        return np.asarray(plain - share[:, None] * along)

    def slack_step(self, image: FloatArray) -> FloatArray:
        """New ν, E and S for A(Φ); returns B(ν) + E + S."""
        target = image + self.duals
        self.tilts = self._best_tilts(target + self.excess + self.definite)
        tilted = self._tilted(self.tilts)
        target += tilted

        short = -(target + self.definite)
        np.maximum(short, 0.0, out=self.excess)
        if self.sizes[0] == 1:
            # No two cells are ever together: nothing off the diagonal counts.
            np.fill_diagonal(short[0], 0.0)
            self.excess[0] = short[0]

        target += self.excess
        self.definite = self.folding.negative_part(target)
        return tilted + self.excess + self.definite

    # --- in the cells' own scale ------------------------------------------------------------------

    def plain(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ν and E as a proof states them, for a Φ in the cells' own scale."""
        d = self.sizes[:, None].astype(np.float64)
        sums = phi.sum(axis=1)
        factor = self.lengths[:, None] ** 2 / d
        tilts = factor * self.tilts / self.scale
        tilts += 2 * self.slope * sums / d + float(sums.sum()) / d**2
        excess = factor[:, :, None] * self.excess / np.outer(self.scale, self.scale)
        return tilts, np.maximum(excess, 0.0)
