"""Exact noise: every draw is the exact inverse of its bits, far into the tails."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import pytest
from scipy import stats

from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.integers import discrete_laplace, rounded_gaussian
from noisewright.privacy.noise.law import NoiseLaw
from oracles.privacy_oracles import (
    PRECISION,
    ScriptedSource,
    SeededSource,
    cell_probabilities,
    discrete_laplace_survival,
    exact_magnitude,
    rounded_gaussian_survival,
)

INVERTED = {
    "rounded-gaussian": (rounded_gaussian, rounded_gaussian_survival),
    "discrete-laplace": (discrete_laplace, discrete_laplace_survival),
}
SURVIVALS = {
    "rounded-gaussian": rounded_gaussian_survival,
    "discrete-laplace": discrete_laplace_survival,
}
SCALES = [2.0**-40, 0.1, 0.5, 1.0, 7.3, 1000.3, 1e6, 2.0**30, 2.0**40]


def signed(word: int, magnitude: int) -> int:
    return -magnitude if word & 1 else magnitude


def oracle(survival: Callable[[int], mpmath.mpf], word: int, filling: int) -> int:
    """The draw that the word's 63 bits, followed by endless bytes `filling`, stand for."""
    extra = 192
    low = ((word >> 1) << extra) + int.from_bytes(
        bytes([filling]) * (extra // 8), "little"
    )
    return signed(word, exact_magnitude(survival, low, low + 1, 63 + extra))


def boundary_words(survival: Callable[[int], mpmath.mpf], m: int) -> list[int]:
    """Words whose uniform lies at, just below and just above the step of the law at m."""
    with mpmath.workprec(PRECISION):
        step = int(mpmath.floor(mpmath.ldexp(survival(m), 63)))
    nearby = [step + offset for offset in (-2, -1, 0, 1, 2)]
    return [2 * bits + 1 for bits in nearby if 0 <= bits < 1 << 63]


@pytest.mark.parametrize("name", INVERTED)
@pytest.mark.parametrize("scale", SCALES)
def test_random_words_give_the_exact_quantile(name: str, scale: float) -> None:
    draw, survival = INVERTED[name]
    random = Random(f"{name} {scale}")
    words = [random.getrandbits(64) for _ in range(40)]
    drawn = draw(scale, len(words), ScriptedSource(words, 0x5A))
    assert drawn.tolist() == [oracle(survival(scale), word, 0x5A) for word in words]


@pytest.mark.parametrize("name", INVERTED)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("filling", [0x00, 0xFF, 0x5A])
def test_tail_words_give_the_exact_quantile(
    name: str, scale: float, filling: int
) -> None:
    draw, survival = INVERTED[name]
    zero = [] if filling == 0 else [0]  # U = 0 is no number: it is never decided
    for bits in [
        *zero,
        1,
        2,
        5,
        1 << 10,
        1 << 30,
        (1 << 44) - 1,
        1 << 44,
        (1 << 63) - 1,
    ]:
        word = 2 * bits
        drawn = draw(scale, 1, ScriptedSource([word], filling))
        assert drawn[0] == oracle(survival(scale), word, filling)


@pytest.mark.parametrize("name", INVERTED)
@pytest.mark.parametrize("scale", [0.1, 1.0, 7.3, 1000.3, 1e6, 2.0**30])
def test_forced_ambiguous_draws_are_refined(name: str, scale: float) -> None:
    draw, survival = INVERTED[name]
    refined = 0
    for multiple in (0.3, 2.5, 4.99, 5.2, 8.5):
        for word in boundary_words(survival(scale), max(1, round(multiple * scale))):
            for filling in (0x00, 0xFF, 0x5A):
                source = ScriptedSource([word], filling)
                assert draw(scale, 1, source)[0] == oracle(
                    survival(scale), word, filling
                )
                refined += source.given > 8
    assert refined > 0


@pytest.mark.parametrize("name", INVERTED)
def test_scales_may_be_any_rational(name: str) -> None:
    draw, survival = INVERTED[name]
    scale = Fraction(10**9, 7)  # no float: the draws at its steps show the difference
    for word in boundary_words(survival(scale), 10**8):
        drawn = draw(scale, 1, ScriptedSource([word], 0x5A))
        assert drawn[0] == oracle(survival(scale), word, 0x5A)


@pytest.mark.parametrize("name", INVERTED)
def test_a_draw_ten_deviations_out_is_reached_and_right(name: str) -> None:
    draw, survival = INVERTED[name]
    scale = 1000.0
    # 63 zero bits, then 2^-17 of the next word: U near 2^-80
    source = ScriptedSource([0, 1 << 47], 0)
    expected = exact_magnitude(survival(scale), 1 << 47, (1 << 47) + 1, 127)
    assert draw(scale, 1, source)[0] == expected
    assert expected > 9 * scale


def follows(
    draws: np.ndarray, survival: Callable[[int], mpmath.mpf], bins: int = 60
) -> float:
    """Return the p-value of a chi-square test over cells grouped to equal counts, tails apart."""
    reach = int(np.abs(draws).max()) + 1
    cells = cell_probabilities(survival, reach)
    # the end cells stand for all beyond
    cells[[0, -1]] += float(survival(reach + 1)) / 2
    below = np.cumsum(cells)
    targets = [1e-4, 1e-3, *np.linspace(0, 1, bins)[1:-1], 1 - 1e-3, 1 - 1e-4]
    cuts = np.unique(np.searchsorted(below, sorted(targets)))
    edges = np.unique([0, *(cuts[cuts < len(cells) - 1] + 1), len(cells)])
    counts = np.add.reduceat(
        np.bincount(draws + reach, minlength=len(cells)), edges[:-1]
    )
    expected = np.add.reduceat(cells, edges[:-1]) * draws.size
    keep = expected > 5
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


@pytest.mark.parametrize("name", SURVIVALS)
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.7, 250.3])
def test_draws_follow_the_exact_cells(name: str, scale: float) -> None:
    # Fixed seeds; false-alarm rate of a fresh seed 1e-6 per case, 12 cases.
    draws = NoiseLaw(name, scale).sample(300_000, SeededSource(7))  # type: ignore[arg-type]
    assert follows(draws, SURVIVALS[name](scale)) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", SURVIVALS)
def test_every_cell_of_fifty_million_draws(name: str) -> None:
    # Single cells, not groups, out to those expected five times (5.4 deviations for the Gaussian).
    # Fixed seed; false-alarm rate of a fresh seed 1e-6 per law.
    law, source = NoiseLaw(name, 3.7), SeededSource(11)  # type: ignore[arg-type]
    reach, draws = 400, 50_000_000
    counts = np.zeros(2 * reach + 1, dtype=np.int64)
    for _ in range(50):
        counts += np.bincount(
            law.sample(draws // 50, source) + reach, minlength=counts.size
        )
    with mpmath.workprec(PRECISION):
        expected = cell_probabilities(SURVIVALS[name](3.7), reach) * draws
    keep = expected > 5
    rest = counts[~keep].sum(), expected[~keep].sum()
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    statistic += (rest[0] - rest[1]) ** 2 / rest[1]
    assert stats.chi2.sf(statistic, keep.sum()) > 1e-6


def test_half_the_noise_does_not_pass() -> None:
    draws = rounded_gaussian(3.7 / 2, 300_000, SeededSource(7))
    assert follows(draws, rounded_gaussian_survival(3.7)) < 1e-12


@pytest.mark.parametrize("name", SURVIVALS)
@pytest.mark.parametrize("scale", [0.05, 0.2, 0.5, 0.99, 1.0, 1.5, 6.0])
def test_variance_is_that_of_the_law_drawn(name: str, scale: float) -> None:
    with mpmath.workprec(PRECISION):
        survival = SURVIVALS[name](scale)
        exact = mpmath.fsum(
            (2 * m - 1) * survival(m) for m in range(1, int(39 * scale) + 3)
        )
    law = NoiseLaw(name, scale)  # type: ignore[arg-type]
    assert law.variance == pytest.approx(float(exact), rel=1e-12)
    assert law.standard_deviation == pytest.approx(float(exact) ** 0.5, rel=1e-12)


def test_large_scales_approach_the_continuous_variance() -> None:
    assert NoiseLaw("rounded-gaussian", 1e6).variance == pytest.approx(
        1e12 + 1 / 12, rel=1e-15
    )
    assert NoiseLaw("discrete-laplace", 1e6).variance == pytest.approx(
        2e12 - 1 / 6, rel=1e-12
    )


@pytest.mark.parametrize("draw", [rounded_gaussian, discrete_laplace])
def test_shapes_and_independence_of_calls(draw: Callable[..., np.ndarray]) -> None:
    assert draw(5.0, 0).shape == (0,)
    assert draw(5.0, (2, 3)).shape == (2, 3)
    assert draw(5.0, 3).dtype == np.int64
    # Two system draws of 50 agree with probability below 1e-40.
    assert not np.array_equal(draw(100.0, 50), draw(100.0, 50))


@pytest.mark.parametrize("draw", [rounded_gaussian, discrete_laplace])
@pytest.mark.parametrize(
    "scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**41, 2.0**-41, "1", True, None]
)
def test_impossible_scales_are_refused(
    draw: Callable[..., object], scale: object
) -> None:
    with pytest.raises(InvalidParameter, match=r"(sigma|scale)"):
        draw(scale, 3)


def test_negative_sizes_and_unknown_laws_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="size=-1"):
        rounded_gaussian(1.0, -1)
    with pytest.raises(InvalidParameter, match="law='normal'"):
        NoiseLaw("normal", 1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="must hold exactly"):
        NoiseLaw.from_dict({"law": "discrete-laplace"})


@pytest.mark.parametrize("name", SURVIVALS)
def test_a_law_survives_json(name: str) -> None:
    law = NoiseLaw(name, 2.5)  # type: ignore[arg-type]
    assert NoiseLaw.from_dict(law.to_dict()) == law
    assert "2.5 grid steps" in law.text()
