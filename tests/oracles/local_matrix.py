"""The published formulas for a strategy matrix, written out slowly and on their own."""

from __future__ import annotations

import numpy as np


def reconstruction(q, w):
    """V = W (QᵀD⁻¹Q)⁺ QᵀD⁻¹ with D = Diag(Q1)."""
    d_inverse = np.diag(1.0 / q.sum(axis=1))
    return w @ np.linalg.pinv(q.T @ d_inverse @ q, hermitian=True) @ q.T @ d_inverse


def answer_covariance(q, v, histogram):
    """Sum over people of V (Diag(q_u) − q_u q_uᵀ) Vᵀ."""
    total = np.zeros((len(v), len(v)))
    for u, count in enumerate(histogram):
        column = q[:, u]
        total += count * (v @ (np.diag(column) - np.outer(column, column)) @ v.T)
    return total


def type_variances(q, w):
    """Trace of the covariance for one person of each type."""
    v = reconstruction(q, w)
    n = q.shape[1]
    return np.array([np.trace(answer_covariance(q, v, np.eye(n)[u])) for u in range(n)])


def sample_complexity(q, w, alpha=0.01):
    """People needed at normalised variance alpha, in the worst case."""
    return type_variances(q, w).max() / (len(w) * alpha)


def randomized_response(n, epsilon):
    """e^ε on the diagonal, one elsewhere."""
    q = np.ones((n, n)) + (np.exp(epsilon) - 1) * np.eye(n)
    return q / q.sum(axis=0)


def random_strategy(m, n, epsilon, rng):
    """A random ε-LDP matrix: rows within a factor e^ε, columns evened out by one more row."""
    rows = rng.uniform(1.0, np.exp(epsilon / 2), size=(m, n)) * rng.uniform(
        0.5, 2.0, size=(m, 1)
    )
    rows /= rows.sum(axis=0).max() * 1.5
    return np.vstack([rows, 1.0 - rows.sum(axis=0)])
