"""Ball noise by directions: those in which people differ little get a ball of their own [004].

Queries are turned to the directions in which the cells' columns vary, from least to most. The half
of least variation is one part with its own, small ball; the rest is halved again, and shares of ε
make the error least. Every part has a ball or, where that is smaller, an ellipsoid: in the
coordinates that make it a ball it is one, and drawn as exactly. The paper's bodies are projections
of the hull of all columns, for which no exact sampler is known; the ellipsoids around them are what
is drawn, and their error is what is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.balls import (
    LARGEST_ENTRY,
    LARGEST_EPSILON,
    LEAST_EPSILON,
    MOST_ENTRIES,
    BallMechanism,
    reach_square,
)
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.privacy.promise.budget import Privacy

_MOST_CELLS = 2**14  # of the queries, which are written out over all of them
_MOST_QUERIES = 512  # whose directions are one dense eigenproblem
_QUICK_ENTRIES = 2**18  # of the queries, beyond which planning is told to be slow
_TURNED = 2**9  # whole steps of a direction's largest entry
_SAME = 1e-9  # of the largest eigenvalue: directions below are rounding
# of columns, for the ellipsoid: more change errors by some thousandths at most
_WEIGHINGS = 40
# entries of the queries times directions up to which it is looked for
_MOST_WEIGHED = 2**21


def whole_queries(problem: CentralProblem) -> IntArray | None:
    """The queries over cells in whole numbers, without those that follow; None where not whole."""
    matrix = problem.workload.dense()
    if (
        not (matrix == np.rint(matrix)).all()
        or np.abs(matrix).max() > LARGEST_ENTRY / _TURNED
    ):
        return None
    return np.rint(matrix).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """Directions among the queries, stretched and rounded to whole numbers, over the cells."""

    rows: IntArray
    root: float
    """The cube root of its squared error at ε = 1: (d + 1)·r² times the squares of what answers
    take of the rows, for a radius of r."""

    @classmethod
    def along(
        cls,
        basis: FloatArray,
        shape: FloatArray,
        matrix: IntArray,
        replaced: bool,
    ) -> Part:
        """Rows along combinations (`shape`) of directions among the queries (columns of `basis`).

        What answers take of them is that of the rounded rows: where these no longer tell the
        directions apart, the part costs too much ever to be chosen.
        """
        # whole numbers far below 2^53: products are exact
        columns = matrix.astype(np.float64)
        largest = max(1.0, float(np.sqrt((columns**2).sum(axis=0).max())))
        directions = basis @ shape
        directions = directions / np.sqrt((directions**2).sum(axis=0).max())
        stretch = min(
            _TURNED / float(np.abs(directions).max()),
            LARGEST_ENTRY / (2 * largest),
        )
        turned = np.rint(directions.T * stretch)
        rows = (turned @ columns).astype(np.int64)
        seen = np.linalg.svd(turned @ basis, compute_uv=False)
        taken = float(
            (np.maximum(seen, _SAME * max(float(seen[0]), 1.0)) ** -2.0).sum()
        )
        cost = (len(rows) + 1) * taken * max(reach_square(rows, replaced), 1)

        return cls(rows, float(cost) ** (1 / 3))


def turned_parts(matrix: IntArray, replaced: bool) -> list[list[Part]]:
    """Whole-number combinations of the queries along their directions: in one part, two, and more.

    The half of least variation is a part of its own, and the rest is halved again.
    """
    columns = matrix.astype(np.float64)
    if replaced:
        columns = columns - columns.mean(axis=1, keepdims=True)

    def smallest(directions: FloatArray) -> Part:
        """The ball of these directions, or the ellipsoid where it is smaller."""
        count = directions.shape[1]
        shapes = [np.eye(count)]
        if count > 1 and count * columns.size <= _MOST_WEIGHED:
            shapes.append(_flattened(directions.T @ columns))

        parts = [Part.along(directions, shape, matrix, replaced) for shape in shapes]
        return min(parts, key=lambda part: part.root)

    # Directions of least variation first.
    values, vectors = np.linalg.eigh(columns @ columns.T)
    left = vectors[:, values > _SAME * values[-1]]
    halves: list[Part] = []
    result = [[smallest(left)]]

    while left.shape[1] > 1:
        half = left.shape[1] // 2
        halves.append(smallest(left[:, :half]))
        left = left[:, half:]
        result.append([*halves, smallest(left)])

    return result


def _flattened(columns: FloatArray) -> FloatArray:
    """Coordinates in which the ellipsoid of the least sum of squared axes around columns is a ball.

    That is Q^-½ for Q ∝ (Σ π_j c_j c_jᵀ)^½ with the weights π that make the trace of this root
    largest; each is multiplied by how far its column is from the middle, until all are as far.
    """
    weights = np.full(columns.shape[1], 1.0 / columns.shape[1])
    for _ in range(_WEIGHINGS):
        values, vectors = np.linalg.eigh((columns * weights) @ columns.T)
        values = np.sqrt(np.maximum(values, _SAME * values[-1]))
        inner = vectors.T @ columns
        weights *= np.einsum("ij,ij->j", inner, inner / values[:, None])
        weights /= weights.sum()

    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def best_balls(
    sizes: tuple[int, ...],
    privacy: Privacy,
    matrix: IntArray,
) -> BallMechanism:
    """Balls around the rows of a matrix, in as many parts as make their errors least.

    ε ∝ the cube root of what a part costs, whose sum over parts, cubed, is the whole error.
    """
    options = turned_parts(matrix, privacy.neighbours == "replace-one")
    parts = min(options, key=lambda option: sum(part.root for part in option))
    whole = sum(part.root for part in parts)
    shares = tuple(part.root / whole for part in parts)

    return BallMechanism(
        sizes,
        tuple(part.rows for part in parts),
        shares,
        privacy,
    )


def refuses_balls(problem: CentralProblem) -> str | None:
    """Why no balls are drawn around whole-number combinations of the queries, or None."""
    if refuses_laplace(problem):
        return "ball noise is for pure privacy; leave delta and rho out"
    # A part of the budget must still be one that noise is drawn for.
    if not 1024 * LEAST_EPSILON <= problem.epsilon <= LARGEST_EPSILON:
        return f"balls are drawn for epsilon from 2^-20 to {LARGEST_EPSILON:g}"

    workload = problem.workload
    small = workload.size <= _MOST_CELLS and workload.queries <= _MOST_QUERIES
    if not small or workload.size * workload.queries > MOST_ENTRIES:
        return f"balls are for up to {_MOST_QUERIES} queries over {_MOST_CELLS:,} cells"
    if problem.once(whole_queries) is None:
        return "balls are for queries of small whole numbers"

    return None


def balls_of_queries(problem: CentralProblem) -> BallMechanism:
    """The best balls around the queries themselves."""
    matrix = problem.once(whole_queries)
    assert matrix is not None
    return best_balls(problem.sizes, problem.privacy, matrix)


def _plan(problem: CentralProblem) -> Proposal:
    mechanism = problem.once(balls_of_queries)
    levels = len(mechanism.parts)
    parts = "one ellipsoid" if levels == 1 else f"ellipsoids of {levels} parts"
    status = f"{parts}, by how much people differ"
    return Proposal.unbounded(mechanism, status)


HARDT_TALWAR = CentralMechanism(
    "hardt-talwar",
    "pure privacy: noise in the shape of ellipsoids, by directions in which people differ",
    refuses_balls,
    _plan,
    slow=lambda problem: (
        problem.workload.size * problem.workload.queries > _QUICK_ENTRIES
    ),
)
