"""Shares nearest in a metric: the conditions of optimality, and other solvers' answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from noisewright.estimate.nearest import fit_on_simplex, project_to_total


def _problem(cells: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank, cells)) * np.geomspace(1, 1e3, rank)[:, None]
    return rows.T @ rows + 1e-3 * np.eye(cells), rows.T @ rng.normal(size=rank) * 30


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("cells", "rank"), [(1, 1), (2, 3), (7, 7), (40, 10), (120, 150)]
)
def test_no_other_shares_have_less(cells, rank, seed):
    metric, pull = _problem(cells, rank, seed)
    shares = fit_on_simplex(metric, pull)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    # The objective is convex: moving towards any corner gains nothing.
    slope = metric @ shares - pull
    assert slope @ shares - slope.min() <= 1e-7 * max(1.0, np.abs(pull).max())


def test_another_solver_finds_the_same():
    rows = np.random.default_rng(0).normal(size=(12, 9))
    metric, pull = rows.T @ rows, rows.T @ np.ones(12)
    found = minimize(
        lambda p: 0.5 * p @ metric @ p - pull @ p,
        np.full(9, 1 / 9),
        jac=lambda p: metric @ p - pull,
        bounds=[(0, 1)] * 9,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(fit_on_simplex(metric, pull), found.x, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_in_the_plain_metric_it_is_the_projection(seed):
    point = np.random.default_rng(seed).normal(size=50) / 10
    fitted = fit_on_simplex(3.0 * np.eye(50), 3.0 * point)
    np.testing.assert_allclose(fitted, project_to_total(point, 1.0), atol=1e-12)
