"""Strategies under Laplace noise, from the definition: distances, least squares, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import check_grad


def distance(a: np.ndarray) -> float:
    """Largest L1 distance of two columns."""
    return float(
        max(np.abs(a - a[:, [j]]).sum(axis=0).max() for j in range(a.shape[1]))
    )


def known_total_error(w: np.ndarray, a: np.ndarray) -> float:
    """Root mean square error per unit of noise on A, when the total is known: least squares."""
    basis = np.linalg.qr(
        np.column_stack([np.ones(w.shape[1]), np.eye(w.shape[1])[:, 1:]])
    )[0][:, 1:]
    return float(
        np.linalg.norm(w @ basis @ np.linalg.pinv(a @ basis)) / np.sqrt(len(w))
    )


def slope_error(function: Callable[[np.ndarray], Any], point: np.ndarray) -> float:
    """Distance of the stated gradient from differences of the value."""
    return float(check_grad(lambda z: function(z)[0], lambda z: function(z)[1], point))
