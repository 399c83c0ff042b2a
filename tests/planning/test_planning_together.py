"""Several releases under one budget: what they spend together, and how it is split."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.privacy.budget import Privacy
from noisewright.privacy.composition import compose_gaussians, loss_distribution_epsilon
from noisewright.privacy.gaussian import gaussian_delta

ASKED = ["prefix:8", "identity:8", "total:8"]


def ratios(plans: tuple[object, ...]) -> list[float]:
    return [p.sensitivity / p.law.scale for p in plans]


@settings(max_examples=6, deadline=None)
@given(
    shares=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    epsilon=st.floats(0.1, 5),
)
def test_shares_never_spend_more_than_the_whole(shares: list[float], epsilon: float) -> None:
    parts = [s / sum(shares) for s in shares]
    made = nw.plan_together(ASKED, Privacy(epsilon=epsilon), shares=parts)
    assert sum(Fraction(p.privacy.epsilon) for p in made.plans) <= Fraction(made.privacy.epsilon)
    made = nw.plan_together(ASKED, Privacy(rho=epsilon), shares=parts)
    assert sum(Fraction(p.privacy.rho) for p in made.plans) <= Fraction(epsilon)


def test_an_approximate_budget_is_kept_exactly_and_not_wasted() -> None:
    whole = Privacy(epsilon=1, delta=1e-6)
    made = nw.plan_together(ASKED, whole)
    ratio = compose_gaussians(ratios(made.plans))
    assert gaussian_delta(1.0, ratio) <= 1e-6 * (1 + 1e-9)
    assert gaussian_delta(1.0, ratio * 1.001) > 1e-6


def test_loss_distributions_agree() -> None:
    pytest.importorskip("dp_accounting")
    made = nw.plan_together(ASKED, Privacy(epsilon=1, delta=1e-6))
    found = loss_distribution_epsilon(1e-6, ratios=ratios(made.plans))
    assert found == pytest.approx(1.0, rel=2e-3)


def test_chosen_shares_beat_equal_ones_and_follow_importance() -> None:
    whole = Privacy(rho=0.5)
    best = nw.plan_together(ASKED, whole)
    equal = nw.plan_together(ASKED, whole, shares=[1 / 3] * 3)

    def total(made: object) -> float:
        return sum(float(p.variances.sum()) for p in made.plans)

    assert total(best) < total(equal)
    rng = np.random.default_rng(0)
    for _ in range(5):
        drawn = rng.dirichlet(np.ones(3))
        assert total(best) <= total(nw.plan_together(ASKED, whole, shares=list(drawn))) * (1 + 1e-6)
    tilted = nw.plan_together(ASKED, whole, importance=[1.0, 1.0, 10.0])
    assert tilted.shares[2] > best.shares[2]


@pytest.mark.parametrize(
    "bad",
    [{"shares": [0.5, 0.6, 0.1]}, {"shares": [1.0]}, {"shares": [0.5, -0.1, 0.2]},
     {"importance": [1.0, 0.0, 1.0]}],
)  # fmt: skip
def test_bad_shares_are_refused(bad: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidParameter):
        nw.plan_together(ASKED, Privacy(rho=1), **bad)
    with pytest.raises(InvalidParameter):
        nw.plan_together([], Privacy(rho=1))


def test_what_several_plans_spend_together() -> None:
    pytest.importorskip("dp_accounting")
    gaussian = [nw.plan("prefix:8", Privacy(rho=0.1)), nw.plan("identity:8", Privacy(rho=0.2))]
    one = nw.plan("identity:8", Privacy(rho=0.3))
    # Gaussian releases add up exactly: two of them are one with the sum of their ρ.
    together, alone = nw.epsilon_of(gaussian, 1e-6), nw.epsilon_of([one], 1e-6)
    assert together == pytest.approx(alone, rel=1e-3)
    assert together <= nw.epsilon_of(gaussian, 1e-6, accounting="zcdp")
    mixed = [*gaussian, nw.plan("identity:8", Privacy(epsilon=0.5))]
    assert together < nw.epsilon_of(mixed, 1e-6) <= together + 0.5 + 1e-3
    with pytest.raises(InvalidParameter, match="one relation"):
        nw.epsilon_of([], 1e-6)
