"""What a proof by cuts needs, improved by alternating projections.

With y = (1, x), x the indicator of a set, and v = 1 + r·x = Ly, the condition of `cut_proof` holds
where T = LᵀΦL + D(d) + E + Σ_b u_b C_b + S = 0 has a solution with E ≥ 0 entry by entry on pairs of
cells, u ≥ 0 and S ⪰ 0. D(d) stands for Σ d_i(x_i² − x_i), which is zero, and C_b for the cut
(bᵀx − c)(bᵀx − c − 1), a product of neighbouring whole numbers, which is never negative.

Cells are scaled by e: all matrices stand between two factors Diag(1, e), and Φ means
Diag(e)·Φ·Diag(e). One step finds u (`cut_weights`), d in closed form, E by clipping, S by an
eigendecomposition, and moves the multipliers, which are the moments of yyᵀ over a strategy's sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.cuts.weights import Cuts, WeighedCuts
from noisewright.local.bounds.folding import Folding
from noisewright.local.work import eigenvectors, product, touched

_RELAXATION = 1.6
_STEPS, _PASSES = 3, 25  # with a matrix over cuts, and over all entries


@dataclass(eq=False)
class CutBlock:
    """d, E, u, S and the multipliers, for cells scaled by e."""

    slope: float
    """r = e^ε − 1."""
    scale: FloatArray
    """e."""
    duals: FloatArray
    weighed: WeighedCuts = field(init=False)
    squares: FloatArray = field(init=False)
    """d."""
    excess: FloatArray = field(init=False)
    definite: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.scale)
        self.own, self.folding = np.array([self.slope]), Folding.none(n)
        self.squares = np.zeros(n)
        self.excess, self.definite = (np.zeros((n + 1, n + 1)) for _ in range(2))
        self.cut_by(Cuts.none(n))

    @property
    def cuts(self) -> Cuts:
        """The cuts with their weights."""
        return self.weighed.cuts

    def cut_by(self, cuts: Cuts) -> None:
        """Take these cuts from now on."""
        self.weighed = WeighedCuts(cuts, self.scale)

    def copy(self) -> CutBlock:
        """A block of its own at the same point."""
        other = CutBlock(self.slope, self.scale, self.duals.copy())
        other.weighed = self.weighed.copy()
        other.squares, other.excess = self.squares.copy(), self.excess.copy()
        other.definite = self.definite.copy()
        return other

    @property
    def operations(self) -> float:
        """Of a step: a spectrum, two products with all cuts, and passes over all entries."""
        n = len(self.scale) + 1
        cuts = len(self.cuts)
        weighing = 2 * product(cuts, n, n) + _STEPS * product(cuts, cuts, 1)
        return eigenvectors(n) + weighing + _PASSES * touched(n**2 + cuts * n)

    # --- the map from Φ and its adjoint -----------------------------------------------------------

    def forward(self, phi: FloatArray) -> FloatArray:
        """MᵀΦM with M = [1/e, rI]."""
        r = self.slope
        g = 1.0 / self.scale
        sums = phi @ g
        image = np.empty((len(g) + 1, len(g) + 1))
        image[0, 0] = g @ sums
        image[0, 1:] = image[1:, 0] = r * sums
        image[1:, 1:] = r * r * phi

        return image

    def adjoint(self, matrix: FloatArray) -> FloatArray:
        """M(·)Mᵀ."""
        r = self.slope
        g = 1.0 / self.scale
        side = np.outer(g, r * matrix[0, 1:] + 0.5 * matrix[0, 0] * g)
        return np.asarray(r * r * matrix[1:, 1:] + side + side.T)

    def normal(self, phi: FloatArray, _scale: FloatArray, f: FloatArray) -> FloatArray:
        """MMᵀΦMMᵀ, MMᵀ = r²I + ffᵀ."""
        square = self.slope**2
        sums = phi @ f
        side = np.outer(f, square * sums + 0.5 * float(f @ sums) * f)
        return np.asarray(square * square * phi + side + side.T)

    # --- one step ---------------------------------------------------------------------------------

    def settle(self, image: FloatArray) -> FloatArray:
        """New d, E, u and S for the image of Φ; returns D + E + ΣuC + S."""
        base = image + self.duals
        rest = base + self.excess + self.definite
        self.weighed.settle(rest)
        cut = self.weighed.matrix
        inside = np.arange(1, len(base))
        self.squares = self.weighed.best_squares(rest + cut)
        squared = self._squared()
        base += squared
        base += cut
        self.excess[1:, 1:] = np.maximum(-(base + self.definite)[1:, 1:], 0.0)
        self.excess[inside, inside] = 0.0  # a square counts by D
        base += self.excess
        values, vectors = np.linalg.eigh((base + base.T) / 2)
        rooted = vectors[:, values < 0] * np.sqrt(-values[values < 0])
        self.definite = rooted @ rooted.T

        return np.asarray(squared + self.excess + cut + self.definite)

    def _squared(self) -> FloatArray:
        matrix = np.zeros_like(self.duals)
        inside = np.arange(1, len(matrix))
        matrix[inside, inside] = self.scale**2 * self.squares
        matrix[0, 1:] = matrix[1:, 0] = -0.5 * self.scale * self.squares
        return matrix

    def push(self, left: FloatArray) -> None:
        """Move the multipliers by what is left of T."""
        self.duals += _RELAXATION * left

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of x that the multipliers stand for."""
        whole = self.duals[0, 0]
        mean = self.duals[0, 1:] * self.scale / whole
        second = self.duals[1:, 1:] * np.outer(self.scale, self.scale) / whole
        return np.asarray(mean), np.asarray(second - np.outer(mean, mean))
