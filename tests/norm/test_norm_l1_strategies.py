"""Cells with weighted sums, for Laplace noise: gradients and values against dense least squares."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from noisewright.norm.l1 import (
    PowerMean,
    PublicTotal,
    ShiftedGram,
    TotalVariance,
    WeightedIdentity,
)
from noisewright.norm.l1_search import signed_identity, weighted_identity
from noisewright.workload import workload
from oracles.l1_strategies import distance, known_total_error, slope_error

TEXTS = ["prefix:7", "identity:5", "ranges:4", "prefix:3*prefix:3", "marginals:2^3:2"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_variance_under_a_public_total_and_its_gradient(text: str) -> None:
    asked = workload(text)
    n = asked.size
    point = np.random.default_rng(0).random((2, 2, n))
    point[1] *= point[0] < 0.5
    point[0] *= point[1] == 0
    a = WeightedIdentity(point[0] - point[1]).strategy
    variance = PublicTotal(asked.gram())
    expected = known_total_error(asked.dense(), a) ** 2 * asked.queries
    assert variance(point.ravel())[0] == pytest.approx(expected, rel=1e-9)
    inside = point.ravel() + 0.1
    error = check_grad(lambda z: variance(z)[0], lambda z: variance(z)[1], inside)
    assert error < 1e-4 * (1 + np.linalg.norm(variance(inside)[1]))


@pytest.mark.parametrize("text", TEXTS)
def test_shifted_queries_have_the_shifted_gram_matrix(text: str) -> None:
    asked = workload(text)
    z = np.random.default_rng(1).random(asked.size)
    gram = ShiftedGram(asked.gram(), z)
    w = asked.dense() @ (np.eye(asked.size) - np.outer(z, np.ones(asked.size)))
    np.testing.assert_allclose(gram.dense(), w.T @ w, atol=1e-9)
    np.testing.assert_allclose(gram.diagonal(), np.diagonal(w.T @ w), atol=1e-9)


@pytest.mark.parametrize(
    "text", ["prefix:7", "ranges:6", "prefix:2*ranges:3", "marginals:2^3:2"]
)
def test_gradient_of_the_total_variance(text: str) -> None:
    asked = workload(text)
    variance = TotalVariance(asked.gram())
    point = np.random.default_rng(0).random(3 * asked.size)
    a = WeightedIdentity(point.reshape(3, -1)).strategy
    expected = np.trace(np.linalg.inv(a.T @ a) @ asked.gram().dense())
    assert variance(point)[0] == pytest.approx(expected, rel=1e-9)
    assert slope_error(variance, point) < 1e-3 * np.linalg.norm(variance(point)[1])


@pytest.mark.parametrize("q", [1.0, 2.0, 7.5])
def test_gradient_of_means_of_powers(q: float) -> None:
    queries = workload("ranges:5").dense()
    mean = PowerMean(queries, q)
    point = np.random.default_rng(4).random(2 * 5)
    a = WeightedIdentity(point.reshape(2, -1)).strategy
    squares = ((queries @ np.linalg.pinv(a)) ** 2).sum(axis=1)
    assert mean(point)[0] == pytest.approx(np.mean(squares**q) ** (1 / q), rel=1e-9)
    assert slope_error(mean, point) < 1e-4 * np.linalg.norm(mean(point)[1])


@pytest.mark.parametrize(
    "text", ["prefix:9", "ranges:8", "identity:5", "prefix:4+total:4"]
)
def test_weighted_identity_has_unit_sensitivity_and_the_stated_covariance(
    text: str,
) -> None:
    asked = workload(text)
    found = weighted_identity(asked.gram())
    a = found.strategy
    np.testing.assert_allclose(np.abs(a).sum(axis=0), 1)
    np.testing.assert_allclose(
        found.covariance(), np.linalg.inv(a.T @ a), rtol=1e-8, atol=1e-9
    )
    assert np.trace(
        found.covariance() @ asked.gram().dense()
    ) <= asked.gram().trace() * (1 + 1e-9)


@pytest.mark.parametrize("text", ["prefix:32", "ranges:32", "prefix:6*prefix:6"])
def test_sums_of_both_signs_are_better_than_cells_where_people_are_replaced(
    text: str,
) -> None:
    asked = workload(text)
    found = signed_identity(asked.gram(), (asked.size,)).strategy
    np.testing.assert_allclose(np.abs(found).sum(axis=0), 1)
    plain = known_total_error(asked.dense(), np.eye(asked.size)) * 2
    assert known_total_error(asked.dense(), found) * distance(found) <= plain * (
        1 + 1e-9
    )
