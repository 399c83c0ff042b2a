"""Means of a matrix over people: bias, variance, range and tails, each by its definition."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.local.vector.linear_answers import LinearAnswers, fitted_answers
from noisewright.local.vector.max_error import plan_answers
from noisewright.local.vector.tails import Tails

SIGNS = np.where(np.tril(np.ones((5, 5))) > 0, 1.0, -1.0)


def numbers(answers: LinearAnswers) -> np.ndarray:
    """What each single report is read as, a column per report, through the public estimate."""
    reports = range(answers.strategy.outputs)
    return np.stack([answers.estimate(np.array([o])) for o in reports], axis=1)


@pytest.mark.parametrize("randomizer", ["one-bit", "privunit"])
@pytest.mark.parametrize("signed", [False, True])
def test_mean_variance_and_range_over_all_reports(
    randomizer: str, signed: bool
) -> None:
    rng = np.random.default_rng(3)
    rows, columns = rng.normal(size=(4, 3)), rng.normal(size=(3, 5))
    z = rows @ columns
    answers = fitted_answers(z, columns, 1.0, signed=signed, randomizer=randomizer)
    z = np.hstack([z, -z]) if signed else z
    v, q = numbers(answers), answers.strategy.dense()
    np.testing.assert_allclose(v @ q, z, atol=1e-9)
    np.testing.assert_allclose(answers.targets, z, atol=1e-12)
    tails = answers.tails
    # The largest variance over populations: no random one exceeds it, and one found by many tries
    # comes near.
    people = rng.dirichlet(np.full(q.shape[1], 0.3), size=20_000)
    chances = people @ q.T
    each = chances @ (v**2).T - (chances @ v.T) ** 2
    assert (each.max(axis=0) <= tails.variance * (1 + 1e-9)).all()
    assert (each.max(axis=0) >= tails.variance * 0.97).all()
    np.testing.assert_allclose(tails.above, v.max(axis=1) - z.min(axis=1), rtol=1e-9)
    np.testing.assert_allclose(tails.below, z.max(axis=1) - v.min(axis=1), rtol=1e-9)


def test_tails_hold_for_sums_of_coins() -> None:
    """The bound on the chance of an error is above the exact one of a binomial."""
    from scipy.stats import binom

    none = np.zeros(1)
    for chance in (0.02, 0.3, 0.5):
        tails = Tails(
            np.array([chance * (1 - chance)]),
            np.array([1 - chance]),
            np.array([chance]),
            none,
            none,
        )
        for people in (10, 100, 1000):
            for error in (0.05, 0.1, 0.3):
                exact = binom.sf(
                    np.ceil(people * (chance + error) - 1e-9) - 1, people, chance
                )
                exact += binom.cdf(
                    np.floor(people * (chance - error) + 1e-9), people, chance
                )
                assert tails.failure(error, people) >= exact * (1 - 1e-12)


def test_people_and_error_are_inverse() -> None:
    answers = plan_answers(np.tril(np.ones((8, 8))), 1.0, 0.1, 0.05)
    needed = answers.people
    assert answers.error(needed, 0.05) <= 0.1 < answers.error(needed - 1, 0.05)
    assert answers.deviation(needed, 0.05) <= answers.error(needed, 0.05)
    assert answers.people_for(0.1, 0.05) <= needed
    assert answers.error(1, 0.5) > 0.1


def test_a_tolerance_is_used_where_it_helps_and_the_bias_is_what_it_says() -> None:
    """Three-way marginals at a coarse error: within a tolerance fewer people are needed."""
    matrix = nw.workload("marginals:2^5:3").dense()
    exact = plan_answers(matrix, 1.0, 0.4, 0.05, entrywise=0.0)
    near = plan_answers(matrix, 1.0, 0.4, 0.05)
    assert near.people <= exact.people
    fixed = plan_answers(matrix, 1.0, 0.4, 0.05, entrywise=0.2)
    away = np.abs(fixed.targets - matrix).max(axis=1)
    np.testing.assert_allclose(fixed.bias, away, atol=1e-12)
    assert 0.1 < away.max() <= 0.2 * (1 + 1e-9)


def test_labels_turn_the_sign_and_reports_merge() -> None:
    plan = plan_answers(SIGNS, 1.0, 0.25, 0.05, signed=True)
    assert plan.strategy.size == 10
    assert plan.strategy.promise.epsilon == 1.0
    rng = np.random.default_rng(5)
    points, labels = rng.integers(0, 5, plan.people), rng.choice([1, -1], plan.people)
    held = np.where(labels > 0, points, 5 + points)
    truth = (SIGNS[:, points] * labels).mean(axis=1)
    reports = plan.randomize(held)
    half = len(reports) // 2
    merged = plan.aggregate(reports[:half]).merge(plan.aggregate(reports[half:]))
    estimate = plan.estimate(merged)
    np.testing.assert_array_equal(estimate, plan.estimate(reports))
    # false alarm below 0.05 by the plan's promise
    assert np.abs(estimate - truth).max() <= 0.25


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("alpha", {"alpha": 0.0}),
        ("beta", {"beta": 1.0}),
        ("entrywise", {"entrywise": 0.2}),
        ("matrix", {"matrix": np.array([[np.nan, 1.0]])}),
        ("epsilon", {"epsilon": -1.0}),
    ],
)
def test_bad_input_is_refused(name: str, settings: dict[str, float]) -> None:
    given = {"matrix": SIGNS, "epsilon": 1.0, "alpha": 0.1, "beta": 0.05} | settings
    with pytest.raises(InvalidParameter, match=f"{name}="):
        plan_answers(**given)  # type: ignore[arg-type]
