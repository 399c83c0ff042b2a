"""The least γ2 of any matrix in a box: lower and upper limits of every entry, some without limit.

min { γ2(Z) : lower ≤ Z − s1ᵀ ≤ upper }, with s zero or a free shift of every row. It is a
semidefinite program over [[RRᵀ, Z], [Zᵀ, AᵀA]] ⪰ 0; the alternating direction method splits it
into a projection onto that cone and one onto the box, and its multiplier is the dual witness U.
Neither iterate is trusted: the value is that of an exact factorization of Z, the bound is
recomputed from U. Started from the exact factorization of the middle of the box with the multiplier
of its dual weights, 50 to 180 steps reach a gap of 1e-4 (prefix within 0.1, 16 to 512 cells); from
zero, 200 reach 3e-2.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.errors import Contradiction, InvalidParameter, TooLarge
from noisewright.norm.certificate import box_bound
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.problems import DenseProblem
from noisewright.norm.solver import solve
from noisewright.solution import SLACK, BoundClass, Certificate, Solution, Status, quotient
from noisewright.workload.base import FloatArray

TOLERANCE = 1e-4
LARGEST = 3072  # rows plus columns: an eigenproblem of that size per step
PENALTY = 4.5  # over (rows + columns)^1.5·γ2(W): measured best from 16 to 256 cells
RELAXATION = 1.7
CHECK_EVERY = 10
FLOOR = 1e-12
DUST = 1e-8


@dataclass(frozen=True, eq=False)
class Box:
    """Limits of every entry; with `shift` a constant may be added to every row for free."""

    lower: FloatArray
    upper: FloatArray
    shift: bool = False

    @classmethod
    def of(cls, lower: npt.ArrayLike, upper: npt.ArrayLike, shift: bool) -> Box:
        """The box, checked."""
        low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
        if low.ndim != 2 or low.shape != high.shape or 0 in low.shape:
            raise InvalidParameter("lower", f"array of shape {low.shape}", "must match `upper`")
        if not (low <= high).all() or np.isposinf(low).any() or np.isneginf(high).any():
            raise InvalidParameter("lower", f"array of shape {low.shape}", "must be <= upper")
        return cls(low, high, shift)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.lower.shape
        return rows, columns

    @cached_property
    def middle(self) -> FloatArray:
        """Halfway where both limits are finite, the finite one otherwise, else zero."""
        low = np.where(np.isfinite(self.lower), self.lower, self.upper)
        high = np.where(np.isfinite(self.upper), self.upper, self.lower)
        middle = low / 2 + high / 2
        return np.asarray(np.where(np.isfinite(middle), middle, 0.0))

    @cached_property
    def size(self) -> float:
        """The largest finite limit."""
        limits = np.abs(np.stack([self.lower, self.upper]))
        return float(np.max(limits, where=np.isfinite(limits), initial=0.0))

    def moved(self, offsets: FloatArray, scale: float = 1.0) -> Box:
        """The limits less an offset per row, over a scale."""
        low, high = self.lower - offsets[:, None], self.upper - offsets[:, None]
        return Box(low / scale, high / scale, self.shift)

    def clip(self, block: FloatArray, shifts: FloatArray) -> FloatArray:
        """The nearest matrix in the box after these shifts.

        Rounding dust where zero is allowed would be a query of its own for the factorization.
        """
        low, high = self.lower + shifts[:, None], self.upper + shifts[:, None]
        inside = np.clip(block, low, high)
        inside[(np.abs(inside) < DUST) & (low <= 0) & (high >= 0)] = 0.0
        return np.asarray(inside)

    def shifts(self, block: FloatArray) -> FloatArray:
        """The shift of each row that brings it closest to the box; zero where none is free."""
        if not self.shift:
            return np.zeros(len(block))
        down, up = (block - self.lower).min(axis=1), (block - self.upper).max(axis=1)
        down, up = np.where(np.isfinite(down), down, up), np.where(np.isfinite(up), up, down)
        low, high = (np.nan_to_num(f(down, up), posinf=0, neginf=0) for f in _ENDS)
        shifts = (low + high) / 2
        for _ in range(60):
            moved = block - shifts[:, None]
            beyond = moved - np.clip(moved, self.lower, self.upper)
            slope = beyond.sum(axis=1)
            low, high = np.where(slope > 0, shifts, low), np.where(slope < 0, shifts, high)
            newton = shifts + slope / np.maximum(np.count_nonzero(beyond, axis=1), 1)
            inside = (newton >= low) & (newton <= high)
            shifts = np.where(slope == 0, shifts, np.where(inside, newton, (low + high) / 2))
        return np.asarray(shifts)

    @cached_property
    def zero_shifts(self) -> FloatArray | None:
        """Shifts with which zero is in the box, where there are any."""
        low, high = self.lower.max(axis=1), self.upper.min(axis=1)
        if not self.shift:
            return np.zeros(len(low)) if (low <= 0).all() and (high >= 0).all() else None
        if (low > high).any():
            return None
        low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
        return np.asarray(-np.nan_to_num(low / 2 + high / 2, posinf=0, neginf=0))

    def witness(self, matrix: FloatArray, a: FloatArray, b: FloatArray) -> BoxWitness:
        """A matrix made to prove something: no limit without end is leant on, shifts weigh none."""
        low = np.where(np.isinf(self.upper), 0.0, -np.inf)
        proof = np.clip(matrix, low, np.where(np.isinf(self.lower), 0.0, np.inf))
        if self.shift:
            proof = _zero_sums(proof, np.isfinite(self.lower) & np.isfinite(self.upper))
        return BoxWitness(matrix=proof, row_weights=a, column_weights=b)


_ENDS = (np.minimum, np.maximum)


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxWitness(Certificate):
    """A dual matrix U with diagonal weights P and T.

    (Σ lower·U⁺ − upper·U⁻) / ‖P^-½ U T^-½‖ is the bound. With shifts its rows sum to zero exactly,
    as they must.
    """

    name: str = "dual witness"
    bound_class: BoundClass = BoundClass.WITHIN_TOLERANCE
    matrix: FloatArray
    row_weights: FloatArray
    column_weights: FloatArray

    def bound(self, lower: FloatArray, upper: FloatArray, shift: bool) -> float:
        """What it proves."""
        proof = self.matrix, self.row_weights, self.column_weights
        return box_bound(lower, upper, *proof, shift)


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxedNorm(Solution):
    """The least γ2 in a box, between `lower_bound` and `value`.

    `approximation` is the matrix itself, after the row `shifts`; `factorization` its exact
    factorization at norm ∞, columns no longer than one.
    """

    box: Box
    approximation: FloatArray
    shifts: FloatArray
    factorization: Factorization
    certificate: BoxWitness

    def __post_init__(self) -> None:
        """No matrix outside its box survives, nor a bound that its witness does not prove."""
        box, rounding = self.box, SLACK * max(self.box.size, float(np.abs(self.shifts).max()))
        away = self.approximation - self.shifts[:, None]
        outside = np.maximum(box.lower - away, away - box.upper).max()
        bound = self.certificate.bound(box.lower, box.upper, box.shift)
        if outside > rounding or self.lower_bound > bound:
            raise Contradiction(
                "a matrix lies outside its box, or its witness proves less than the bound; please "
                "report the limits"
            )
        super().__post_init__()


def boxed_norm(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    *,
    shift: bool = False,
    tolerance: float = TOLERANCE,
    iterations: int = 2000,
) -> BoxedNorm:
    """The least γ2 of any matrix whose entries lie between limits, which may be infinite.

    With `shift`, a constant may be added to every row for free.
    """
    began = time.perf_counter()
    box = Box.of(lower, upper, shift)
    check_tolerance(tolerance)
    check_rows_and_columns(box.shape, "a box of limits")
    pair, steps = search_box(box, tolerance, iterations)
    exact = factorize(pair.approximation, math.inf, tolerance=tolerance / 10)
    bound = pair.witness.bound(box.lower, box.upper, shift)
    return BoxedNorm(
        box=box,
        value=exact.value,
        lower_bound=bound,
        approximation=pair.approximation,
        shifts=pair.shifts,
        factorization=exact,
        certificate=pair.witness,
        status=ended(exact.value, bound, tolerance),
        iterations=steps,
        seconds=time.perf_counter() - began,
    )


def ended(value: float, bound: float, tolerance: float) -> Status:
    """Whether the gap closed."""
    closed = quotient(value, bound) - 1 <= tolerance
    return Status.CONVERGED if closed else Status.ITERATION_LIMIT


def check_tolerance(tolerance: float) -> None:
    """Refuse gaps that are none."""
    if not 0 < tolerance < 1:
        raise InvalidParameter("tolerance", tolerance, "must lie between 0 and 1", "try 1e-4")


def check_rows_and_columns(shape: tuple[int, int], what: str) -> None:
    """Refuse what takes hours."""
    if sum(shape) > LARGEST:
        raise TooLarge(
            f"{what} has {shape[0]} rows and {shape[1]} columns; approximate norms are computed "
            f"for at most {LARGEST} rows and columns together"
        )


def search_box(box: Box, tolerance: float, iterations: int) -> tuple[Pair, int]:
    """The best approximation and witness, and the steps they took; limits are scaled first."""
    offsets = -box.zero_shifts if box.shift and box.zero_shifts is not None else None
    if offsets is None:
        middles = box.middle.max(axis=1) / 2 + box.middle.min(axis=1) / 2
        offsets = middles if box.shift else np.zeros(len(middles))
    near = box.moved(offsets)
    scale = math.ldexp(1.0, math.frexp(near.size or 1.0)[1] - 1)  # rounds nothing
    search = _Search(near.moved(np.zeros(len(offsets)), scale))
    steps = search.run(tolerance, iterations)
    best = search.best
    shifts = best.shifts * scale - offsets
    return replace(best, approximation=best.approximation * scale, shifts=shifts), steps


@dataclass(frozen=True)
class Pair:
    """The best approximation and the best witness met so far."""

    approximation: FloatArray
    shifts: FloatArray
    witness: BoxWitness


class _Search:
    """Alternating directions between the semidefinite cone and the box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.p, self.n = box.shape
        self.upper = math.inf
        self.start(box.middle)

    def start(self, matrix: FloatArray) -> None:
        """Begin at the exact factorization of the middle of the box."""
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
        self.y[: self.p, self.p :], self.y[self.p :, : self.p] = self.boxed, self.boxed.T
        self.scaled = target - self.y
        return float(np.linalg.norm(inside - self.y)), float(np.linalg.norm(self.y - before))

    def _bound(self, tolerance: float) -> None:
        """Turn the iterates into a feasible pair, and keep what is better than before."""
        p, best = self.p, self.best
        diagonal = np.maximum(np.diagonal(self.scaled), 0.0)
        a, b = _weights(diagonal[:p]), _weights(diagonal[p:])
        witness = self.box.witness(-2 * self.penalty * self.scaled[:p, p:], a, b)
        lower = self._proved(witness)
        if lower > self.lower:
            self.lower, best = lower, replace(best, witness=witness)
        upper = 0.0
        if self.boxed.any():
            problem = DenseProblem(self.boxed)
            upper = solve(problem, math.inf, tolerance=tolerance / 20, iterations=200).upper
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
    return np.asarray(matrix - (vectors[:, ~keep] * values[~keep]) @ vectors[:, ~keep].T)


def _lowered(values: FloatArray, mass: float) -> FloatArray:
    """min(values, t) with t such that exactly `mass` is cut off: the step of the objective t."""
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - mass) / np.arange(1, values.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.minimum(values, level))


def _zero_sums(witness: FloatArray, free: npt.NDArray[np.bool_]) -> FloatArray:
    """The nearest matrix on a grid of 2^-40 of its largest entry whose rows sum to zero exactly.

    Only `free` entries, of either sign, are changed; rows without any are zero.
    """
    count = np.maximum(free.sum(axis=1, keepdims=True), 1)
    centred = np.where(free, witness - witness.sum(axis=1, keepdims=True) / count, witness)
    centred[~free.any(axis=1)] = 0.0
    step = math.ldexp(1.0, math.frexp(float(np.abs(centred).max()))[1] - 40)
    if step == 0:
        return np.zeros_like(witness)
    grid = np.rint(centred / step).astype(np.int64)
    rest = grid.sum(axis=1, keepdims=True)
    share, left = rest // count, rest % count  # of the free entries, the first ones give one more
    grid -= free * (share + (np.cumsum(free, axis=1) <= left))
    return np.asarray(grid * step)


def _weights(values: FloatArray) -> FloatArray:
    floored = np.maximum(values, FLOOR * max(float(values.max()), 1e-300))
    return np.asarray(floored / floored.sum())
