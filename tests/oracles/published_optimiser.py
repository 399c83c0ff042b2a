"""Algorithms 1 and 2 of [003], as printed, slow and on their own: projection by sorting one column
at a time, pseudo-inverses, projected gradient descent with a searched step size."""

from __future__ import annotations

import numpy as np


def project_column(r, z, epsilon):
    """Algorithm 1: the nearest q to r with z <= q <= e^ε z and Σq = 1."""
    m = len(z)
    values = np.concatenate([z - r, np.exp(epsilon) * z - r])
    order = np.argsort(values, kind="stable")
    u = values[order]
    total, slope, moved = z.sum(), 0.0, 0.0
    for i in range(2 * m):
        # Between consecutive breakpoints the sum is linear: total + slope·λ − moved.
        if total + slope * u[i] - moved > 1.0:
            return np.clip(r + (1.0 - total + moved) / slope, z, np.exp(epsilon) * z)
        sign = 1.0 if order[i] < m else -1.0
        slope += sign
        moved += sign * u[i]
    return np.clip(r + u[-1], z, np.exp(epsilon) * z)


def project(r, z, epsilon):
    """The projection of a whole matrix, one column at a time."""
    return np.stack(
        [project_column(r[:, u], z, epsilon) for u in range(r.shape[1])], axis=1
    )


def objective(q, gram):
    """L(Q) = tr[(Qᵀ D⁻¹ Q)⁺ M]."""
    x = q.T @ np.diag(1.0 / q.sum(axis=1)) @ q
    return float(np.trace(np.linalg.pinv(x, hermitian=True) @ gram))


def gradients(q, z, epsilon, gram):
    """∇_Q L, and ∇_z L through the projection that made Q from z."""
    d = q.sum(axis=1)
    y = np.diag(1.0 / d) @ q
    inverse = np.linalg.pinv(q.T @ y, hermitian=True)
    s = inverse @ gram @ inverse
    by_q = -2.0 * y @ s + np.diag(y @ s @ y.T)[:, None]
    by_z = np.zeros(len(z))
    for u in range(q.shape[1]):
        low = q[:, u] <= z * (1 + 1e-12)
        high = q[:, u] >= np.exp(epsilon) * z * (1 - 1e-12)
        free = ~(low | high)
        rest = by_q[:, u] - (by_q[free, u].mean() if free.any() else by_q[:, u].mean())
        by_z += rest * low + np.exp(epsilon) * rest * high
    return by_q, by_z


def run(gram, epsilon, step, iterations, rng, start=None, until=None):
    """Algorithm 2 from a random start; returns the state and the values met on the way."""
    n = len(gram)
    if start is None:
        z = np.full(4 * n, (1 + np.exp(-epsilon)) / (8 * n))
        start = project(rng.uniform(size=(4 * n, n)), z, epsilon), z
    q, z = start
    values = [objective(q, gram)]
    for _ in range(iterations):
        by_q, by_z = gradients(q, z, epsilon, gram)
        # The printed clip to [0, 1] leaves it open that no q fits the bounds; keep z feasible.
        z = np.clip(z - step / (n * np.exp(epsilon)) * by_z, 1e-12, 1.0)
        z *= np.clip(z.sum(), 1.0001 * np.exp(-epsilon), 0.9999) / z.sum()
        q = project(q - step * by_q, z, epsilon)
        values.append(objective(q, gram))
        if not np.isfinite(values[-1]) or values[-1] > 10 * values[0]:
            break
        if until is not None and values[-1] <= until:
            break
    return q, z, values


def optimise(gram, epsilon, iterations=500, trial_iterations=10, seed=0, until=None):
    """A search for the step size over short runs, then one long run from the best of them."""
    by_q, _ = gradients(*_start(gram, epsilon, seed), epsilon, gram)
    scale = 1.0 / (len(gram) * np.abs(by_q).max())
    best = None
    for step in scale * 10.0 ** np.arange(-3.0, 2.0):
        q, z, values = run(
            gram,
            epsilon,
            step,
            trial_iterations,
            None,
            start=_start(gram, epsilon, seed),
        )
        if np.isfinite(values[-1]) and (best is None or values[-1] < best[0]):
            best = values[-1], step, (q, z)
    _, step, state = best
    return run(gram, epsilon, step, iterations, None, start=state, until=until)


def _start(gram, epsilon, seed):
    n = len(gram)
    z = np.full(4 * n, (1 + np.exp(-epsilon)) / (8 * n))
    return project(np.random.default_rng(seed).uniform(size=(4 * n, n)), z, epsilon), z
