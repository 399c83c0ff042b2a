"""Non-negative histograms that agree best with noisy answers.

Beside that people are nowhere negative, empty cells and declared sums may be known beforehand.
Post-processing only: nothing here sees data, so privacy is untouched. Errors do change: see what
each function says of intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.estimate.nearest import project_to_total
from noisewright.estimate.newton_fit import (
    gathered_rows,
    largest_eigenvalue,
    newton_fit,
    with_declared,
)
from noisewright.stages import stage
from noisewright.workload.base import Workload

LARGEST_HISTOGRAM = 2**20
"""Cells up to which a histogram over the whole domain is fitted."""

# of the dual of a projection, which starts from the last multipliers
_NEWTON_STEPS = 60
_CLOSE = 1e-9  # of the largest declared value: sums that miss no more hold
_EXACT = 0.02  # of the largest standard error
# of the largest standard error: answers below are facts, if facts are kept
_KNOWN = 1e-3
# of the largest variance: answers are then within 5e-4 standard errors
_NEGLIGIBLE = 1e-7
_ROUNDS = 10  # of multipliers: declared sums are met ever closer, and projected onto at the end
_TINY = float(np.finfo(float).tiny)  # no division by zero where nothing has noise
_ASTRAY = 1e-3  # of declared sums: a projection makes up for less


@dataclass(frozen=True, eq=False)
class Facts:
    """Cells that can hold people (all, where None) and sums over cells with declared values."""

    possible: BoolArray | None = None
    rows: FloatArray | None = None
    values: FloatArray | None = None

    def equalities(
        self, total: float | None, size: int
    ) -> tuple[FloatArray, FloatArray]:
        """All sums that are known, one per row; the declared ones hold the total where there is."""
        if self.rows is not None and self.values is not None:
            return self.rows, self.values
        if total is None:
            return np.zeros((0, size)), np.zeros(0)
        return np.ones((1, size)), np.array([float(total)])


class Projector:
    """Nearest points by the dual: one multiplier per declared sum, kept from call to call."""

    def __init__(self, facts: Facts, total: float | None) -> None:
        self.facts = facts
        self.total = total
        self.multipliers = np.zeros(0 if facts.rows is None else len(facts.rows))

    def __call__(self, x: FloatArray) -> FloatArray:
        """The nearest non-negative vector that keeps all facts."""
        possible = self.facts.possible
        if possible is None:
            return self._inside(x, self.facts.rows)

        result = np.zeros_like(x)
        rows = None if self.facts.rows is None else self.facts.rows[:, possible]
        result[possible] = self._inside(x[possible], rows)

        return result

    def _inside(self, x: FloatArray, rows: FloatArray | None) -> FloatArray:
        if rows is not None:
            assert self.facts.values is not None
            return self._declared(x, rows, self.facts.values)
        if self.total is not None:
            return project_to_total(x, self.total)
        return np.maximum(x, 0.0)

    def _declared(
        self,
        x: FloatArray,
        rows: FloatArray,
        values: FloatArray,
    ) -> FloatArray:
        """Newton on the convex dual ½‖max(x − Aᵀλ, 0)‖² + cᵀλ, with shortened steps."""

        def nearest_at(multipliers: FloatArray) -> FloatArray:
            return np.maximum(x - rows.T @ multipliers, 0.0)

        def cost_of(nearest: FloatArray, multipliers: FloatArray) -> float:
            return 0.5 * float(nearest @ nearest) + float(values @ multipliers)

        scale = 1.0 + float(np.abs(values).max())
        nearest = nearest_at(self.multipliers)
        for _ in range(_NEWTON_STEPS):
            residual = rows @ nearest - values
            if np.abs(residual).max() <= _CLOSE * scale:
                break

            active = rows[:, nearest > 0]
            curvature = active @ active.T
            ridge = 1e-10 * (np.trace(curvature) + np.trace(rows @ rows.T) * 1e-6)
            step = np.linalg.solve(curvature + ridge * np.eye(len(rows)), residual)

            cost = cost_of(nearest, self.multipliers)
            falls = float(residual @ step)
            length = 1.0

            while length > 1e-6:
                trial = self.multipliers + length * step
                nearest = nearest_at(trial)
                if cost_of(nearest, trial) <= cost - 1e-4 * length * falls:
                    break
                length /= 2

            self.multipliers = trial

        return nearest


NOTHING_KNOWN = Facts()


@dataclass(frozen=True, eq=False)
class NonNegativeFit:
    """A histogram x ≥ 0, and the steps that it took."""

    histogram: FloatArray
    steps: int


def nonnegative_histogram(
    workload: Workload,
    answers: FloatArray,
    std: FloatArray,
    total: float | None = None,
    steps: int = 5000,
    tolerance: float = 1e-9,
    facts: Facts = NOTHING_KNOWN,
) -> NonNegativeFit:
    """Minimise Σ((w_i·x − answer_i)/std_i)² over x ≥ 0, with Σx = `total` where it is given.

    `facts` hold as well: empty cells, declared sums (exactly, at the end). Newton steps where the
    queries are few enough to be written out; quasi-Newton steps within bounds from products with
    the workload alone where they are not.
    """
    size = workload.size
    if size > LARGEST_HISTOGRAM:
        limit = f"too large to fit (limit {LARGEST_HISTOGRAM})"
        raise TooLarge(
            f"a histogram over {size} cells is {limit}; adjust tables one by one"
        )
    counted = total is None or (np.isfinite(total) and total >= 0)
    require(counted, "total", total, "must be a number of people >= 0")

    rows, values = facts.equalities(total, size)
    weights = _weights(std, bool(len(rows)))
    problem = _Problem(workload, answers, weights, rows, values)
    people = max(0.0, float(np.abs(answers).max())) if total is None else float(total)
    even = np.full(size, people / size)
    stage("fitting a non-negative histogram")
    close = _NEGLIGIBLE * max(float(std.max()), _TINY) ** 2
    found = _by_newton(problem, even, facts.possible, close)
    if found is None:
        found = _by_descent(problem, even, facts.possible, steps, tolerance)

    x, steps_taken = found
    return NonNegativeFit(Projector(facts, total)(x), steps_taken)


def _by_newton(
    problem: _Problem,
    start: FloatArray,
    possible: BoolArray | None,
    close: float,
) -> tuple[FloatArray, int] | None:
    """The best point and its steps; None of too many queries to be written out, or if it fails."""
    inside = np.arange(start.size) if possible is None else np.flatnonzero(possible)
    queries = gathered_rows(problem.workload, problem.answers, problem.weights, inside)
    if queries is None:
        return None

    whole = with_declared(queries, problem.rows[:, inside], problem.values)
    x = np.zeros_like(start)
    x[inside], used = newton_fit(whole, start[inside], close)
    missed = np.abs(problem.residual(x)).max(initial=0.0)
    astray = missed > _ASTRAY * (1 + np.abs(problem.values).max(initial=0.0))

    return None if astray else (x, used)


def _by_descent(
    problem: _Problem,
    x: FloatArray,
    possible: BoolArray | None,
    steps: int,
    tolerance: float,
) -> tuple[FloatArray, int]:
    """By quasi-Newton steps for given multipliers, which are moved until declared sums hold."""
    used = 0
    for _ in range(_ROUNDS if len(problem.rows) else 1):
        x, count = problem.minimise(x, possible, steps - used, tolerance)
        used += count
        if used >= steps or problem.tighten(x):
            break

    return x, used


def _weights(std: FloatArray, known: bool) -> FloatArray:
    """1/std², bounded: (nearly) exact answers make the problem stiff, and are facts if known."""
    largest = max(float(std.max()), _TINY)
    weights = (largest / np.maximum(std, largest * _EXACT)) ** 2
    return np.where(std < largest * _KNOWN, 0.0, weights) if known else weights


class _Problem:
    """The sum of squares, and declared sums by multipliers and a penalty."""

    def __init__(
        self,
        workload: Workload,
        answers: FloatArray,
        weights: FloatArray,
        rows: FloatArray,
        values: FloatArray,
    ) -> None:
        self.workload = workload
        self.answers = answers
        self.weights = weights
        self.rows = rows
        self.values = values
        self.curvature = max(self._largest_curvature(), _TINY)
        self.multipliers = np.zeros(len(rows))
        self.penalty = self.curvature / max(float((rows**2).sum()), 1.0)

    def _largest_curvature(self) -> float:
        """Upper estimate of the largest eigenvalue of WᵀDW; one where all answers were declared."""

        def image(x: FloatArray) -> FloatArray:
            return self.workload.rmatvec(self.weights * self.workload.matvec(x))

        return 1.05 * largest_eigenvalue(image, self.workload.size, 50) or 1.0

    def residual(self, x: FloatArray) -> FloatArray:
        """What declared sums miss."""
        return self.rows @ x - self.values

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient, scaled to curvature one."""
        missed = self.workload.matvec(x) - self.answers
        value = 0.5 * float(self.weights @ missed**2)
        slope = self.workload.rmatvec(self.weights * missed)
        if len(self.rows):
            residual = self.residual(x)
            value += float(self.multipliers @ residual)
            value += 0.5 * self.penalty * float(residual @ residual)
            slope = slope + self.rows.T @ (self.multipliers + self.penalty * residual)

        return value / self.curvature, slope / self.curvature

    def minimise(
        self,
        start: FloatArray,
        possible: BoolArray | None,
        steps: int,
        tolerance: float,
    ) -> tuple[FloatArray, int]:
        """The best point within bounds, and the steps it took."""
        from scipy.optimize import Bounds, minimize

        most = np.full(start.size, np.inf)
        if possible is not None:
            most[~possible] = 0.0

        settings: dict[str, object] = {
            "maxiter": steps,
            "maxfun": 2 * steps,
            "maxcor": 30,
        }
        settings |= {
            "ftol": 1e-15,
            "gtol": tolerance * max(1.0, float(start.max())),
        }
        result = minimize(
            self,
            np.minimum(start, most),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(np.zeros(start.size), most),
            options=cast(Any, settings),
        )

        return np.asarray(result.x), max(1, int(result.nit))

    def tighten(self, x: FloatArray) -> bool:
        """Move the multipliers by what is still missing; whether hardly anything is."""
        if not len(self.rows):
            return True
        residual = self.residual(x)
        self.multipliers = self.multipliers + self.penalty * residual
        return bool(np.abs(residual).max() <= 1e-7 * (1 + np.abs(self.values).max()))


# --- values declared beforehand -------------------------------------------------------------------


def check_agreement(
    rows: FloatArray,
    declared: FloatArray,
    possible: BoolArray | None = None,
) -> None:
    """Refuse declared values that no table of people can have together."""
    solution = np.linalg.lstsq(rows, declared, rcond=None)[0]
    gap = np.abs(rows @ solution - declared).max(initial=0.0)
    close = 1e-6 * (1 + np.abs(declared).max(initial=0.0))
    if gap > close or not _some_table(
        rows if possible is None else rows[:, possible], declared
    ):
        raise InvalidParameter(
            "invariants",
            declared.tolist(),
            "contradict one another: no table of people has all of them",
            "correct or drop one",
        )


def tells_total(
    rows: FloatArray,
    declared: FloatArray,
    possible: BoolArray | None = None,
) -> bool:
    """Whether all tables of people with these sums, and in possible cells alone, have one size."""
    from scipy.optimize import linprog

    inside = rows if possible is None else rows[:, possible]
    if fixes_total(inside):
        return True

    # Values can tell it too: sums of nothing empty the cells they add up.
    kinds = np.unique(inside, axis=1)
    ends = []
    for sign in (1.0, -1.0):
        cost = np.full(kinds.shape[1], sign)
        solved = linprog(cost, A_eq=kinds, b_eq=declared, bounds=(0, None))
        if solved.status != 0 or solved.x is None:
            return False
        ends.append(float(solved.x.sum()))

    return bool(ends[1] - ends[0] < 1e-6 * (1 + abs(ends[0])))


def _some_table(rows: FloatArray, declared: FloatArray) -> bool:
    """Whether some x >= 0 has these sums: cells that all rows treat alike count as one."""
    from scipy.optimize import linprog

    kinds = np.unique(rows, axis=1)
    solution = linprog(
        np.zeros(kinds.shape[1]),
        A_eq=kinds,
        b_eq=declared,
        bounds=(0, None),
    )

    return bool(solution.status != 2)


def fixes_total(rows: FloatArray) -> bool:
    """Whether these queries together tell the number of people."""
    ones = np.ones(rows.shape[1])
    solution = np.linalg.lstsq(rows.T, ones, rcond=None)[0]
    return bool(np.abs(rows.T @ solution - ones).max(initial=0.0) < 1e-9)


def independent(rows: FloatArray) -> list[int]:
    """Numbers of rows that do not repeat the earlier ones."""
    numbers: list[int] = []
    for k in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*numbers, k]]) > len(numbers):
            numbers.append(k)
    return numbers
