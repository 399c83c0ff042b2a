"""Exact second moments of K-norm noise on small bodies, by cutting them into simplices."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, Delaunay


def k_norm_moments(points: np.ndarray, epsilon: float) -> np.ndarray:
    """E ZZᵀ of the noise r·U, U uniform in the hull of the points and r ~ Gamma(k + 1, 1/ε)."""
    k = points.shape[1]
    if k == 1:
        square = np.array([[float(np.ptp(points) ** 2 / 12 + points.mean() ** 2)]])
        return 6 / epsilon**2 * square
    hull = points[ConvexHull(points).vertices]
    total, moments = 0.0, np.zeros((k, k))
    for simplex in Delaunay(hull).simplices:
        corners = hull[simplex]
        volume = abs(np.linalg.det(corners[1:] - corners[0]))
        ends = corners.sum(axis=0)
        total += volume
        moments += (
            volume * (corners.T @ corners + np.outer(ends, ends)) / ((k + 1) * (k + 2))
        )
    return (k + 1) * (k + 2) / epsilon**2 * moments / total


def changes(matrix: np.ndarray, neighbours: str) -> np.ndarray:
    """All changes that one person makes to the answers, one to a row."""
    columns = matrix.T
    if neighbours == "add-remove":
        return np.concatenate([columns, -columns])
    return (columns[:, None] - columns[None]).reshape(-1, matrix.shape[0])
