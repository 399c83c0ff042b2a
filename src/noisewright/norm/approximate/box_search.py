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
RELAXATION = 1.7
CHECK_EVERY = 10
FLOOR = 1e-12


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
        self.y, multiplier = np.zeros((size, size)), np.zeros((size, size))
        witness = np.zeros_like(matrix)
        if matrix.any():
            problem = DenseProblem(matrix)
            point = solve(problem, math.inf, tolerance=1e-3, iterations=200)
            assert point.dual.a is not None
            a = point.dual.a
            b = point.dual.b
            u, s, v = problem.singular(a, b)
            half = np.sqrt(s)
            factor = np.vstack(
                [half * u / np.sqrt(a)[:, None], half * v / np.sqrt(b)[:, None]]
            )
            self.y = factor @ factor.T
            witness = np.sqrt(a)[:, None] * (u @ v.T) * np.sqrt(b)
            self.penalty /= point.lower

        np.fill_diagonal(multiplier, np.concatenate([a, b]) / 2)
        multiplier[:p, p:], multiplier[p:, :p] = -witness / 2, -witness.T / 2
        self.scaled = multiplier / self.penalty
        proof = self.box.witness(witness, a, b)
        self.lower = self._proved(proof)
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
            if step % CHECK_EVERY == 0:
                self._bound(tolerance)
                if self.upper <= self.lower * (1 + 0.9 * tolerance) or self.upper == 0:
                    return step
                self._rebalance(primal, dual)

        return iterations

    def _step(self) -> tuple[float, float]:
        """One round; returns how far the two copies are apart and how far the second moved."""
        inside = _positive_part(self.y - self.scaled)
        target = RELAXATION * inside + (1 - RELAXATION) * self.y + self.scaled
        before, self.y = self.y, target.copy()
        np.fill_diagonal(self.y, _lowered(np.diagonal(target), 1 / self.penalty))
        block = target[: self.p, self.p :]
        self.shifts = self.box.shifts(block)
        self.boxed = self.box.clip(block, self.shifts)
        self.y[: self.p, self.p :], self.y[self.p :, : self.p] = (
            self.boxed,
            self.boxed.T,
        )
        self.scaled = target - self.y

        return float(np.linalg.norm(inside - self.y)), float(
            np.linalg.norm(self.y - before)
        )

    def _bound(self, tolerance: float) -> None:
        """Turn the iterates into a feasible pair, and keep what is better than before."""
        p = self.p
        best = self.best
        diagonal = np.maximum(np.diagonal(self.scaled), 0.0)
        a = _weights(diagonal[:p])
        b = _weights(diagonal[p:])
        witness = self.box.witness(-2 * self.penalty * self.scaled[:p, p:], a, b)
        lower = self._proved(witness)
        if lower > self.lower:
            self.lower, best = lower, replace(best, witness=witness)

        upper = 0.0
        if self.boxed.any():
            problem = DenseProblem(self.boxed)
            upper = solve(
                problem, math.inf, tolerance=tolerance / 20, iterations=200
            ).upper

        if upper < self.upper:
            self.upper = upper
            best = Pair(self.boxed, self.shifts, best.witness)

        self.best = best

    def _proved(self, witness: BoxWitness) -> float:
        return witness.bound(self.box.lower, self.box.upper, self.box.shift)

    def _rebalance(self, primal: float, dual: float) -> None:
        factor = 1.5 if primal > 3 * dual else 1 / 1.5 if dual > 3 * primal else 1.0
        self.penalty *= factor
        self.scaled = self.scaled / factor


def _positive_part(matrix: FloatArray) -> FloatArray:
    """Nearest positive semidefinite matrix, built from whichever side has fewer eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 0
    if 2 * np.count_nonzero(keep) < values.size:
        return np.asarray((vectors[:, keep] * values[keep]) @ vectors[:, keep].T)
    return np.asarray(
        matrix - (vectors[:, ~keep] * values[~keep]) @ vectors[:, ~keep].T
    )


def _lowered(values: FloatArray, mass: float) -> FloatArray:
    """min(values, t) with t such that exactly `mass` is cut off: the step of the objective t."""
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - mass) / np.arange(1, values.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.minimum(values, level))


def _weights(values: FloatArray) -> FloatArray:
    floored = np.maximum(values, FLOOR * max(float(values.max()), 1e-300))
    return np.asarray(floored / floored.sum())


_INNER = 3  # steps of the programs of rows at one G
_POWER = 2.0  # of costs by which weights move
# of the largest singular value: directions that die too early never return
_SMOOTH = 3e-2
_SLOWER = 10  # steps in which that halves
_RELAXATION = 1.7
_PENALTY = 4.0
_LEAST = 1e-8  # share that all rows, or columns, keep together
_CHECK_EVERY = 10
# checks in which the gap has to fall below this share of itself
_PATIENCE = 6
_HARDLY = 0.9


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
        squares, v = np.linalg.eigh(scaled.T @ (a[:, None] * scaled))
        largest = max(float(squares[-1]), np.finfo(float).tiny)
        s = np.sqrt(np.maximum(squares, 0.0) + smooth**2 * largest)
        g = (v * s) @ v.T / root[:, None] / root
        lengths = np.diagonal(g) / np.diagonal(g).max()
        values, vectors = np.linalg.eigh(g / np.diagonal(g).max())

        return cls(np.maximum(values, 1e-13), vectors, lengths)

    def resolvent(self, penalty: float, shift: bool) -> FloatArray:
        """ρ(2H + ρ)⁻¹, H = G⁻¹, less its part along ones where shifts are free."""
        g = self.values
        e = self.vectors
        inner = (e * (g / (2 + g * penalty))) @ e.T
        if shift:
            ones = e.sum(axis=0)
            along = (e / (2 + g * penalty)) @ ones
            inner += (
                np.outer(along, along)
                * 2
                / float(ones**2 @ (penalty / (2 + penalty * g)))
            )

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
        self.a, self.b = np.full(rows, 1 / rows), np.full(columns, 1 / columns)
        self.matrix, self.multiplier = box.middle, np.zeros(box.shape)
        self.shifts = -box.middle.mean(axis=1) if box.shift else np.zeros(rows)
        self.penalty = 0.0
        self.upper, self.lower = math.inf, 0.0
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
                stalled = (
                    len(gaps) > _PATIENCE and gaps[-1] > _HARDLY * gaps[-1 - _PATIENCE]
                )
                if gaps[-1] <= 0.7 * tolerance or stalled:
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
        u, _, v = problem.singular(a, b)
        self.upper = point.upper
        self.best = replace(self.best, weights=point.primal)
        self._keep(self.box.witness(np.sqrt(a)[:, None] * (u @ v.T) * np.sqrt(b), a, b))

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
            target = (
                _RELAXATION * ((y - scaled) @ inner) + (1 - _RELAXATION) * y + scaled
            )
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
            self.best = replace(
                self.best, approximation=near, shifts=self.shifts, weights=weights
            )

        return columns, costs

    def _prove(self) -> None:
        """The multipliers as a witness, kept if it proves more than before."""
        self._keep(self.box.witness(self.a[:, None] * -self.multiplier, self.a, self.b))

    def _keep(self, proof: BoxWitness) -> None:
        lower = proof.bound(self.box.lower, self.box.upper, self.box.shift)
        if lower > self.lower:
            self.lower, self.best = lower, replace(self.best, witness=proof)


def _moved(weights: FloatArray, costs: FloatArray) -> FloatArray:
    """Towards what costs more, with a little left on everything."""
    moved = weights * (costs / costs.max()) ** _POWER
    moved = np.maximum(moved / moved.sum(), _LEAST / len(moved))
    return np.asarray(moved / moved.sum())
