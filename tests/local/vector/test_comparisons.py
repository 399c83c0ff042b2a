"""Chances that a smaller answer is told above a larger one are bounded, and below Bennett's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from noisewright.local.vector import tails as module
from noisewright.local.vector.linear_answers import LinearAnswers, fitted_answers
from noisewright.local.vector.tails import Comparisons, Tails, comparisons

THRESHOLDS = np.where(np.arange(4) < np.arange(5)[:, None], 1.0, -1.0)
SIGNED = np.hstack([THRESHOLDS, -THRESHOLDS])


@pytest.fixture(scope="module")
def answers() -> LinearAnswers:
    return fitted_answers(THRESHOLDS, np.eye(4), 1.0, signed=True)


def test_moments_of_differences_are_those_of_every_report(
    answers: LinearAnswers,
) -> None:
    """From the definition, pair by pair and column by column."""
    told = comparisons(answers, SIGNED * 0.98)
    assert told is not None
    numbers, chances = answers.targets @ answers.reading, answers.strategy.dense()
    for i, j in product(range(5), repeat=2):
        d = numbers[i] - numbers[j]
        means, cubes = d @ chances, d**3 @ chances
        assert told.second[i, j] == pytest.approx((d**2 @ chances).max())
        assert told.reach[i, j] == pytest.approx(np.abs(d).max())
        least = min(cubes.max(), (cubes - np.abs(d).max() ** 2 * means).max())
        assert told.third[i, j] == pytest.approx(least, rel=1e-6, abs=1e-6)
        away = means - 0.98 * (SIGNED[i] - SIGNED[j])
        assert told.bias[i, j] == pytest.approx(away.max(), abs=1e-9)


def test_no_distribution_of_people_is_mistaken_more_often(
    answers: LinearAnswers,
) -> None:
    """Chernoff's bound at the best λ, for people of any kind with the first answer 0.8 behind.

    Theirs is the exact moment generating function; the bound over all of them is never smaller.
    """
    told = comparisons(answers, SIGNED)
    assert told is not None
    numbers, chances = answers.targets @ answers.reading, answers.strategy.dense()
    rng, seen = np.random.default_rng(0), 0
    for people in rng.dirichlet(np.full(8, 0.3), 200):
        truth = SIGNED @ people
        for i, j in product(range(5), repeat=2):
            behind = truth[j] - truth[i]
            if behind < 0.8:
                continue
            seen += 1
            reports, d = chances @ people, numbers[i] - numbers[j]
            best = minimize_scalar(
                lambda lam, d=d, reports=reports: np.log(reports @ np.exp(lam * d)),
                bounds=(0, 4 / np.abs(d).max()),
                method="bounded",
            )
            exponent = told._exponents(np.full((5, 5), behind))[i, j]
            assert 0 < exponent <= -best.fun * (1 + 1e-6)
    assert seen > 200


def test_exact_chances_of_few_people_are_below_the_bound() -> None:
    """Two answers, one told wrong by each of few reports: all of them counted out."""
    d, chances = np.array([-3.0, 0.0, 3.0]), np.array([0.5, 0.2, 0.3])
    mean, second = float(d @ chances), float(d**2 @ chances)
    one = np.ones((2, 2))
    told = Comparisons(second * one, 0 * one, 3.0 * one, 0 * one)
    for people in (5, 20, 80, 320):
        law = np.array([1.0])
        for _ in range(people):
            law = np.convolve(law, chances)
        wrong = law[people:].sum()
        assert wrong <= told.failure(-mean, people)


@pytest.mark.parametrize("u", [1e-6, 0.01, 0.3, 3.0, 100.0])
def test_the_largest_third_moment_gives_bennetts_bound(u: float) -> None:
    """Half the skewness lies between; no bound falls where an answer is further behind."""
    one = np.ones((2, 2))
    v, b = 7.0 * one, 3.0 * one
    bennett = Tails(v[0], b[0], b[0], 0 * one[0], 0 * one[0])
    room = u * 7.0 / 3.0
    told = [Comparisons(v, w * v * b, b, 0 * one) for w in (1.0, 0.5, 0.0)]
    failures = [each.failure(room, 30) for each in told]
    assert failures[0] == pytest.approx(bennett.chances(room, 30)[0][0], rel=1e-6)
    assert failures[0] >= failures[1] >= failures[2]
    for each in told:
        steps = [each.failure(room * k, 30) for k in np.linspace(0.5, 2, 50)]
        assert (np.diff(steps) <= 1e-12).all()


def test_pairs_that_are_too_many_are_left_out(
    answers: LinearAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WORK", 1000)
    assert comparisons(answers, SIGNED) is None
