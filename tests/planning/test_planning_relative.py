"""Questions of several kinds in one plan: none is worse than planned apart at the same budget."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.privacy.promise.budget import NEIGHBOURS
from noisewright.workload.questions.relative_weights import error_alone

DOMAIN = nw.Domain(
    [
        nw.Numeric.integers("age", 0, 99, 5, outside="clip"),
        nw.Numeric.integers("hours", 0, 99, 10, outside="clip"),
        nw.Categorical("sex", ("F", "M")),
        nw.Categorical("status", tuple("abcdefg")),
        nw.Categorical("class", tuple("abcdefghi")),
    ]
)
ASKED = {
    "tables, a CDF, a mean and quantiles": [
        {"marginal": ["sex", "status"]},
        {"marginal": ["class", "sex"]},
        {"cdf": "age", "by": ["sex"]},
        {"mean": "hours", "by": ["class"]},
        {"quantiles": "age", "at": [0.25, 0.5, 0.75]},
    ],
    "one number beside hundreds": [
        {"total": True},
        {"ranges": "age"},
        {"variance": "hours", "by": ["class"]},
        {"count": 'age >= 60 and sex == "F"'},
    ],
    "shorthand for many tables": [
        {"marginals": 2},
        {"sum": "age"},
        {"mean": "age", "by": "sex"},
    ],
}


def squares(plan: nw.Plan, statistic: object) -> float:
    """The squared errors of what a question needs, in people."""
    pairs = zip(statistic.needs, statistic.weights, strict=True)
    return sum(
        float(w**2 * plan.mechanism.accuracy([need]).variance.sum())
        for need, w in pairs
    )


def planned(queries: list[dict[str, object]], privacy: nw.Privacy) -> nw.Plan:
    return nw.plan(nw.Workload.from_spec({"queries": queries}, DOMAIN), privacy)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", ASKED)
def test_no_question_is_worse_than_planned_apart(name: str, neighbours: str) -> None:
    """Weights left alone, a plan of its own for each question at an equal share of ρ.

    Where people are replaced their number is public, which the errors alone do not know of.
    """
    slack = 1.0 if neighbours == "add-remove" else 1.3
    queries = [
        q for q in ASKED[name] if not (neighbours == "replace-one" and "total" in q)
    ]
    together = planned(queries, nw.Privacy(rho=0.05, neighbours=neighbours))
    share = nw.Privacy(rho=0.05 / len(queries), neighbours=neighbours)
    start = 0
    for query in queries:
        apart = planned([query], share)
        own = apart.workload.statistics
        mine = together.workload.statistics[start : start + len(own)]
        start += len(own)
        ours, alone = (sum(squares(p, s) for s in mine) for p in (together, apart))
        assert np.sqrt(ours / alone) <= slack, query


@pytest.mark.parametrize(
    "query", [q for asked in ASKED.values() for q in asked][:-3], ids=str
)
def test_the_error_alone_is_about_what_a_plan_reaches(query: dict[str, object]) -> None:
    # noise of deviation one at sensitivity one
    plan = planned([query], nw.Privacy(rho=0.5))
    (statistic,) = plan.workload.statistics
    assert np.sqrt(squares(plan, statistic)) == pytest.approx(
        error_alone(statistic), rel=0.1
    )


def test_weights_say_which_relative_error_matters() -> None:
    queries = ASKED["tables, a CDF, a mean and quantiles"]
    plain = planned(queries, nw.Privacy(rho=0.05))
    heavy = planned(
        [*queries[:3], {**queries[3], "weight": 3}, queries[4]], nw.Privacy(rho=0.05)
    )
    gains = [squares(heavy, s) / squares(plain, s) for s in plain.workload.statistics]
    assert gains[3] < 0.8
    assert min(gains[0], gains[2], gains[4]) > 1


def test_targets_of_several_kinds_are_met_together_with_less() -> None:
    """What is well within its limit gives to what decides the budget."""
    asked = nw.Workload.from_spec(
        {
            "queries": [
                {"marginal": ["age"], "weight": 5},
                {"sum": "hours", "by": "sex"},
            ]
        },
        DOMAIN,
    )
    wide, narrow = (
        nw.Target("max", 200, "age"),
        nw.Target("max", 2000, "sum of hours by sex"),
    )
    both, only = (
        nw.explain(asked, nw.Accuracy([wide, narrow])).plan,
        nw.explain(asked, narrow).plan,
    )
    errors = {table.name: table.max for table in both.table_errors()}
    assert errors["age"] <= 200
    assert errors["sum of hours by sex"] <= 2000
    assert both.privacy.rho < 0.8 * only.privacy.rho
