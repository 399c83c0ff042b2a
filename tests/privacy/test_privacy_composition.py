"""Many releases together, against dp-accounting, sums of binomials and integrals."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from noisewright.privacy.noise.gaussian import gaussian_epsilon
from noisewright.privacy.promise.composition import composed_epsilon
from noisewright.privacy.promise.spend import Gaussian, Laplace, Loss, Promise, Spend

GRID = 2.0**-13  # losses that are multiples of it are not rounded by dp-accounting


def spend(*losses: Loss) -> Spend:
    return Spend("add-remove", losses)


def by_dp_accounting(total: Spend, delta: float) -> float:
    """The same losses composed by that library, which knows nothing of ours."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common, privacy_loss_distribution

    grid = {"value_discretization_interval": GRID}
    squares = sum(loss.mu**2 for loss in total.losses if isinstance(loss, Gaussian))
    result = privacy_loss_distribution.identity(**grid)
    if squares:
        noise = privacy_loss_distribution.from_gaussian_mechanism(squares**-0.5, **grid)
        result = result.compose(noise)
    others = Counter(loss for loss in total.losses if not isinstance(loss, Gaussian))
    for loss, times in others.items():
        promise = (
            (loss.epsilon, loss.delta)
            if isinstance(loss, Promise)
            else (loss.ratio, 0.0)
        )
        known = common.DifferentialPrivacyParameters(*promise)
        one = privacy_loss_distribution.from_privacy_parameters(known, **grid)
        result = result.compose(one.self_compose(times))
    return float(result.get_epsilon_for_delta(delta))


def mixed(size: int, seed: int, kinds: int) -> Spend:
    """Gaussian and pure releases in random order; pure ones at `kinds` different ε."""
    rng = np.random.default_rng(seed)
    ratios = rng.uniform(0.001, 0.03, size)
    pure = GRID * rng.integers(8, 200, kinds)[rng.integers(0, kinds, size)]
    gaussian = rng.random(size) < 0.5
    pairs = zip(gaussian, ratios, pure, strict=True)
    return spend(*(Gaussian(float(r)) if g else Laplace(float(e)) for g, r, e in pairs))


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize(("size", "kinds"), [(2, 1), (50, 40), (1000, 60)])
def test_mixed_histories_agree_with_dp_accounting(
    size: int, kinds: int, delta: float
) -> None:
    total = mixed(size, size, kinds)
    assert composed_epsilon(total, delta) == pytest.approx(
        by_dp_accounting(total, delta), abs=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_histories_of_a_thousand_different_spends_agree_with_dp_accounting(
    seed: int,
) -> None:
    total = mixed(1000, seed, 1000)
    for delta in (1e-4, 1e-6):
        expected = by_dp_accounting(total, delta)
        assert composed_epsilon(total, delta) == pytest.approx(expected, abs=1e-6)


def test_promises_that_may_fail_agree_with_dp_accounting() -> None:
    total = spend(Gaussian(0.5), Laplace(1000 * GRID), Promise(2000 * GRID, 1e-6))
    found = composed_epsilon(total, 1e-5)
    assert found == pytest.approx(by_dp_accounting(total, 1e-5), abs=1e-6)
    assert found < total.promise(1e-5).epsilon


def test_gaussian_releases_alone_keep_their_exact_curve() -> None:
    exact = gaussian_epsilon(1e-6, 0.1 * 30**0.5)
    assert composed_epsilon(spend(*[Gaussian(0.1)] * 30), 1e-6) == pytest.approx(
        exact, rel=1e-9
    )


def test_pure_releases_agree_with_a_sum_of_binomials() -> None:
    found = composed_epsilon(spend(*[Laplace(0.1)] * 40), 1e-6)
    # Randomized response composed k times: the exact δ is a binomial sum (Kairouz, Oh, Viswanath).
    assert randomized_response_delta(40, 0.1, found) <= 1e-6
    assert randomized_response_delta(40, 0.1, found * (1 - 1e-6)) > 1e-6
    assert found < 0.75 * 40 * 0.1


def exact_delta(total: Spend, epsilon: float) -> Any:
    """δ at an ε by all 2^k signs of the pure losses, each with Gaussian noise: fifty digits."""
    mp = pytest.importorskip("mpmath")
    pure = [loss.ratio if isinstance(loss, Laplace) else loss.epsilon for loss in total.losses
            if not isinstance(loss, Gaussian)]  # fmt: skip
    mu = mp.sqrt(
        sum(mp.mpf(loss.mu) ** 2 for loss in total.losses if isinstance(loss, Gaussian))
    )
    delta = mp.mpf(0)
    for signs in product((1, -1), repeat=len(pure)):
        chance = mp.fprod(
            1 / (1 + mp.exp(-s * mp.mpf(e))) for s, e in zip(signs, pure, strict=True)
        )
        x = mp.mpf(epsilon) - mp.fsum(
            s * mp.mpf(e) for s, e in zip(signs, pure, strict=True)
        )
        if mu:
            near, far = mp.ncdf(mu / 2 - x / mu), mp.ncdf(-mu / 2 - x / mu)
            delta += chance * (near - mp.exp(x) * far)
        else:
            delta += chance * max(1 - mp.exp(x), 0)
    failing = [loss.delta for loss in total.losses if isinstance(loss, Promise)]
    return 1 - (1 - delta) * mp.fprod(1 - mp.mpf(d) for d in failing)


def few(seed: int) -> tuple[Spend, float]:
    """Two to seven releases, at one ε or several, with Gaussian noise or none, and a δ."""
    rng = np.random.default_rng(seed)
    scale, count = 10 ** rng.uniform(-3, 1), int(rng.integers(2, 8))
    sizes = scale * rng.uniform(0.3, 1.0, count if seed % 2 else 1)
    losses: list[Loss] = [Laplace(float(sizes[k % len(sizes)])) for k in range(count)]
    if seed % 3 == 0:
        losses.append(Gaussian(scale * 10 ** rng.uniform(-4, 0.5)))
    delta = 10 ** rng.uniform(-12, -1)
    if seed % 5 == 0:
        losses.append(Promise(scale, delta * rng.uniform(0.01, 0.9)))
    return spend(*losses), delta


@pytest.mark.parametrize("seed", range(40))
def test_few_releases_together_spend_what_all_signs_of_their_losses_say(
    seed: int,
) -> None:
    mp = pytest.importorskip("mpmath")
    total, delta = few(seed)
    found = composed_epsilon(total, delta)
    with mp.workdps(50):
        assert exact_delta(total, found) <= delta
        if found > 2.0**-1022:
            assert (
                exact_delta(total, found - 1e-7 * total.promise(delta).epsilon) > delta
            )


def test_three_small_releases_compose_to_the_exact_epsilon() -> None:
    assert composed_epsilon(spend(*[Laplace(0.1)] * 3), 1e-3) == pytest.approx(
        0.29306, abs=5e-6
    )


def test_few_large_and_tiny_losses_have_a_finite_epsilon() -> None:
    for losses in (
        [Laplace(600.0)] * 2,
        [Laplace(1e-300)] * 9,
        [Laplace(1.0), Gaussian(1e-30)],
    ):
        total = spend(*losses)
        for delta in (1e-200, 1e-9, 0.9):
            assert 0 < composed_epsilon(total, delta) <= total.promise(delta).epsilon


def randomized_response_delta(times: int, epsilon: float, total: float) -> float:
    from scipy.stats import binom

    truthful = np.exp(epsilon) / (1 + np.exp(epsilon))
    ones = np.arange(times + 1)
    p, q = binom.pmf(ones, times, truthful), binom.pmf(ones, times, 1 - truthful)
    return float(np.maximum(p - np.exp(total) * q, 0).sum())


@pytest.mark.parametrize(
    "losses", [[Laplace(0.5)], [Laplace(0.5)] * 2, [Laplace(40.0)] * 3]
)
def test_few_releases_are_never_told_more_than_their_sum(losses: list[Loss]) -> None:
    total = spend(*losses)
    epsilon = composed_epsilon(total, 1e-6)
    assert 0.9 * total.promise(1e-6).epsilon <= epsilon <= total.promise(1e-6).epsilon
