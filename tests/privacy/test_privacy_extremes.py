"""Budgets at the ends of what floats can say: an answer or a clear error, and never for long."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.noise.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_ratio,
    gaussian_sigma,
    gaussian_sigma_for_rho,
    pure_to_zcdp,
    zcdp_epsilon,
)
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.amplification import shuffled
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Gaussian, Laplace, Promise, Spend
from oracles.privacy_oracles import guarantee

SIZES = st.sampled_from(
    [5e-324, 2.3e-308, 1e-300, 1e-30, 0.5, 40.0, 1e5, 1e30, 1e200, 1.7e308]
)
DELTAS = st.sampled_from([5e-324, 1e-300, 1e-100, 1e-18, 1e-6, 0.5, 1 - 2**-53])


def spend(*losses: Gaussian | Laplace | Promise) -> Spend:
    return Spend("add-remove", losses)


CALLS: dict[str, Callable[[float, float, float], Any]] = {
    "pure to zCDP": lambda a, b, d: pure_to_zcdp(a),
    "σ of ρ": lambda a, b, d: gaussian_sigma_for_rho(a, b),
    "ε of ρ": lambda a, b, d: zcdp_epsilon(a, d),
    "δ of a ratio": lambda a, b, d: gaussian_delta(a, b),
    "ε of a ratio": lambda a, b, d: gaussian_epsilon(d, a),
    "ratio of ε": lambda a, b, d: gaussian_ratio(a, d),
    "σ of ε": lambda a, b, d: gaussian_sigma(a, d, b),
    "several ratios": lambda a, b, d: spend(Gaussian(a), Gaussian(b), Gaussian(a)).mu,
    "pure beside Gaussian": lambda a, b, d: (
        spend(Laplace(a), Gaussian(b)).promise().rho
    ),
    "approximate beside Gaussian": lambda a, b, d: (
        spend(Promise(a, d / 2), Gaussian(b)).promise(d).epsilon
    ),
    "pure noise": lambda a, b, d: calibrate(Privacy(epsilon=a), l1=b).variance,
    "zCDP noise": lambda a, b, d: calibrate(Privacy(rho=a), l2=b).variance,
    "approximate noise": lambda a, b, d: (
        calibrate(Privacy(epsilon=a, delta=d), l2=b).variance
    ),
    "what Laplace noise keeps": lambda a, b, d: (
        guarantee(NoiseLaw("discrete-laplace", a), l1=b).epsilon
    ),
    "what Gaussian noise keeps": lambda a, b, d: (
        guarantee(NoiseLaw("rounded-gaussian", a), l2=b, delta=d).epsilon
    ),
    "what Gaussian noise keeps in zCDP": lambda a, b, d: (
        guarantee(NoiseLaw("rounded-gaussian", a), l2=b).rho
    ),
    "shuffling": lambda a, b, d: shuffled(a, 20, d).epsilon,
    "words": lambda a, b, d: len(Privacy(rho=a, delta=d).text()),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=25, deadline=10_000)
@given(first=SIZES, second=SIZES, delta=DELTAS)
def test_extreme_budgets_get_a_number_or_a_clear_error(
    name: str, first: float, second: float, delta: float
) -> None:
    try:
        result = CALLS[name](first, second, delta)
    except NoisewrightError:
        return
    assert isfinite(result)
    assert result >= 0


@pytest.mark.parametrize(
    ("privacy", "name"),
    [
        (Privacy(epsilon=5e-324), "epsilon"),
        (Privacy(epsilon=1e300), "epsilon"),
        (Privacy(rho=5e-324), "rho"),
        (Privacy(rho=1e300), "rho"),
        (Privacy(epsilon=5e-324, delta=1e-300), "epsilon"),
    ],
)
def test_noise_that_cannot_be_drawn_is_told_by_the_budget(
    privacy: Privacy, name: str
) -> None:
    with pytest.raises(
        InvalidParameter, match=rf"{name}=.* needs noise of .* grid steps"
    ):
        calibrate(privacy, l1=1.0, l2=1.0)


@settings(max_examples=20, deadline=None)
@given(ratio=st.floats(2**-300, 2**-200), delta=st.floats(1e-100, 1e-70))
def test_coarse_bounds_of_tiny_ratios_are_above_the_truth(
    ratio: float, delta: float
) -> None:
    """At ε = 0 the truth is 2Φ(μ/2) - 1, μ/√(2π) to the last digits."""
    assert ratio * 0.39894228 <= gaussian_delta(0, ratio)
    assert gaussian_delta(1e-90, gaussian_ratio(1e-90, delta)) <= delta
