"""Budgets from targets, and comparisons of mechanisms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.errors import InvalidParameter
from noisewright.planning.compare import compare_central
from noisewright.planning.make import plan
from noisewright.planning.registry import CENTRAL
from noisewright.planning.targets import Target, fit_budget, with_budget
from noisewright.privacy.budget import Privacy

PLANS = {
    "rho": plan("prefix:8*identity:3", Privacy(rho=1)),
    "approximate": plan("marginals:3x2x4:<=2", Privacy(epsilon=1, delta=1e-9)),
    "pure": plan("prefix:8", Privacy(epsilon=1)),
    "replace-one": plan("prefix:8", Privacy(rho=1, neighbours="replace-one")),
}


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=12, deadline=None)
@given(logarithm=st.floats(-5, 2))
def test_budget_from_error_and_error_from_budget_are_inverse(name: str, logarithm: float) -> None:
    made = PLANS[name]
    budget = float(np.exp(logarithm))
    kind = "rho" if made.privacy.rho is not None else "epsilon"
    error = np.sqrt(with_budget(made, kind, budget).variances.mean())
    found = fit_budget(made, [Target("rmse", float(error))]).plan
    assert getattr(found.privacy, kind) == pytest.approx(budget, rel=1e-6)
    assert np.sqrt(found.variances.mean()) == pytest.approx(error, rel=1e-6)


def test_the_binding_target_is_named_and_all_are_met() -> None:
    made = PLANS["approximate"]
    targets = [Target("rmse", 5.0), Target("max", 2.0)]
    fit = fit_budget(made, targets)
    std = np.sqrt(fit.plan.variances)
    assert std.max() <= 2.0 * (1 + 1e-9)
    assert np.sqrt((std**2).mean()) <= 5.0
    assert fit.binding == targets[1]


@pytest.mark.parametrize(
    ("text", "limit", "table"),
    [
        ("income*region: 5% of 1000", 50.0, "income*region"),
        ("age: 25", 25.0, "age"),
        (" a by b :2.5e1", 25.0, "a by b"),
    ],
)
def test_targets_are_read(text: str, limit: float, table: str) -> None:
    target = Target.parse(text)
    assert (target.limit, target.table, target.measure) == (pytest.approx(limit), table, "max")


@pytest.mark.parametrize("text", ["", "age", "age: much", "age: 5%", "age: -3", ": 5"])
def test_unreadable_targets_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="target"):
        Target.parse(text)


def test_impossible_and_empty_targets_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="no budget"):
        fit_budget(PLANS["rho"], [Target("rmse", 1e-9)])
    with pytest.raises(InvalidParameter, match="positive"):
        Target("rmse", 0.0)
    with pytest.raises(InvalidParameter, match="must be given"):
        fit_budget(PLANS["rho"], [])
    with pytest.raises(InvalidParameter, match="no table"):
        fit_budget(PLANS["rho"], [Target("max", 5.0, "salary")])


@pytest.mark.parametrize("privacy", [Privacy(rho=0.5), Privacy(epsilon=1)])
@pytest.mark.parametrize("text", ["prefix:8", "marginals:3x2x4:<=2", "prefix:4*identity:3"])
def test_comparisons_list_every_mechanism_best_first(text: str, privacy: Privacy) -> None:
    rows = compare_central(text, privacy)
    assert {row.mechanism for row in rows} == set(CENTRAL)
    planned = [row for row in rows if row.refusal is None]
    assert planned
    assert [row.rmse for row in planned] == sorted(row.rmse for row in planned)
    assert len({row.lower_bound for row in planned}) == 1
    assert all(row.ratio >= 1 for row in planned)
    chosen = plan(text, privacy)
    assert chosen.forecast().rmse <= planned[0].rmse * 1.001


def test_baselines_are_never_chosen_by_themselves() -> None:
    assert plan("identity:5", Privacy(rho=1)).mechanism == "gaussian-strategy"
    assert plan("prefix:5", Privacy(rho=1), mechanism="gaussian").mechanism == "gaussian"
