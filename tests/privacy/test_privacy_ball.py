"""Noise in the shape of a ball: its law, its privacy, and that it is rounded exactly."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, gamma, kstest

from noisewright.errors import InvalidParameter
from noisewright.privacy.noise import ball
from noisewright.privacy.noise.ball import ball_noise
from oracles.privacy_oracles import SeededSource

ONE = Fraction(1)


@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
def test_lengths_are_gamma_and_coordinates_have_their_variance(dimension):
    """2,000 draws on a fine grid; Kolmogorov–Smirnov at 1e-6, moments at eight deviations."""
    source, radius = SeededSource(dimension), 2**12
    draws = (
        np.array([ball_noise(radius**2, ONE, dimension, source) for _ in range(2000)])
        / radius
    )
    lengths = np.linalg.norm(draws, axis=1)
    assert kstest(lengths, gamma(dimension).cdf).pvalue > 1e-6
    square = draws**2
    spread = np.sqrt(square.var(axis=0) / len(draws))
    assert (np.abs(square.mean(axis=0) - (dimension + 1)) < 8 * spread).all()
    assert (
        np.abs(draws.mean(axis=0)) < 8 * np.sqrt((dimension + 1) / len(draws))
    ).all()


def test_chances_on_the_grid_of_the_line_are_those_of_rounded_laplace_noise():
    """In one dimension a ball is an interval: chi-square against closed forms, at 1e-6."""
    source = SeededSource(3)
    draws = np.array([ball_noise(4, ONE, 1, source)[0] for _ in range(6000)])
    values = np.arange(-6, 7)

    def below(z: float) -> float:
        return 0.5 * np.exp(z / 2) if z < 0 else 1 - 0.5 * np.exp(-z / 2)

    chances = np.array([below(v + 0.5) - below(v - 0.5) for v in values])
    counts = np.array([(draws == v).sum() for v in values])
    expected = np.append(chances, 1 - chances.sum()) * len(draws)
    seen = np.append(counts, len(draws) - counts.sum())
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(values))


def true_value(gaussians, place: int, radius_square: int, dimension: int) -> mpmath.mpf:
    """From the same bits, all drawn so far, in 60 digits and by another formula of the quantile."""
    with mpmath.workdps(60):
        numbers = []
        for key in range(3 * dimension):
            bits = gaussians.bits.get((key,), 63)
            u = (mpmath.mpf(int(gaussians.numerators[key])) + 0.5) / mpmath.mpf(
                2
            ) ** bits
            numbers.append(
                int(gaussians.signs[key]) * mpmath.sqrt(2) * mpmath.erfinv(1 - u)
            )
        length = mpmath.sqrt(sum(g**2 for g in numbers[:dimension]))
        half = sum(g**2 for g in numbers[dimension:]) / 2
        return mpmath.sqrt(radius_square) * half * numbers[place] / length


def test_floats_are_as_near_as_they_say_and_doubtful_ones_are_decided_rightly(
    monkeypatch,
):
    """Every number is made doubtful: what is decided is the rounding in high precision."""
    dimension, radius_square = 3, 10**6
    drawn = []
    original = ball.Gaussians.drawn
    monkeypatch.setattr(
        ball.Gaussians,
        "drawn",
        lambda shape, source: drawn.append(original(shape, source)) or drawn[-1],
    )
    plain = ball_noise(radius_square, ONE, dimension, SeededSource(4))
    law = ball._Ball(radius_square, ONE, dimension)
    values, margin = law.in_floats(drawn[0].values)
    for place in range(dimension):
        truth = true_value(drawn[0], place, radius_square, dimension)
        assert abs(float(truth - values[place])) <= margin[place]
        assert plain[place] == int(mpmath.nint(truth))
    monkeypatch.setattr(
        ball._Ball, "in_floats", lambda *a: (values, np.full(dimension, np.inf))
    )
    decided = ball_noise(radius_square, ONE, dimension, SeededSource(4))
    np.testing.assert_array_equal(decided, plain)


def test_density_falls_by_no_more_than_epsilon_over_the_radius():
    """On the grid of a plane: chances of cells, by quadrature, a step of the radius apart."""
    radius, epsilon = 3.0, 1.0
    x, y = np.meshgrid(np.arange(-30, 31), np.arange(-30, 31))
    offsets = (np.arange(8) + 0.5) / 8 - 0.5
    chance = sum(
        np.exp(-epsilon * np.hypot(x + a, y + b) / radius)
        for a in offsets
        for b in offsets
    )
    moved = np.log(chance[:, 3:] / chance[:, :-3])
    assert np.abs(moved).max() <= epsilon
    # noise of half the scale is caught
    half = np.log(chance[:, 3:] / chance[:, :-3]) * 2
    assert np.abs(half).max() > epsilon


def test_scales_beyond_exact_draws_are_refused():
    with pytest.raises(InvalidParameter, match="scale"):
        ball_noise(1, Fraction(1, 2**50), 3)
