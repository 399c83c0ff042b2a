"""Budgets from targets, and comparisons of mechanisms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noisewright as nw
from noisewright import plan
from noisewright.central.registry import CENTRAL
from noisewright.errors import InvalidParameter
from noisewright.planning.central.comparing import compare_central
from noisewright.planning.central.options import Central
from noisewright.planning.targets import Target, fit_budget, with_budget
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload

PLANS = {
    "rho": plan("prefix:8*identity:3", Privacy(rho=1)),
    "approximate": plan("marginals:3x2x4:<=2", Privacy(epsilon=1, delta=1e-9)),
    "pure": plan("prefix:8", Privacy(epsilon=1)),
    "replace-one": plan("prefix:8", Privacy(rho=1, neighbours="replace-one")),
}


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=12, deadline=None)
@given(logarithm=st.floats(-5, 2))
def test_budget_from_error_and_error_from_budget_are_inverse(
    name: str, logarithm: float
) -> None:
    made = PLANS[name]
    budget = float(np.exp(logarithm))
    kind = "rho" if made.privacy.rho is not None else "epsilon"
    error = np.sqrt(with_budget(made, kind, budget).accuracy.variance.mean())
    found = fit_budget(made, [Target("rmse", float(error))]).plan
    assert getattr(found.privacy, kind) == pytest.approx(budget, rel=1e-6)
    assert np.sqrt(found.accuracy.variance.mean()) == pytest.approx(error, rel=1e-6)


def test_the_binding_target_is_named_and_all_are_met() -> None:
    made = PLANS["approximate"]
    targets = [Target("rmse", 5.0), Target("max", 2.0)]
    fit = fit_budget(made, targets)
    std = np.sqrt(fit.plan.accuracy.variance)
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
    assert (target.limit, target.table, target.measure) == (
        pytest.approx(limit),
        table,
        "max",
    )


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
@pytest.mark.parametrize(
    "text", ["prefix:8", "marginals:3x2x4:<=2", "prefix:4*identity:3"]
)
def test_comparisons_list_every_mechanism_best_first(
    text: str, privacy: Privacy
) -> None:
    rows = compare_central(workload(text), privacy, Central())
    assert {row.mechanism for row in rows} == set(CENTRAL)
    planned = [row for row in rows if row.refusal is None]
    assert planned
    assert [row.rmse for row in planned] == sorted(row.rmse for row in planned)
    # a coarse grid has less Laplace noise, and a bound of its own
    if privacy.kind != "pure":
        assert len({row.lower_bound for row in planned}) == 1
    # Noise that is not drawn number by number is outside the class that these bounds limit.
    outside = ("carry", "k-norm", "hardt-talwar")
    assert all(row.ratio >= 1 for row in planned if row.mechanism not in outside)
    assert all(row.ratio is None for row in planned if row.mechanism in outside)
    chosen = plan(text, privacy)
    assert chosen.forecast().rmse <= planned[0].rmse * 1.001


def test_baselines_are_never_chosen_by_themselves() -> None:
    assert plan("identity:5", Privacy(rho=1)).mechanism.name == "gaussian-strategy"
    assert (
        plan(
            "prefix:5", Privacy(rho=1), nw.Central(mechanism="gaussian")
        ).mechanism.name
        == "gaussian"
    )


FITNESS = nw.Domain(
    [
        nw.Numeric("income", list(range(0, 130, 10)), outside="clip"),
        nw.Categorical("region", ["N", "E", "S"]),
        nw.Categorical("sex", ["F", "M"]),
    ]
)


def test_targets_shape_the_strategy() -> None:
    asked = {
        "queries": [
            {"cdf": "income", "by": "region"},
            {"marginals": 2},
            {"total": True},
        ]
    }
    questions = nw.Workload.from_spec(asked, FITNESS)
    targets = [Target.parse("sex*region: 4"), Target("max", 25.0)]
    found = nw.explain(questions, nw.Accuracy(targets))
    plain = fit_budget(plan(questions, Privacy(rho=1.0)), targets)
    assert found.plan.privacy.rho < 0.9 * plain.plan.privacy.rho
    largest = {name: error for name, _, _, error, *_ in found.plan.table_errors()}
    assert largest["region × sex"] <= 4 * (1 + 1e-9)
    assert max(largest.values()) <= 25 * (1 + 1e-9)
    limits = {"region × sex": 4.0}
    tightest = max(error / limits.get(name, 25.0) for name, error in largest.items())
    assert tightest == pytest.approx(1, rel=1e-6)
    ratio = found.plan.forecast().ratio
    assert ratio is not None
    assert ratio >= 1


def test_a_target_finds_the_cdf_of_its_attributes() -> None:
    asked = {"queries": [{"cdf": "income", "by": "region"}, {"marginal": ["sex"]}]}
    questions = nw.Workload.from_spec(asked, FITNESS)
    found = nw.explain(questions, Target.parse("income*region: 5% of 1000"))
    assert found.binding.table == "income*region"
    largest = {name: error for name, _, _, error, *_ in found.plan.table_errors()}
    assert largest["cdf of income × region"] == pytest.approx(50, rel=1e-6)


@pytest.mark.parametrize(
    "text", ["prefix:16*prefix:16", "prefix:9*identity:8+identity:9*prefix:8"]
)
def test_tiny_budgets_are_planned_on_coarser_grids(text: str) -> None:
    errors = [plan(text, Privacy(rho=rho)).unit_error for rho in (1.0, 1e-10)]
    assert errors[1] == pytest.approx(errors[0], rel=2e-3)
    found = nw.explain(text, Target("rmse", 1e5))
    assert found.plan.forecast().rmse == pytest.approx(1e5, rel=1e-6)
    assert not found.limited
