"""Laplace noise with a flat core: drawn with exactly the chances that are stated."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from noisewright.errors import InvalidParameter
from noisewright.privacy.exact.rounding import checked_scale
from noisewright.privacy.noise.flat_core import _chance, flat_core
from oracles.privacy_oracles import SeededSource, rational

FALSE_ALARM = 1e-7


def law(scale: float, core: int, reach: int) -> np.ndarray:
    """Chances of -reach, ..., reach, by the definition."""
    values = np.abs(np.arange(-reach, reach + 1))
    chances = np.exp(-np.maximum(values - core, 0) / scale)
    return chances / chances.sum()


@pytest.mark.parametrize(
    ("scale", "core"), [(0.7, 0), (0.7, 1), (1.5, 3), (4.0, 10), (30.0, 5)]
)
def test_draws_follow_the_law(scale: float, core: int) -> None:
    count, reach = 40_000, core + int(60 * scale) + 2
    draws = flat_core(scale, np.full(count, core), SeededSource(core))
    expected = count * law(scale, core, reach)
    seen = np.bincount(draws + reach, minlength=len(expected))
    often = expected > 8
    statistic = ((seen - expected)[often] ** 2 / expected[often]).sum()
    assert statistic < chi2.isf(FALSE_ALARM, often.sum())


@pytest.mark.parametrize("scale", [2.0**-40, 0.05, 1.0, 3.7, 1e6, 2.0**40])
@pytest.mark.parametrize("core", [0, 1, 17, 2**46])
def test_the_chance_of_the_core_is_enclosed_at_every_precision(
    scale: float, core: int
) -> None:
    bound = _chance(checked_scale("scale", scale), core)
    with mpmath.workprec(600):
        q = mpmath.exp(-1 / rational(scale))
        exact = (2 * core + 1) / (2 * core + 1 + 2 * q / (1 - q))
        for precision in (95, 160, 300):
            low, high = bound(precision)
            assert low <= mpmath.ldexp(exact, precision) <= high
            assert high - low <= 2**45


def test_many_cores_are_drawn_at_once_each_with_its_own_law() -> None:
    cores = np.tile(np.array([0, 2, 9]), (20_000, 1))
    draws = flat_core(2.0, cores, SeededSource(5))
    for core, column in zip((0, 2, 9), draws.T, strict=True):
        reach = core + 120
        exact = law(2.0, core, reach) @ np.arange(-reach, reach + 1) ** 2
        assert column.var() == pytest.approx(exact, rel=0.1)
        assert (np.abs(column) <= core).mean() == pytest.approx(
            law(2.0, core, reach)[reach - core : reach + core + 1].sum(), abs=0.02
        )


@pytest.mark.parametrize(
    "cores", [np.array([-1]), np.array([2**46 + 1]), np.array([0.5])]
)
def test_cores_are_whole_and_of_a_size_that_can_be_summed(cores: np.ndarray) -> None:
    with pytest.raises(InvalidParameter, match="must be whole"):
        flat_core(1.0, cores)
