"""How many standard errors hold what answers are judged by, each and all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import noisewright as nw
from noisewright.arrays import FloatArray, IntArray
from noisewright.estimate.accuracy import Accuracy
from noisewright.estimate.intervals import (
    laplace_multiplier,
    normal_multiplier,
    sidak_multiplier,
)
from noisewright.planning.central.answers import statistic_widths
from noisewright.workload.questions.spec import Questions, questions
from noisewright.workload.structure import Term

DOMAIN = nw.Domain(
    (
        nw.Categorical("region", tuple("ABCDE")),
        nw.Numeric("income", edges=(0, 50, 100), lower=-10.0, upper=10.0),
    )
)
COUNTS = {"marginal": ["region"]}
SUMS = {"sum": "income", "by": ["region"]}
MEANS = {"mean": "income", "by": ["region"]}


@dataclass(frozen=True, eq=False)
class Apart(Accuracy):
    """Independent errors of unit variance: normal ones, or rare and large ones."""

    answers: int
    rare: float = 0.0

    @property
    def alike(self) -> bool:
        return not self.rare

    @property
    def variance(self) -> FloatArray:
        return np.ones(self.answers)

    def covariance(self, chosen: IntArray) -> FloatArray:
        return np.eye(self.answers)[:, chosen]

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        if not self.rare:
            return rng.standard_normal((count, self.answers))
        hit = rng.random((count, self.answers)) < self.rare
        return hit * rng.choice([-1.0, 1.0], hit.shape) / np.sqrt(self.rare)

    def multiplier(self, level: float) -> float:
        if not self.rare:
            return normal_multiplier(level)
        return 0.0 if 1 - level >= self.rare else self.rare**-0.5

    def bounded_multiplier(self, answers: int, level: float) -> float:
        return (
            super().bounded_multiplier(answers, level)
            if self.rare
            else sidak_multiplier(answers, level)
        )


def asked(*entries: dict[str, object]) -> tuple[Questions, list[Term]]:
    found = questions({"queries": list(entries)}, DOMAIN)
    needs = {need.key: need for one in found.statistics for need in one.needs}
    return found, list(needs.values())


def test_tests_alone_share_by_number() -> None:
    """Five means, nothing else: Šidák\'s bound for five Gaussian answers, and one for each."""
    found, terms = asked(MEANS)
    widths = statistic_widths(Apart(10), terms, found.statistics)
    assert widths.each_test(1.0) == normal_multiplier(0.95)
    assert widths.all_tests(1.0) == pytest.approx(sidak_multiplier(5), rel=1e-12)
    assert widths.each_test(0.1) == pytest.approx(normal_multiplier(0.995), rel=1e-12)


def test_linear_answers_and_tests_are_as_wide() -> None:
    """Ten independent answers, half of them tests, are nearly as wide as ten alike.

    The linear ones are simulated from above: within 4 % at 4,000 draws.
    """
    found, terms = asked(COUNTS, MEANS)
    widths = statistic_widths(Apart(10), terms, found.statistics)
    assert widths.all == pytest.approx(widths.all_tests(1.0), rel=0.02)
    assert sidak_multiplier(10) <= widths.all <= 1.04 * sidak_multiplier(10)


def test_a_width_that_holds_terms_need_not_hold_their_sum() -> None:
    """Errors of 4 in 100 answers: 95 % of answers have none, but fewer sums of two.

    A sum of two errors is zero with probability .9216 (up to a pair that cancels), else at least
    5·|1 − 1|, and one alone is 5 over a deviation of √2.
    """
    found, terms = asked(SUMS)
    accuracy = Apart(10, rare=0.04)
    assert accuracy.multiplier(0.95) == 0
    middle_is_zero = statistic_widths(accuracy, terms, found.statistics)
    # the sum of a number around zero is one term alone
    assert middle_is_zero.each_test(1.0) == 0
    found, terms = asked(MEANS)
    widths = statistic_widths(accuracy, terms, found.statistics)
    rng = np.random.default_rng(1)
    pair = accuracy.draw(40_000, rng)[:, :2].sum(axis=1) / np.sqrt(2)
    assert np.quantile(np.abs(pair), 0.95) <= widths.each_test(1.0)


def test_far_out_a_bound_is_taken() -> None:
    """Fifty means of rare noise at a thousandth of their alarm: no simulation sees that."""
    found, terms = asked(MEANS)
    accuracy = Apart(10, rare=0.04)
    widths = statistic_widths(accuracy, terms, found.statistics)
    assert widths.all_tests(1e-3) <= np.sqrt(2) * accuracy.rare**-0.5
    assert widths.all_tests(1e-3) >= accuracy.rare**-0.5


@dataclass(frozen=True, eq=False)
class Proved(Apart):
    """Normal errors of which no more is proved than for Laplace's."""

    def multiplier(self, level: float) -> float:
        return laplace_multiplier(level)


def test_pure_noise_is_never_wider_than_the_widest_law() -> None:
    """A test may be one Laplace error; where all add many, their law is narrower, and seen."""
    found, terms = asked(MEANS)
    means = nw.plan(
        found, nw.Privacy(epsilon=1), nw.Central(mechanism="laplace-strategy")
    ).widths
    assert means.each_test(1.0) <= laplace_multiplier(0.95)
    assert means.all_tests(1.0) <= laplace_multiplier(1 - 0.05 / 5)
    seen = statistic_widths(Proved(10), terms, found.statistics)
    assert (
        normal_multiplier(1 - 0.05 / 5)
        < seen.all_tests(1.0)
        < laplace_multiplier(1 - 0.05 / 5)
    )
