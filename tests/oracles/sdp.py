"""Approximate γ2 norms as semidefinite programs for a general-purpose solver: small sizes only."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np


def approximate_gamma2(
    matrix: np.ndarray, entrywise: float, shift: bool = False
) -> float:
    """The least γ2 within a tolerance of every entry."""
    return boxed_gamma2(matrix - entrywise, matrix + entrywise, shift)


def boxed_gamma2(lower: np.ndarray, upper: np.ndarray, shift: bool = False) -> float:
    """min t: [[P, X], [Xᵀ, Q]] ⪰ 0, diag ≤ t, lower ≤ X − c1ᵀ ≤ upper (c = 0 without a shift)."""
    p, n = lower.shape
    whole = cp.Variable((p + n, p + n), PSD=True)
    level, offsets = cp.Variable(), cp.Variable((p, 1))
    block = whole[:p, p:] - offsets @ np.ones((1, n))
    down, up = np.where(np.isfinite(lower)), np.where(np.isfinite(upper))
    constraints = [cp.diag(whole) <= level]
    constraints += [block[down] >= lower[down]] if len(down[0]) else []
    constraints += [block[up] <= upper[up]] if len(up[0]) else []
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
