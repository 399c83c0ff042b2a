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

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.bounds.folding import Folding
from noisewright.local.work import eigenvectors, product, touched

_STEPS = 3
_PASSES = 25  # over all entries, in a step
_FIRST_STEPS = 30
_SPLITTING = 0.05
_RELAXATION = 1.6
_CAUTION = 0.2  # holds weights where they were: other unknowns have not moved yet
_LEAST_LENGTH = 1e-6


@dataclass(frozen=True, eq=False)
class Cuts:
    """Whole vectors b and numbers c, one cut each, and their weights u."""

    vectors: IntArray
    offsets: IntArray
    weights: FloatArray
    pulls: FloatArray
    """What keeps weights from falling below zero; nothing where they are above."""
    idle: IntArray
    """How often in turn each was seen without a weight."""

    @classmethod
    def none(cls, cells: int) -> Cuts:
        """No cut."""
        some = np.zeros(0, np.int64)
        return cls(np.zeros((0, cells), np.int64), some, np.zeros(0), np.zeros(0), some)

    def __len__(self) -> int:
        return len(self.offsets)

    def seen(self) -> Cuts:
        """The same, once more looked at."""
        return replace(self, idle=np.where(self.weights > 0, 0, self.idle + 1))

    def only(self, some: IntArray) -> Cuts:
        """Some of them."""
        return Cuts(
            self.vectors[some],
            self.offsets[some],
            self.weights[some],
            self.pulls[some],
            self.idle[some],
        )

    def joined(self, vectors: IntArray, offsets: IntArray) -> Cuts:
        """With further ones, without a weight yet."""
        none = np.zeros(len(offsets))
        return Cuts(
            np.concatenate([self.vectors, vectors]),
            np.concatenate([self.offsets, offsets]),
            np.concatenate([self.weights, none]),
            np.concatenate([self.pulls, none]),
            np.concatenate([self.idle, none.astype(np.int64)]),
        )


@dataclass(eq=False)
class WeighedCuts:
    """Cuts over cells scaled by e, and Σ_b u_b C_b."""

    cuts: Cuts
    scale: FloatArray
    """e."""
    matrix: FloatArray = field(init=False)
    """Σ_b u_b C_b."""

    def __post_init__(self) -> None:
        e = self.scale
        cuts = self.cuts
        low = self._low = np.column_stack([-cuts.offsets, cuts.vectors * e])
        high = self._high = low.copy()
        high[:, 0] -= 1.0
        squares = low[:, 1:] * high[:, 1:]
        sides = 0.5 * (low[:, :1] * high[:, 1:] + high[:, :1] * low[:, 1:])
        self._along = e * e * squares - e * sides
        self._length = e**4 + 0.5 * e * e  # of D for one cell, squared
        products = 0.5 * (
            (low @ low.T) * (high @ high.T) + (low @ high.T) * (high @ low.T)
        )
        products -= (self._along / self._length) @ self._along.T
        self._unit = 1.0 / np.sqrt(np.maximum(np.diagonal(products), _LEAST_LENGTH))
        products *= self._unit[:, None] * self._unit
        self._inverse = _inverse(products, _CAUTION + _SPLITTING)
        self._steps = _FIRST_STEPS
        self._weigh(cuts.weights, cuts.pulls)

    def copy(self) -> Self:
        """The same cuts, with weights of their own from now on."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)  # no array in it is ever changed
        return other

    def _weigh(self, weights: FloatArray, pulls: FloatArray) -> None:
        self.cuts = replace(self.cuts, weights=weights, pulls=pulls)
        half = self._low.T @ (weights[:, None] * self._high)
        self.matrix = (half + half.T) / 2

    def best_squares(self, rest: FloatArray) -> FloatArray:
        """The d that takes most off a matrix; D has places of its own for every cell."""
        return -self._along_of(rest) / self._length

    def _along_of(self, matrix: FloatArray) -> FloatArray:
        """Products with D of each cell: e² on the diagonal and −e/2 twice beside it."""
        e = self.scale
        inside = np.arange(1, len(matrix))
        return e * e * matrix[inside, inside] - e * matrix[0, 1:]

    def settle(self, rest: FloatArray) -> None:
        """Better weights, d being the best for each."""
        if not len(self.cuts):
            return

        linear = np.einsum("bi,bi->b", self._low @ rest, self._high)
        linear -= self._along @ (self._along_of(rest) / self._length)
        u = self.cuts.weights / self._unit
        pulls = self.cuts.pulls * self._unit
        linear = linear * self._unit - _CAUTION * u

        for _ in range(self._steps):
            free = self._inverse @ (_SPLITTING * u - pulls - linear)
            free = _RELAXATION * free + (1 - _RELAXATION) * u
            u = np.maximum(free + pulls / _SPLITTING, 0.0)
            pulls = pulls + _SPLITTING * (free - u)

        self._steps = _STEPS
        self._weigh(u * self._unit, pulls / self._unit)


def weighing(cuts: int, cells: int) -> float:
    """Operations of a start with cuts: their products, and the inverse of those."""
    return (
        4 * product(cuts, cells, cuts)
        + product(cuts, cuts, cuts)
        + 10 * touched(cuts**2)
    )


def _inverse(matrix: FloatArray, shift: float) -> FloatArray:
    """(Q + sI)⁻¹ of a semidefinite matrix."""
    from scipy.linalg.lapack import dpotrf, dpotri

    if not len(matrix):
        return matrix

    factor, _ = dpotrf(matrix + shift * np.eye(len(matrix)), lower=True)
    half, _ = dpotri(factor, lower=True)
    lower = np.tril(half)

    return np.asarray(lower + np.tril(lower, -1).T)


_RELAXATION = 1.6


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
        return r * r * matrix[1:, 1:] + side + side.T

    def normal(self, phi: FloatArray, _scale: FloatArray, f: FloatArray) -> FloatArray:
        """MMᵀΦMMᵀ, MMᵀ = r²I + ffᵀ."""
        square = self.slope**2
        sums = phi @ f
        side = np.outer(f, square * sums + 0.5 * float(f @ sums) * f)
        return square * square * phi + side + side.T

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

        return squared + self.excess + cut + self.definite

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
        return (mean), (second - np.outer(mean, mean))
