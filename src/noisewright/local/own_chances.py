"""A randomizer that somebody brings: their matrix of chances, verified in whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.listed import MatrixStrategy
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.strategy import Strategy

NAME = "own-strategy"

_LARGEST = 1.5  # of an entry: what is more is no chance, however it was rounded
_ROUNDING = 1e-9


def own_mechanism(chances: npt.ArrayLike) -> LocalMechanism:
    """The mechanism whose report o has the chance `chances[o, u]` where a person's value is u.

    Chances are rounded to whole numbers out of 2^62; what a report spends is recomputed from these,
    exactly, and refused above the budget.
    """

    def plan(problem: LocalProblem) -> Strategy:
        matrix = _oriented(chances, problem.cells)
        return MatrixStrategy.from_chances(matrix, _spent(matrix, problem.epsilon))

    return LocalMechanism(NAME, "a matrix of chances that was given", plan)


def _spent(matrix: FloatArray, budget: float) -> float:
    """What the chances spend, to be verified once they are whole numbers; never over the budget."""
    sent = matrix[matrix.max(axis=1) > 0]
    low = sent.min(axis=1, initial=1.0)
    require(
        low.min(initial=1.0) > 0,
        "strategy",
        "a report that some values never send",
        "is not private at any epsilon",
        "let every value send every report, however rarely",
    )

    spent = float(np.log((sent.max(axis=1) / low).max(initial=1.0)))
    if spent > budget * (1 + _ROUNDING):
        rule = f"is not kept by `strategy`, whose reports spend {spent:.9g}"
        raise InvalidParameter(
            "epsilon", budget, rule, "raise epsilon, or bring rows together"
        )

    return min(spent, budget) or budget


def _oriented(chances: npt.ArrayLike, cells: int) -> FloatArray:
    try:
        matrix = np.array(chances, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(chances).__name__
        raise InvalidParameter(
            "strategy", kind, "must be a matrix of numbers"
        ) from None

    shape = f"array of shape {matrix.shape}"
    if matrix.ndim != 2 or matrix.shape[1] != cells:
        remedy = "give one row per report and one column per value"
        if (
            matrix.ndim == 2
            and matrix.shape[0] == cells
            and np.allclose(matrix.sum(axis=1), 1)
        ):
            remedy += "; this looks like the transpose"
        raise InvalidParameter(
            "strategy", shape, f"must have one column per cell ({cells})", remedy
        )

    require(
        np.isfinite(matrix).all() and np.abs(matrix).max(initial=0.0) <= _LARGEST,
        "strategy",
        shape,
        "must hold chances, from 0 to 1",
    )

    by_columns = np.abs(matrix.sum(axis=0) - 1).max()
    require(
        by_columns <= 1e-6 or np.abs(matrix.sum(axis=1) - 1).max() >= 1e-6,
        "strategy",
        shape,
        "must have columns that sum to one; its rows do",
        "transpose it",
    )

    return matrix
