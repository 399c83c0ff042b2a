"""The least noise that keeps a promise: proven, tight, and invertible."""

from __future__ import annotations

from fractions import Fraction
from math import exp, inf, isclose, nextafter, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from noisewright.errors import InvalidParameter
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
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from oracles import privacy_oracles as oracles
from oracles.privacy_oracles import guarantee

CORNERS = [
    (1.0, 1e-9),
    (1e-6, 1e-300),
    (1e-6, 1e-9),
    (1e-6, 0.5),
    (0.1, 1e-300),
    (10.0, 1e-5),
    (300.0, 1e-300),
    (300.0, 0.9),
    (5.0, 1 - 1e-12),
]
epsilons = st.floats(1e-6, 300)
deltas = st.floats(-300, -0.01).map(lambda exponent: 10.0**exponent)


@pytest.mark.parametrize(("epsilon", "delta"), CORNERS)
def test_sigma_meets_the_textbook_condition_from_the_safe_side(
    epsilon: float, delta: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    ratio = 1 / Fraction(sigma)
    held = oracles.gaussian_delta(epsilon, ratio)
    assert held <= mpmath.mpf(delta)
    # Tight: a σ smaller by 1e-12 of itself breaks the promise.
    assert oracles.gaussian_delta(
        epsilon, ratio * (1 + Fraction(1, 10**12))
    ) > mpmath.mpf(delta)


def test_one_count_has_the_analytic_optimum() -> None:
    """An independent solve of Balle and Wang's condition, in doubles."""

    def excess(sigma: float) -> float:
        a, b = 0.5 / sigma - sigma, -0.5 / sigma - sigma
        return float(stats.norm.cdf(a) - exp(1.0) * stats.norm.cdf(b)) - 1e-9

    optimum = optimize.brentq(excess, 1, 20, xtol=1e-13)
    law = calibrate(Privacy(epsilon=1, delta=1e-9), l2=1)
    assert law.scale == pytest.approx(optimum, rel=1e-6)
    # On a grid of a thousandth of a count the deviation of what is drawn is that optimum too.
    fine = calibrate(Privacy(epsilon=1, delta=1e-9), l2=1000)
    assert fine.standard_deviation / 1000 == pytest.approx(optimum, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(epsilon=epsilons, delta=deltas)
def test_delta_epsilon_and_ratio_are_inverses(epsilon: float, delta: float) -> None:
    ratio = gaussian_ratio(epsilon, delta)
    assert gaussian_delta(epsilon, ratio) <= delta
    assert gaussian_delta(epsilon, ratio * (1 + 1e-12)) > delta * (1 - 1e-15)
    back = gaussian_epsilon(delta, ratio)
    assert back <= epsilon * (1 + 1e-15)
    assert gaussian_delta(back, ratio) <= delta


@settings(max_examples=40, deadline=None)
@given(epsilon=epsilons, delta=deltas, factor=st.floats(1.001, 10))
def test_more_budget_never_needs_more_noise(
    epsilon: float, delta: float, factor: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_sigma(epsilon * factor, delta) <= sigma
    assert gaussian_sigma(epsilon, min(delta * factor, 0.999)) <= sigma or delta > 0.99
    assert gaussian_sigma(epsilon, delta, factor) == pytest.approx(
        factor * sigma, rel=1e-15
    )


@settings(max_examples=40, deadline=None)
@given(epsilon=st.floats(0.001, 50), ratio=st.floats(0.001, 20))
def test_delta_is_the_textbook_value(epsilon: float, ratio: float) -> None:
    exact = oracles.gaussian_delta(epsilon, ratio)
    assume(exact > mpmath.mpf(10) ** -300)
    found = gaussian_delta(epsilon, ratio)
    assert mpmath.mpf(found) >= exact
    assert isclose(found, float(exact), rel_tol=1e-15)


def test_epsilon_zero_suffices_when_delta_is_large() -> None:
    assert gaussian_epsilon(0.5, 0.1) == 0
    assert gaussian_delta(0, 0.1) == pytest.approx(
        2 * stats.norm.cdf(0.05) - 1, rel=1e-14
    )
    assert guarantee(NoiseLaw("rounded-gaussian", 10), l2=1, delta=0.5).epsilon < 1e-300  # type: ignore[operator]


# --- The law actually drawn, audited exactly on the grid ------------------------------------------


def audited_delta(law: NoiseLaw, shift: int, epsilon: float) -> float:
    survival = oracles.rounded_gaussian_survival(law.scale)
    cells = oracles.cell_probabilities(survival, int(12 * law.scale) + shift)
    return oracles.hockey_stick(cells, shift, epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-9), (4.0, 1e-6)])
@pytest.mark.parametrize("shift", [1, 40])
def test_the_rounded_law_spends_no_more_than_delta(
    epsilon: float, delta: float, shift: int
) -> None:
    law = calibrate(Privacy(epsilon=epsilon, delta=delta), l2=shift)
    spent = audited_delta(law, shift, epsilon)
    assert spent <= delta * (1 + 1e-6)  # the audit itself sums doubles
    if shift == 40:  # on a fine grid rounding hides next to nothing
        assert spent >= 0.99 * delta


def test_the_audit_finds_half_the_noise() -> None:
    law = calibrate(Privacy(epsilon=1, delta=1e-6), l2=40)
    assert audited_delta(NoiseLaw(law.law, law.scale / 2), 40, 1.0) > 1e-3


@given(epsilon=st.floats(0.01, 20), shift=st.integers(1, 10**6))
def test_the_discrete_laplace_is_pure(epsilon: float, shift: int) -> None:
    law = calibrate(Privacy(epsilon=epsilon), l1=shift)
    assert law.law == "discrete-laplace"
    # The largest log-ratio of two cells `shift` apart is shift/scale, exactly.
    assert Fraction(shift) / Fraction(law.scale) <= Fraction(epsilon)
    assert Fraction(shift) / Fraction(nextafter(law.scale, 0)) > Fraction(epsilon)


@given(rho=st.floats(1e-6, 100), sensitivity=st.floats(0.01, 1e6))
def test_zcdp_noise_is_the_least_that_holds(rho: float, sensitivity: float) -> None:
    law = calibrate(Privacy(rho=rho), l2=sensitivity)
    assert law.law == "rounded-gaussian"
    spent = Fraction(sensitivity) ** 2 / (2 * Fraction(law.scale) ** 2)
    assert spent <= Fraction(rho)
    assert spent >= Fraction(rho) * (1 - Fraction(1, 10**15))
    assert guarantee(law, l2=sensitivity).rho <= rho * (1 + 1e-15)  # type: ignore[operator]


def test_guarantees_go_back_to_the_promise() -> None:
    for privacy in (
        Privacy(epsilon=1, delta=1e-9),
        Privacy(epsilon=0.3),
        Privacy(rho=0.7),
    ):
        law = calibrate(privacy, l1=3, l2=2)
        back = guarantee(law, l1=3, l2=2, delta=privacy.delta)
        assert back.kind == privacy.kind
        for name in ("epsilon", "rho", "delta"):
            stated, found = getattr(privacy, name), getattr(back, name)
            assert stated == found is None or found == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-12, 1e16])
def test_budgets_beyond_what_can_be_drawn_name_those_within(epsilon: float) -> None:
    with pytest.raises(InvalidParameter, match="choose it between 9"):
        calibrate(Privacy(epsilon=epsilon), l1=1024)


def test_missing_or_impossible_sensitivities_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="l1 must be given: pure privacy"):
        calibrate(Privacy(epsilon=1), l2=1)
    with pytest.raises(InvalidParameter, match="l2 must be given"):
        calibrate(Privacy(rho=1), l1=1)
    with pytest.raises(
        InvalidParameter, match=r"l2=0 must be > 0; a measurement nobody can move"
    ):
        calibrate(Privacy(rho=1), l2=0)


# --- Conversions ----------------------------------------------------------------------------------


def best_delta(rho: float, epsilon: float) -> float:
    """Minimise the bound of Canonne, Kamath and Steinke over α by a fine grid."""
    x = np.geomspace(1e-4, 1e4, 100_001)
    logarithms = (
        x * ((1 + x) * rho - epsilon) - np.log(x) + (1 + x) * np.log(x / (1 + x))
    )
    return float(np.exp(min(0, logarithms.min())))


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.5, 1e-2), (0.01, 1e-9), (2.0, 1e-30), (1.0, 0.5), (3.0, 1e-6)]
)
def test_zcdp_gives_the_best_published_delta(rho: float, delta: float) -> None:
    grid = best_delta(rho, zcdp_epsilon(rho, delta))
    assert delta * (1 - 1e-9) <= grid <= delta * (1 + 1e-4)


@given(rho=st.floats(1e-4, 20), delta=deltas)
def test_zcdp_conversions_are_safe(rho: float, delta: float) -> None:
    epsilon = zcdp_epsilon(rho, delta)
    assume(epsilon > 1e-6)
    # Never better than what a Gaussian with this ρ truly spends, never worse than the old bound.
    ratio = nextafter(sqrt(2 * rho), 0)
    assert epsilon >= gaussian_epsilon(delta, ratio) * (1 - 1e-12)
    assert epsilon <= rho + 2 * sqrt(rho * -mpmath.log(delta)) + 1e-12


def test_small_conversions() -> None:
    assert pure_to_zcdp(2.0) == pytest.approx(2 * np.tanh(1.0), rel=1e-15)
    assert gaussian_sigma_for_rho(0.5, 3) == pytest.approx(3, rel=1e-15)
    with pytest.raises(InvalidParameter, match="rho=inf must be finite"):
        zcdp_epsilon(inf, 1e-6)
