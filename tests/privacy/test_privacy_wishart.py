"""Differences of Wishart matrices: exact rounding, moments, and the density ratio at d = 1."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import kv

from noisewright.privacy.noise import wishart
from noisewright.privacy.noise.wishart import Gaussians, add_wishart_difference
from oracles.privacy_oracles import ScriptedSource, SeededSource


def test_floats_and_exact_arithmetic_round_alike():
    exact = np.array([[5, 3], [3, 9]])
    fast = add_wishart_difference(exact, Fraction(1000), 7, SeededSource(1))
    gaussians = Gaussians.drawn((2, 3, 2), SeededSource(1))
    for a in range(2):
        for b in range(2):
            value = Fraction(int(exact[a, b]), 7)
            assert gaussians.rounded(a, b, value, Fraction(1000, 7)) == fast[a, b]


def test_doubtful_entries_are_decided_exactly(monkeypatch):
    """With a margin that doubts everything, the result is the same."""
    exact = np.array([[4]])
    plain = add_wishart_difference(exact, Fraction(50), 3, SeededSource(2))
    monkeypatch.setattr(wishart, "GAUSSIAN_ERROR", 1.0)
    np.testing.assert_array_equal(
        add_wishart_difference(exact, Fraction(50), 3, SeededSource(2)), plain
    )


def test_more_bits_narrow_an_enclosure_and_stay_inside():
    gaussians = Gaussians.drawn((2, 2, 1), SeededSource(3))
    low, high = gaussians.enclosure((0, 1, 0))
    assert low <= abs(Fraction(float(gaussians.values[0, 1, 0]))) + Fraction(1, 2**41)
    gaussians.refine((0, 1, 0))
    lower, higher = gaussians.enclosure((0, 1, 0))
    assert low <= lower < higher <= high


def test_gaussians_beyond_the_table_are_found_exactly():
    source = ScriptedSource([3 << 1] + [1 << 63] * 3)
    gaussians = Gaussians.drawn((2, 2, 1), source)
    assert 8.5 < gaussians.values[0, 0, 0] < 9.5  # Pr(|Z| >= z) = 3·2^-63


@pytest.mark.parametrize("size", [1, 3, 6])
def test_moments_are_those_of_the_law(size):
    """Variances 2(d+1)c² off the diagonal and twice that on it, within eight deviations."""
    draws, scale, source = 1500, Fraction(64), SeededSource(4)
    zeros = np.zeros((size, size), dtype=np.int64)
    drawn = np.array(
        [add_wishart_difference(zeros, scale, 1, source) for _ in range(draws)]
    )
    np.testing.assert_array_equal(drawn, drawn.transpose(0, 2, 1))
    expected = 2 * (size + 1) * 64.0**2 * (1 + np.eye(size))
    spread = np.sqrt(12 / draws) * expected
    assert (np.abs((drawn**2).mean(axis=0) - expected) < 8 * spread).all()
    assert (np.abs(drawn.mean(axis=0)) < 8 * np.sqrt(expected / draws)).all()


def density(x: float, degrees: int, c: float) -> float:
    """Of the difference of two sums of `degrees` squares of N(0, c), up to a factor (Bessel)."""
    order, size = (degrees - 1) / 2, max(abs(x), 1e-9)
    return float(size**order * kv(order, size / (2 * c)))


def largest_log_ratio(degrees: int, c: float, shift: float) -> float:
    points = np.concatenate(
        [np.linspace(-6, 6, 61), shift / 2 + np.linspace(-1e-3, 1e-3, 5)]
    )
    values = [
        abs(np.log(density(x - shift, degrees, c) / density(x, degrees, c)))
        for x in points
    ]
    return float(max(values))


def test_one_column_is_private_and_planted_faults_are_not():
    """d = 1, one person of the largest length added: c = r²/2ε keeps ε, less noise does not."""
    epsilon = 1.0
    assert largest_log_ratio(2, 1 / (2 * epsilon), 1.0) <= epsilon * (1 + 1e-6)
    # half the scale
    assert largest_log_ratio(2, 1 / (4 * epsilon), 1.0) > 1.5 * epsilon
    # d outer products
    assert largest_log_ratio(1, 1 / (2 * epsilon), 1.0) > 2 * epsilon
