"""The semidefinite program behind a proof by triples, for sets of one size, by a barrier method.

The distances between members of a set of k cells of {0, 1}^d are counted: A_i members at distance i
from a member, in the mean, and T_ijc pairs of members at distances i and j from it and c from each
other. `triple_proof` says which inequalities hold for these counts. All are strict for a random
set, from where a path of Newton steps leads to the largest Σκ_i A_i that they allow. Matrices that
permutations of attributes leave unchanged fall into small blocks (Schrijver [046]).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.local.work import product, solved

_CLOSE = 1e-7  # of the value
_SHRINK = 0.1
_MOST_STEPS = 150
# Newton steps so short are near enough to the path, and its end
_CENTRED = 0.5
_SETTLED = 1e-5
_NEAR = 0.9  # of the way to where an inequality breaks
# of a step, besides its products: a quarter of a millisecond of small arrays
_OVERHEAD = 7e6
_FLAT = 1e-9  # of the largest eigenvalue: where equations leave a matrix none


Shrunk = tuple[FloatArray, FloatArray]
"""A matrix along each unknown, within the span of some columns, and these."""


@dataclass(frozen=True, eq=False)
class Multipliers:
    """How much each inequality counts at the optimum, and the counts there."""

    counts: FloatArray
    """A_i."""
    inside: FloatArray
    outside: FloatArray
    apart: FloatArray
    """Over distances (i, j, c)."""
    tilts: FloatArray
    waves: FloatArray
    operations: float
    """What it took to find them, about."""


@dataclass(frozen=True)
class Cube:
    """Triples of cells of {0, 1}^bits by their distances."""

    bits: int

    @cached_property
    def weights(self) -> IntArray:
        """How many attributes of a cell are one."""
        return np.array([cell.bit_count() for cell in range(2**self.bits)])

    @cached_property
    def classes(self) -> IntArray:
        """The number of (|v|, |w|, |v ⊕ w|), for all v and w."""
        cells = np.arange(2**self.bits)
        w = self.weights
        side = self.bits + 1
        return (w[:, None] * side + w) * side + w[cells[:, None] ^ cells]

    @cached_property
    def pairs(self) -> IntArray:
        """How many v and w there are of each class."""
        side = self.bits + 1
        return np.bincount(self.classes.ravel(), minlength=side**3).reshape(
            side, side, side
        )

    @cached_property
    def triples(self) -> list[tuple[int, ...]]:
        """Distances of three different cells, rising."""
        distances = combinations_with_replacement(range(1, self.bits + 1), 3)
        return [three for three in distances if self.pairs[three] > 0]

    @cached_property
    def variable(self) -> IntArray:
        """Which unknown T_ijc is: A_0 … A_d come first, then the triples; −1 where it is none."""
        side = self.bits + 1
        numbers = {three: side + number for number, three in enumerate(self.triples)}
        table = np.full((side, side, side), -1)

        for distances in np.argwhere(self.pairs > 0):
            low, middle, high = sorted(map(int, distances))
            table[tuple(distances)] = numbers[low, middle, high] if low else high

        return table

    @cached_property
    def waves(self) -> FloatArray:
        """Sums of the characters of degree j at weight i."""
        d = self.bits
        sums = [
            [
                sum((-1) ** m * comb(i, m) * comb(d - i, j - m) for m in range(j + 1))
                for i in range(d + 1)
            ]
            for j in range(d + 1)
        ]
        return np.array(sums, dtype=np.float64)

    @cached_property
    def blocks(self) -> list[FloatArray]:
        """For each kind of symmetry, the 0/1 matrices of all classes in a basis by weight.

        A basis vector is a product of differences of two attributes each, on cells of one weight.
        """
        cells = np.arange(2**self.bits)
        side = self.bits + 1
        parts = []
        for kind in range(self.bits // 2 + 1):
            sign = np.ones(len(cells))
            for pair in range(kind):
                sign *= (cells >> 2 * pair & 1) - (cells >> (2 * pair + 1) & 1)

            layers = np.arange(kind, self.bits - kind + 1)
            basis = np.where(self.weights == layers[:, None], sign, 0.0)
            basis /= np.linalg.norm(basis, axis=1)[:, None]
            inside = np.flatnonzero(sign)
            classes = self.classes[np.ix_(inside, inside)]
            seen = basis[:, inside]
            # one layer holds each cell
            products = seen.sum(axis=0)[:, None] * seen.sum(axis=0)
            rows, columns = np.broadcast_arrays(
                self.weights[inside][:, None] - kind, self.weights[inside] - kind
            )
            place = (classes * len(layers) + rows) * len(layers) + columns
            sums = np.bincount(
                place.ravel(), products.ravel(), side**3 * len(layers) ** 2
            )
            parts.append(
                sums.reshape(side**3, len(layers), len(layers)).astype(np.float64)
            )

        return parts


@lru_cache(maxsize=4)
def cube(bits: int) -> Cube:
    """The one of so many attributes."""
    return Cube(bits)


class Program:
    """max Σκ_i A_i over all that is known of the counts of sets of k cells.

    Unknowns t are A_0 … A_d, the triples, and where k is twice an odd number a mixture of cells by
    weight (see `triple_proof`). Inequalities are rows·t ≥ limits, and matrices without a negative
    eigenvalue.
    """

    def __init__(self, bits: int, size: int) -> None:
        self.cube, self.size, self.side = cube(bits), size, bits + 1
        self._counts = self.side + len(self.cube.triples)
        self._mixed = size % 4 == 2
        self.unknowns = self._counts + (self.side if self._mixed else 0)
        self.start = self._random()
        self.equations = self._equations()
        self._tell_inequalities()
        values, vectors = np.linalg.eigh(self.equations.T @ self.equations)
        self.free = vectors[:, values < _FLAT * values[-1]]
        self.inside, self.outside = self._matrices()
        self._blocks = [
            block for block, basis in self.inside + self.outside if basis.size
        ]
        self._along = [np.tensordot(self.free.T, block, 1) for block in self._blocks]
        self._sides = self.rows @ self.free

    def _random(self) -> FloatArray:
        """Counts of a random set, and a random cell."""
        n = 2**self.cube.bits
        k = self.size
        pairs = self.cube.pairs
        one = (k - 1) / (n - 1)
        start = [1.0, *(one * pairs[0, i, i] for i in range(1, self.side))]
        start += [one * (k - 2) / (n - 2) * pairs[three] for three in self.cube.triples]
        if self._mixed:
            start += [pairs[0, i, i] / n for i in range(self.side)]

        return np.array(start)

    def _equations(self) -> FloatArray:
        """Σ_jc T_ijc = k·A_i; the last ones say A_0 = 1, and that shares sum to one."""
        rows = np.zeros((self.side + 1 + self._mixed, self.unknowns))
        for i in range(self.side):
            used = self.cube.variable[i][self.cube.variable[i] >= 0]
            rows[i] = np.bincount(used, minlength=self.unknowns)
            rows[i, i] -= self.size

        rows[self.side, 0] = 1.0
        rows[self.side + 1 :, self._counts :] = 1.0
        return rows

    def _tell_inequalities(self) -> None:
        """Counts are not negative; T_ijc ≤ A_c·(v, w for one v ⊕ w); waves (see `triple_proof`)."""
        pairs = self.cube.pairs
        waves = self.cube.waves
        positive = np.eye(self.unknowns)[1:]
        self._places = [
            tuple(place)
            for place in np.argwhere(pairs > 0)
            if min(place) > 0 and place[0] <= place[1]
        ]
        apart = np.zeros((len(self._places), self.unknowns))

        for row, (i, j, c) in zip(apart, self._places, strict=True):
            row[c] = pairs[i, j, c] / pairs[0, c, c]
            row[self.cube.variable[i, j, c]] -= 1.0

        waving = np.zeros((self.side - 1, self.unknowns))
        waving[:, : self.side] = waves[1:]
        if self._mixed:
            waving[:, self._counts :] = -2.0 / self.size * (waves[1:, :1] + waves[1:])

        odd = waves[1:, 0] / self.size if self.size % 2 else np.zeros(self.side - 1)
        self.rows = np.concatenate([positive, apart, waving])
        self.limits = np.concatenate([np.zeros(len(positive) + len(apart)), odd])

    def _matrices(self) -> tuple[list[Shrunk], list[Shrunk]]:
        """Blocks of ⟨yyᵀ⟩ and of ⟨zzᵀ⟩, along each unknown."""
        variable = self.cube.variable.ravel()
        known = np.flatnonzero(variable >= 0)
        share = 1.0 / self.cube.pairs.ravel()[known]
        difference = known % self.side
        alone = 1.0 / self.cube.pairs[0, difference, difference]
        inside = []
        outside = []

        for block in self.cube.blocks:
            matrix = np.zeros((self.unknowns, *block.shape[1:]))
            np.add.at(matrix, variable[known], block[known] * share[:, None, None])
            inside.append(self._shrunk(matrix))
            other = -matrix
            np.add.at(other, difference, block[known] * alone[:, None, None])
            outside.append(self._shrunk(other))

        return inside, outside

    def _shrunk(self, matrix: FloatArray) -> Shrunk:
        """The matrix where equations leave it an eigenvalue at all, and that space."""
        values, vectors = np.linalg.eigh(np.tensordot(self.start, matrix, 1))
        basis = vectors[:, values > _FLAT * max(float(values[-1]), 1e-300)]
        return np.einsum("ai,vab,bj->vij", basis, matrix, basis), basis

    # --- the path ---------------------------------------------------------------------------------

    def solved(self, kernel: FloatArray) -> Multipliers:
        """The optimum for κ, nearly."""
        gain = np.zeros(self.unknowns)
        gain[: self.side] = kernel
        unit = float(np.abs(kernel).max()) or 1.0
        degree = len(self.rows) + sum(block.shape[1] for block in self._blocks)
        t = self.start
        weight = unit * self.size / degree
        least = _CLOSE * unit * self.size / degree
        centred = t, weight
        steps = 0

        for steps in range(1, _MOST_STEPS + 1):  # noqa: B007
            try:
                move, length, room = self._newton(t, gain / weight)
            except np.linalg.LinAlgError:
                break  # the digits are used up: what was reached before is good enough
            if length < (_CENTRED if weight > least else _SETTLED):
                centred = t, weight
                if weight <= least:
                    break
                weight *= _SHRINK
            else:
                t = t + min(1.0, _NEAR * room) * move

        return self._told(*centred, gain, steps * self._newton_step)

    @property
    def _newton_step(self) -> float:
        """Operations of a step: matrices along all unknowns turned, and products of them."""
        free = self._sides.shape[1]
        sides = [block.shape[1] for block in self._blocks]
        turned = sum(product(free, side, side * side) for side in sides) * 2
        inner = product(free, len(self.rows) + sum(side**2 for side in sides), free)
        return turned + inner + solved(free, 1) + _OVERHEAD

    def _newton(
        self, t: FloatArray, gain: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """The step to the largest gain plus logarithms, its length, and how far it may be gone."""
        bent = self._sides / (self.rows @ t - self.limits)[:, None]
        gradient = self.free.T @ gain + bent.sum(axis=0)
        hessian = bent.T @ bent
        turned = []

        for block, along in zip(self._blocks, self._along, strict=True):
            root = np.linalg.inv(np.linalg.cholesky(np.tensordot(t, block, 1)))
            turned.append(root @ along @ root.T)
            gradient += np.einsum("vii->v", turned[-1])
            flat = turned[-1].reshape(len(along), -1)
            hessian += flat @ flat.T

        move = np.linalg.solve(hessian, gradient)
        falls = [float((bent @ move).min())]
        falls += [
            float(np.linalg.eigvalsh(np.tensordot(move, one, 1))[0]) for one in turned
        ]
        length = float(np.sqrt(max(move @ gradient, 0.0)))

        return self.free @ move, length, 1.0 / max(-min(falls), 1e-300)

    def _told(
        self, t: FloatArray, weight: float, gain: FloatArray, operations: float
    ) -> Multipliers:
        """Multipliers of a point of the path."""
        slack = self.rows @ t - self.limits
        prices = weight / slack
        left = gain + prices @ self.rows
        shape = (self.side,) * 3
        sums = []

        for kind in (self.inside, self.outside):
            total = np.zeros(self.side**3)
            for (block, basis), classes in zip(kind, self.cube.blocks, strict=True):
                if not basis.size:
                    continue
                price = weight * np.linalg.inv(np.tensordot(t, block, 1))
                left += np.tensordot(block, price, 2)
                total += np.tensordot(classes, basis @ price @ basis.T, 2)
            sums.append((total / np.maximum(self.cube.pairs.ravel(), 1)).reshape(shape))

        tilts = -np.linalg.lstsq(self.equations.T, left, rcond=None)[0][: self.side]
        apart = np.zeros(shape)
        first = self.unknowns - 1

        for (i, j, c), price in zip(self._places, prices[first:], strict=False):
            apart[i, j, c] = price / (1 if i == j else 2)
            apart[j, i, c] = apart[i, j, c]

        waves = np.concatenate([[0.0], prices[len(prices) - self.side + 1 :]])
        return Multipliers(
            t[: self.side], sums[0], sums[1], apart, tilts, waves, operations
        )
