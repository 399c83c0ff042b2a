"""Public values taken as given: estimates conditioned on linear facts declared beforehand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.workload.base import FloatArray


def check_agreement(
    rows: FloatArray, declared: FloatArray, possible: npt.NDArray[np.bool_] | None = None
) -> None:
    """Refuse declared values that no table of people can have together."""
    solution = np.linalg.lstsq(rows, declared, rcond=None)[0]
    gap = np.abs(rows @ solution - declared).max(initial=0.0)
    close = 1e-6 * (1 + np.abs(declared).max(initial=0.0))
    if gap > close or not _some_table(rows if possible is None else rows[:, possible], declared):
        raise InvalidParameter(
            "invariants",
            declared.tolist(),
            "contradict one another: no table of people has all of them",
            "correct or drop one",
        )


def tells_total(
    rows: FloatArray, declared: FloatArray, possible: npt.NDArray[np.bool_] | None = None
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
    found = linprog(np.zeros(kinds.shape[1]), A_eq=kinds, b_eq=declared, bounds=(0, None))
    return bool(found.status != 2)


def fixes_total(rows: FloatArray) -> bool:
    """Whether these queries together tell the number of people."""
    ones = np.ones(rows.shape[1])
    solution = np.linalg.lstsq(rows.T, ones, rcond=None)[0]
    return bool(np.abs(rows.T @ solution - ones).max(initial=0.0) < 1e-9)


def independent(rows: FloatArray) -> list[int]:
    """Numbers of rows that do not repeat the earlier ones."""
    kept: list[int] = []
    for k in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*kept, k]]) > len(kept):
            kept.append(k)
    return kept
