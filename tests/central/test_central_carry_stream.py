"""Running counts under pure privacy: the error forecast, the budget spent, and what is kept."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.carry.stream import CarryStream, CarryStreamMechanism, Level
from noisewright.errors import InvalidParameter, OutOfReach
from oracles.privacy_oracles import SeededSource
from oracles.signed_tree import best_tree_error

PURE = nw.Privacy(epsilon=1)
SMALL = CarryStreamMechanism(25, PURE, (Level(1, 5, 3.0), Level(6, 4, 2.0)))


def errors_of(plan: CarryStreamMechanism, runs: int) -> np.ndarray:
    """Errors at every step of seeded streams, one a row."""
    result = []
    for seed in range(runs):
        stream = CarryStream(plan, SeededSource(seed))
        counts = np.arange(plan.steps) % 5
        answers = [stream.step(int(count)) for count in counts]
        result.append(np.array(answers) - np.cumsum(counts))
    return np.array(result)


@pytest.mark.parametrize(
    "plan",
    [SMALL, nw.plan(nw.RunningCount(12), PURE).mechanism],
    ids=["levels", "one level"],
)
def test_errors_are_those_forecast_and_intervals_hold(
    plan: CarryStreamMechanism,
) -> None:
    runs = 800
    errors = errors_of(plan, runs)
    # Eight deviations of a sample variance at a kurtosis of ten, and four of a mean.
    assert np.abs((errors**2).mean(axis=0) / plan.errors**2 - 1).max() < 8 * np.sqrt(
        9 / runs
    )
    assert np.abs(errors.mean(axis=0) / plan.errors).max() < 4.5 / np.sqrt(runs)
    covered = (np.abs(errors) <= plan.multiplier(0.95) * plan.errors).mean(axis=0)
    assert covered.min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / runs)
    together = np.abs(errors) <= plan.simultaneous_multiplier(0.95) * plan.errors
    assert together.all(axis=1).mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / runs)


def test_every_level_counts_a_person_once_and_all_spend_the_budget() -> None:
    for neighbours, people in (("add-remove", 1), ("replace-one", 2)):
        plan = nw.plan(
            nw.RunningCount(5000), nw.Privacy(epsilon=1, neighbours=neighbours)
        )
        assert len(plan.mechanism.levels) > 1
        spent = sum(people / Fraction(level.scale) for level in plan.mechanism.levels)
        (loss,) = plan.spend.losses
        assert spent <= Fraction(loss.ratio) <= 1
        assert loss.ratio > 1 - 1e-9


def test_without_noise_the_count_is_exact() -> None:
    tiny = (Level(1, 5, 2.0**-30), Level(6, 4, 2.0**-30))
    assert not errors_of(CarryStreamMechanism(25, PURE, tiny), 1).any()


@pytest.mark.parametrize("steps", [64, 1024, 2**14])
def test_it_is_better_than_trees_with_negative_digits(steps: int) -> None:
    plan = nw.plan(nw.RunningCount(steps), PURE)
    assert np.sqrt(np.mean(plan.mechanism.errors**2)) < 0.85 * best_tree_error(steps)


@pytest.mark.slow
def test_a_million_steps_are_planned_and_answered() -> None:
    plan = nw.plan(nw.RunningCount(10**6), PURE)
    forecast = plan.forecast()
    assert forecast.rmse < 30
    stream = CarryStream(plan.mechanism, SeededSource(1))
    errors = np.array([stream.step(1) for _ in range(10**6)]) - np.arange(1, 10**6 + 1)
    assert (np.abs(errors) <= forecast.simultaneous_halfwidth).all()
    # steps of one stream hang together
    assert (np.abs(errors) <= forecast.halfwidth).mean() > 0.85


def test_plans_are_kept(tmp_path: Path) -> None:
    plan = nw.plan(nw.RunningCount(40), PURE)
    plan.save(tmp_path / "plan.nw")
    again = nw.load(tmp_path / "plan.nw")
    np.testing.assert_array_equal(again.mechanism.errors, plan.mechanism.errors)
    assert again.summary()["mechanism"] == "carry"


def test_refusals() -> None:
    stream = nw.plan(nw.RunningCount(1), PURE).start()
    with pytest.raises(InvalidParameter, match="increment='\\?'"):
        stream.step(0.5)  # type: ignore[arg-type]
    stream.step(1)
    with pytest.raises(OutOfReach, match="1 steps"):
        stream.step(1)
    for steps in (0, 10**12):
        with pytest.raises(InvalidParameter, match="steps="):
            nw.plan(nw.RunningCount(steps), PURE)
    with pytest.raises(InvalidParameter, match="epsilon="):
        nw.plan(nw.RunningCount(5), nw.Privacy(epsilon=1e-14))
