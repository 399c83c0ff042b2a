"""The semidefinite program behind a proof by triples, for sets of one size, by a barrier method.

The distances between members of a set of k cells of {0, 1}^d are counted: A_i members at distance i
from a member, in the mean, and T_ijc pairs of members at distances i and j from it and c from each
other. `tables.proof` says which inequalities hold for these counts. All are strict for a random
set, from where a path of Newton steps leads to the largest Σκ_i A_i that they allow. Matrices that
permutations of attributes leave unchanged fall into small blocks (`cube`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.tables.cube import cube
from noisewright.local.work import product, solve


@dataclass(frozen=True)
class Path:
    """How a program is solved; half and double were tried on four families of tables."""

    close: float = 1e-7
    """Of the value, where the path ends: ten times more or less change no floor by 0.3 %."""
    shrink: float = 0.1
    """Of the barrier's weight, from point to point: half and double change no floor."""
    most_steps: int = 150
    """Newton steps: no program tried, on up to nine attributes, took 75."""
    centred: float = 0.5
    """Length of a Newton step near enough to the path: half and double change no floor by 0.3 %."""
    settled: float = 1e-5
    """The same at the path's end: ten times more or less change no floor."""
    near: float = 0.9
    """Of the way to where an inequality breaks: 0.8 and 0.95 change no floor by 0.3 %."""


_PATH = Path()

_OVERHEAD = 7e6
"""Operations of a step besides its products: a quarter of a millisecond of small arrays."""

_FLAT = 1e-9
"""Of the largest eigenvalue: where equations leave a matrix none."""

_TINY = 1e-300
"""Keeps quotients finite where a matrix is zero."""


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


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A matrix along each unknown, within the span of some columns."""

    along: FloatArray
    basis: FloatArray

    def at(self, t: FloatArray) -> FloatArray:
        """The matrix at some values of the unknowns."""
        return np.asarray(np.tensordot(t, self.along, 1))

    @property
    def rank(self) -> int:
        rank: int = self.basis.shape[1]
        return rank


class Program:
    """max Σκ_i A_i over all that is known of the counts of sets of k cells.

    Unknowns t are A_0 … A_d, the triples, and where k is twice an odd number a mixture of cells by
    weight (see `tables.proof`). Inequalities are rows·t ≥ limits, and matrices without a negative
    eigenvalue.
    """

    def __init__(self, bits: int, size: int) -> None:
        self.cube = cube(bits)
        self.size = size
        self.side = bits + 1
        self._counts = self.side + len(self.cube.triples)
        self._mixed = size % 4 == 2
        self.unknowns = self._counts + (self.side if self._mixed else 0)

        self.start = self._random()
        self.equations = self._equations()
        self.rows, self.limits = self._inequalities()
        squares = self.equations.T @ self.equations
        values, vectors = np.linalg.eigh(squares)
        self.free = vectors[:, values < _FLAT * values[-1]]

        self.inside, self.outside = self._matrices()
        self._blocks = [one for one in self.inside + self.outside if one.rank]
        self._along = [np.tensordot(self.free.T, one.along, 1) for one in self._blocks]
        self._sides = self.rows @ self.free

    # --- what is known of counts ------------------------------------------------------------------

    def _random(self) -> FloatArray:
        """Counts of a random set, and a random cell."""
        n = 2**self.cube.bits
        pairs = self.cube.pairs
        cells = np.diagonal(pairs[0])
        another = (self.size - 1) / (n - 1)
        third = (self.size - 2) / (n - 2)

        singles = another * cells
        singles[0] = 1.0
        triples = [another * third * pairs[three] for three in self.cube.triples]
        shares = cells / n if self._mixed else []
        return np.concatenate([singles, triples, shares])

    def _equations(self) -> FloatArray:
        """Σ_jc T_ijc = k·A_i; the last ones say A_0 = 1, and that shares sum to one."""
        rows = np.zeros((self.side + 1 + self._mixed, self.unknowns))
        for i in range(self.side):
            numbers = self.cube.variable[i]
            used = numbers[numbers >= 0]
            rows[i] = np.bincount(used, minlength=self.unknowns)
            rows[i, i] -= self.size

        rows[self.side, 0] = 1.0
        rows[self.side + 1 :, self._counts :] = 1.0
        return rows

    def _inequalities(self) -> tuple[FloatArray, FloatArray]:
        """Counts are not negative; T_ijc ≤ A_c·(v, w for one v ⊕ w); waves (see `tables.proof`)."""
        pairs = self.cube.pairs
        waves = self.cube.waves
        positive = np.eye(self.unknowns)[1:]

        occurring = np.argwhere(pairs > 0).tolist()
        different = [three for three in occurring if min(three) > 0]
        self._places = [three for three in different if three[0] <= three[1]]
        apart = np.zeros((len(self._places), self.unknowns))
        for row, (i, j, c) in zip(apart, self._places, strict=True):
            row[c] = pairs[i, j, c] / pairs[0, c, c]
            row[self.cube.variable[i, j, c]] -= 1.0

        waving = np.zeros((self.side - 1, self.unknowns))
        waving[:, : self.side] = waves[1:]
        if self._mixed:
            sums = waves[1:, :1] + waves[1:]
            waving[:, self._counts :] = -2.0 / self.size * sums

        odd = self.size % 2
        least = waves[1:, 0] * odd / self.size
        rows = np.concatenate([positive, apart, waving])
        zeros = np.zeros(len(rows) - len(least))
        return rows, np.concatenate([zeros, least])

    def _matrices(self) -> tuple[list[Shrunk], list[Shrunk]]:
        """Blocks of ⟨yyᵀ⟩ and of ⟨zzᵀ⟩, along each unknown."""
        variable = self.cube.variable.ravel()
        known = np.flatnonzero(variable >= 0)
        per_class = 1.0 / self.cube.pairs.ravel()[known]
        difference = known % self.side
        per_difference = 1.0 / self.cube.pairs[0, difference, difference]

        inside = []
        outside = []
        for block in self.cube.blocks:
            shared = block[known] * per_class[:, None, None]
            matrix = np.zeros((self.unknowns, *block.shape[1:]))
            np.add.at(matrix, variable[known], shared)
            inside.append(self._shrunk(matrix))

            shared = block[known] * per_difference[:, None, None]
            other = -matrix
            np.add.at(other, difference, shared)
            outside.append(self._shrunk(other))

        return inside, outside

    def _shrunk(self, matrix: FloatArray) -> Shrunk:
        """The matrix where equations leave it an eigenvalue at all, and that space."""
        at_start = np.tensordot(self.start, matrix, 1)
        values, vectors = np.linalg.eigh(at_start)
        least = _FLAT * max(float(values[-1]), _TINY)
        basis = vectors[:, values > least]
        return Shrunk(np.einsum("ai,vab,bj->vij", basis, matrix, basis), basis)

    # --- the path ---------------------------------------------------------------------------------

    def solved(self, kernel: FloatArray) -> Multipliers:
        """The optimum for κ, nearly."""
        gain = np.zeros(self.unknowns)
        gain[: self.side] = kernel
        unit = float(np.abs(kernel).max()) or 1.0
        degree = len(self.rows) + sum(one.rank for one in self._blocks)

        t = self.start
        weight = unit * self.size / degree
        least = _PATH.close * weight
        centred = t, weight
        steps = 0
        while steps < _PATH.most_steps:
            steps += 1
            try:
                move, length, room = self._newton(t, gain / weight)
            except np.linalg.LinAlgError:
                break  # the digits are used up: what was reached before is good enough
            last = weight <= least
            if length >= (_PATH.settled if last else _PATH.centred):
                t = t + min(1.0, _PATH.near * room) * move
                continue

            centred = t, weight
            if last:
                break
            weight *= _PATH.shrink

        return self._multipliers(*centred, gain, steps * self._newton_step)

    @property
    def _newton_step(self) -> float:
        """Operations of a step: matrices along all unknowns turned, and products of them."""
        free = self._sides.shape[1]
        ranks = [one.rank for one in self._blocks]
        turned = 2 * sum(product(free, rank, rank**2) for rank in ranks)
        entries = len(self.rows) + sum(rank**2 for rank in ranks)
        return turned + product(free, entries, free) + solve(free, 1) + _OVERHEAD

    def _newton(
        self, t: FloatArray, gain: FloatArray
    ) -> tuple[FloatArray, float, float]:
        """The step to the largest gain plus logarithms, its length, and how far it may be gone."""
        slack = self.rows @ t - self.limits
        bent = self._sides / slack[:, None]
        gradient = self.free.T @ gain + bent.sum(axis=0)
        hessian = bent.T @ bent

        turned = []
        for block, along in zip(self._blocks, self._along, strict=True):
            factor = np.linalg.cholesky(block.at(t))
            root = np.linalg.inv(factor)
            matrices = root @ along @ root.T
            turned.append(matrices)
            gradient += np.einsum("vii->v", matrices)
            flat = matrices.reshape(len(along), -1)
            hessian += flat @ flat.T

        move = np.linalg.solve(hessian, gradient)
        length = float(np.sqrt(max(move @ gradient, 0.0)))

        # The fastest relative fall of an inequality or an eigenvalue ends the way.
        fastest = float((bent @ move).min())
        for matrices in turned:
            bending = np.tensordot(move, matrices, 1)
            least = np.linalg.eigvalsh(bending)[0]
            fastest = min(fastest, float(least))
        return self.free @ move, length, 1.0 / max(-fastest, _TINY)

    # --- its end ----------------------------------------------------------------------------------

    def _multipliers(
        self,
        t: FloatArray,
        weight: float,
        gain: FloatArray,
        operations: float,
    ) -> Multipliers:
        """Multipliers of a point of the path."""
        prices = weight / (self.rows @ t - self.limits)
        inside, taken_inside = self._prices_of(self.inside, t, weight)
        outside, taken_outside = self._prices_of(self.outside, t, weight)
        left = gain + prices @ self.rows + taken_inside + taken_outside
        tilts, *_ = np.linalg.lstsq(self.equations.T, left, rcond=None)

        # Inequalities stand in the order counts, T_ijc ≤ …, waves.
        counted = self.unknowns - 1
        by_place = prices[counted : counted + len(self._places)]
        apart = np.zeros_like(inside)
        for (i, j, c), price in zip(self._places, by_place, strict=True):
            apart[i, j, c] = price if i == j else price / 2
            apart[j, i, c] = apart[i, j, c]

        waves = prices[counted + len(self._places) :]
        return Multipliers(
            counts=t[: self.side],
            inside=inside,
            outside=outside,
            apart=apart,
            tilts=np.asarray(-tilts[: self.side]),
            waves=np.append(0.0, waves),
            operations=operations,
        )

    def _prices_of(
        self,
        matrices: list[Shrunk],
        t: FloatArray,
        weight: float,
    ) -> tuple[FloatArray, FloatArray]:
        """P by classes for one kind of matrix, and what it adds along each unknown."""
        total = np.zeros(self.side**3)
        taken = np.zeros(self.unknowns)
        for one, classes in zip(matrices, self.cube.blocks, strict=True):
            if not one.rank:
                continue
            price = weight * np.linalg.inv(one.at(t))
            taken += np.tensordot(one.along, price, 2)
            whole = one.basis @ price @ one.basis.T
            total += np.tensordot(classes, whole, 2)

        pairs = np.maximum(self.cube.pairs.ravel(), 1)
        return (total / pairs).reshape((self.side,) * 3), taken
