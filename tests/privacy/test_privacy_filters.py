"""Filters and odometers against analysts who choose by what they have seen.

Two steps of Gaussian or pure noise are followed exactly: the first answer is integrated over a fine
grid, and what comes after it depends on it. H_γ(P‖Q) = E_P(1 - γ Q/P)₊ is then a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, inf, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.gaussian import (
    gaussian_delta_enclosure,
    gaussian_epsilon,
    pure_to_zcdp,
)
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import (
    Amounts,
    Limits,
    limits_of,
    odometer,
    pure_to_gaussian,
)
from noisewright.privacy.promise.spend import Gaussian, Laplace, Loss, Promise, Spend

GRID = np.linspace(-12, 12, 24001)
STEP = GRID[1] - GRID[0]


def spend(*losses: Loss) -> Spend:
    return Spend("add-remove", losses)


def gaussian(gamma: np.ndarray, mu: float) -> np.ndarray:
    """H_γ of N(0, 1) and N(μ, 1)."""
    gamma = np.maximum(gamma, 1e-300)
    if mu < 1e-9:
        return np.maximum(1 - gamma, 0)
    a = np.log(gamma) / mu
    return ndtr(mu / 2 - a) - gamma * ndtr(-mu / 2 - a)


def response(gamma: np.ndarray, epsilon: float) -> np.ndarray:
    """H_γ of randomized response at ε."""
    high = exp(epsilon) / (1 + exp(epsilon))
    low = 1 - high
    return np.maximum(high - gamma * low, 0) + np.maximum(low - gamma * high, 0)


def after(
    gamma: float, mu: float, then: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> float:
    """H_γ of Gaussian noise followed by what `then` makes of the loss so far, γ given to it."""
    # P is N(μ, 1), Q is N(0, 1)
    density = np.exp(-((GRID - mu) ** 2) / 2) / sqrt(2 * np.pi)
    loss = mu * GRID - mu**2 / 2
    return float((density * then(gamma * np.exp(-loss), loss)).sum() * STEP)


CHOICES = st.lists(
    st.tuples(st.sampled_from("gps"), st.floats(0, 1)), min_size=4, max_size=4
)


@settings(max_examples=40)
@given(st.floats(0.1, 0.9), CHOICES, st.floats(0.2, 3.0), st.floats(0.3, 1.5))
def test_no_choice_passes_the_gaussian_filter(
    share: float, choices: list[tuple[str, float]], epsilon: float, most: float
) -> None:
    """Four regions of the first loss, each with its own second release, or none."""
    limits = Limits("gaussian", most)
    first = most * sqrt(share)
    used = limits.used_by(spend(Gaussian(first)), Amounts())
    assert used is not None

    def second(kind: str, part: float) -> Callable[[np.ndarray], np.ndarray]:
        if kind == "g":
            mu = part * limits.largest_ratio(used)
            return lambda gamma: gaussian(gamma, mu)
        if kind == "p":
            pure = part * limits.largest_pure(used)
            assert pure == 0 or limits.used_by(spend(Laplace(pure)), used) is not None
            return lambda gamma: response(gamma, pure)
        return lambda gamma: np.maximum(1 - gamma, 0)

    parts = [second(kind, part) for kind, part in choices]

    def then(gamma: np.ndarray, loss: np.ndarray) -> np.ndarray:
        region = np.clip(np.digitize(loss, [epsilon - 1, epsilon - 0.3, epsilon]), 0, 3)
        return np.choose(region, [part(gamma) for part in parts])

    bound = gaussian(np.array([exp(epsilon)]), most)[0]
    assert after(exp(epsilon), first, then) <= bound * (1 + 1e-6) + 1e-12


def test_limits_that_are_moved_after_seeing_answers_are_no_limits() -> None:
    """Why the parts of a budget are fixed beforehand, and that these tests would notice.

    The rule "any mixture whose promise is within (ε, δ)" lets the analyst take pure ε where the
    loss is already high, and Gaussian noise where it is not. It breaks the promise.
    """
    epsilon, delta, first = 1.0, 1e-3, 0.25
    most = limits_of(Privacy(epsilon, delta)).most
    mu = sqrt(most**2 - first**2)  # all that is left as Gaussian noise
    pure = epsilon - gaussian_epsilon(delta, first)  # all that is left as pure ε

    def then(gamma: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.maximum(gaussian(gamma, mu), response(gamma, pure))

    assert after(exp(epsilon), first, lambda g, _: gaussian(g, mu)) <= delta * (
        1 + 1e-6
    )
    assert after(exp(epsilon), first, lambda g, _: response(g, pure)) <= delta * (
        1 + 1e-6
    )
    assert after(exp(epsilon), first, then) > delta * 1.05


@pytest.mark.parametrize("rule", ["gaussian", "zcdp"])
@settings(max_examples=25)
@given(st.floats(0.01, 0.999))
def test_the_odometer_holds_wherever_one_stops(rule: str, share: float) -> None:
    """Stop after the first answer exactly where its loss is above what is shown, else go on."""
    budget = Privacy(1.0, 1e-4)
    limits = limits_of(budget, rule)
    whole = limits.most if rule == "gaussian" else sqrt(2 * limits.most)
    first, second = whole * sqrt(share), whole * sqrt(1 - share) * (1 - 1e-9)

    def shown(*ratios: float) -> float:
        used = limits.used_by(spend(*map(Gaussian, ratios)), Amounts())
        assert used is not None
        told = odometer(limits, used, budget, 1e-4)
        assert told.delta == 1e-4
        return told.epsilon or inf

    early, late = shown(first), shown(first, second)
    assert early <= late

    def then(gamma: np.ndarray, loss: np.ndarray) -> np.ndarray:
        stopped = np.maximum(1 - np.exp(early - loss), 0)
        return np.where(loss > early, stopped, gaussian(np.exp(late - loss), second))

    assert after(1.0, first, then) <= 1e-4 * (1 + 1e-6)


def test_an_odometer_without_its_levels_would_be_caught() -> None:
    """Converting the running sum at the whole δ each time is no odometer."""
    budget = Privacy(1.0, 1e-4)
    most = limits_of(budget).most
    first, second = most * sqrt(0.5), most * sqrt(0.5)
    early, late = gaussian_epsilon(1e-4, first), gaussian_epsilon(1e-4, most)

    def then(_: np.ndarray, loss: np.ndarray) -> np.ndarray:
        stopped = np.maximum(1 - np.exp(early - loss), 0)
        return np.where(loss > early, stopped, gaussian(np.exp(late - loss), second))

    assert after(1.0, first, then) > 1.3e-4


@given(st.floats(1e-9, 40.0))
def test_pure_releases_are_counted_as_the_gaussian_noise_that_protects_no_more(
    epsilon: float,
) -> None:
    mu = pure_to_gaussian(epsilon)
    # Total variation decides: both curves meet at equal errors.
    least = gaussian_delta_enclosure(Fraction(0), Fraction(mu))[0]
    with mpmath.workdps(40):
        tanh = mpmath.tanh(mpmath.mpf(epsilon) / 2)
        assert mpmath.mpf(least.numerator) / least.denominator >= tanh
        smaller = gaussian_delta_enclosure(Fraction(0), Fraction(mu * (1 - 1e-8)))[1]
        assert (
            epsilon > 30 or mpmath.mpf(smaller.numerator) / smaller.denominator < tanh
        )


@given(st.floats(1e-6, 50.0), st.floats(1.0001, 300.0))
def test_pure_releases_keep_their_rho_at_every_order(
    epsilon: float, order: float
) -> None:
    with mpmath.workdps(40):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        divergence = (
            mpmath.log(mpmath.cosh((a - 0.5) * e)) - mpmath.log(mpmath.cosh(e / 2))
        ) / (a - 1)
        assert divergence <= a * mpmath.mpf(pure_to_zcdp(epsilon))


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (Privacy(1.0), {}),
        (Privacy(rho=0.1), {}),
        (Privacy(rho=0.1, delta=1e-6), {"aside": 1e-7}),
        (Privacy(1.0, 1e-9), {}),
        (Privacy(1.0, 1e-9), {"rule": "zcdp"}),
        (Privacy(1.0, 1e-9), {"rule": "sum"}),
        (Privacy(1.0, 1e-9), {"pure": 0.4, "aside": 3e-10}),
        (Privacy(1.0, 1e-9), {"rule": "zcdp", "pure": 0.4, "aside": 3e-10}),
    ],
)
def test_limits_keep_their_budget_and_use_it_up(budget: Privacy, options: dict) -> None:
    limits = limits_of(budget, **options)
    assert limits.keep(budget)
    own = {name: getattr(limits, name) for name in ("most", "pure", "delta")}
    for name, value in own.items():
        if value and not (name == "delta" and budget.rho is not None):
            larger = {**own, name: value * (1 + 1e-6)}
            assert not Limits(limits.rule, **larger).keep(budget)


def test_sums_are_exact_and_end_at_the_limit() -> None:
    limits = limits_of(Privacy(1.0))
    used = Amounts()
    for _ in range(9):
        used = limits.used_by(spend(Laplace(0.1)), used)
    assert used.pure == 9 * Fraction(0.1)
    assert limits.used_by(spend(Laplace(0.1), Laplace(1e-9)), used) is None
    assert limits.largest_pure(used) == float(1 - 9 * Fraction(0.1))
    assert limits.used_by(spend(Gaussian(1e-6)), used) is None
    assert limits.used_by(spend(Promise(0.01, 1e-12)), used) is None


def test_odometers_of_plain_sums_and_of_rho() -> None:
    limits = limits_of(Privacy(1.0, 1e-6), "sum")
    used = limits.used_by(spend(Laplace(0.25), Promise(0.5, 1e-7)), Amounts())
    told = odometer(limits, used, Privacy(1.0, 1e-6), 1e-6)
    assert (told.epsilon, told.delta) == (0.75, pytest.approx(1e-7))
    limits = limits_of(Privacy(rho=0.5))
    used = limits.used_by(spend(Gaussian(0.5), Laplace(0.1)), Amounts())
    told = odometer(limits, used, Privacy(rho=0.5), None)
    assert told.rho == pytest.approx(0.125 + 0.1 * np.tanh(0.05), rel=1e-12)


@pytest.mark.parametrize(
    "bad", [{"rule": "magic"}, {"pure": 1.0}, {"pure": -0.1}, {"aside": 1e-3}]
)
def test_bad_limits_are_refused(bad: dict) -> None:
    with pytest.raises(InvalidParameter):
        limits_of(Privacy(1.0, 1e-6), **bad)


def test_limits_from_files_are_checked() -> None:
    with pytest.raises(InvalidParameter):
        Limits("gaussian", -1.0)
    with pytest.raises(InvalidParameter):
        Limits("gaussian", inf)
