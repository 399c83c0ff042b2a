"""Several releases together."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.budget import Privacy
from noisewright.privacy.composition import compose, compose_gaussians, loss_distribution_epsilon
from noisewright.privacy.conversion import zcdp_epsilon
from noisewright.privacy.gaussian import gaussian_epsilon

pure = st.floats(0.001, 5).map(lambda epsilon: Privacy(epsilon=epsilon))


@given(st.lists(pure, min_size=1, max_size=8))
def test_pure_guarantees_add_up_from_above(parts: list[Privacy]) -> None:
    total = compose(parts)
    exact = sum(Fraction(part.epsilon) for part in parts)  # type: ignore[arg-type]
    assert total.kind == "pure"
    assert Fraction(total.epsilon) >= exact  # type: ignore[arg-type]
    assert total.epsilon == pytest.approx(float(exact), rel=1e-15)


def test_kinds_mix() -> None:
    approximate = Privacy(epsilon=1, delta=1e-9)
    zcdp = Privacy(rho=0.5)
    assert compose([approximate, Privacy(epsilon=2)]) == Privacy(epsilon=3, delta=1e-9)
    assert compose([zcdp, Privacy(epsilon=1)], delta=1e-6) == Privacy(rho=1.0, delta=1e-6)
    mixed = compose([approximate, zcdp, Privacy(epsilon=1)], delta=1e-6)
    assert mixed.kind == "approximate"
    assert mixed.epsilon == pytest.approx(1 + zcdp_epsilon(1.0, 1e-6), rel=1e-15)
    assert mixed.delta == pytest.approx(1e-6 + 1e-9, rel=1e-15)
    assert compose([zcdp]) == zcdp


def test_what_cannot_be_added_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="must not be empty"):
        compose([])
    with pytest.raises(InvalidParameter, match="must be one relation"):
        compose([Privacy(epsilon=1), Privacy(epsilon=1, neighbours="replace-one")])
    with pytest.raises(InvalidParameter, match="delta=None must be given to add zCDP"):
        compose([Privacy(epsilon=1, delta=1e-9), Privacy(rho=1)])
    with pytest.raises(InvalidParameter, match="must stay below 1"):
        compose([Privacy(epsilon=1, delta=0.6)] * 2)


def test_gaussians_compose_to_a_gaussian() -> None:
    assert compose_gaussians([3.0, 4.0]) == pytest.approx(5.0, rel=1e-15)
    ratios = [0.1, 0.2, 0.05]
    total = compose_gaussians(ratios)
    assert Fraction(total) ** 2 >= sum(Fraction(r) ** 2 for r in ratios)


def test_loss_distributions_agree_with_the_exact_gaussian() -> None:
    exact = gaussian_epsilon(1e-6, compose_gaussians([0.1] * 30))
    found = loss_distribution_epsilon(1e-6, ratios=[0.1] * 30)
    assert exact * (1 - 1e-9) <= found <= exact * 1.001


def test_loss_distributions_beat_adding_up() -> None:
    releases = [Privacy(epsilon=0.1)] * 40
    found = loss_distribution_epsilon(1e-6, releases=releases)
    # Randomized response composed k times: the exact δ is a binomial sum (Kairouz, Oh, Viswanath).
    assert randomized_response_delta(40, 0.1, found) <= 1e-6 * (1 + 1e-9)
    assert randomized_response_delta(40, 0.1, found * 0.99) > 1e-6
    assert found < 0.75 * compose(releases).epsilon  # type: ignore[operator]


def randomized_response_delta(times: int, epsilon: float, total: float) -> float:
    from scipy.stats import binom

    truthful = np.exp(epsilon) / (1 + np.exp(epsilon))
    ones = np.arange(times + 1)
    p, q = binom.pmf(ones, times, truthful), binom.pmf(ones, times, 1 - truthful)
    return float(np.maximum(p - np.exp(total) * q, 0).sum())


def test_loss_distributions_refuse_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParameter, match="cannot be zCDP; give the ratios"):
        loss_distribution_epsilon(1e-6, releases=[Privacy(rho=1)])
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(NoisewrightError, match=r"install noisewright\[accounting\]"):
        loss_distribution_epsilon(1e-6, ratios=[1.0])
