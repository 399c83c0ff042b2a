"""Approximate norms: the least γ2 of any matrix within α of the workload, entry by entry.

γ2(W, α) = min { γ2(W̃) : |W̃ − W| ≤ α } and, with a free shift of every row, γ̂2(W, α). The problem
is a semidefinite program over Z = [[RRᵀ, W̃], [W̃ᵀ, AᵀA]] ⪰ 0; the alternating direction method
splits it into a projection onto that cone and one onto the box, and its multiplier is the dual
witness U. Neither iterate is trusted: the value is that of an exact factorization of W̃, the bound
is recomputed from U. Started from the exact factorization of W with the multiplier of its dual
weights, 50 to 180 steps reach a gap of 1e-4 (prefix, 16 to 512 cells); from zero, 200 reach 3e-2.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from noisewright.errors import Contradiction, InvalidParameter, TooLarge
from noisewright.norm.certificate import row_middles, witness_bound
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.problems import DenseProblem
from noisewright.norm.solver import solve
from noisewright.solution import SLACK, BoundClass, Certificate, Solution, Status, quotient
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.structure import check_magnitudes
from noisewright.workload.text import Queries
from noisewright.workload.text import workload as as_workload

TOLERANCE = 1e-4
LARGEST = 3072  # rows plus columns: an eigenproblem of that size per step
PENALTY = 4.5  # over (rows + columns)^1.5·γ2(W): measured best from 16 to 256 cells
RELAXATION = 1.7
CHECK_EVERY = 10
FLOOR = 1e-12
DUST = 1e-8


@dataclass(frozen=True, eq=False, kw_only=True)
class Witness(Certificate):
    """A dual matrix U with diagonal weights P and T: (W•U − α‖U‖₁) / ‖P^-½ U T^-½‖ is the bound.

    With shifts its rows sum to zero exactly, as they must.
    """

    name: str = "dual witness"
    bound_class: BoundClass = BoundClass.WITHIN_TOLERANCE
    matrix: FloatArray
    row_weights: FloatArray
    column_weights: FloatArray

    def bound(self, workload: FloatArray, entrywise: float, shift: bool) -> float:
        """What it proves."""
        proof = self.matrix, self.row_weights, self.column_weights
        return witness_bound(workload, entrywise, *proof, shift)


@dataclass(frozen=True, eq=False, kw_only=True)
class ApproximateNorm(Solution):
    """γ2(W, α) or γ̂2(W, α), between `lower_bound` and `value`.

    `approximation` is W̃ (after the row `shifts`, if any), `factorization` its exact factorization
    at norm ∞.
    """

    workload: Workload
    entrywise: float
    shift: bool
    approximation: FloatArray
    shifts: FloatArray
    factorization: Factorization
    certificate: Witness

    def _facts(self) -> list[tuple[str, str]]:
        subject = ("workload", self.workload.brief()), ("entrywise", f"{self.entrywise:g}")
        return [*subject, *super()._facts()]

    def __post_init__(self) -> None:
        """No approximation outside its box survives, nor a bound that its witness does not prove.

        Distances are rounded within SLACK of the entries less the middle of their rows.
        """
        matrix = self.workload.dense()
        middles = row_middles(matrix) if self.shift else np.zeros(len(matrix))
        entries = matrix - middles[:, None]
        away = np.abs(self.approximation - entries - (self.shifts + middles)[:, None]).max()
        rounding = SLACK * np.abs(entries).max() + 1e-15 * np.abs(middles).max()
        bound = self.certificate.bound(matrix, self.entrywise, self.shift)
        if away > self.entrywise * (1 + SLACK) + rounding or self.lower_bound > bound:
            raise Contradiction(
                f"{self.subject}: the result does not keep to its tolerance, or its witness proves "
                f"less than the bound; please report the workload"
            )
        super().__post_init__()

    @property
    def subject(self) -> str:
        return f"approximate norm of {self.workload.brief()}"


def approximate_norm(
    workload: Queries,
    entrywise: float,
    *,
    shift: bool = False,
    tolerance: float = TOLERANCE,
    iterations: int = 2000,
) -> ApproximateNorm:
    """The least largest error of a factorization of any matrix within `entrywise` of the workload.

    With `shift`, a constant may be added to every row for free, as is right when the number of
    people is public (replace-one neighbours, the local model).
    """
    began = time.perf_counter()
    workload = as_workload(workload)
    _check(workload, entrywise, tolerance)
    matrix = workload.dense()
    middles = row_middles(matrix) if shift else np.zeros(len(matrix))
    entries = matrix - middles[:, None]
    scale = math.ldexp(1.0, math.frexp(float(np.abs(entries).max()))[1] - 1)  # rounds nothing
    search = _Search(entries / scale, entrywise / scale, shift)
    steps = search.run(tolerance, iterations)
    best = search.best
    exact = factorize(best.approximation * scale, math.inf, tolerance=tolerance / 10)
    bound = best.witness.bound(matrix, float(entrywise), shift)
    converged = quotient(exact.value, bound) - 1 <= tolerance
    return ApproximateNorm(
        workload=workload,
        entrywise=float(entrywise),
        shift=shift,
        value=exact.value,
        lower_bound=bound,
        approximation=best.approximation * scale,
        shifts=best.shifts * scale - middles,
        factorization=exact,
        certificate=best.witness,
        status=Status.CONVERGED if converged else Status.ITERATION_LIMIT,
        iterations=steps,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class _Pair:
    """The best approximation and the best witness met so far."""

    approximation: FloatArray
    shifts: FloatArray
    witness: Witness


class _Search:
    """Alternating directions between the semidefinite cone and the box around W."""

    def __init__(self, matrix: FloatArray, alpha: float, shift: bool) -> None:
        self.matrix, self.alpha, self.shift = matrix, alpha, shift
        self.p, self.n = matrix.shape
        self.upper = math.inf
        self.start(matrix)

    def start(self, matrix: FloatArray) -> None:
        """Begin at the exact factorization of W."""
        p, size = self.p, self.p + self.n
        a, b = np.full(p, 1 / p), np.full(self.n, 1 / self.n)
        self.penalty = PENALTY / size**1.5
        self.y, multiplier = np.zeros((size, size)), np.zeros((size, size))
        witness = np.zeros_like(matrix)
        if matrix.any():
            problem = DenseProblem(matrix)
            point = solve(problem, math.inf, tolerance=1e-3, iterations=200)
            assert point.dual.a is not None
            a, b = point.dual.a, point.dual.b
            u, s, v = problem.singular(a, b)
            half = np.sqrt(s)
            factor = np.vstack([half * u / np.sqrt(a)[:, None], half * v / np.sqrt(b)[:, None]])
            self.y = factor @ factor.T
            witness = np.sqrt(a)[:, None] * (u @ v.T) * np.sqrt(b)
            self.penalty /= point.lower
        np.fill_diagonal(multiplier, np.concatenate([a, b]) / 2)
        multiplier[:p, p:], multiplier[p:, :p] = -witness / 2, -witness.T / 2
        self.scaled = multiplier / self.penalty
        proof = self._witness(witness, a, b)
        self.lower = proof.bound(matrix, self.alpha, self.shift)
        self.best = _Pair(matrix, np.zeros(p), proof)
        if np.abs(matrix).max() <= self.alpha:  # zero is in the box: nothing to search for
            zero = np.zeros_like(matrix)
            self.best = _Pair(zero, np.zeros(p), self._witness(zero, a, b))

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
        self.shifts = _best_shifts(block - self.matrix, self.alpha) if self.shift else 0.0
        centre = self.matrix + np.reshape(self.shifts, (-1, 1))
        self.boxed = np.clip(block, centre - self.alpha, centre + self.alpha)
        # Rounding dust where zero is allowed would be a query of its own for the factorization.
        self.boxed[(np.abs(self.boxed) < DUST) & (np.abs(centre) <= self.alpha)] = 0.0
        self.y[: self.p, self.p :], self.y[self.p :, : self.p] = self.boxed, self.boxed.T
        self.scaled = target - self.y
        return float(np.linalg.norm(inside - self.y)), float(np.linalg.norm(self.y - before))

    def _bound(self, tolerance: float) -> None:
        """Turn the iterates into a feasible pair, and keep what is better than before."""
        p, best = self.p, self.best
        diagonal = np.maximum(np.diagonal(self.scaled), 0.0)
        a, b = _weights(diagonal[:p]), _weights(diagonal[p:])
        witness = self._witness(-2 * self.penalty * self.scaled[:p, p:], a, b)
        lower = witness.bound(self.matrix, self.alpha, self.shift)
        if lower > self.lower:
            self.lower, best = lower, replace(best, witness=witness)
        upper = 0.0
        if self.boxed.any():
            problem = DenseProblem(self.boxed)
            upper = solve(problem, math.inf, tolerance=tolerance / 20, iterations=200).upper
        if upper < self.upper:
            self.upper = upper
            shifts = np.broadcast_to(self.shifts, (p,)).copy()
            best = _Pair(self.boxed, shifts, best.witness)
        self.best = best

    def _witness(self, matrix: FloatArray, a: FloatArray, b: FloatArray) -> Witness:
        proof = _zero_sums(matrix) if self.shift else matrix
        return Witness(matrix=proof, row_weights=a, column_weights=b)

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
    return np.asarray(matrix - (vectors[:, ~keep] * values[~keep]) @ vectors[:, ~keep].T)


def _lowered(values: FloatArray, mass: float) -> FloatArray:
    """min(values, t) with t such that exactly `mass` is cut off: the step of the objective t."""
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - mass) / np.arange(1, values.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.minimum(values, level))


def _best_shifts(excess: FloatArray, alpha: float) -> FloatArray:
    """The shift of each row that brings it closest to the box: excess beyond ±α sums to zero."""
    low, high = excess.min(axis=1), excess.max(axis=1)
    shifts = (low + high) / 2
    for _ in range(60):
        moved = excess - shifts[:, None]
        beyond = moved - np.clip(moved, -alpha, alpha)
        slope = beyond.sum(axis=1)
        low, high = np.where(slope > 0, shifts, low), np.where(slope < 0, shifts, high)
        newton = shifts + slope / np.maximum(np.count_nonzero(beyond, axis=1), 1)
        inside = (newton >= low) & (newton <= high)
        shifts = np.where(slope == 0, shifts, np.where(inside, newton, (low + high) / 2))
    return np.asarray(shifts)


def _zero_sums(witness: FloatArray) -> FloatArray:
    """The nearest matrix on a grid of 2^-40 of its largest entry whose rows sum to zero exactly."""
    centred = witness - witness.mean(axis=1, keepdims=True)
    step = math.ldexp(1.0, math.frexp(float(np.abs(centred).max()))[1] - 40)
    if step == 0:
        return np.zeros_like(witness)
    grid = np.rint(centred / step).astype(np.int64)
    rest = grid.sum(axis=1)
    share = rest // grid.shape[1]
    left = rest - share * grid.shape[1]  # between zero and one less than there are columns
    grid -= share[:, None] + (np.arange(grid.shape[1]) < left[:, None])
    return np.asarray(grid * step)


def _weights(values: FloatArray) -> FloatArray:
    floored = np.maximum(values, FLOOR * max(float(values.max()), 1e-300))
    return np.asarray(floored / floored.sum())


def _check(workload: Workload, entrywise: float, tolerance: float) -> None:
    check_magnitudes(workload)
    if not (math.isfinite(entrywise) and entrywise >= 0):
        raise InvalidParameter("entrywise", entrywise, "must be finite and >= 0", "try 0.1")
    if not 0 < tolerance < 1:
        raise InvalidParameter("tolerance", tolerance, "must lie between 0 and 1", "try 1e-4")
    if sum(workload.shape) > LARGEST:
        raise TooLarge(
            f"workload {workload.brief()} has {workload.queries} rows and {workload.size} columns; "
            f"approximate norms are computed for at most {LARGEST} rows and columns together"
        )
