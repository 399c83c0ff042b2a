"""Local plans for a largest error: the ranking, the promise, the bias that is said, the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.planning.local.plan import LocalPlan

PRIVACY = nw.Privacy(epsilon=1)


@pytest.fixture(scope="module")
def plan():  # type: ignore[no-untyped-def]
    return nw.plan("prefix:16", PRIVACY, nw.Local(max_error=0.1, effort="low"))


def test_the_plan_needs_the_fewest_people_of_all(plan) -> None:  # type: ignore[no-untyped-def]
    needed = plan.people_for_max_error()
    others = {row["mechanism"]: row["people_for_max_error"] for row in plan.runners_up}
    assert needed <= min(others.values())
    assert {"approximate", "optimised", plan.mechanism.name} <= {
        *others,
        plan.mechanism.name,
    }
    assert plan.max_error(needed) <= 0.1 < plan.max_error(needed - 1)
    document = plan.summary()
    assert document["people_for_max_error"] == needed
    assert document["beta"] == 0.05


def test_a_small_simulation_keeps_the_error(plan) -> None:  # type: ignore[no-untyped-def]
    """Twenty runs on three data sets each keep an error that fails one time in twenty at most.

    Failing more than four times in sixty has probability below 0.2 at a failure chance of 0.05.
    The bound is a union over queries: what is seen is about no failure at all.
    """
    needed, matrix = plan.people_for_max_error(), plan.workload.dense()
    rng = np.random.default_rng(0)
    failures = 0
    for data in (
        np.zeros(needed, int),
        np.full(needed, 8),
        rng.integers(0, 16, needed),
    ):
        truth = matrix[:, data].mean(axis=1)
        for _ in range(20):
            answers = plan.estimate(plan.randomize(data)).answers / needed
            failures += bool(np.abs(answers - truth).max() > 0.1)
    assert failures <= 4


def biased() -> LocalPlan:
    plan = nw.plan(
        "prefix:8", PRIVACY, nw.Local(mechanism="approximate", max_error=0.2)
    )
    return replace(plan, targets=plan.workload.dense() * 0.9 + 0.05)


def test_bias_is_forecast_and_widens_intervals() -> None:
    plan = biased()
    assert plan.bias is not None
    np.testing.assert_allclose(plan.bias[:7], 0.05, atol=1e-12)
    forecast, plain = plan.forecast(1000), replace(plan, targets=None).forecast(1000)
    assert forecast.bias is not None
    np.testing.assert_allclose(forecast.bias, 1000 * plan.bias)
    assert plain.bias is None
    assert (forecast.halfwidth >= forecast.bias).all()
    data = np.full(1000, 3)
    reports = plan.randomize(data)
    wide, narrow = plan.estimate(reports), replace(plan, targets=None).estimate(reports)
    width = wide.intervals.each[1] - wide.intervals.each[0]
    assert (width[:7] >= 2 * 50).all()
    assert not np.allclose(wide.answers, narrow.answers)
    assert plan.max_error(1000) > 0.05


def test_the_file_keeps_the_goal_and_the_targets(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plan, path = biased(), tmp_path / "plan.nw"
    plan.save(path)
    again = nw.load(path)
    assert isinstance(again, LocalPlan)
    assert again.goal == plan.goal
    np.testing.assert_array_equal(again.targets, plan.targets)
    assert again.people_for_max_error() == plan.people_for_max_error()


@pytest.mark.parametrize("targets", [np.zeros((3, 8)), np.full((8, 8), np.nan)])
def test_targets_that_do_not_fit_are_refused(targets: np.ndarray) -> None:
    with pytest.raises(InvalidParameter, match="targets="):
        replace(biased(), targets=targets)


def test_the_command_says_how_many_people() -> None:
    command = "plan prefix:8 --model local --epsilon 1 --max-error 0.1 --effort low"
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 0, result.output
    assert "within ± 0.1" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("max_error", {"max_error": 0.0}),
        ("beta", {"max_error": 0.1, "beta": 2.0}),
        ("beta", {"beta": 0.1}),
    ],
)
def test_goals_that_are_none_are_refused(name: str, settings: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match=f"{name}="):
        nw.plan("prefix:4", PRIVACY, nw.Local(**settings))


def test_a_strategy_that_comes_with_a_proof_must_need_fewer_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a proof finds is of less variance; the goal is another, and its plan keeps its bias."""
    from noisewright.local.histogram.sets import RandomizedResponse
    from noisewright.local.optimise import proving

    settings = nw.Local(max_error=0.2, effort="low")
    before = nw.plan("prefix:8", PRIVACY, settings)
    worse = RandomizedResponse(8, 1.0)
    monkeypatch.setattr(proving, "proven", lambda *_, **__: (worse, None))
    after = nw.plan("prefix:8", PRIVACY, settings)
    assert after.people_for_max_error() == before.people_for_max_error()
    assert after.mechanism.name == before.mechanism.name


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 1e-4, 1e-3])
def test_small_budgets_take_as_many_people_as_they_must_or_are_refused(
    epsilon: float,
) -> None:
    """Reports tell ε² of a person: people times ε² do not fall, whatever mechanisms are left."""
    try:
        plan = nw.plan("prefix:16", nw.Privacy(epsilon), nw.Local(max_error=0.1))
    except OutOfReach:
        return
    usual = nw.plan("prefix:16", nw.Privacy(epsilon=0.01), nw.Local(max_error=0.1))
    least = 0.9 * usual.people_for_max_error(0.1) * 0.01**2
    assert plan.people_for_max_error(0.1) * epsilon**2 > least
