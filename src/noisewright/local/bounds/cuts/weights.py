"""Cuts in a search for a proof, whole vectors each, and how much each of them counts.

With T what is left of the condition (`cut_block`), the weights u ≥ 0 of cuts C_b and the numbers d
of D(d), which are free, make ‖T + D(d) + Σ_b u_b C_b‖² small. With the best d for each u this is a
quadratic function of u alone, of the parts of the C_b off all D. Its minimum over u ≥ 0 is found
nearly, by a few steps of a splitting method that goes on where it stopped: one product with a kept
inverse each, whatever the cuts have in common. Gradient steps were tried, and need ten times as
many rounds where hundreds of cuts are nearly the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.work import product, touched

_STEPS = 3
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
        self.matrix = np.asarray((half + half.T) / 2)

    def best_squares(self, rest: FloatArray) -> FloatArray:
        """The d that takes most off a matrix; D has places of its own for every cell."""
        return np.asarray(-self._along_of(rest) / self._length)

    def _along_of(self, matrix: FloatArray) -> FloatArray:
        """Products with D of each cell: e² on the diagonal and −e/2 twice beside it."""
        e = self.scale
        inside = np.arange(1, len(matrix))
        return np.asarray(e * e * matrix[inside, inside] - e * matrix[0, 1:])

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
