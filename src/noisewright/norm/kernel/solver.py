"""The fixed point that solves every γ_(p), 2 ≤ p ≤ ∞, and certifies itself.

From dual weights (a on rows, b on columns) one spectral evaluation of D_a^½ W D_b^½ gives both a
feasible factorization and a lower bound; their ratio is the gap. The update `b ← κ/Σκ` (and its
companion for `a`) climbs slowly: 62 steps for prefix:64 at norm 2 to a gap of 1e-6, 400 are not
enough for ranges:64 at norm ∞. Anderson mixing [009] of the logarithms of the weights,
over-relaxed by 1.9, needs 14 and about 180.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.solution import Status

Progress = Callable[[float], None]

MEMORY = 5  # past steps that Anderson mixing combines; more make it erratic at norm ∞
RELAXATION = 1.9  # plain steps are too short by about a factor of two
# total mass kept on idle rows or columns: costs the bound at most half of itself
FLOOR = 1e-8
LONGEST_STEP = 3.0  # in natural logarithms, per coordinate


@dataclass(frozen=True)
class Spectrum:
    """What one evaluation at dual weights (a, b) tells.

    `total` is the nuclear norm Σs; `rows` holds ‖R_i‖² and `columns` ‖A_j‖² of the factorization
    that the singular vectors give. `rows` is None at norm 2, where Σ‖R_i‖² = Σs.
    """

    total: float
    rows: FloatArray | None
    columns: FloatArray


class Problem(Protocol):
    """A workload seen by the solver: sizes, and the spectrum at given dual weights."""

    @property
    def rows(self) -> int:
        """Number of rows that carry a weight."""

    @property
    def columns(self) -> int:
        """Number of columns (or pairs of columns) that carry a weight."""

    def spectrum(self, weights: Weights) -> Spectrum:
        """Evaluate at dual weights."""


@dataclass(frozen=True)
class Weights:
    """A dual point: `a` on rows (None at norm 2: all ones), `b` on columns."""

    a: FloatArray | None
    b: FloatArray

    def scaled(self, matrix: FloatArray) -> FloatArray:
        """D_a^½ times a matrix."""
        return matrix if self.a is None else np.sqrt(self.a)[:, None] * matrix


@dataclass(frozen=True)
class FixedPoint:
    """The best primal and dual points met, the bounds they gave, and how the solver stopped."""

    primal: Weights
    dual: Weights
    upper: float
    lower: float
    iterations: int
    status: Status


def dual_exponent(norm: float) -> float:
    """The exponent in which row weights are normalised: (norm/2)*, infinite at norm 2."""
    if norm == 2:
        return math.inf
    return 1.0 if math.isinf(norm) else norm / (norm - 2)


def error_norm(lengths: FloatArray, norm: float) -> float:
    """(Σ ‖R_i‖^norm)^{1/norm} from the lengths of the rows, without overflow."""
    largest = float(lengths.max(initial=0.0))
    if math.isinf(norm) or largest == 0.0:
        return largest
    total = float(np.sum((lengths / largest) ** norm))
    return largest * math.pow(total, 1 / norm)


def mean_factor(queries: int, norm: float) -> float:
    """What turns an ℓp norm over queries into a p-th mean."""
    return 1.0 if math.isinf(norm) else math.pow(queries, -1 / norm)


def normalise(weights: FloatArray, exponent: float) -> FloatArray:
    """Weights scaled to length one in ℓ_exponent."""
    scaled = weights / weights.max()
    return np.asarray(scaled / np.sum(scaled**exponent) ** (1 / exponent))


def solve(
    problem: Problem,
    norm: float,
    *,
    tolerance: float,
    iterations: int,
    start: Weights | None = None,
    progress: Progress | None = None,
) -> FixedPoint:
    """Run the accelerated fixed point until the relative gap is below `tolerance`.

    `progress` is told the gap after every step.
    """
    state = _State(problem, norm, start)
    for count in range(1, iterations + 1):
        state.evaluate()
        if progress is not None:
            progress(state.upper / state.lower - 1)
        if state.upper <= state.lower * (1 + tolerance):
            return state.reached(count, Status.CONVERGED)
        state.advance()

    return state.reached(iterations, Status.ITERATION_LIMIT)


@dataclass
class _State:
    """The moving parts: logarithms of the weights, the best bounds so far, the mixing history."""

    problem: Problem
    norm: float
    start: Weights | None
    upper: float = math.inf
    lower: float = 0.0
    history: deque[tuple[FloatArray, FloatArray]] = field(
        default_factory=lambda: deque(maxlen=MEMORY + 1)
    )

    def __post_init__(self) -> None:
        rows = self.problem.rows
        self.exponent = dual_exponent(self.norm)
        self.weighted_rows = rows if self.norm > 2 else 0
        a = np.ones(self.weighted_rows)
        b = np.ones(self.problem.columns)
        if self.start is not None:
            b = self.start.b
            if self.weighted_rows and self.start.a is not None:
                a = self.start.a

        # No weight is below the smallest that has a logarithm.
        self.x = self._settle(np.log(np.concatenate([a, b]).clip(1e-300)))
        self.best: tuple[FloatArray, FloatArray, FloatArray]

    def _settle(self, x: FloatArray) -> FloatArray:
        """Normalise both parts and lift idle coordinates to the floor."""
        m = self.weighted_rows
        n = x.size - m
        columns = _log_normalise(x[m:], 1.0, math.log(FLOOR / n))
        if not m:
            return columns

        floor = math.log(FLOOR / m) / self.exponent
        rows = _log_normalise(x[:m], self.exponent, floor)
        return np.concatenate([rows, columns])

    def evaluate(self) -> None:
        """One spectral evaluation: better bounds, and the residual of the plain update."""
        point = self._point()
        spectrum = self.problem.spectrum(point)
        # mixing went astray: back to the best point
        if spectrum.total < 0.9 * self.lower:
            self.history.clear()
            self.x, self.residual, self.mass = self.best
            return

        self._update(point, spectrum)
        upper = self._error(spectrum)
        if upper < self.upper:
            self.upper = upper
            self.primal = point

        if spectrum.total > self.lower:
            self.lower = spectrum.total
            self.dual = point
            self.best = (self.x, self.residual, self.mass)

    def _point(self) -> Weights:
        """The dual weights, normalised, of the logarithms as they stand."""
        m = self.weighted_rows
        a = normalise(np.exp(self.x[:m]), self.exponent) if m else None
        return Weights(a, normalise(np.exp(self.x[m:]), 1.0))

    def _error(self, spectrum: Spectrum) -> float:
        """The error of the factorization that the singular vectors give."""
        longest = math.sqrt(float(spectrum.columns.max()))
        if spectrum.rows is None:
            return math.sqrt(spectrum.total) * longest
        return error_norm(np.sqrt(spectrum.rows), self.norm) * longest

    def _update(self, point: Weights, spectrum: Spectrum) -> None:
        """How far the plain update moves the logarithms, and the mass of every coordinate."""
        residual = _log(spectrum.columns) - math.log(spectrum.total)
        mass = point.b * spectrum.columns
        if point.a is not None and spectrum.rows is not None:
            energy = point.a * spectrum.rows
            target = _log(energy)
            if self.norm < math.inf:
                target = target / self.exponent
            moved = _log_normalise(target, self.exponent) - np.log(point.a)
            residual = np.concatenate([moved, residual])
            mass = np.concatenate([energy, mass])

        self.residual = self._settle(self.x + residual) - self.x
        self.mass = mass

    def advance(self) -> None:
        """The Anderson-mixed step in the logarithms of the weights."""
        step = RELAXATION * self.residual
        self.history.append((self.x, step))
        if len(self.history) > 1:
            dx, dg = np.diff(np.array(self.history), axis=0).swapaxes(0, 1)
            importance = np.sqrt(self.mass / self.mass.sum())
            moved = (dg * importance).T
            mix, *_ = np.linalg.lstsq(moved, importance * step, rcond=1e-10)
            step = step - mix @ (dx + dg)

        self.x = self._settle(self.x + np.clip(step, -LONGEST_STEP, LONGEST_STEP))

    def reached(self, iterations: int, status: Status) -> FixedPoint:
        """The best points met so far."""
        return FixedPoint(
            self.primal, self.dual, self.upper, self.lower, iterations, status
        )


def _log(values: FloatArray) -> FloatArray:
    return np.log(np.maximum(values, 1e-300))


def _log_normalise(
    x: FloatArray, exponent: float, floor: float = -math.inf
) -> FloatArray:
    """Logarithms of weights scaled to length one in ℓ_exponent, none below the floor."""
    largest = float(x.max())
    powers = np.exp(exponent * (x - largest))
    length = largest + math.log(float(np.sum(powers))) / exponent
    return np.maximum(x - length, floor)
