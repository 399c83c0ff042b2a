"""Questions in a few words are the questions that YAML says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import noisewright as nw
from noisewright.errors import BudgetExceeded, DomainError, InvalidParameter

RNG = np.random.default_rng(3)
N = 2000
PEOPLE = pd.DataFrame(
    {
        "region": RNG.choice(["N", "S", "?"], N),
        "sex": RNG.choice(["F", "M"], N),
        "income": RNG.uniform(0, 1000, N),
    }
)
BUDGET = nw.Privacy(rho=1e4)


def test_the_builder_writes_what_yaml_would() -> None:
    asked = (
        nw.table(PEOPLE)
        .count()
        .by(region=["N", "S"])
        .mean("income", bounds=(0, 1000))
        .by("region", sex=["F", "M"])
        .important(2)
        .quantiles("income", at=[0.5], bounds=(0, 1000), bins=10)
        .by("sex")
        .named("medians")
    )
    by_hand = nw.Domain(
        [
            nw.Categorical("region", ("N", "S"), outside="other"),
            nw.Numeric("income", tuple(range(0, 1001, 100)), outside="clip"),
            nw.Categorical("sex", ("F", "M"), outside="other"),
        ]
    )
    yaml = """
queries:
  - marginal: [region]
  - {mean: income, unit: 0.1, by: [region, sex], weight: 2}
  - {quantiles: income, at: [0.5], by: [sex], name: medians}
"""
    written = nw.Workload.from_spec(yaml, by_hand)
    assert asked.domain == by_hand
    assert asked.workload.labels() == written.labels()
    assert [s.weight for s in asked.workload.statistics] == [
        s.weight for s in written.statistics
    ]
    ours, theirs = asked.plan(BUDGET), nw.plan(written, BUDGET)
    assert ours.record()["strategy_hash"] == theirs.record()["strategy_hash"]


def test_answers_are_those_of_the_table() -> None:
    """At a budget that makes noise tiny the answers are the table's own."""
    asked = (
        nw.table(PEOPLE)
        .count()
        .by(region=["N", "S"])
        .mean("income", bounds=(0, 1000))
        .by("region")
    )
    frame = (
        asked.release(BUDGET).to_pandas().set_index(["statistic", "region"])["answer"]
    )
    for key, rows in PEOPLE.groupby("region"):
        label = "other" if key == "?" else key
        assert frame["count", label] == pytest.approx(len(rows), abs=1)
        assert frame["mean of income", label] == pytest.approx(
            rows["income"].mean(), abs=1
        )


def test_builders_do_not_change() -> None:
    start = nw.table(PEOPLE).count()
    first, second = start.by(sex=["F", "M"]), start.by(region=["N"])
    assert start.specification == {"queries": [{"total": True}]}
    assert first.specification != second.specification
    assert str(PEOPLE["income"][0])[:6] not in repr(first)


def test_a_schema_declares_everything_at_once() -> None:
    schema = nw.Domain(
        [nw.Categorical("sex", ("F", "M")), nw.Numeric("income", (0, 500, 1000))],
        impossible=[{"sex": ["M"], "income": [600]}],
    )
    asked = nw.table(PEOPLE, schema=schema).cdf("income").by("sex")
    assert asked.domain == schema
    assert asked.specification == {"queries": [{"cdf": "income", "by": ["sex"]}]}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.count().by("region"), "'region' is not declared.*public keys"),
        (lambda t: t.mean("income"), "'income' is not declared.*bounds"),
        (lambda t: t.mean("income", bounds=(5, 1)), "the lower first"),
        (lambda t: t.mean("income", bounds=(0, np.inf)), "finite"),
        (lambda t: t.by("sex"), "no question before it"),
        (lambda t: t.count().by(sex=["F"]).quantiles("sex"), "numeric"),
        (lambda t: t.count().by(sex=["F"]).mean("sex"), "numeric"),
        (lambda t: t.count().by(sex=[]), "at least one value"),
    ],
)
def test_what_is_not_declared_is_refused_before_any_budget(call, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        call(nw.table(PEOPLE))


def test_a_table_about_which_nothing_is_known_has_no_plan() -> None:
    with pytest.raises(DomainError, match="nothing is declared"):
        nw.table(PEOPLE).count().plan(BUDGET)


def test_what_a_ledger_pays_for_is_one_release_of_many(tmp_path) -> None:
    """A budget of ε at δ takes Gaussian noise whole; noise for the same pure ε it would refuse."""
    both = nw.Privacy(epsilon=1, delta=1e-9)
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", both)
    asked = nw.table(PEOPLE).count().by(sex=["F", "M"])
    alone = asked.release(both)
    paid = asked.release(both, ledger=ledger, dataset="people")
    assert alone.plan.privacy == nw.Privacy(epsilon=1)
    assert paid.plan.privacy == both
    with pytest.raises(BudgetExceeded):
        asked.release(both, ledger=ledger, dataset="people@2", composition="one")
