"""η: against a general solver, its own proof, and the quantities that it lies between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as generated
from hypothesis import settings, strategies

from noisewright.errors import InvalidParameter
from noisewright.learn import concepts, eta
from noisewright.learn.realizable import penalty_box
from noisewright.norm.approximate.approximate import approximate_norm, boxed_norm
from oracles.sdp import boxed_gamma2


@pytest.mark.parametrize(
    ("text", "alpha"),
    [("thresholds:4", 0.1), ("parities:2", 0.0), ("monotone-conjunctions:2", 0.05)],
)
def test_eta_is_what_a_general_solver_finds(text: str, alpha: float) -> None:
    solution = eta(text, alpha, tolerance=1e-4)
    exact = boxed_gamma2(*penalty_box(concepts(text), alpha), shift=True)
    assert solution.lower_bound <= exact * (1 + 1e-5)
    assert solution.value == pytest.approx(exact, rel=3e-4)


def test_the_matrix_of_eta_is_allowed_and_its_proof_holds() -> None:
    given = concepts("intervals:5")
    solution = eta(given, 0.1)
    penalties = solution.approximation - solution.shifts[:, None]
    right = np.hstack([given.table > 0, given.table < 0])
    assert np.abs(penalties[right]).max() <= 0.1 + 1e-12
    assert penalties[~right].min() >= 1 - 1e-12
    u, p, t = (
        solution.certificate.matrix,
        solution.certificate.row_weights,
        solution.certificate.column_weights,
    )
    assert np.abs(u.sum(axis=1)).max() == 0
    assert u[~right].min() >= 0
    gain = u[~right].sum() - 0.1 * np.abs(u[right]).sum()
    norm = np.linalg.norm(u / np.sqrt(p / p.sum())[:, None] / np.sqrt(t / t.sum()), 2)
    assert solution.lower_bound <= gain / norm * (1 + 1e-9)
    assert solution.lower_bound <= solution.value <= solution.lower_bound * 1.002


@settings(max_examples=8)
@generated(
    strategies.integers(0, 10**6),
    strategies.sampled_from([0.0, 0.05, 0.2, 0.5]),
    strategies.integers(1, 5),
    strategies.integers(2, 6),
)
def test_eta_lies_between_margin_complexity_and_gamma2(
    seed: int, alpha: float, rows: int, columns: int
) -> None:
    """(1−α)/2·mc ≤ η ≤ (1+α)/2·γ2(W, 2α/(1+α)), each by the bound that is proved of it."""
    rng = np.random.default_rng(seed)
    given = concepts(rng.choice([-1, 1], (rows, columns)))
    w = given.matrix
    margin = boxed_norm(np.where(w > 0, 1.0, -np.inf), np.where(w > 0, np.inf, -1.0))
    solution = eta(given, alpha)
    assert (1 - alpha) / 2 * margin.lower_bound <= solution.value * (1 + 1e-9)
    above = approximate_norm(w, 2 * alpha / (1 + alpha))
    assert solution.lower_bound <= (1 + alpha) / 2 * above.value * (1 + 1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.4])
def test_one_concept_has_half_of_what_is_left(alpha: float) -> None:
    assert eta(np.ones((1, 3)), alpha).value == pytest.approx((1 - alpha) / 2, rel=2e-3)


def test_tolerances_outside_the_unit_interval_are_refused() -> None:
    for alpha in (-0.1, 1.0, float("nan")):
        with pytest.raises(InvalidParameter):
            eta("thresholds:3", alpha)
