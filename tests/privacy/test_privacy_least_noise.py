"""The least noise that privacy allows, against linear programs over all mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright import Privacy
from noisewright.privacy.least_noise import (
    least_second_moment,
    least_unbiased_variance,
    proved_second_moment,
)
from oracles.least_noise_programs import (
    least_noise,
    least_unbiased_count,
    least_worst_count,
)

EIGHTHS = np.arange(8) / 8 - 0.5
DELTAS = [(1.0, 1e-3), (1.0, 0.1), (0.3, 0.8), (0.3, 0.3), (4.0, 0.01), (2.0, 0.5)]


def discrete_laplace(epsilon: float) -> float:
    """The variance of the law with chances in proportion to e^(−ε|k|), summed up."""
    k = np.arange(1, 2000)
    chances = np.exp(-epsilon * k)
    return float(2 * (k**2 * chances).sum() / (1 + 2 * chances.sum()))


def contradicted(moment: float, epsilon: float) -> bool:
    """Whether some noise that hides a change of one at this ε has a smaller second moment."""
    return moment > discrete_laplace(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 8.0])
def test_pure_noise_is_least_as_the_discrete_laplace_law(epsilon: float) -> None:
    moment = least_second_moment(Privacy(epsilon=epsilon))
    assert not contradicted(moment, epsilon)
    assert moment == pytest.approx(discrete_laplace(epsilon), rel=1e-12)
    best = least_noise(epsilon, 0.0, EIGHTHS, 6 + int(15 / epsilon))
    # the solver's own tolerance, far out
    assert moment == pytest.approx(best, rel=1e-3)


def test_the_formula_of_continuous_noise_is_caught() -> None:
    """With ε in place of 2 sinh(ε/2) the bound is above noise that exists, plainly so at ε = 4."""
    assert contradicted(2 / 4.0**2, 4.0)
    assert not contradicted(least_second_moment(Privacy(epsilon=4.0)), 4.0)


def test_mechanisms_on_few_counts_do_better_and_tend_to_the_bound() -> None:
    moment = least_second_moment(Privacy(epsilon=1.0))
    worst = [least_worst_count(people, 1.0) for people in (5, 10, 20, 40)]
    assert worst == sorted(worst)
    assert worst == pytest.approx([1.131, 1.532, 1.765, 1.835], abs=6e-4)
    assert 0.99 * moment < worst[-1] <= moment * (1 + 1e-9)


def test_mechanisms_with_a_delta_tend_to_their_bound() -> None:
    moment = least_second_moment(Privacy(epsilon=1.0, delta=0.2))
    worst = [least_worst_count(people, 1.0, 0.2, 0.5) for people in (3, 6, 12)]
    assert worst == sorted(worst)
    assert 0.97 * moment < worst[-1] <= moment * 1.02  # answers in halves cost a little


@pytest.mark.parametrize(("epsilon", "delta"), DELTAS)
def test_noise_with_a_delta_is_least_over_all_offsets_together(
    epsilon: float, delta: float
) -> None:
    moment = least_second_moment(Privacy(epsilon=epsilon, delta=delta))
    best = least_noise(epsilon, delta, EIGHTHS, 5 + int(10 / epsilon))
    assert 0.985 * best < moment <= best * (1 + 1e-6)


def test_no_single_offset_tells_the_least_noise() -> None:
    together = least_second_moment(Privacy(epsilon=0.3, delta=0.8))
    alone = min(least_noise(0.3, 0.8, np.array([a]), 40) for a in EIGHTHS)
    assert alone > 1.5 * together


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 6.0),
    st.floats(1e-6, 0.9),
    st.floats(1e-3, 1.0),
    st.floats(1e-3, 1e4),
)
def test_whatever_a_certificate_proves_is_no_more_than_the_least(
    epsilon: float, delta: float, share: float, price: float
) -> None:
    """At any level and price, sound ones and others: accepted only where the inequality holds."""
    level = share * least_second_moment(Privacy(epsilon=epsilon))
    proved = proved_second_moment(epsilon, delta, level, price)
    least = least_second_moment(Privacy(epsilon=epsilon, delta=delta))
    assert proved <= least * (1 + 1e-9)
    if proved:
        assert violation(epsilon, level, price) <= 1e-9 * price


def violation(epsilon: float, level: float, price: float) -> float:
    """By how much the functions of the proof leave [0, price], at 2,001 offsets, step by step."""
    ratio, a = math.exp(epsilon), np.linspace(-0.5, 0.5, 2001)
    steps = int(math.sqrt(level + (ratio - 1) * price)) + 3
    most = np.full_like(a, price)
    # what the chain may hold one step nearer to the middle
    for k in range(steps, 0, -1):
        most = np.minimum((most - level + (k + a) ** 2) / ratio, price)
    short = level - a**2 - most - most[::-1]
    return float(max(short.max(), -most.min()))


@pytest.mark.parametrize(("epsilon", "delta"), DELTAS)
def test_a_certificate_that_claims_more_is_refused(
    epsilon: float, delta: float
) -> None:
    least = least_second_moment(Privacy(epsilon=epsilon, delta=delta))
    prices = np.geomspace(1e-3, 1e3, 400)
    for price in prices:
        level = float(least * (1 + 1e-6) + 2 * price * delta)
        assert proved_second_moment(epsilon, delta, level, float(price)) == 0.0


@pytest.mark.parametrize(
    "budget",
    [
        {"epsilon": 1e-6, "delta": 1e-9},
        {"epsilon": 1e-9, "delta": 1e-4},
        {"epsilon": 20.0, "delta": 1e-12},
        {"epsilon": 3.0, "delta": 1e-300},
        {"epsilon": 700.0, "delta": 1e-9},
        {"epsilon": 5e-324},
        {"epsilon": 5000.0},
        {"rho": 1e-9},
        {"rho": 1000.0},
    ],
)
def test_extreme_budgets_have_a_bound_or_none(budget: dict[str, float]) -> None:
    privacy = Privacy(**budget)
    moment = least_second_moment(privacy)
    assert moment >= 0
    if "delta" in budget:
        assert moment <= least_second_moment(Privacy(epsilon=budget["epsilon"])) * (
            1 + 1e-12
        )


def test_a_smaller_delta_needs_more_noise() -> None:
    moments = [
        least_second_moment(Privacy(epsilon=1.0, delta=d))
        for d in (0.9, 0.5, 0.1, 1e-3, 1e-9)
    ]
    assert moments == sorted(moments)
    pure = least_second_moment(Privacy(epsilon=1.0))
    assert moments[-1] == pytest.approx(pure, rel=1e-6)


@pytest.mark.parametrize("rho", [0.01, 0.05, 0.1, 0.5])
def test_the_gaussian_is_near_the_least_for_concentrated_privacy(rho: float) -> None:
    privacy = Privacy(rho=rho)
    excess = math.sqrt(1 / (2 * rho) / least_second_moment(privacy))
    assert excess == pytest.approx(
        math.sqrt(math.expm1(2 * rho) / (2 * rho)), rel=1e-12
    )
    assert least_unbiased_variance(privacy) == least_second_moment(privacy)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_unbiased_counts_vary_by_no_less_at_any_count(epsilon: float) -> None:
    """The program may answer far beyond the counts: bias at the ends is what costs."""
    bound = least_unbiased_variance(Privacy(epsilon=epsilon))
    assert bound is not None
    for at in (0, 2):
        least = least_unbiased_count(3, at, epsilon, np.arange(-30.0, 34.0, 0.5))
        assert least >= bound * (1 - 1e-7)


def test_with_a_delta_an_unbiased_count_may_be_certain_at_one_table() -> None:
    """Says 7, but with probability δ what makes the mean right: private, and exact at 7."""
    delta, taken = 0.01, 7.0

    def law(count: float) -> dict[float, float]:
        repair = taken + (count - taken) / delta
        return {taken: 1.0} if repair == taken else {taken: 1 - delta, repair: delta}

    for count in range(15):
        here, there = law(count), law(count + 1)
        assert sum(v * p for v, p in here.items()) == pytest.approx(count)
        for one, other in ((here, there), (there, here)):
            assert (
                sum(max(0.0, p - other.get(v, 0.0)) for v, p in one.items())
                <= delta + 1e-12
            )
    assert law(7) == {7.0: 1.0}
    assert least_unbiased_variance(Privacy(epsilon=1.0, delta=delta)) is None
