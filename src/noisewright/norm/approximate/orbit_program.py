"""Approximate norms where all columns are alike: a convex program over orbits of rows.

Where a group that permutes the columns transitively also permutes the rows, the best vectors of
columns hold each of a few invariant subspaces (degrees of interaction, frequencies) with one
weight, and the best approximation of a row is invariant under what leaves the row in place: a
combination of few known functions, z = K c. What is left is

    min t,  Σ_j g_j² / l_j ≤ t² for every orbit,  Σ_j l_j ≤ 1,  |K c − target| ≤ α,

with g = c·scale; functions that cost nothing (constants, under free shifts) have no term. Each
quotient is the largest of the lines 2θg − θ²l, which are added to a linear program where they are
violated. Orbits join it where the current weights answer them at a larger cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import NoisewrightError
from noisewright.norm.kernel.certificate import inward

_ROUNDS = 80  # linear programs at most
_STEEPEST = 1e3  # steeper lines have coefficients that no linear program bears
_MIXES = 1.0, 0.5, 0.2  # shares of the program's corner in the points that are tried
_FIRST_SLOPES = (
    0.1,
    0.5,
    1.0,
    2.0,
)  # of the first lines, in units of the exact row's cost
_NEAR = 1e-2  # of the square of the exact row's cost
_SAFE = 1e-12  # share of the tolerance kept for the rounding of sums
_MORE = 6  # that join at once
_FEW = 12  # orbits that are all taken at once


@dataclass(frozen=True, eq=False)
class Orbit:
    """Rows that are alike: a function per column of `kernel`, its values at points that differ.

    `exact` is the combination that is the row itself, `levels` names the subspace of each function,
    `scales` is what its coefficient costs at weight one; zero where it is free.
    """

    kernel: FloatArray
    exact: FloatArray
    scales: FloatArray
    levels: IntArray

    @cached_property
    def target(self) -> FloatArray:
        """The row at the points."""
        return np.asarray(self.kernel @ self.exact)

    @cached_property
    def costly(self) -> IntArray:
        """The functions that cost something."""
        return np.flatnonzero(self.scales > 0)

    @property
    def exact_cost(self) -> float:
        """The norm of the row itself, if it were alone."""
        return float(np.abs(self.exact * self.scales).sum())

    def inside(self, c: FloatArray, entrywise: float) -> FloatArray:
        """Mixed with the exact row until the tolerance is kept for certain."""
        away = float(np.abs(self.kernel @ c - self.target).max())
        allowed = entrywise * (1 - _SAFE)
        share = 1.0 if away <= allowed else allowed / away
        return np.asarray(share * c + (1 - share) * self.exact)

    def cost(self, c: FloatArray, spread: FloatArray) -> float:
        """Σ g²/l; infinite where a function is used that no weight is on."""
        g = (c * self.scales)[self.costly]
        level = spread[self.levels[self.costly]]
        used = g != 0
        if (level[used] <= 0).any():
            return math.inf
        return float(np.sum(g[used] ** 2 / level[used]))


@dataclass(frozen=True, eq=False)
class OrbitSolution:
    """A feasible point, a dual point, and what they prove."""

    value: float
    bound: float
    coefficients: tuple[FloatArray, ...]
    spread: FloatArray
    weights: tuple[FloatArray, ...]
    shares: FloatArray
    rounds: int


def orbit_bound(
    orbits: Sequence[Orbit],
    entrywise: float,
    weights: Sequence[FloatArray],
    shares: FloatArray,
) -> float:
    """A number just below Σ (y·target − α‖y‖₁) / √(max_l Σ Ŷ_j²/(a scale_j²)), Ŷ = Kᵀy.

    For any approximation c·Ŷ is at least a term of the numerator; by Cauchy and Schwarz it is at
    most √(Σ_j g_j²/l_j)·√(Σ_j l_j Ŷ_j²/scale_j²), and once more over orbits. Where constants are
    free, y sums to zero up to rounding; no shift is larger than the norm and the entries together,
    so that what is left of the sum costs next to nothing.
    """
    gain = 0.0
    size = 0.0
    squares = np.zeros(_levels(orbits))
    for orbit, y, share in zip(orbits, weights, shares / shares.sum(), strict=True):
        if not y.any():
            continue
        if not share > 0:
            return 0.0
        if (orbit.scales == 0).any():
            # Constants are free: a weight on one point more takes their sum out.
            y = y.copy()
            y[0] -= math.fsum(y)

        parts = orbit.kernel * y[:, None]
        seen = np.abs(parts.sum(axis=0)) + 1e-14 * np.abs(parts).sum(axis=0)
        j = orbit.costly
        np.add.at(squares, orbit.levels[j], (seen[j] / orbit.scales[j]) ** 2 / share)
        length = float(np.abs(y).sum())
        gain += math.fsum(y * orbit.target) - entrywise * length
        size += length

    norm = math.sqrt(float(squares.max()))
    if norm == 0:
        return 0.0

    rest = 1e-15 * size * (2 + max(gain, 0.0) / norm)
    return max(0.0, inward((gain - 1e-13 * size - rest) / norm, 8 * len(squares) + 8))


def _levels(orbits: Sequence[Orbit]) -> int:
    """Number of invariant subspaces."""
    return 1 + max(int(orbit.levels.max()) for orbit in orbits)


def solve_orbits(
    orbits: Sequence[Orbit], entrywise: float, tolerance: float = 1e-6
) -> OrbitSolution:
    """The least t for all orbits, those that decide it in the program and the others checked."""
    active = list(range(len(orbits)))
    if len(orbits) > _FEW:  # the dearest at first
        active = sorted(active, key=lambda k: -orbits[k].exact_cost)[:3]

    rounds = 0
    program = _Program([orbits[k] for k in active], entrywise)
    while True:
        rounds += program.run(tolerance)
        spread = program.spread
        known = dict(zip(active, program.best, strict=True))
        answers = [
            known[k] if k in known else _response(orbit, spread, entrywise)
            for k, orbit in enumerate(orbits)
        ]
        pairs = zip(orbits, answers, strict=True)
        costs = np.array([orbit.cost(answer, spread) for orbit, answer in pairs])

        most = program.value**2 * (1 + tolerance)
        worst = [int(k) for k in np.argsort(-costs) if k not in known]
        violated = [k for k in worst[:_MORE] if costs[k] > most]
        if not violated:
            break

        active += violated
        program.join([orbits[k] for k in violated], [answers[k] for k in violated])

    return program.solution(orbits, active, answers, float(costs.max()), rounds)


def _response(orbit: Orbit, spread: FloatArray, entrywise: float) -> FloatArray:
    """The cheapest approximation of a row at given weights: least squares within a box.

    Functions are as many as points here, so that values at the points are the variables.
    """
    from scipy.optimize import lsq_linear

    level = np.maximum(spread[orbit.levels], 1e-12)
    inverse = np.linalg.pinv(orbit.kernel)
    cost = (orbit.scales / np.sqrt(level))[:, None] * inverse
    limits = orbit.target - entrywise - 1e-15, orbit.target + entrywise + 1e-15
    values = lsq_linear(cost, np.zeros(len(cost)), limits, method="bvls").x

    return orbit.inside(inverse @ values, entrywise)


def _first_lines(orbits: Sequence[Orbit], first: int) -> list[tuple[int, int, float]]:
    return [
        (first + k, int(j), sign * slope)
        for k, orbit in enumerate(orbits)
        for j in orbit.costly
        for slope in _FIRST_SLOPES
        for sign in (1.0, -1.0)
    ]


@dataclass(frozen=True, eq=False)
class _Places:
    """Where variables stand: functions of every orbit, weights, quotients, and t² at the end."""

    starts: IntArray
    weights: int
    quotients: int
    top: int

    @classmethod
    def of(cls, orbits: Sequence[Orbit], count: int) -> _Places:
        starts = np.cumsum([0, *(len(orbit.exact) for orbit in orbits)])
        functions = int(starts[-1])
        return cls(starts, functions, functions + count, 2 * functions + count)

    @property
    def variables(self) -> int:
        """Number of them."""
        return self.top + 1


class _Program:
    """The linear program with the lines so far, and the best points met."""

    def __init__(self, orbits: Sequence[Orbit], entrywise: float) -> None:
        self.orbits = orbits
        self.entrywise = entrywise
        self.count = _levels(orbits)
        self.value = math.inf
        self.bound = 0.0
        self.unit = max(1e-12, *(orbit.exact_cost for orbit in orbits))
        self.weights = [np.zeros(len(orbit.target)) for orbit in orbits]
        self.shares = np.ones(len(orbits))
        self.lines = _first_lines(orbits, 0)
        self.best: list[FloatArray] = []
        self.spread: FloatArray = np.empty(0)
        exact = [orbit.exact for orbit in orbits]
        self._keep(exact, self._even(exact))

    def solution(
        self,
        orbits: Sequence[Orbit],
        active: Sequence[int],
        answers: Sequence[FloatArray],
        cost: float,
        rounds: int,
    ) -> OrbitSolution:
        """What is known of all orbits; those that are not in the program weigh nothing."""
        weights = [np.zeros(len(orbit.target)) for orbit in orbits]
        shares = np.zeros(len(orbits))
        for place, k in enumerate(active):
            weights[k] = self.weights[place]
            shares[k] = self.shares[place]

        return OrbitSolution(
            value=math.sqrt(cost) * (1 + 1e-12),
            bound=self.bound,
            coefficients=tuple(answers),
            spread=self.spread,
            weights=tuple(weights),
            shares=shares,
            rounds=rounds,
        )

    def join(self, orbits: Sequence[Orbit], answers: Sequence[FloatArray]) -> None:
        """Further orbits, with approximations of theirs at the current weights."""
        before = len(self.orbits)
        self.orbits = [*self.orbits, *orbits]
        self.best = [*self.best, *answers]
        self.lines += _first_lines(orbits, before)
        self.weights += [np.zeros(len(orbit.target)) for orbit in orbits]
        self.shares = np.concatenate([self.shares, np.full(len(orbits), 1e-12)])
        self.value = math.inf
        self._keep(self.best, self.spread)
        self._touch(self.best, self.spread)

    def run(self, tolerance: float) -> int:
        """Add lines until the value meets its bound; returns the rounds."""
        for count in range(1, _ROUNDS + 1):
            if self.value <= self.bound * (1 + tolerance) or self.value == 0:
                return count
            self._round()
        return _ROUNDS

    def _round(self) -> None:
        corner, level, multipliers, slack = self._solved()
        self._prove(multipliers)
        # Lines far below the quotients decide nothing, and come back where they are wanted.
        near = slack[: len(self.lines)] <= _NEAR
        self.lines = [line for line, kept in zip(self.lines, near, strict=True) if kept]

        start = self.spread
        pairs = [
            (best, orbit.inside(c, self.entrywise))
            for orbit, best, c in zip(self.orbits, self.best, corner, strict=True)
        ]
        # Between the best point and the program's corner the value is convex; corners swing.
        for share in _MIXES:
            mixed = [share * end + (1 - share) * best for best, end in pairs]
            spread = share * level + (1 - share) * start
            self._keep(mixed, spread)
            self._keep(mixed, self._even(mixed))
            self._touch(mixed, spread)

    def _touch(self, coefficients: Sequence[FloatArray], spread: FloatArray) -> None:
        """Add the lines that touch the quotients at a point."""
        for k, (orbit, c) in enumerate(zip(self.orbits, coefficients, strict=True)):
            for j in orbit.costly:
                g = float(c[j] * orbit.scales[j]) / self.unit
                slope = g / max(float(spread[orbit.levels[j]]), 1e-12)
                slope = float(np.clip(slope, -_STEEPEST, _STEEPEST))
                self.lines.append((k, int(j), slope))

    def _even(self, coefficients: Sequence[FloatArray]) -> FloatArray:
        """The best weights if all orbits counted the same together."""
        squares = np.zeros(self.count)
        for orbit, c in zip(self.orbits, coefficients, strict=True):
            np.add.at(squares, orbit.levels, (c * orbit.scales) ** 2)

        root = np.sqrt(squares)
        if not root.any():
            return np.full(self.count, 1 / self.count)
        return np.asarray(root / root.sum())

    def _keep(self, coefficients: Sequence[FloatArray], spread: FloatArray) -> None:
        """The value of a feasible point, kept where it is the least so far."""
        spread = spread / spread.sum()
        pairs = zip(self.orbits, coefficients, strict=True)
        cost = max(orbit.cost(c, spread) for orbit, c in pairs)
        value = math.sqrt(cost) * (1 + 1e-12)
        if value < self.value:
            self.value = value
            self.best = list(coefficients)
            self.spread = spread

    def _prove(self, multipliers: FloatArray) -> None:
        first = len(self.lines)
        shares = np.maximum(multipliers[first : first + len(self.orbits)], 1e-12)
        place = first + len(self.orbits) + 1
        weights = []

        for orbit in self.orbits:
            points = len(orbit.target)
            high, low = np.split(multipliers[place : place + 2 * points], 2)
            weights.append(low - high)
            place += 2 * points

        bound = orbit_bound(self.orbits, self.entrywise, weights, shares)
        if bound > self.bound:
            self.bound = bound
            self.weights = weights
            self.shares = shares

    def _solved(self) -> tuple[list[FloatArray], FloatArray, FloatArray, FloatArray]:
        """Coefficients, weights, multipliers and slacks of the program as it stands.

        Variables are g/unit of every function, l, the quotients and t²; free functions have their
        coefficients themselves.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, vstack

        place = _Places.of(self.orbits, self.count)
        boxes, units = self._boxes()
        rest = csr_array((boxes.shape[0], place.variables - place.weights))
        sums = csr_array(self._sums(place))
        rows = [self._tangents(place), sums, hstack([boxes, rest])]
        right = [np.zeros(len(self.lines) + len(self.orbits)), np.ones(1)]
        for orbit in self.orbits:
            right += [orbit.target + self.entrywise, self.entrywise - orbit.target]

        cost = np.zeros(place.variables)
        cost[place.top] = 1.0
        free: list[Any] = [(None, None)] * place.weights
        limits = free + [(0, None)] * (place.variables - place.weights)
        answer = linprog(
            cost,
            A_ub=vstack(rows, format="csr"),
            b_ub=np.concatenate(right),
            bounds=limits,
            method="highs",
        )
        if not answer.success:
            raise NoisewrightError(
                f"the program of orbits was not solved: {answer.message}"
            )

        x = np.asarray(answer.x)
        held = np.split(x[: place.weights], place.starts[1:-1])
        corner = [np.asarray(g * unit) for g, unit in zip(held, units, strict=True)]
        level = x[place.weights : place.quotients]
        multipliers = -np.asarray(answer.ineqlin.marginals)
        return corner, level, multipliers, np.asarray(answer.ineqlin.residual)

    def _tangents(self, place: _Places) -> Any:
        """2θg − θ²l is at most the quotient, for every line."""
        from scipy.sparse import coo_array

        k, j, slope = (np.array(column) for column in zip(*self.lines, strict=True))
        functions = place.starts[k] + j
        levels = np.concatenate([orbit.levels for orbit in self.orbits])[functions]
        entries = np.concatenate([2 * slope, -(slope**2), np.full(len(k), -1.0)])
        row = np.tile(np.arange(len(k)), 3)
        column = np.concatenate(
            [functions, place.weights + levels, place.quotients + functions]
        )
        return coo_array((entries, (row, column)), shape=(len(k), place.variables))

    def _sums(self, place: _Places) -> FloatArray:
        """The quotients of every orbit are at most t² together, and the weights at most one."""
        sums = np.zeros((len(self.orbits) + 1, place.variables))
        for number, orbit in enumerate(self.orbits):
            first = place.quotients + place.starts[number]
            sums[number, first + orbit.costly] = 1.0
            sums[number, place.top] = -1.0

        sums[-1, place.weights : place.quotients] = 1.0
        return sums

    def _boxes(self) -> tuple[Any, list[FloatArray]]:
        """What keeps every orbit within its tolerance, and the units of its functions."""
        from scipy.sparse import block_diag

        blocks = []
        units = []
        for orbit in self.orbits:
            costs = self.unit / np.maximum(orbit.scales, 1e-300)
            unit = np.where(orbit.scales > 0, costs, 1.0)
            kernel = orbit.kernel * unit
            blocks.append(np.vstack([kernel, -kernel]))
            units.append(unit)

        return block_diag(blocks), units
