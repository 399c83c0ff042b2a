"""Intervals: closed forms against textbook values, simulation against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from noisewright.errors import InvalidParameter
from noisewright.estimate.intervals import (
    laplace_multiplier,
    largest_error_quantile,
    normal_multiplier,
    sidak_multiplier,
    simultaneous_multiplier,
    variance_gamma_multiplier,
)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999, 1 - 1e-12])
def test_normal_multiplier_holds_its_probability(level: float) -> None:
    z = normal_multiplier(level)
    assert 2 * norm.sf(z) == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999, 1 - 1e-9])
def test_differences_of_gammas_go_from_laplace_to_normal(level: float) -> None:
    assert variance_gamma_multiplier(1.0, level) == pytest.approx(
        laplace_multiplier(level)
    )
    several = [
        variance_gamma_multiplier(shape, level) for shape in (1.0, 1.5, 4.0, 40.0, 4e5)
    ]
    assert several[-1] == pytest.approx(normal_multiplier(level), rel=1e-4)
    if level >= 0.95:
        assert several == sorted(several, reverse=True)


@pytest.mark.parametrize("shape", [1.5, 2.5, 10.5])
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_differences_of_gammas_hold_their_probability_and_sums_of_them_at_least(
    shape: float, level: float
) -> None:
    """Over 400,000 draws: five standard deviations, on both sides for one, below for sums."""
    rng = np.random.default_rng(3)
    multiplier, draws = variance_gamma_multiplier(shape, level), 400_000
    apart = rng.gamma(shape, size=(draws, 3)) - rng.gamma(shape, size=(draws, 3))
    apart /= np.sqrt(2 * shape)
    slack = 5 * np.sqrt(level * (1 - level) / draws)
    for weights in (
        [1, 0, 0],
        [0.99, 0.14, 0],
        [0.9, 0.43, 0],
        [1, 1, 0],
        [1, 1, 1],
        [1, 0.2, 0],
    ):
        sums = np.abs(apart @ weights) / np.linalg.norm(weights)
        held = np.mean(sums <= multiplier)
        assert held >= level - slack
        assert any(weights[1:]) or held <= level + slack


def test_sidak_is_exact_for_independent_answers() -> None:
    z = sidak_multiplier(50, 0.95)
    assert norm.cdf(z) - norm.cdf(-z) == pytest.approx(0.95 ** (1 / 50), rel=1e-12)
    assert sidak_multiplier(1, 0.9) == pytest.approx(normal_multiplier(0.9))


def test_simulated_multiplier_brackets_the_independent_case() -> None:
    # The order statistic lies above the true quantile with probability 0.99 and, at 20,000 draws,
    # below the quantile of level 0.956 with probability > 0.999; fixed seed.
    z = simultaneous_multiplier(
        lambda n, rng: rng.standard_normal((n, 10)), 0.95, rng=np.random.default_rng(1)
    )
    assert sidak_multiplier(10, 0.95) <= z <= sidak_multiplier(10, 0.956)


def test_simulated_multiplier_knows_perfect_correlation() -> None:
    z = simultaneous_multiplier(
        lambda n, rng: np.repeat(rng.standard_normal((n, 1)), 7, axis=1),
        0.95,
        rng=np.random.default_rng(2),
    )
    assert normal_multiplier(0.95) <= z <= normal_multiplier(0.956)


def test_quantile_of_largest_errors_is_an_upper_order_statistic() -> None:
    errors = np.arange(1000.0)
    assert 950 <= largest_error_quantile(errors, 0.95) <= 975


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_levels_outside_the_unit_interval_are_refused(level: float) -> None:
    with pytest.raises(InvalidParameter, match="level"):
        normal_multiplier(level)
    with pytest.raises(InvalidParameter, match="level"):
        sidak_multiplier(3, level)


def test_too_few_draws_or_queries_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="draws"):
        simultaneous_multiplier(lambda n, rng: rng.standard_normal((n, 1)), draws=10)
    with pytest.raises(InvalidParameter, match="queries"):
        sidak_multiplier(0)


@pytest.mark.parametrize("draws", [100, 777, 20_000])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.9999])
def test_the_order_statistic_is_the_binomial_quantile(draws: int, level: float) -> None:
    rank = largest_error_quantile(np.arange(draws, dtype=np.float64), level)
    assert rank == min(draws - 1, binom.ppf(0.99, draws, level))
