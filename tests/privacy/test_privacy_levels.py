"""Levels of dilates: the expansion of their weights, draws against the exact law, means."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy.stats import chi2

from noisewright.errors import Contradiction
from noisewright.privacy.noise.levels import (
    draw_level,
    expansion,
    level_weights,
    mean_over_levels,
)
from noisewright.privacy.noise.source import uniform_below
from oracles.privacy_oracles import SeededSource

FALSE_ALARM = 1e-9


def cube(dimension: int, levels: int) -> list[int]:
    return [(2 * m + 1) ** dimension for m in range(levels + 1)]


@pytest.mark.parametrize("dimension", [1, 2, 5, 9])
def test_the_expansion_gives_numbers_of_points_back(dimension):
    h = level_weights(cube(dimension, dimension))
    for m, points in enumerate(cube(dimension, 3 * dimension)):
        told = sum(
            w * comb(m - j + dimension, dimension) for j, w in enumerate(h) if j <= m
        )
        assert told == points
    # d!·volume
    assert sum(h) == 2**dimension * np.prod(range(1, dimension + 1), dtype=object)


def test_numbers_that_no_body_has_are_refused():
    with pytest.raises(Contradiction):
        level_weights([1, 0, 9])


def departure(
    weights: list[int], drawn: Fraction, rate: Fraction, dimension: int = 3
) -> float:
    """χ² of drawn levels over cells of at least ten expected, over its bound at that alarm."""
    draws, source = 3000, SeededSource(3)
    levels = np.array([draw_level(weights, drawn, source) for _ in range(draws)])
    chances = np.array(cube(dimension, 4000), dtype=float)
    chances *= np.exp(-float(rate) * np.arange(len(chances)))
    chances /= chances.sum()
    cells = np.searchsorted(np.cumsum(chances), np.linspace(0, 1, 60)[1:-1])
    cells = np.unique(cells)
    expected = np.diff(np.concatenate([[0], np.cumsum(chances)[cells], [1]])) * draws
    seen = np.bincount(np.searchsorted(cells, levels), minlength=len(expected))
    common = expected >= 10
    statistic = ((seen - expected)[common] ** 2 / expected[common]).sum()
    return float(statistic / chi2.isf(FALSE_ALARM, common.sum()))


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2), Fraction(1, 50)])
def test_levels_are_drawn_by_their_law(rate):
    assert departure(level_weights(cube(3, 3)), rate, rate) < 1


def test_a_wrong_dimension_or_rate_is_caught():
    assert departure(level_weights(cube(2, 2)), Fraction(1, 3), Fraction(1, 3)) > 2
    assert departure(level_weights(cube(3, 3)), Fraction(1, 2), Fraction(1, 3)) > 2


@pytest.mark.parametrize("rate", [0.01, 0.3, 3.0])
def test_means_over_levels_are_sums_over_all_of_them(rate):
    dimension = 4
    sums = [Fraction(m * (m + 1) * p, 3) for m, p in enumerate(cube(dimension, 5000))]
    chances = np.array(
        [p * np.exp(-rate * m) for m, p in enumerate(cube(dimension, 5000))]
    )
    means = np.arange(5001) * np.arange(1, 5002) / 3
    direct = (means * chances).sum() / chances.sum()
    weights = level_weights(cube(dimension, dimension))
    found = (
        mean_over_levels([int(3 * s) for s in sums[: dimension + 3]], weights, rate) / 3
    )
    assert found == pytest.approx(direct, rel=1e-9)


def test_the_expansion_of_a_constant_is_a_difference():
    assert expansion([5, 5, 5]) == [5, -10, 5]


def test_numbers_below_a_large_bound_are_uniform():
    source, bound = SeededSource(1), 3 * 2**80
    drawn = [uniform_below(bound, source) for _ in range(3000)]
    assert max(drawn) < bound
    thirds = np.bincount([d // 2**80 for d in drawn], minlength=3)
    assert ((thirds - 1000) ** 2 / 1000).sum() < chi2.isf(FALSE_ALARM, 2)
    assert uniform_below(1, source) == 0
