"""Several releases together, by privacy loss distributions."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.budget import Privacy
from noisewright.privacy.gaussian import gaussian_epsilon
from noisewright.privacy.spend import loss_distribution_epsilon


def test_loss_distributions_agree_with_the_exact_gaussian() -> None:
    exact = gaussian_epsilon(1e-6, 0.1 * 30**0.5)
    found = loss_distribution_epsilon(1e-6, ratios=[0.1] * 30)
    assert exact * (1 - 1e-9) <= found <= exact * 1.001


def test_loss_distributions_beat_adding_up() -> None:
    releases = [Privacy(epsilon=0.1)] * 40
    found = loss_distribution_epsilon(1e-6, releases=releases)
    # Randomized response composed k times: the exact δ is a binomial sum (Kairouz, Oh, Viswanath).
    assert randomized_response_delta(40, 0.1, found) <= 1e-6 * (1 + 1e-9)
    assert randomized_response_delta(40, 0.1, found * 0.99) > 1e-6
    assert found < 0.75 * 40 * 0.1


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
