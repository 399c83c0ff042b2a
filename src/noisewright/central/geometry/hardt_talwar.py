"""Ball noise by directions: those in which people differ little get a ball of their own [004].

Queries are turned to the directions in which the cells' columns vary, from least to most. The half
of least variation is one part with its own, small ball; the rest is halved again, and shares of ε
make the error least. The paper's bodies are projections of the hull of all columns, for which no
exact sampler is known; the balls around them are what is drawn, and their error is what is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.central.geometry.balls import (
    LARGEST_ENTRY,
    LARGEST_EPSILON,
    LEAST_EPSILON,
    MOST_ENTRIES,
    BallMechanism,
    reach_square,
)
from noisewright.central.mechanism import Integers
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.workload.base import FloatArray
from noisewright.workload.tensor import mean_error

_MOST_CELLS = 2**14
_MOST_QUERIES = 512
_QUICK_ENTRIES = 2**18
_TURNED = 2**9  # whole steps of a direction's largest entry
_SAME = 1e-9


def whole_queries(problem: CentralProblem) -> Integers | None:
    """The queries over cells in whole numbers, without those that follow; None where not whole."""
    matrix = problem.workload.dense()
    if not (matrix == np.rint(matrix)).all() or np.abs(matrix).max() > LARGEST_ENTRY / _TURNED:
        return None
    return np.rint(matrix).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """Directions among the queries, stretched and rounded to whole numbers, over the cells."""

    rows: Integers
    stretch: float

    @classmethod
    def along(cls, directions: FloatArray, matrix: Integers) -> Part:
        """Rows along these directions (columns of unit length) of the queries."""
        largest = max(1.0, float(np.abs(directions.T @ matrix).max()))
        stretch = min(_TURNED / float(np.abs(directions).max()), LARGEST_ENTRY / (2 * largest))
        turned = np.rint(directions.T * stretch).astype(np.int64)
        return cls(np.asarray(turned @ matrix), stretch)


def turned_parts(matrix: Integers, replaced: bool, levels: int) -> list[Part]:
    """Whole-number combinations of the queries along their directions, halved so many times."""
    columns = matrix.astype(np.float64)
    if replaced:
        columns = columns - columns.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(columns @ columns.T)
    left = vectors[:, values > _SAME * values[-1]]  # directions of least variation first
    parts = []
    for _ in range(levels - 1):
        if left.shape[1] < 2:
            break
        half = left.shape[1] // 2
        parts.append(Part.along(left[:, :half], matrix))
        left = left[:, half:]
    return [*parts, Part.along(left, matrix)]


def best_shares(parts: Sequence[Part], replaced: bool) -> tuple[float, ...]:
    """ε ∝ ((d + 1)·d·r²)^(1/3), r in answers: a ball of radius r has E‖U‖² = r²·d/(d + 2)."""
    roots = []
    for part in parts:
        d, reach = len(part.rows), reach_square(part.rows, replaced)
        roots.append(((d + 1) * d * reach / part.stretch**2) ** (1 / 3))
    return tuple(root / sum(roots) for root in roots)


def ball_parts(problem: CentralProblem, matrix: Integers) -> list[tuple[float, int, BallMechanism]]:
    """One ball, and balls of two parts and more, with their errors."""
    replaced = problem.neighbours == "replace-one"
    result = []
    for levels in range(1, 2 + int(np.log2(max(1, len(matrix))))):
        parts = turned_parts(matrix, replaced, levels)
        if len(parts) < levels:
            break
        shares = best_shares(parts, replaced)
        rows = tuple(part.rows for part in parts)
        mechanism = BallMechanism(problem.sizes, rows, shares, problem.privacy)
        error = mean_error(mechanism.accuracy(problem.terms).error, problem.norm)
        result.append((error, levels, mechanism))
    return result


def _refuses(problem: CentralProblem) -> str | None:
    if refuses_laplace(problem):
        return "ball noise is for pure privacy; leave delta and rho out"
    # A part of the budget must still be one that noise is drawn for.
    if not 1024 * LEAST_EPSILON <= (problem.privacy.epsilon or 0.0) <= LARGEST_EPSILON:
        return f"balls are drawn for epsilon from 2^-20 to {LARGEST_EPSILON:g}"
    workload = problem.workload
    small = workload.size <= _MOST_CELLS and workload.queries <= _MOST_QUERIES
    if not small or workload.size * workload.queries > MOST_ENTRIES:
        return f"balls are for up to {_MOST_QUERIES} queries over {_MOST_CELLS:,} cells"
    if problem.once(whole_queries) is None:
        return "balls are for queries of small whole numbers"
    return None


def _plan(problem: CentralProblem) -> Proposal:
    matrix = problem.once(whole_queries)
    assert matrix is not None
    _, levels, mechanism = min(ball_parts(problem, matrix), key=lambda option: option[:2])
    status = "one ball" if levels == 1 else f"balls of {levels} parts, by how much people differ"
    return Proposal(mechanism, None, None, "none", status, problem.neighbours)


HARDT_TALWAR = CentralMechanism(
    "hardt-talwar",
    "pure privacy: noise in the shape of balls, by directions in which people differ",
    _refuses,
    _plan,
    slow=lambda problem: problem.workload.size * problem.workload.queries > _QUICK_ENTRIES,
)
