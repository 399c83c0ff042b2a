"""Shuffling: sound against enumeration, monotone, and within the published closed form."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.amplification import (
    _fair_tail,
    shuffled,
    shuffled_delta,
)
from oracles.shuffle_oracles import (
    randomized_response,
    staircase,
    worst_binary_delta,
    worst_delta,
)


@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(
    ("values", "people"), [(2, 1), (2, 2), (2, 12), (3, 5), (4, 3)]
)
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.8, 1.0])
def test_delta_covers_randomized_response(
    local: float, values: int, people: int, fraction: float
) -> None:
    strategy = randomized_response(values, local)
    epsilon = fraction * local
    exact = worst_delta(strategy, people, epsilon)
    bound = shuffled_delta(local, people, epsilon)
    assert exact <= bound + 1e-14
    if people == 1 and values == 2:  # nobody to hide among: the bound is exact
        assert bound == pytest.approx(exact, rel=1e-6, abs=1e-14)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), local=st.floats(0.2, 3), people=st.integers(2, 4)
)
def test_delta_covers_any_private_strategy(
    seed: int, local: float, people: int
) -> None:
    random = np.random.default_rng(seed)
    two_valued = np.where(random.random((4, 3)) < 0.5, 1.0, np.exp(local / 2))
    strategy = two_valued / two_valued.sum(axis=0)  # ratios at most e^(ε/2) · e^(ε/2)
    assert (
        strategy.max(axis=1) <= np.exp(local) * strategy.min(axis=1) * (1 + 1e-12)
    ).all()
    epsilon = float(random.uniform(0, local))
    assert (
        worst_delta(strategy, people, epsilon)
        <= shuffled_delta(local, people, epsilon) + 1e-14
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    values=st.integers(2, 3),
    local=st.floats(0.2, 6),
    people=st.integers(2, 5),
    fraction=st.floats(0, 1),
)
def test_delta_covers_strategies_with_extreme_ratios(
    seed: int, values: int, local: float, people: int, fraction: float
) -> None:
    exact = worst_delta(staircase(seed, values, local), people, fraction * local)
    assert exact <= shuffled_delta(local, people, fraction * local) * (1 + 1e-9) + 1e-13


def check_large_local_epsilons(step: float) -> None:
    for people in (5, 20):
        for local in np.arange(18, 40.01, step).tolist():
            for delta in (1e-6, 1e-9, 1e-12):
                epsilon = shuffled(local, people, delta).epsilon
                assert epsilon is not None
                assert worst_binary_delta(people, local, epsilon) <= delta, (
                    people,
                    local,
                    delta,
                )


def test_the_stated_epsilon_holds_at_large_local_epsilons() -> None:
    """Randomized response between two values, enumerated in sixty digits."""
    check_large_local_epsilons(1.5)


@pytest.mark.slow
def test_the_stated_epsilon_holds_at_all_large_local_epsilons() -> None:
    check_large_local_epsilons(0.2)


def test_the_bound_is_near_randomized_response() -> None:
    """A thousand people with two values, all others alike: no more than a seventh is given away."""
    local, people, delta = 4.0, 1000, 1e-6
    lie = 1 / (1 + np.exp(local))
    others = np.append(binom.pmf(np.arange(people), people - 1, lie), 0.0)
    one_more = np.roll(others, 1)
    p, q = (1 - lie) * one_more + lie * others, lie * one_more + (1 - lie) * others

    def exact(epsilon: float) -> float:
        return float(
            max(
                np.maximum(a - np.exp(epsilon) * b, 0).sum()
                for a, b in ((p, q), (q, p))
            )
        )

    epsilon = shuffled(local, people, delta).epsilon
    assert epsilon is not None
    assert exact(epsilon) <= delta < exact(epsilon * 6 / 7)


@settings(max_examples=20, deadline=None)
@given(
    local=st.floats(0.1, 4),
    people=st.integers(1, 10**7),
    delta=st.floats(-12, -2).map(lambda exponent: 10.0**exponent),
    factor=st.floats(1.1, 5),
)
def test_more_people_more_delta_or_less_epsilon_never_hurt(
    local: float, people: int, delta: float, factor: float
) -> None:
    central = shuffled(local, people, delta)
    found = central.epsilon
    assert found is not None
    assert central.neighbours == "replace-one"
    assert found <= local
    # Grouping numbers of clones moves the bound by parts in ten thousand.
    slack = 1.001
    for more in (
        shuffled(local, int(people * factor) + 1, delta),
        shuffled(local, people, min(0.9, delta * factor)),
        shuffled(local / factor, people, delta),
    ):
        assert more.epsilon is not None
        assert more.epsilon <= found * slack + 1e-7
    assert shuffled_delta(local, people, found) <= delta


@pytest.mark.parametrize("local", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("people", [10**5, 10**8])
def test_the_sum_is_within_the_closed_form(local: float, people: int) -> None:
    """Theorem 3.1 of "Hiding among the clones" (2021), which bounds a weaker divergence."""
    growth = np.exp(local)
    spread = 8 * np.sqrt(growth * np.log(4e9)) / np.sqrt(people) + 8 * growth / people
    closed = np.log(1 + (growth - 1) / (growth + 1) * spread)
    assert 0.1 * closed < shuffled(local, people, 1e-9).epsilon < closed  # type: ignore[operator]


@pytest.mark.parametrize("tosses", [7, 1000, 10**6])
def test_binomial_tails_are_far_better_than_the_slack(tosses: int) -> None:
    for deviations in (-2, 0, 3, 7):
        least = min(tosses, int(tosses / 2 + deviations * tosses**0.5 / 2))
        with mpmath.workdps(40):
            term = total = mpmath.binomial(tosses, least) / mpmath.mpf(2) ** tosses
            for k in range(least, tosses):
                term *= mpmath.mpf(tosses - k) / (k + 1)
                total += term
                if term < total * 1e-25:
                    break
        found = _fair_tail(np.array([float(least)]), np.array([float(tosses)]))[0]
        assert found == pytest.approx(float(total), rel=1e-11)
    edges = _fair_tail(np.array([0.0, -3.0, tosses + 1.0]), np.full(3, float(tosses)))
    assert edges.tolist() == [1, 1, 0]


def test_what_cannot_be_amplified_is_refused() -> None:
    for people in (0, -1, 2.5, True, 10**11):
        with pytest.raises(InvalidParameter, match="people="):
            shuffled(1.0, people, 1e-9)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="local_epsilon=0 must be > 0"):
        shuffled(0, 10, 1e-9)
    with pytest.raises(InvalidParameter, match="delta=0 must lie"):
        shuffled(1.0, 10, 0)
