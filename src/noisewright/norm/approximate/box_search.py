"""The least γ2 in a box by alternating directions, one eigenproblem of rows and columns a step.

It is a semidefinite program over [[RRᵀ, Z], [Zᵀ, AᵀA]] ⪰ 0; the alternating direction method splits
it into a projection onto that cone and one onto the box, and its multiplier is the dual witness U.
Started from the exact factorization of the middle of the box with the multiplier of its dual
weights, 50 to 180 steps reach a gap of 1e-4 (prefix within 0.1, 16 to 512 cells); from zero, 200
reach 3e-2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.norm.approximate.box import Box, BoxWitness, Pair
from noisewright.norm.kernel.problems import DenseProblem
from noisewright.norm.kernel.solver import Weights, solve

PENALTY = 4.5  # over (rows + columns)^1.5·γ2(W): measured best from 16 to 256 cells
_RELAXATION = 1.7  # of alternating directions, which converge for all between 0 and 2
_CHECK_EVERY = 10  # steps: a proof costs about as much as one
# of the largest weight, kept on all others: roots of them are divided by
_FLOOR = 1e-12


class BoxSearch:
    """Alternating directions between the semidefinite cone and the box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.p, self.n = box.shape
        self.upper = math.inf
        self.start(box.middle)

    def start(self, matrix: FloatArray) -> None:
        """Begin at the exact factorization of the middle of the box."""
        p = self.p
        size = self.p + self.n
        a = np.full(p, 1 / p)
        b = np.full(self.n, 1 / self.n)
        self.penalty = PENALTY / size**1.5
        self.y = np.zeros((size, size))
        witness = np.zeros_like(matrix)
        if matrix.any():
            problem = DenseProblem(matrix)
            point = solve(problem, math.inf, tolerance=1e-3, iterations=200)
            assert point.dual.a is not None
            a = point.dual.a
            b = point.dual.b
            u, s, v = problem.singular(point.dual)
            half = np.sqrt(s)
            rows = half * u / np.sqrt(a)[:, None]
            columns = half * v / np.sqrt(b)[:, None]
            factor = np.vstack([rows, columns])
            self.y = factor @ factor.T
            witness = _dual_matrix(u, v, a, b)
            self.penalty /= point.lower

        multiplier = np.diag(np.concatenate([a, b]) / 2)
        multiplier[:p, p:] = -witness / 2
        multiplier[p:, :p] = -witness.T / 2
        self.scaled = multiplier / self.penalty

        proof = self.box.witness(witness, a, b)
        self.lower = proof.bound(self.box)
        self.best = Pair(matrix, np.zeros(p), proof)
        if self.box.zero_shifts is not None:  # nothing to search for
            zero = np.zeros_like(matrix)
            self.best = Pair(zero, self.box.zero_shifts, self.box.witness(zero, a, b))

    def run(self, tolerance: float, iterations: int) -> int:
        """Step until the gap closes; returns the number of steps."""
        if not self.best.approximation.any():
            return 0

        for step in range(1, iterations + 1):
            primal, dual = self._step()
            if step % _CHECK_EVERY == 0:
                self._bound(tolerance)
                if self.upper <= self.lower * (1 + 0.9 * tolerance) or self.upper == 0:
                    return step
                self._rebalance(primal, dual)

        return iterations

    def _step(self) -> tuple[float, float]:
        """One round; returns how far the two copies are apart and how far the second moved."""
        p = self.p
        before = self.y
        inside = _positive_part(before - self.scaled)
        target = _RELAXATION * inside + (1 - _RELAXATION) * before + self.scaled

        block = target[:p, p:]
        self.shifts = self.box.shifts(block)
        self.boxed = self.box.clip(block, self.shifts)
        self.y = target.copy()
        np.fill_diagonal(self.y, _lowered(np.diagonal(target), 1 / self.penalty))
        self.y[:p, p:] = self.boxed
        self.y[p:, :p] = self.boxed.T
        self.scaled = target - self.y

        primal = float(np.linalg.norm(inside - self.y))
        return primal, float(np.linalg.norm(self.y - before))

    def _bound(self, tolerance: float) -> None:
        """Turn the iterates into a feasible pair, and keep what is better than before."""
        p = self.p
        diagonal = np.maximum(np.diagonal(self.scaled), 0.0)
        a = _weights(diagonal[:p])
        b = _weights(diagonal[p:])
        witness = self.box.witness(-2 * self.penalty * self.scaled[:p, p:], a, b)
        lower = witness.bound(self.box)
        if lower > self.lower:
            self.lower = lower
            self.best = replace(self.best, witness=witness)

        upper = 0.0
        if self.boxed.any():
            problem = DenseProblem(self.boxed)
            finer = tolerance / 20
            upper = solve(problem, math.inf, tolerance=finer, iterations=200).upper

        if upper < self.upper:
            self.upper = upper
            self.best = Pair(self.boxed, self.shifts, self.best.witness)

    def _rebalance(self, primal: float, dual: float) -> None:
        """A penalty under which both residuals fall alike."""
        factor = 1.0
        if primal > 3 * dual:
            factor = 1.5
        elif dual > 3 * primal:
            factor = 1 / 1.5

        self.penalty *= factor
        self.scaled = self.scaled / factor


def _dual_matrix(
    u: FloatArray, v: FloatArray, a: FloatArray, b: FloatArray
) -> FloatArray:
    """D_a^½ U Vᵀ D_b^½, the witness that belongs to dual weights."""
    return np.asarray(np.sqrt(a)[:, None] * (u @ v.T) * np.sqrt(b))


def _positive_part(matrix: FloatArray) -> FloatArray:
    """Nearest positive semidefinite matrix, built from whichever side has fewer eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    positive = values > 0
    few = 2 * np.count_nonzero(positive) < values.size
    side = positive if few else ~positive
    part = (vectors[:, side] * values[side]) @ vectors[:, side].T
    return np.asarray(part if few else matrix - part)


def _lowered(values: FloatArray, mass: float) -> FloatArray:
    """min(values, t) with t such that exactly `mass` is cut off: the step of the objective t."""
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - mass) / np.arange(1, values.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.minimum(values, level))


def _weights(values: FloatArray) -> FloatArray:
    floored = np.maximum(values, _FLOOR * max(float(values.max()), 1e-300))
    return np.asarray(floored / floored.sum())


_INNER = 3  # steps of the programs of rows at one G
_POWER = 2.0  # of costs by which weights move
# of the largest singular value: directions that die too early never return
_SMOOTH = 3e-2
_SLOWER = 10  # steps in which that halves
_PENALTY = 4.0  # at first, over the mean eigenvalue of G, so that scales do not matter
_LEAST = 1e-8  # share that all rows, or columns, keep together
# checks in which the gap has to fall below this share of itself
_PATIENCE = 6
_HARDLY = 0.9  # as told above


@dataclass(frozen=True, eq=False)
class _Columns:
    """G with its largest diagonal entry one, by eigenvalues."""

    values: FloatArray
    vectors: FloatArray
    lengths: FloatArray

    @classmethod
    def at(cls, z: FloatArray, a: FloatArray, b: FloatArray, smooth: float) -> _Columns:
        """The best for weighted rows and columns, no direction shorter than `smooth`."""
        root = np.sqrt(b)
        scaled = z * root
        gram = scaled.T @ (a[:, None] * scaled)
        squares, v = np.linalg.eigh(gram)
        largest = max(float(squares[-1]), np.finfo(float).tiny)
        s = np.sqrt(np.maximum(squares, 0.0) + smooth**2 * largest)

        g = (v * s) @ v.T / root[:, None] / root
        longest = np.diagonal(g).max()
        values, vectors = np.linalg.eigh(g / longest)
        return cls(np.maximum(values, 1e-13), vectors, np.diagonal(g) / longest)

    def resolvent(self, penalty: float, shift: bool) -> FloatArray:
        """ρ(2H + ρ)⁻¹, H = G⁻¹, less its part along ones where shifts are free."""
        g = self.values
        e = self.vectors
        damped = 2 + g * penalty
        inner = (e * (g / damped)) @ e.T
        if shift:
            ones = e.sum(axis=0)
            along = (e / damped) @ ones
            inner += np.outer(along, along) * 2 / float(ones**2 @ (penalty / damped))

        return penalty * inner

    def shifts(self, y: FloatArray) -> FloatArray:
        """The shift of every row that makes it cheapest."""
        ones = self.vectors.sum(axis=0)
        pulled = self.vectors @ (ones / self.values)
        return np.asarray(-(y @ pulled) / float(ones**2 @ (1 / self.values)))

    def costs(self, z: FloatArray) -> FloatArray:
        """zᵢᵀG⁻¹zᵢ of every row."""
        images = z @ (self.vectors / np.sqrt(self.values))
        return np.asarray(np.einsum("ij,ij->i", images, images))


class TallSearch:
    """Weights on rows and columns, a matrix in the box, and the multipliers of its limits."""

    def __init__(self, box: Box) -> None:
        self.box = box
        rows, columns = box.shape
        self.a = np.full(rows, 1 / rows)
        self.b = np.full(columns, 1 / columns)
        self.matrix = box.middle
        self.multiplier = np.zeros(box.shape)
        self.shifts = -box.middle.mean(axis=1) if box.shift else np.zeros(rows)
        self.penalty = 0.0
        self.upper = math.inf
        self.lower = 0.0
        nothing = box.witness(np.zeros(box.shape), self.a, self.b)
        self.best = Pair(self.matrix + self.shifts[:, None], self.shifts, nothing)
        if box.zero_shifts is not None:  # nothing to search for
            self.best = Pair(np.zeros(box.shape), box.zero_shifts, nothing)

    def run(self, tolerance: float, iterations: int) -> int:
        """Step until the gap closes or hardly falls; returns the number of steps."""
        if not self.best.approximation.any():
            return 0
        if not self.box.shift and np.array_equal(self.box.lower, self.box.upper):
            return self._exact(tolerance, iterations)

        gaps: list[float] = []
        for step in range(1, iterations + 1):
            columns, costs = self._step(_SMOOTH / (1 + step / _SLOWER))
            if step % _CHECK_EVERY == 0 or step == iterations:
                self._prove()
                gaps.append(self.upper / max(self.lower, 1e-300) - 1)
                if gaps[-1] <= 0.7 * tolerance or _stalled(gaps):
                    return step

            self.a = _moved(self.a, costs)
            self.b = _moved(self.b, columns.lengths)

        return iterations

    def _exact(self, tolerance: float, iterations: int) -> int:
        """The one matrix there is: its own factorization."""
        problem = DenseProblem(self.matrix)
        point = solve(problem, math.inf, tolerance=tolerance, iterations=iterations)
        a = point.dual.a
        b = point.dual.b
        assert a is not None
        u, _, v = problem.singular(point.dual)
        self.upper = point.upper
        self.best = replace(self.best, weights=point.primal)
        self._keep(self.box.witness(_dual_matrix(u, v, a, b), a, b))

        return point.iterations

    def _step(self, smooth: float) -> tuple[_Columns, FloatArray]:
        """The best G, better rows at it, and what each costs."""
        box = self.box
        y = self.matrix
        columns = _Columns.at(y + self.shifts[:, None], self.a, self.b, smooth)
        self.penalty = self.penalty or _PENALTY / float(columns.values.mean())
        inner = columns.resolvent(self.penalty, box.shift)

        for _ in range(_INNER):
            scaled = self.multiplier / self.penalty
            nearer = (y - scaled) @ inner
            target = _RELAXATION * nearer + (1 - _RELAXATION) * y + scaled
            y = np.clip(target, box.lower, box.upper)
            self.multiplier = self.penalty * (target - y)

        self.matrix = y
        self.shifts = columns.shifts(y) if box.shift else self.shifts
        near = y + self.shifts[:, None]
        costs = columns.costs(near)
        upper = math.sqrt(float(costs.max()))
        if upper < self.upper:
            self.upper = upper
            weights = Weights(self.a, self.b)
            self.best = Pair(near, self.shifts, self.best.witness, weights)

        return columns, costs

    def _prove(self) -> None:
        """The multipliers as a witness, kept if it proves more than before."""
        witness = self.a[:, None] * -self.multiplier
        self._keep(self.box.witness(witness, self.a, self.b))

    def _keep(self, proof: BoxWitness) -> None:
        lower = proof.bound(self.box)
        if lower > self.lower:
            self.lower = lower
            self.best = replace(self.best, witness=proof)


def _stalled(gaps: list[float]) -> bool:
    """Whether the gap hardly fell in the last checks."""
    return len(gaps) > _PATIENCE and gaps[-1] > _HARDLY * gaps[-1 - _PATIENCE]


def _moved(weights: FloatArray, costs: FloatArray) -> FloatArray:
    """Towards what costs more, with a little left on everything."""
    moved = weights * (costs / costs.max()) ** _POWER
    moved = np.maximum(moved / moved.sum(), _LEAST / len(moved))
    return np.asarray(moved / moved.sum())
