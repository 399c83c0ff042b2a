"""Intervals under carry noise hold, for one answer and for all, after what is done to them too.

The noise is neither Laplace nor independent, and what declared values leave of it has another law
again. Errors are those of the exact sampler. A case alarms falsely in one of a million runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import noisewright as nw
from noisewright.estimate.accuracy import Accuracy, Conditioned
from noisewright.planning.after.postprocess import post_process
from noisewright.planning.plan import LEVEL
from oracles.privacy_oracles import SeededSource

ALARM = 1e-6
QUICK = 500


@dataclass(frozen=True)
class Case:
    """A plan, and the answers whose true values are declared."""

    text: str
    epsilon: float
    neighbours: Any = "add-remove"
    declared: tuple[int, ...] = ()

    @cached_property
    def plan(self) -> Any:
        privacy = nw.Privacy(epsilon=self.epsilon, neighbours=self.neighbours)
        return nw.plan(self.text, privacy, nw.Central(mechanism="carry"))

    @cached_property
    def people(self) -> np.ndarray:
        return np.random.default_rng(1).integers(0, 9, self.plan.workload.size)

    def errors(self, releases: int) -> np.ndarray:
        """Of measurements by the exact sampler, one a row."""
        plan, source = self.plan, SeededSource(4)
        counts = plan.exact(self.people)
        drawn = (plan.mechanism.measure(counts, source) for _ in range(releases))
        return np.array(
            [plan.linear_answers(values) for values in drawn]
        ) - plan.workload.matvec(self.people)

    @cached_property
    def accuracy(self) -> Accuracy:
        inner, known = self.plan.accuracy, np.array(self.declared, dtype=np.int64)
        return (
            Conditioned(inner, known, len(inner.variance)) if self.declared else inner
        )


CASES = (
    Case("prefix:9", 0.5),
    Case("prefix:9", 2.2),
    Case("marginals:2^3:2", 1.0),
    Case("marginals:2^3:2", 1.0, declared=(0,)),
    Case("prefix:16", 3.0, declared=(2, 4, 6, 8, 10, 12)),
    Case("prefix:6", 1.0, "replace-one"),
    Case("prefix:9", 2.0, "replace-one", (2, 3)),
)
MORE = (
    *CASES,
    Case("identity:3", 2.2),
    Case("prefix:64", 1.0),
    Case("prefix:96", 1.0, declared=(40,)),
    Case("ranges:12", 3.0),
    Case("ranges:12", 0.5, declared=(3, 17)),
    Case("prefix:16", 3.0, "replace-one"),
    Case("marginals:2^4:2", 1.0, "replace-one", (0, 5)),
)


def check(case: Case, releases: int) -> None:
    """Of single answers, and of all at once, no fewer hold than chance explains."""
    accuracy, errors = case.accuracy, case.errors(releases)
    if isinstance(accuracy, Conditioned):
        errors = errors - errors[:, accuracy.known] @ accuracy.gain.T
    widths = (accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL))
    each, together = (np.abs(errors) <= width * accuracy.std + 1e-6 for width in widths)
    hits = [*each.sum(axis=0), together.all(axis=1).sum()]
    assert min(hits) >= binom.ppf(ALARM / len(hits), releases, LEVEL)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_intervals_hold_at_their_level(case: Case) -> None:
    check(case, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE, ids=str)
def test_intervals_hold_over_5000_releases(case: Case) -> None:
    check(case, 5000)


@pytest.mark.parametrize("case", [CASES[3], CASES[6]], ids=str)
def test_releases_with_declared_values_have_those_intervals(case: Case) -> None:
    plan, truth = case.plan, case.plan.workload.matvec(case.people)
    labels = plan.labels()
    declared = {labels[k]: float(truth[k]) for k in case.declared}
    release = post_process(plan.release(case.people), invariants=declared)
    frame = release.to_pandas()
    accuracy = case.accuracy
    np.testing.assert_allclose(
        (frame["upper"] - frame["lower"]) / 2,
        accuracy.multiplier(LEVEL) * accuracy.std,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        (frame["upper_all"] - frame["lower_all"]) / 2,
        accuracy.joint_multiplier(LEVEL) * accuracy.std,
        atol=1e-9,
    )
    np.testing.assert_array_equal(frame["answer"].to_numpy()[list(case.declared)],
                                  truth[list(case.declared)])  # fmt: skip


@pytest.mark.parametrize("case", [CASES[4], CASES[6]], ids=str)
def test_declared_values_use_the_exact_covariance(case: Case) -> None:
    """By the textbook, from second moments of draws: within bands of six deviations."""
    queries = case.plan.workload.dense()
    noise = (
        case.plan.mechanism.covariance
        / case.plan.mechanism.measured.strategy.blocks[0].multiplier ** 2
    )
    covariance = queries @ noise @ queries.T
    known = np.array(case.declared)
    cross = covariance[:, known]
    left = (
        covariance - cross @ np.linalg.pinv(covariance[np.ix_(known, known)]) @ cross.T
    )
    np.testing.assert_allclose(
        case.accuracy.variance, np.diag(left), atol=1e-8 * covariance.max()
    )
    errors = case.accuracy.draw(20_000, np.random.default_rng(3))
    mean = (errors**2).mean(axis=0)
    spread = (errors**2).std(axis=0) / np.sqrt(20_000)
    assert (np.abs(mean - case.accuracy.variance) <= 6 * spread + 1e-9).all()


@pytest.mark.parametrize("case", [CASES[2], CASES[5]], ids=str)
def test_answers_made_non_negative_keep_all_that_their_intervals_held(
    case: Case,
) -> None:
    release = case.plan.release(np.zeros_like(case.people))
    before, after = (
        release.to_pandas(),
        post_process(release, non_negative=True).to_pandas(),
    )
    assert (after["answer"] >= 0).all()
    for low, high in (("lower", "upper"), ("lower_all", "upper_all")):
        assert (after[low] <= np.maximum(before[low], 0) + 1e-9).all()
        assert (after[high] >= before[high] - 1e-9).all()
        assert (
            (after[low] <= after["answer"]) & (after["answer"] <= after[high])
        ).all()


def test_a_multiplier_far_out_is_chebyshevs() -> None:
    accuracy = CASES[3].accuracy
    assert accuracy.multiplier(1 - 1e-8) == pytest.approx(1e4)


@pytest.mark.parametrize("case", [case for case in CASES if case.declared], ids=str)
def test_what_declared_values_leave_has_a_law_of_its_own(case: Case) -> None:
    """20,000 simulated errors: the widths of the answers before would not hold all of these."""
    accuracy, draws = case.accuracy, 20_000
    errors = np.abs(accuracy.draw(draws, np.random.default_rng(8)))
    hits = (errors <= accuracy.multiplier(LEVEL) * accuracy.std + 1e-6).sum(axis=0)
    assert hits.min() >= binom.ppf(ALARM / len(hits), draws, LEVEL)
