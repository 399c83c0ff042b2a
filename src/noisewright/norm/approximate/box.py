"""Limits of every entry of a matrix, what is nearest inside them, and what proves a bound there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, FloatArray
from noisewright.errors import require
from noisewright.norm.kernel.certificate import box_bound
from noisewright.norm.kernel.solver import Weights
from noisewright.solution import BoundClass, Certificate, Status, quotient

DUST = 1e-8  # entries nearer to zero are rounding, of limits scaled to one
# of Newton's method within a bracket that halves at least: to the last bits of a float
_SHIFT_STEPS = 60


@dataclass(frozen=True, eq=False)
class Box:
    """Limits of every entry; with `shift` a constant may be added to every row for free."""

    lower: FloatArray
    upper: FloatArray
    shift: bool = False

    @classmethod
    def of(cls, lower: npt.ArrayLike, upper: npt.ArrayLike, shift: bool) -> Box:
        """The box, checked."""
        low = np.array(lower, dtype=np.float64)
        high = np.array(upper, dtype=np.float64)
        require(
            low.ndim == 2 and low.shape == high.shape and 0 not in low.shape,
            "lower",
            f"array of shape {low.shape}",
            "must match `upper`",
        )
        require(
            (low <= high).all()
            and not np.isposinf(low).any()
            and not np.isneginf(high).any(),
            "lower",
            f"array of shape {low.shape}",
            "must be <= upper",
        )

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
        return np.where(np.isfinite(middle), middle, 0.0)

    @cached_property
    def size(self) -> float:
        """The largest finite limit."""
        limits = np.abs(np.stack([self.lower, self.upper]))
        return float(np.max(limits, where=np.isfinite(limits), initial=0.0))

    def moved(self, offsets: FloatArray, scale: float = 1.0) -> Box:
        """The limits less an offset per row, over a scale."""
        low = self.lower - offsets[:, None]
        high = self.upper - offsets[:, None]
        return Box(low / scale, high / scale, self.shift)

    def clip(self, block: FloatArray, shifts: FloatArray) -> FloatArray:
        """The nearest matrix in the box after these shifts.

        Rounding dust where zero is allowed would be a query of its own for the factorization.
        """
        low = self.lower + shifts[:, None]
        high = self.upper + shifts[:, None]
        inside = np.clip(block, low, high)
        inside[(np.abs(inside) < DUST) & (low <= 0) & (high >= 0)] = 0.0
        return inside

    def shifts(self, block: FloatArray) -> FloatArray:
        """The shift of each row that brings it closest to the box; zero where none is free."""
        if not self.shift:
            return np.zeros(len(block))

        down = (block - self.lower).min(axis=1)
        up = (block - self.upper).max(axis=1)
        low, high = _finite_ends(np.minimum(down, up), np.maximum(down, up))
        shifts = (low + high) / 2

        # Newton's method within a bracket; half of it where a step would leave.
        for _ in range(_SHIFT_STEPS):
            moved = block - shifts[:, None]
            beyond = moved - np.clip(moved, self.lower, self.upper)
            slope = beyond.sum(axis=1)
            low = np.where(slope > 0, shifts, low)
            high = np.where(slope < 0, shifts, high)
            newton = shifts + slope / np.maximum(np.count_nonzero(beyond, axis=1), 1)
            inside = (newton >= low) & (newton <= high)
            step = np.where(inside, newton, (low + high) / 2)
            shifts = np.where(slope == 0, shifts, step)

        return np.asarray(shifts)

    @cached_property
    def zero_shifts(self) -> FloatArray | None:
        """Shifts with which zero is in the box, where there are any."""
        low = self.lower.max(axis=1)
        high = self.upper.min(axis=1)
        if not self.shift:
            inside = (low <= 0).all() and (high >= 0).all()
            return np.zeros(len(low)) if inside else None
        if (low > high).any():
            return None

        low, high = _finite_ends(low, high)
        return np.asarray(-(low / 2 + high / 2))

    def witness(self, matrix: FloatArray, a: FloatArray, b: FloatArray) -> BoxWitness:
        """A matrix made to prove something: no limit without end is leant on, shifts weigh none."""
        least = np.where(np.isinf(self.upper), 0.0, -np.inf)
        most = np.where(np.isinf(self.lower), 0.0, np.inf)
        proof = np.clip(matrix, least, most)
        if self.shift:
            free = np.isfinite(self.lower) & np.isfinite(self.upper)
            proof = _zero_sums(proof, free)
        return BoxWitness(matrix=proof, row_weights=a, column_weights=b)


def _finite_ends(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends of intervals, an infinite one replaced by the other; zero where both are infinite."""
    least = np.where(np.isfinite(low), low, high)
    most = np.where(np.isfinite(high), high, low)
    return np.nan_to_num(least, posinf=0, neginf=0), np.nan_to_num(
        most, posinf=0, neginf=0
    )


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

    def bound(self, box: Box) -> float:
        """What it proves of all matrices in a box."""
        proof = self.matrix, self.row_weights, self.column_weights
        return box_bound(box.lower, box.upper, *proof, box.shift)


@dataclass(frozen=True)
class Pair:
    """The best approximation and the best witness met so far."""

    approximation: FloatArray
    shifts: FloatArray
    witness: BoxWitness
    weights: Weights | None = None
    """Dual weights from which the exact factorization of the approximation starts."""


def _zero_sums(witness: FloatArray, free: BoolArray) -> FloatArray:
    """The nearest matrix on a grid of 2^-40 of its largest entry whose rows sum to zero exactly.

    Only `free` entries, of either sign, are changed; rows without any are zero.
    """
    count = np.maximum(free.sum(axis=1, keepdims=True), 1)
    mean = witness.sum(axis=1, keepdims=True) / count
    centred = np.where(free, witness - mean, witness)
    centred[~free.any(axis=1)] = 0.0
    step = math.ldexp(1.0, math.frexp(float(np.abs(centred).max()))[1] - 40)
    if step == 0:
        return np.zeros_like(witness)

    grid = np.rint(centred / step).astype(np.int64)
    rest = grid.sum(axis=1, keepdims=True)
    # of the free entries, the first ones give one more
    share = rest // count
    left = rest % count
    grid -= free * (share + (np.cumsum(free, axis=1) <= left))

    return np.asarray(grid * step)


def gap_status(value: float, bound: float, tolerance: float) -> Status:
    """Whether the gap closed."""
    closed = quotient(value, bound) - 1 <= tolerance
    return Status.CONVERGED if closed else Status.ITERATION_LIMIT
