"""Several releases under one budget: what they spend together, and how it is split."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.privacy.noise.gaussian import gaussian_delta, zcdp_epsilon
from noisewright.privacy.promise.budget import Privacy

ASKED = ["prefix:8", "identity:8", "total:8"]


def ratios(plans: tuple[object, ...]) -> list[float]:
    return [p.mechanism.sensitivity / p.mechanism.law.scale for p in plans]


@settings(max_examples=6, deadline=None)
@given(
    shares=st.lists(st.floats(0.01, 1), min_size=3, max_size=3),
    epsilon=st.floats(0.1, 5),
)
def test_shares_never_spend_more_than_the_whole(
    shares: list[float], epsilon: float
) -> None:
    parts = [s / sum(shares) for s in shares]
    made = nw.plan(nw.Several(ASKED, shares=parts), Privacy(epsilon=epsilon))
    assert sum(Fraction(p.privacy.epsilon) for p in made.plans) <= Fraction(
        made.privacy.epsilon
    )
    made = nw.plan(nw.Several(ASKED, shares=parts), Privacy(rho=epsilon))
    assert sum(Fraction(p.privacy.rho) for p in made.plans) <= Fraction(epsilon)


def test_an_approximate_budget_is_kept_exactly_and_not_wasted() -> None:
    whole = Privacy(epsilon=1, delta=1e-6)
    made = nw.plan(nw.Several(ASKED), whole, nw.Central(composition="many"))
    ratio = float(np.linalg.norm(ratios(made.plans)))
    assert gaussian_delta(1.0, ratio) <= 1e-6 * (1 + 1e-9)
    assert gaussian_delta(1.0, ratio * 1.001) > 1e-6


def test_chosen_shares_beat_equal_ones_and_follow_importance() -> None:
    whole = Privacy(rho=0.5)
    best = nw.plan(nw.Several(ASKED), whole)
    equal = nw.plan(nw.Several(ASKED, shares=[1 / 3] * 3), whole)

    def total(made: object) -> float:
        return sum(float(p.accuracy.variance.sum()) for p in made.plans)

    assert total(best) < total(equal)
    rng = np.random.default_rng(0)
    for _ in range(5):
        drawn = rng.dirichlet(np.ones(3))
        assert total(best) <= total(
            nw.plan(nw.Several(ASKED, shares=list(drawn)), whole)
        ) * (1 + 1e-6)
    tilted = nw.plan(nw.Several(ASKED, importance=[1.0, 1.0, 10.0]), whole)
    assert tilted.shares[2] > best.shares[2]


@pytest.mark.parametrize(
    "bad",
    [{"shares": [0.5, 0.6, 0.1]}, {"shares": [1.0]}, {"shares": [0.5, -0.1, 0.2]},
     {"importance": [1.0, 0.0, 1.0]}],
)  # fmt: skip
def test_bad_shares_are_refused(bad: dict[str, list[float]]) -> None:
    with pytest.raises(InvalidParameter):
        nw.plan(nw.Several(ASKED, **bad), Privacy(rho=1))
    with pytest.raises(InvalidParameter):
        nw.plan(nw.Several([]), Privacy(rho=1))


def test_what_several_plans_spend_together() -> None:
    gaussian = [
        nw.plan("prefix:8", Privacy(rho=0.1)),
        nw.plan("identity:8", Privacy(rho=0.2)),
    ]
    one = nw.plan("identity:8", Privacy(rho=0.3))
    # Gaussian releases add up exactly: two of them are one with the sum of their ρ.
    together, alone = nw.epsilon_of(gaussian, 1e-6), nw.epsilon_of([one], 1e-6)
    assert together == pytest.approx(alone, rel=1e-3)
    assert together <= nw.epsilon_of(gaussian, 1e-6, accounting="zcdp")
    mixed = [*gaussian, nw.plan("identity:8", Privacy(epsilon=0.5))]
    assert together < nw.epsilon_of(mixed, 1e-6) <= together + 0.5 + 1e-3
    with pytest.raises(InvalidParameter, match="one relation"):
        nw.epsilon_of([], 1e-6)


PEOPLE = nw.Domain(
    (
        nw.Categorical("sex", ("F", "M")),
        nw.Numeric("age", edges=(0, 50, 100), integer=True),
    )
)
EVERY_KIND = {
    "counts": lambda budget: nw.plan("identity:8", budget),
    "sums": lambda budget: nw.plan(nw.Sums("age", [["sex"], []], PEOPLE), budget),
    "public counts": lambda budget: nw.plan(nw.Sums("age", [[]], PEOPLE), budget),
    "stream": lambda budget: nw.plan(nw.RunningCount(50), budget),
}


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_of_plan_spends_what_it_was_given(
    kind: str, neighbours: str
) -> None:
    """Gaussian releases of any kind are one release of the ratio √(2ρ), exactly."""
    made = EVERY_KIND[kind](Privacy(rho=0.1, neighbours=neighbours))
    for plans, rho in (([made], 0.1), ([made, made], 0.2)):
        for delta in (1e-6, 1e-18, 1e-200):
            epsilon = nw.epsilon_of(plans, delta)
            assert epsilon <= zcdp_epsilon(rho, delta)
            assert gaussian_delta(epsilon, np.sqrt(2 * rho) * (1 - 1e-7)) <= delta
            assert gaussian_delta(epsilon, np.sqrt(2 * rho) * (1 + 1e-7)) > delta
    if kind != "stream":
        pure = EVERY_KIND[kind](Privacy(epsilon=0.5, neighbours=neighbours))
        assert nw.epsilon_of([pure], 1e-9, "zcdp") == pytest.approx(0.5, rel=1e-9)


def test_reports_without_a_curator_add_up() -> None:
    told = nw.plan(
        "identity:4", Privacy(epsilon=1, neighbours="replace-one"), nw.Local()
    )
    counted = nw.plan("identity:4", Privacy(epsilon=0.5, neighbours="replace-one"))
    assert nw.epsilon_of([told], 1e-9) == told.privacy.epsilon
    assert nw.epsilon_of([told, counted], 1e-9, "zcdp") == pytest.approx(1.5)
    with pytest.raises(InvalidParameter, match="one relation"):
        nw.epsilon_of([told, nw.plan("identity:4", Privacy(epsilon=1))], 1e-9)


@pytest.mark.parametrize("rho", [0.02, 1.0, 1e4, 1e8])
def test_large_budgets_end_and_mixtures_are_above_the_truth(rho: float) -> None:
    """Beside a Gaussian release, the least private pure one shifts its loss by ±ε."""
    first, second = (
        nw.plan("identity:8", Privacy(rho=rho)),
        nw.plan("total:8", Privacy(epsilon=1)),
    )
    delta, ratio = 1e-6, float(np.sqrt(2 * rho))
    epsilon = nw.epsilon_of([first, second], delta)
    assert epsilon <= nw.epsilon_of([first], delta) + 1 + 1e-9
    odds = np.e / (1 + np.e)
    exact = odds * gaussian_delta(epsilon - 1, ratio) + (1 - odds) * gaussian_delta(
        epsilon + 1, ratio
    )
    assert exact <= delta * (1 + 1e-6)


def test_delta_of_several_plans_is_checked() -> None:
    made = nw.plan("identity:4", Privacy(rho=1))
    for delta in (0, 1, float("nan"), -1e-9):
        with pytest.raises(InvalidParameter, match="delta"):
            nw.epsilon_of([made], delta)
    with pytest.raises(InvalidParameter, match="accounting"):
        nw.epsilon_of([made], 1e-9, "renyi")  # type: ignore[arg-type]


@pytest.mark.parametrize("importance", [[1e200, 1.0], [1e-200, 1.0], [5e-324, 1.7e308]])
def test_extreme_importance_leaves_every_release_a_share(
    importance: list[float],
) -> None:
    made = nw.plan(
        nw.Several(["identity:4", "total:4"], importance=importance), Privacy(rho=1)
    )
    assert all(share > 0 for share in made.shares)
    assert sum(map(Fraction, made.shares)) <= 1


@pytest.mark.filterwarnings("ignore::noisewright.errors.WeakPrivacyWarning")
def test_extreme_budgets_are_split_or_refused() -> None:
    asked = ["prefix:4", "identity:4"]
    without_noise = nw.plan(
        nw.Several(asked), Privacy(epsilon=1e15, neighbours="replace-one")
    )
    assert 0 < sum(map(Fraction, without_noise.shares)) <= 1
    with pytest.raises(InvalidParameter, match="epsilon="):
        nw.plan(nw.Several(asked), Privacy(epsilon=5e-324, neighbours="replace-one"))
