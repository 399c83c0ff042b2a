"""What so many people cannot be told privately: packing bounds [004, Lemma 2.2], and widths.

Data sets that put m people into one of M cells, and all others into a base cell, are pairwise at
most m replacements apart. If their answers are pairwise farther than 2t apart, no ε-private answers
can be within t of the truth on all of them with probability above e^(εm)/M on average, so that some
data set has a mean square error of at least t²(1 - e^(εm)/M).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, log, sqrt
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.limits.code_packing import (
    best_code_packing,
    binary_tables,
)
from noisewright.central.problem import CentralProblem
from noisewright.errors import require
from noisewright.workload import Workload

_MOST_ENTRIES = 2**24
_MOST_PACKED = 4096
_MOST_WORK = 2**32  # numbers that are looked at in choosing them
_ROUNDING = 1e-12  # of squared lengths: nearer columns are the same
_LESS = 1 - 1e-9  # far above the rounding of distances


@dataclass(frozen=True, eq=False)
class Packing:
    """Cells whose columns lie apart, and how many people are put into one of them.

    The bound is worked out from these alone, whoever chose them.
    """

    cells: IntArray
    moved: int

    def bound(
        self,
        workload: Workload,
        epsilon: float,
        steps: int,
    ) -> float:
        """A root mean square error that some data set has, under every ε-private mechanism.

        `steps` is how many neighbours apart a replacement is: one, or two where one is removed and
        another added.
        """
        columns = _columns(workload, self.cells)
        squares = (columns**2).sum(axis=1)
        apart = squares[:, None] + squares - 2 * columns @ columns.T
        np.fill_diagonal(apart, np.inf)
        require(
            len(set(self.cells.tolist())) >= max(2, len(self.cells))
            and self.moved >= 1,
            "cells",
            len(self.cells),
            "must be two different ones or more",
        )

        distance = self.moved * sqrt(max(0.0, float(apart.min())) / workload.queries)
        chance = exp(min(700.0, epsilon * steps * self.moved - log(len(self.cells))))
        return distance / 2 * sqrt(max(0.0, 1 - chance)) * _LESS


def _columns(workload: Workload, cells: IntArray) -> FloatArray:
    chosen = np.zeros((workload.size, len(cells)))
    chosen[cells, np.arange(len(cells))] = 1.0
    return np.asarray(workload.matvec(chosen).T, dtype=np.float64)


def best_packing(problem: CentralProblem) -> tuple[Packing, float] | None:
    """Cells chosen farthest first, and the number of people that makes the bound highest."""
    workload = problem.workload
    given = problem.given
    epsilon = problem.privacy.epsilon
    if (
        given is None
        or epsilon is None
        or problem.privacy.kind != "pure"
        or workload.size < 2
    ):
        return None
    if workload.size * workload.queries > _MOST_ENTRIES:
        return None

    steps = 1 if problem.neighbours == "replace-one" else 2
    order, distances = farthest_first(_columns(workload, np.arange(workload.size)))
    best: tuple[float, int, int] = (0.0, 0, 0)

    for count in {2**j for j in range(1, 13)} | {len(order)}:
        if count > len(order):
            continue
        for moved in range(
            1, min(given.people, floor(log(count) / (epsilon * steps))) + 1
        ):
            left = max(0.0, 1 - exp(epsilon * steps * moved) / count)
            best = max(best, (moved * distances[count - 1] * sqrt(left), count, moved))

    if not best[1]:
        return None

    packing = Packing(order[: best[1]], best[2])
    return packing, packing.bound(workload, epsilon, steps)


def packing_bound(problem: CentralProblem) -> float | None:
    """The highest packing bound known: by cells, or by codes where all tables of some size are."""
    by_cells = best_packing(problem)
    bounds = [] if by_cells is None else [by_cells[1]]
    tables = binary_tables(problem.workload)
    given = problem.given
    epsilon = problem.privacy.epsilon
    pure = problem.privacy.kind == "pure"
    if tables is not None and given is not None and pure and epsilon is not None:
        steps = 1 if problem.neighbours == "replace-one" else 2
        by_codes = best_code_packing(*tables, epsilon, steps, given.people)
        bounds += [] if by_codes is None else [by_codes[1]]

    return max(bounds, default=None)


def farthest_first(
    columns: FloatArray, distance: float = 0.0
) -> tuple[IntArray, FloatArray]:
    """Columns in an order in which each is farthest from all before it, and how far that is.

    It ends where no column is farther than `distance` from all in it.
    """
    squares = (columns**2).sum(axis=1)
    nothing = _ROUNDING * float(squares.max(initial=0.0))
    order = [0]
    distances = [np.inf]
    nearest = np.full(len(columns), np.inf)

    for _ in range(
        min(len(columns), _MOST_PACKED, max(64, _MOST_WORK // columns.size)) - 1
    ):
        last = order[-1]
        apart = squares + squares[last] - 2 * (columns @ columns[last])
        nearest = np.minimum(nearest, apart)
        nearest[last] = 0.0
        following = int(np.argmax(nearest))
        if nearest[following] <= max(nothing, distance**2):
            break
        order.append(following)
        distances.append(sqrt(nearest[following]))

    return np.array(order), np.minimum.accumulate(np.array(distances))


@dataclass(frozen=True)
class Width:
    """E max over cells of ⟨g, column⟩ for a Gaussian g, by simulation, with a 99.9 % interval."""

    value: float
    lower: float
    upper: float

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return vars(self).copy()


def gaussian_width(
    workload: Workload,
    draws: int = 200,
    seed: int = 0,
) -> Width:
    """The Gaussian width of what one person can answer: small where projections help much."""
    rng = np.random.default_rng(seed)
    largest = np.array(
        [
            workload.rmatvec(rng.standard_normal(workload.queries)).max()
            for _ in range(draws)
        ]
    )
    mean = float(largest.mean())
    spread = float(largest.std(ddof=1) / sqrt(draws))

    return Width(mean, mean - 3.29 * spread, mean + 3.29 * spread)
