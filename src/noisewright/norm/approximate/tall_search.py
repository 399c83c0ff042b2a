"""The least γ2 in a box of many rows over few columns: eigenproblems of the columns alone.

γ2(Z) ≤ t iff zᵢᵀG⁻¹zᵢ ≤ t² for every row and some G ⪰ 0 with diagonal at most one. With weights a
on rows and b on columns the least over G of Σ aᵢ zᵢᵀG⁻¹zᵢ + Σ bⱼGⱼⱼ is known (a square root of a
matrix), and for given G every row is a program of its own, min zᵢᵀG⁻¹zᵢ in its limits, of which all
rows together take a few steps of alternating directions by products with n × n matrices. The
multipliers of the limits, weighted by a, are the witness. Weights grow where rows cost and columns
measure more than others. A free shift of rows is taken into G⁻¹ (G⁻¹ less its part along ones).
All intervals of 128 points within .05, shifts free, 8,256 rows: a gap of 1e-2 after 15 steps and of
1e-3 after 60. Squares take more steps than `box_search`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.norm.approximate.box import Box, BoxWitness, Pair
from noisewright.norm.kernel.problems import DenseProblem
from noisewright.norm.kernel.solver import Weights, solve

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
