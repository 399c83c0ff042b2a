"""What every central mechanism keeps, integer blocks or not: one law, and one budget."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from scipy.stats import norm

import noisewright as nw
from central.common_shift import ENTRY
from noisewright.central.mechanism import Mechanism
from noisewright.central.registry import CENTRAL
from noisewright.errors import InvalidParameter
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.promise.budget import Privacy
from oracles.privacy_oracles import SeededSource

FALSE_ALARM = 1e-6
NAMES = [*CENTRAL, ENTRY.name]
UNBIASED = [name for name in NAMES if name not in CENTRAL or not CENTRAL[name].biased]
"""Biased answers depend on the people: their law is tested with their family."""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CENTRAL, ENTRY.name, ENTRY)


def plan_by(name: str) -> CentralPlan:
    replaced = {"epsilon": 1.0, "neighbours": "replace-one"}
    for budget in ({"epsilon": 1.0}, {"rho": 0.5}, replaced):
        for text in ("prefix:4", "prefix:3*identity:2+identity:3*prefix:2"):
            # it does not apply; another of these will do
            with suppress(InvalidParameter):
                people = {"people": 1_000} if CENTRAL[name].biased else {}
                options = nw.Central(mechanism=name, **people)
                return nw.plan(text, Privacy(**budget), options)
    raise AssertionError(name)


@pytest.mark.parametrize("name", UNBIASED)
def test_what_is_measured_answered_and_forecast_is_of_one_law(name: str) -> None:
    """400 releases: means within their bands, and variances within a factor; fixed seed."""
    plan = plan_by(name)
    method: Mechanism = plan.mechanism
    x = np.arange(np.prod(plan.sizes)) * 7
    counts, truth = plan.exact(x), plan.workload.matvec(x)
    source = SeededSource(11)
    answers = np.array(
        [plan.linear_answers(method.measure(counts, source)) for _ in range(400)]
    )
    std = plan.accuracy.std
    z = (answers.mean(axis=0) - truth) / std * np.sqrt(400)
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / (2 * len(truth))) * 1.2
    # Fourth moments of Laplace noise are six variances squared at most: eight deviations of 400.
    assert np.abs(answers.var(axis=0) / std**2 - 1).max() < 8 * np.sqrt(5 / 400)
    everything = np.arange(len(std))
    covariance = plan.accuracy.covariance(everything)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
    draws = plan.accuracy.draw(20_000, np.random.default_rng(1))
    spread = np.abs(draws.T @ draws / 20_000 - covariance).max() / covariance.max()
    assert spread < 6 * np.sqrt(24 / 20_000)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_spent_is_the_budget_and_no_more(name: str) -> None:
    plan = plan_by(name)
    promise, budget = plan.spend.promise(), plan.privacy
    stated = (
        (promise.epsilon, budget.epsilon)
        if budget.rho is None
        else (promise.rho, budget.rho)
    )
    assert stated[0] <= stated[1] * (1 + 1e-12)
    assert stated[0] >= stated[1] * (1 - 1e-6)
    if name not in UNBIASED:
        return
    larger = plan.at(Privacy(**{"epsilon" if budget.rho is None else "rho": 100.0}))
    assert larger.accuracy.std.max() < plan.accuracy.std.min()
