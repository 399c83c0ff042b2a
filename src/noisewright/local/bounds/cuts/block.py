"""What a proof by cuts needs, improved by alternating projections.

With y = (1, x), x the indicator of a set, and v = 1 + r·x = Ly, the condition of `cuts.proof` holds
where T = LᵀΦL + D(d) + E + Σ_b u_b C_b + S = 0 has a solution with E ≥ 0 entry by entry on pairs of
cells, u ≥ 0 and S ⪰ 0. D(d) stands for Σ d_i(x_i² − x_i), which is zero, and C_b for the cut
(bᵀx − c)(bᵀx − c − 1), a product of neighbouring whole numbers, which is never negative.

Cells are scaled by e: all matrices stand between two factors Diag(1, e). One step finds u, d in
closed form, E by clipping, S by an eigendecomposition. The multipliers are the moments of yyᵀ over
a strategy's sets.

With the best d for each u, ‖T + D(d) + Σ_b u_b C_b‖² is a quadratic function of u alone, of the
parts of the C_b off all D. Its minimum over u ≥ 0 is found nearly, by a few steps of a splitting
method that goes on where it stopped: one product with a kept inverse each, whatever the cuts have
in common. Gradient steps were tried, and need ten times as many rounds where hundreds of cuts are
nearly the same.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.blocks import Blocks
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.work import eigenvectors, pass_over, product


@dataclass(frozen=True)
class Splitting:
    """How weights of cuts are found."""

    steps: int = 3
    """In a step of the block: one does as well, in no less time."""
    first_steps: int = 30
    """Where cuts have joined: 10 do as well."""
    penalty: float = 0.05
    """For cuts of length one: half or double prove as much."""
    relaxation: float = 1.6
    """1 to 1.8 prove as much."""
    caution: float = 0.2
    """Holds weights where they were: other unknowns have not moved yet."""
    least_length: float = 1e-6
    """Squared, of a cut off all D: one that is hardly longer is next to none."""


_SPLITTING = Splitting()

_PASSES = 25
"""Over all entries, in a step: for counting operations."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Whole vectors b and numbers c, one cut each, and their weights u."""

    vectors: IntArray
    offsets: IntArray
    weights: FloatArray
    bound_duals: FloatArray
    """Dual variables of u ≥ 0: zero where weights are above."""
    idle: IntArray
    """How often in turn each was seen without a weight."""

    @classmethod
    def new(cls, vectors: IntArray, offsets: IntArray) -> Cuts:
        """Cuts without a weight yet."""
        nothing = np.zeros(len(offsets))
        return cls(vectors, offsets, nothing, nothing, nothing.astype(np.int64))

    @classmethod
    def none(cls, cells: int) -> Cuts:
        """No cut."""
        nothing = np.zeros((0, cells + 1), np.int64)
        return cls.new(nothing[:, 1:], nothing[:, 0])

    def __len__(self) -> int:
        return len(self.offsets)

    def seen(self) -> Cuts:
        """The same, once more looked at."""
        idle = np.where(self.weights > 0, 0, self.idle + 1)
        return replace(self, idle=idle)

    def only(self, some: IntArray) -> Cuts:
        """Some of them."""
        return Cuts(*(array[some] for array in vars(self).values()))

    def joined(self, vectors: IntArray, offsets: IntArray) -> Cuts:
        """With further ones, without a weight yet."""
        known = vars(self).values()
        new = vars(Cuts.new(vectors, offsets)).values()
        both = zip(known, new, strict=True)
        return Cuts(*map(np.concatenate, both))


@dataclass(eq=False)
class WeighedCuts:
    """Cuts over cells scaled by e, and Σ_b u_b C_b. No array in it is ever changed."""

    cuts: Cuts
    scale: FloatArray
    """e."""
    matrix: FloatArray = field(init=False)
    """Σ_b u_b C_b."""

    def __post_init__(self) -> None:
        e = self.scale
        cuts = self.cuts

        # C_b = (low·highᵀ + high·lowᵀ)/2, low and high being bᵀx − c and bᵀx − c − 1.
        low = np.column_stack([-cuts.offsets, cuts.vectors * e])
        high = low.copy()
        high[:, 0] -= 1.0
        self._low = low
        self._high = high

        # Products of cuts with the D of each cell, and the squared length of these.
        squares = low[:, 1:] * high[:, 1:]
        sides = low[:, :1] * high[:, 1:] + high[:, :1] * low[:, 1:]
        self._along = e * e * squares - 0.5 * e * sides
        self._length = e**4 + 0.5 * e * e

        # Products of the cuts' parts off all D, at length one.
        straight = (low @ low.T) * (high @ high.T)
        crossed = (low @ high.T) * (high @ low.T)
        products = 0.5 * (straight + crossed)
        products -= (self._along / self._length) @ self._along.T
        squared = np.diagonal(products)
        squared = np.maximum(squared, _SPLITTING.least_length)
        self._unit = 1.0 / np.sqrt(squared)
        products *= self._unit[:, None] * self._unit

        self._inverse = _inverse(products, _SPLITTING.caution + _SPLITTING.penalty)
        self._steps = _SPLITTING.first_steps
        self._weigh(cuts.weights, cuts.bound_duals)

    def _weigh(self, weights: FloatArray, bound_duals: FloatArray) -> None:
        self.cuts = replace(self.cuts, weights=weights, bound_duals=bound_duals)
        half = self._low.T @ (weights[:, None] * self._high)
        self.matrix = symmetrised(half)

    def best_squares(self, rest: FloatArray) -> FloatArray:
        """The d that takes most off a matrix; D has places of its own for every cell."""
        return -self._along_of(rest) / self._length

    def _along_of(self, matrix: FloatArray) -> FloatArray:
        """Products with D of each cell: e² on the diagonal and −e/2 twice beside it."""
        e = self.scale
        diagonal = np.diagonal(matrix)[1:]
        return np.asarray(e * e * diagonal - e * matrix[0, 1:])

    def weight_steps(self, rest: FloatArray) -> None:
        """Better weights, d being the best for each."""
        if not len(self.cuts):
            return

        # The quadratic's linear term, for weights of cuts at length one.
        u = self.cuts.weights / self._unit
        linear = np.einsum("bi,bi->b", self._low @ rest, self._high)
        squares = self.best_squares(rest)
        linear += self._along @ squares
        linear = linear * self._unit - _SPLITTING.caution * u

        penalty = _SPLITTING.penalty
        bound_duals = self.cuts.bound_duals * self._unit
        for _ in range(self._steps):
            free = self._inverse @ (penalty * u - bound_duals - linear)
            free = u + _SPLITTING.relaxation * (free - u)
            u = np.maximum(free + bound_duals / penalty, 0.0)
            bound_duals = bound_duals + penalty * (free - u)

        self._steps = _SPLITTING.steps
        self._weigh(u * self._unit, bound_duals / self._unit)


def cut_start_work(cuts: int, cells: int) -> float:
    """Operations of a start with cuts: their products, and the inverse of those."""
    products = 4 * product(cuts, cells, cuts)
    inverse = product(cuts, cuts, cuts)
    return products + inverse + 10 * pass_over(cuts**2)


def _inverse(matrix: FloatArray, shift: float) -> FloatArray:
    """(Q + sI)⁻¹ of a semidefinite matrix."""
    from scipy.linalg.lapack import dpotrf, dpotri

    if not len(matrix):
        return matrix

    shifted = matrix + shift * np.eye(len(matrix))
    factor, _ = dpotrf(shifted, lower=True)
    half, _ = dpotri(factor, lower=True)
    lower = np.tril(half)
    return np.asarray(lower + np.tril(lower, -1).T)


@dataclass(eq=False)
class CutBlock(Blocks):
    """d, E, u, S and the multipliers, for cells scaled by e: one block for sets of all sizes."""

    weighed: WeighedCuts = field(init=False)
    squares: FloatArray = field(init=False)
    """d."""

    def __post_init__(self) -> None:
        n = len(self.scale)
        self.gains = np.array([self.slope])
        self.couplings = np.diag([0.0, 1.0])[None]
        self.squares = np.zeros(n)
        self.excess = np.zeros_like(self.duals)
        self.definite = np.zeros_like(self.duals)
        self.cut_by(Cuts.none(n))

    @property
    def cuts(self) -> Cuts:
        """The cuts with their weights."""
        return self.weighed.cuts

    def cut_by(self, cuts: Cuts) -> None:
        """Take these cuts from now on."""
        self.weighed = WeighedCuts(cuts, self.scale)

    def copy(self) -> CutBlock:
        """A block of its own at the same point: a step changes no array but the duals."""
        other = copy(self)
        other.duals = self.duals.copy()
        other.weighed = copy(self.weighed)
        return other

    @property
    def operations(self) -> float:
        """Of a step: a spectrum, two products with all cuts, and passes over all entries."""
        n = len(self.scale) + 1
        cuts = len(self.cuts)
        products = 2 * product(cuts, n, n)
        splitting = _SPLITTING.steps * product(cuts, cuts, 1)
        passes = _PASSES * pass_over(n**2 + cuts * n)
        return eigenvectors(n) + products + splitting + passes

    # --- the map from Φ and its adjoint -----------------------------------------------------------

    def forward(self, phi: FloatArray) -> FloatArray:
        """HᵀΦH with H = [f, rI]."""
        r = self.slope
        f = 1.0 / self.scale
        sums = phi @ f
        constant = np.atleast_2d(f @ sums)
        side = r * sums[:, None]
        rows = [
            [constant, side.T],
            [side, r * r * phi],
        ]
        return np.block(rows)

    def adjoint(self, matrices: FloatArray) -> FloatArray:
        """H(·)Hᵀ."""
        r = self.slope
        f = 1.0 / self.scale
        row = r * matrices[0, 1:] + 0.5 * matrices[0, 0] * f
        side = np.outer(f, row)
        inner = r * r * matrices[1:, 1:]
        return np.asarray(inner + side + side.T)

    # --- one step ---------------------------------------------------------------------------------

    def slack_step(self, image: FloatArray) -> FloatArray:
        """New u, d, E and S in turn, each the best for the others; returns D + E + ΣuC + S."""
        target = image + self.duals
        rest = target + self.excess + self.definite
        self.weighed.weight_steps(rest)
        self.squares = self.weighed.best_squares(rest + self.weighed.matrix)

        vanishing = self._squared() + self.weighed.matrix
        return vanishing + self.cone_step(target + vanishing)

    def clipped(self, short: FloatArray) -> FloatArray:
        """E on pairs of cells; a square counts by D."""
        excess = np.maximum(short, 0.0)
        excess[0] = 0.0
        excess[:, 0] = 0.0
        np.fill_diagonal(excess, 0.0)
        return excess

    def _squared(self) -> FloatArray:
        """D(d)."""
        e = self.scale
        matrix = np.diag(np.append(0.0, e * e * self.squares))
        matrix[0, 1:] = -0.5 * e * self.squares
        matrix[1:, 0] = matrix[0, 1:]
        return matrix

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of x that the multipliers stand for."""
        moments = self.duals / self.duals[0, 0]
        mean = moments[0, 1:] * self.scale
        second = moments[1:, 1:] * self.scales
        return mean, second - np.outer(mean, mean)
