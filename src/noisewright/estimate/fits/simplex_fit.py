"""Shares that are not negative and sum to one, nearest in a given metric."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray

_MOST_STEPS = 10
"""Times the number of cells: a step adds a cell to those above zero, and few ever leave again."""


def fit_on_simplex(metric: FloatArray, pull: FloatArray) -> FloatArray:
    """The shares p ≥ 0, Σp = 1, at which ½pᵀAp − bᵀp is least, for positive definite A.

    With A = LLᵀ and Ly = b that is ½‖Bp‖² up to a constant, B = Lᵀ − y1ᵀ, since Σp = 1. Where q ≥ 0
    makes ‖Bq‖² + κ²(Σq − 1)² least, whatever κ, q/Σq does so on the simplex: ‖Bp‖² = m leaves
    κ²m/(κ² + m) at the best multiple of p, which rises with m.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    lower = np.linalg.cholesky(metric)
    target = solve_triangular(lower, pull, lower=True)
    columns = lower.T - target[:, None]

    # Of the size of the columns, so that no digits are lost between the two parts.
    scale = float(np.linalg.norm(columns, axis=0).mean())
    rows = np.vstack([columns / scale, np.ones(len(pull))])
    multiple, _ = nnls(
        rows, np.append(np.zeros(len(pull)), 1.0), maxiter=_MOST_STEPS * len(pull)
    )

    return np.asarray(multiple / multiple.sum())
