"""Approximate γ2 norms as semidefinite programs for a general-purpose solver: small sizes only."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np


def approximate_gamma2(matrix: np.ndarray, entrywise: float, shift: bool = False) -> float:
    """min t: [[P, X], [Xᵀ, Q]] ⪰ 0, diag ≤ t, |X − W − c1ᵀ| ≤ α (c = 0 without a shift)."""
    p, n = matrix.shape
    whole = cp.Variable((p + n, p + n), PSD=True)
    level, offsets = cp.Variable(), cp.Variable((p, 1))
    centre = matrix + offsets @ np.ones((1, n))
    constraints = [cp.diag(whole) <= level, cp.abs(whole[:p, p:] - centre) <= entrywise]
    if not shift:
        constraints.append(offsets == 0)
    problem = cp.Problem(cp.Minimize(level), constraints)
    with warnings.catch_warnings():
        # "May be inaccurate" is said at 1e-6 and worse; the comparison allows 1e-3.
        warnings.simplefilter("ignore", UserWarning)
        return float(problem.solve(solver=cp.CLARABEL))


def witness_value(
    matrix: np.ndarray, entrywise: float, u: np.ndarray, a: np.ndarray, b: np.ndarray
) -> float:
    """What a dual witness proves, straight from the definition."""
    gain = float((matrix * u).sum()) - entrywise * float(np.abs(u).sum())
    left, right = np.diag((a / a.sum()) ** -0.5), np.diag((b / b.sum()) ** -0.5)
    return gain / float(np.linalg.svd(left @ u @ right, compute_uv=False)[0])
