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
from noisewright.local.bounds.blocks import Blocks
from noisewright.local.bounds.folding import Folding
from noisewright.local.work import eigenvectors, pass_over, product

_PASSES = 25
"""Over all entries of all sizes, in a step: for counting operations."""

_SINGLE_FROM = 128
"""Cells: what a search needs of its multipliers are four digits, in half the time."""

_STATE = ("tilts", "excess", "definite", "duals")
"""What changes from step to step, a row each per size."""


def neighbouring_sizes(
    known: IntArray, sizes: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """For each size the places of the two known ones around it, and the share of the second."""
    places = np.interp(sizes, known, np.arange(len(known)))
    last = len(known) - 1
    low = np.minimum(places.astype(np.int64), max(last - 1, 0))
    high = np.minimum(low + 1, last)
    return low, high, np.asarray(places - low)


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

        product = self.gains * self.shared
        square = self.shared**2 * float(self.scale @ self.scale)
        rows = [[0 * product, product], [product, square]]
        self.couplings = np.moveaxis(np.array(rows), -1, 0)

        self.tilts = np.zeros((len(d), n))
        self.excess = np.zeros_like(self.duals)
        self.definite = np.zeros_like(self.duals)

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        slope: float,
        scale: FloatArray,
        folding: Folding,
    ) -> SetBlocks:
        """Blocks at rest."""
        n = len(scale)
        digits = np.float32 if n >= _SINGLE_FROM else np.float64
        duals = np.zeros((len(sizes), n, n), digits)
        rising = np.array(sorted(sizes), np.int64)
        return cls(slope, scale, folding, duals, rising)

    def only(self, keep: BoolArray) -> SetBlocks:
        """A copy with some of the sizes."""
        sizes = self.sizes[keep].tolist()
        blocks = SetBlocks.of(sizes, self.slope, self.scale, self.folding)
        for name in _STATE:
            kept = getattr(self, name)[keep]
            setattr(blocks, name, kept.copy())
        return blocks

    def at(self, sizes: Sequence[int]) -> SetBlocks:
        """Blocks of other sizes, on the lines between the two nearest of these."""
        blocks = SetBlocks.of(sizes, self.slope, self.scale, self.folding)
        low, high, shares = neighbouring_sizes(self.sizes, blocks.sizes)
        for name in _STATE:
            known = getattr(self, name)
            share = shares.reshape(-1, *[1] * (known.ndim - 1))
            mixed = (1 - share) * known[low]
            mixed += share * known[high]
            setattr(blocks, name, mixed.astype(known.dtype))

        return blocks

    @property
    def operations(self) -> float:
        """Of a step: a spectrum for every size, and passes over all entries."""
        count = len(self.sizes)
        entries = count * len(self.scale) ** 2
        passes = _PASSES * pass_over(entries)
        spectra = 0.0
        for side in self.folding.sides:
            spectra += eigenvectors(side) + product(side, side, side)
        return count * spectra + passes

    # --- the map from Φ and its adjoint ---------------------------------------------------------

    def forward(self, phi: FloatArray) -> FloatArray:
        """A(Φ) = (aI + b·efᵀ) Φ (aI + b·feᵀ) of every size."""
        digits = self.duals.dtype
        e = self.scale
        f = 1.0 / self.scale
        sums = phi @ f
        side = np.outer(e, sums)
        both = (side + side.T).astype(digits)
        even = (float(f @ sums) * self.scales).astype(digits)

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

        sums = matrices @ e.astype(digits)
        sums = sums.astype(np.float64)
        side = np.outer((a * b) @ sums, f)
        total = float((b * b) @ (sums @ e))
        squares = (a * a).astype(digits)
        weighted = np.tensordot(squares, matrices, 1)
        even = total * np.outer(f, f)
        return np.asarray(weighted + side + side.T + even)

    # --- one step -------------------------------------------------------------------------------

    def slack_step(self, image: FloatArray) -> FloatArray:
        """New ν, E and S for A(Φ); returns B(ν) + E + S."""
        target = image + self.duals
        self.tilts = self._best_tilts(target + self.excess + self.definite)
        tilted = self._tilted(self.tilts)
        return tilted + self.cone_step(target + tilted)

    def clipped(self, short: FloatArray) -> FloatArray:
        """E of every size."""
        excess = np.maximum(short, 0.0)
        if self.sizes[0] == 1:
            # No two cells are ever together: nothing off the diagonal counts.
            excess[0] = short[0]
            np.fill_diagonal(excess[0], 0.0)
        return excess

    def _tilted(self, tilts: FloatArray) -> FloatArray:
        """B(ν)."""
        digits = self.duals.dtype
        half = tilts[:, :, None].astype(digits) / 2
        sides = half * self.scale.astype(digits)
        both = sides + sides.transpose(0, 2, 1)

        cells = np.arange(len(self.scale))
        diagonal = self.sizes[:, None] * tilts * self.scale
        both[:, cells, cells] -= diagonal
        return np.asarray(both)

    def _best_tilts(self, rest: FloatArray) -> FloatArray:
        """The ν that takes most off: BᵀB is a diagonal and eeᵀ/2."""
        e = self.scale
        d = self.sizes[:, None].astype(np.float64)
        traces = np.diagonal(rest, axis1=1, axis2=2)
        right = d * e * traces - rest @ e.astype(rest.dtype)

        # For single cells ν has no effect.
        diagonal = 0.5 * float(e @ e) + d * (d - 2) * e**2
        diagonal = np.where(d == 1, np.inf, diagonal)

        # The inverse of a diagonal and one product, by Sherman and Morrison.
        plain = right / diagonal
        along = e / diagonal
        share = (plain @ e) / (2.0 + along @ e)
        return np.asarray(plain - share[:, None] * along)

    # --- in the cells' own scale ----------------------------------------------------------------

    def plain(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """ν and E as a proof states them, for a Φ in the cells' own scale."""
        d = self.sizes[:, None].astype(np.float64)
        factor = self.lengths[:, None] ** 2 / d
        sums = phi.sum(axis=1)
        tilts = factor * self.tilts / self.scale
        tilts += 2 * self.slope * sums / d
        tilts += float(sums.sum()) / d**2

        excess = factor[:, :, None] * self.excess / self.scales
        return tilts, np.maximum(excess, 0.0)
