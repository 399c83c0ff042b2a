"""From the people in a table to the promise: no neighbouring table moves a release too far."""

from __future__ import annotations

import random
from fractions import Fraction
from math import sqrt
from typing import Any

import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.domain import Boolean, Categorical, Date, Domain, Numeric
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.noise.gaussian import gaussian_delta
from noisewright.privacy.promise.budget import Privacy

GROUPS = {"group": {"A": ["k"], "B": ["l", "m"]}}
DOMAIN = Domain(
    [
        Numeric("age", [0, 18, 65], outside="clip", missing="other"),
        Categorical("code", [1], outside="other"),
        Categorical("place", ["k", "l", "m"], outside="other", levels=GROUPS),
        Date(
            "day", "2024-01-15", "2024-03-10", "month", outside="clip", missing="other"
        ),
        Boolean("citizen", outside="other"),
    ]
)
VALUES: dict[str, list[str | None]] = {
    "age": ["-5", "0", "17.9", "18", "65", "1e9", "nan", "inf", "abc", None],
    "code": ["1", "01", "1.0", "2", "x", None],
    "place": ["k", "l", "m", "K", "", None],
    "day": ["2024-01-01", "2024-02-29", "2024-02-30", "2025-01-01T00:00:00Z", None],
    "citizen": ["true", "0", "maybe", None],
}
ASKED: dict[str, tuple[list[str], list[dict[str, Any]]]] = {
    "one attribute": (["age"], [{"cdf": "age"}, {"count": "age < 18", "weight": 3}]),
    "a product": (["age", "place"], [{"cdf": "age", "by": ["place"]}]),
    "all tables": (["code", "place", "citizen"], [{"marginals": 2}, {"total": True}]),
    "mixed": (
        ["age", "day", "code"],
        [{"cdf": "age"}, {"cdf": "day"}, {"marginal": ["code"]}],
    ),
    "a level": (
        ["place", "code"],
        [{"marginal": ["group"]}, {"marginal": ["place", "code"]}],
    ),
}
BUDGETS: list[dict[str, float]] = [
    {"epsilon": 0.7},
    {"epsilon": 1, "delta": 1e-6},
    {"rho": 0.3},
]


COUNTED: dict[Any, Any] = {}
"""Exact tables: plans under other budgets count the same tables of the same people."""


def measured(plan: CentralPlan, people: list[dict[str, str | None]]) -> list[Any]:
    assert plan.domain is not None
    columns = {
        n: pa.array([p[n] for p in people], pa.string()) for n in plan.domain.names
    }
    key = plan.domain, tuple(plan.mechanism.tables), repr(people)
    if key not in COUNTED:
        COUNTED[key] = plan.exact(pa.table(columns))
    return [block.astype(object) for block in plan.mechanism.exact(COUNTED[key])]


def spent(plan: CentralPlan, before: list[Any], after: list[Any]) -> float:
    """The share of the budget by which these two measurements can be told apart, exactly."""
    scales = [
        Fraction(law.scale) for law in plan.mechanism.strategy.laws(plan.mechanism.law)
    ]
    order = 1 if plan.privacy.kind == "pure" else 2
    moved = sum(
        Fraction(int((abs(a - b) ** order).sum())) / scale**order
        for a, b, scale in zip(before, after, scales, strict=True)
    )
    if plan.privacy.kind == "pure":
        return float(moved / Fraction(plan.privacy.epsilon))
    if plan.privacy.kind == "zcdp":
        return float(moved / 2 / Fraction(plan.privacy.rho))
    ratio = sqrt(moved) * (1 - 1e-15)
    return (
        gaussian_delta(plan.privacy.epsilon, ratio) / plan.privacy.delta
        if moved
        else 0.0
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "approximate", "zcdp"])
@pytest.mark.parametrize("asked", ASKED)
def test_no_neighbouring_table_spends_more_than_the_budget(
    asked: str, budget: dict[str, float], neighbours: Any
) -> None:
    names, queries = ASKED[asked]
    domain = DOMAIN.project(names)
    questions = nw.Workload.from_spec({"queries": queries}, domain)
    # Carry and K-norm noise are not per number: their privacy is tested beside them.
    named = "laplace-strategy" if budget.keys() == {"epsilon"} else "auto"
    privacy = Privacy(**budget, neighbours=neighbours)
    composition = "many" if privacy.kind == "approximate" else "one"
    plan = nw.plan(
        questions, privacy, nw.Central(mechanism=named, composition=composition)
    )
    draw = random.Random(asked)
    anyone = [{name: draw.choice(VALUES[name]) for name in names} for _ in range(12)]
    people = anyone[:3]
    before = measured(plan, people)
    rest = people if neighbours == "add-remove" else people[1:]
    shares = [
        spent(plan, before, measured(plan, [*rest, other])) for other in anyone[3:]
    ]
    assert max(shares) <= 1
    if neighbours == "add-remove":
        assert max(shares) > 0.5  # so that noise far too small would be noticed
