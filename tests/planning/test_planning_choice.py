"""Under (ε, δ) the best of all mechanisms that keep it: noise for pure ε keeps it too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.problem import CentralProblem
from noisewright.central.wider_bounds import wider_bounds
from noisewright.errors import BudgetExceeded, InvalidParameter, NoisewrightError
from noisewright.ledger import limits_of
from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.noise.gaussian import gaussian_sigma, pure_to_zcdp
from noisewright.solution import BoundClass

PURE = nw.Privacy(epsilon=1)
BOTH = nw.Privacy(epsilon=1, delta=1e-9)
ASKED = (
    "identity:8",
    "total:3",
    "prefix:9",
    "ranges:6",
    "marginals:2^4:2",
    "prefix:3*identity:2",
)


def sums() -> nw.Workload:
    """Counts and a mean by group."""
    attributes = [
        nw.Categorical("sex", ["F", "M"]),
        nw.Numeric("age", edges=[0, 20, 40, 60, 80, 100], integer=True),
    ]
    asked = {"queries": [{"marginal": ["sex"]}, {"sum": "age", "by": ["sex"]}]}
    return nw.Workload.from_spec(asked, nw.Domain(attributes))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("text", [*ASKED, "marginals:2^12:3", "sums"])
def test_the_best_of_both_kinds_of_noise_is_planned(text: str, neighbours: str) -> None:
    if text == "total:3" and neighbours == "replace-one":
        pytest.skip("nothing is to be protected")
    queries = sums() if text == "sums" else text
    both = nw.Privacy(epsilon=1, delta=1e-9, neighbours=neighbours)
    best = nw.plan(queries, both)
    gaussian = nw.plan(queries, both, nw.Central(composition="many"))
    pure = nw.plan(queries, nw.Privacy(epsilon=1, neighbours=neighbours))
    assert best.achieved == pytest.approx(
        min(gaussian.achieved, pure.achieved), rel=1e-9
    )
    assert (
        best.privacy
        == (pure if pure.achieved < gaussian.achieved else gaussian).privacy
    )
    assert gaussian.asked is None
    assert gaussian.spend.mu > 0


def test_few_counts_have_the_least_noise_of_pure_privacy() -> None:
    """Of a single number no noise that is ε-private has less: the discrete Laplace law's."""
    least = 1 / (2 * np.sinh(0.5) ** 2)
    assert nw.plan("identity:8", BOTH).forecast().rmse == pytest.approx(
        least**0.5, rel=1e-6
    )
    assert nw.plan("prefix:64", BOTH).forecast().rmse < gaussian_sigma(1, 1e-9)


@pytest.mark.parametrize("text", ASKED)
def test_what_is_stated_and_spent_is_what_is_drawn(text: str) -> None:
    made = nw.plan(text, BOTH)
    assert made.asked == made.stated == BOTH
    assert made.privacy == made.mechanism.privacy == PURE
    promise = made.spend.promise()
    assert promise.kind == "pure"
    assert promise.epsilon == pytest.approx(1.0, rel=1e-12)
    assert promise.epsilon <= 1
    assert made.spends["delta"] == 0
    assert made.spends["rho"] == pytest.approx(pure_to_zcdp(1.0), rel=1e-12)
    known = made.summary()
    assert (known["privacy"], known["asked"]) == (PURE.to_dict(), BOTH.to_dict())
    record = made.release(np.ones(made.workload.size, dtype=int)).metadata
    assert (record["privacy"], record["spends"]) == (PURE.to_dict(), made.spends)


def test_gaussian_noise_costs_less_where_rho_adds_up() -> None:
    one, many = (
        nw.plan("identity:8", BOTH, nw.Central(composition=c)) for c in ("one", "many")
    )
    assert many.spends["rho"] == pytest.approx(
        gaussian_sigma(1, 1e-9) ** -2 / 2, rel=1e-9
    )
    assert many.spends["epsilon"] <= 1
    assert many.spends["delta"] == 1e-9
    assert many.spends["rho"] < one.spends["rho"]


@pytest.mark.parametrize("text", ASKED)
def test_bounds_are_of_the_class_and_for_the_promise_that_is_asked(text: str) -> None:
    """Linear strategies under the noise drawn; other mechanisms under all that (ε, δ) allows."""
    made, pure = nw.plan(text, BOTH), nw.plan(text, PURE)
    assert made.lower_bound == pure.lower_bound
    problem = CentralProblem(made.workload, made.sizes, BOTH, made.norm)
    told = {bound.bound_class: bound.lower_bound for bound in made.bounds}
    assert told == dict(wider_bounds(problem))
    # An unbiased mechanism under (ε, δ) may have no variance on the table it takes for granted.
    assert not {BoundClass.ANY_UNBIASED, BoundClass.ANY_UNBIASED_MIXED} & set(told)
    for row in nw.compare(text, BOTH):
        assert row.achieved is None or row.achieved >= max(told.values())
        assert row.lower_bound is None or row.achieved >= row.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("text", ["identity:8", "marginals:2^4:2"])
def test_comparisons_hold_mechanisms_of_both_kinds(text: str) -> None:
    rows = {row.mechanism: row for row in nw.compare(text, BOTH)}
    pure = {row.mechanism: row for row in nw.compare(text, PURE) if row.refusal is None}
    gaussian = {
        r.mechanism: r for r in nw.compare(text, BOTH, nw.Central(composition="many"))
    }
    for name, row in rows.items():
        known = [k[name].achieved for k in (pure, gaussian) if name in k]
        assert row.achieved == min((k for k in known if k is not None), default=None)
    assert rows["carry"].achieved is not None
    assert gaussian["carry"].achieved is None
    least = min((row.achieved for row in rows.values() if row.achieved), default=0.0)
    assert nw.plan(text, BOTH).achieved <= least * (1 + 1e-9)


def test_a_named_mechanism_of_either_kind_is_planned() -> None:
    assert (
        nw.plan("prefix:8", BOTH, nw.Central(mechanism="laplace-strategy")).privacy
        == PURE
    )
    assert (
        nw.plan("prefix:8", BOTH, nw.Central(mechanism="gaussian-strategy")).privacy
        == BOTH
    )
    with pytest.raises(InvalidParameter, match="up to 2048 cells"):
        nw.plan("prefix:4096", BOTH, nw.Central(mechanism="carry"))
    with pytest.raises(InvalidParameter, match="leave delta and rho out"):
        nw.plan("prefix:8", BOTH, nw.Central(mechanism="carry", composition="many"))


def test_a_matrix_of_ones_own_has_the_noise_that_suits_it() -> None:
    cells, sums_ = np.eye(8), np.tril(np.ones((8, 8)))
    assert nw.plan("prefix:8", BOTH, nw.Central(strategy=cells)).privacy == PURE
    both = [nw.plan("prefix:8", p, nw.Central(strategy=sums_)) for p in (BOTH, PURE)]
    assert both[0].achieved <= both[1].achieved


@pytest.mark.parametrize("composition", ["several", ""])
def test_unknown_compositions_are_refused(composition: str) -> None:
    with pytest.raises(InvalidParameter, match="composition"):
        nw.plan("prefix:4", BOTH, nw.Central(composition=composition))


@pytest.mark.parametrize("privacy", [PURE, nw.Privacy(rho=0.1)])
def test_a_composition_is_refused_where_it_says_nothing(privacy: nw.Privacy) -> None:
    for call in (nw.plan, nw.explain, nw.compare):
        with pytest.raises(InvalidParameter, match="composition='many'"):
            call("prefix:4", privacy, nw.Central(composition="many"))
    with pytest.raises(InvalidParameter, match="composition"):
        nw.plan("conjunctions:40:2", PURE, nw.Central(composition="many"))


def test_explanations_tell_what_both_cost() -> None:
    told = nw.explain("identity:8", BOTH)
    costs = {other.mechanism: other.spends for other in told.others if other.achieved}
    assert costs["gaussian-strategy"]["rho"] < told.plan.spends["rho"]
    assert f"{told.plan.spends['rho']:.4g}" in told.why
    assert f"{costs['gaussian-strategy']['rho']:.4g}" in told.why
    reasons = {
        other.mechanism: other.reason for other in told.others if other.achieved is None
    }
    assert not any(
        "leave delta" in reason or "gives no pure" in reason for reason in reasons
    )


def test_far_above_a_bound_is_told_in_times_and_near_it_in_percent() -> None:
    far = nw.explain("marginals:4^5:2", BOTH)
    assert far.plan.forecast().ratio > 2
    assert f"{far.plan.forecast().ratio:.4g} times the lower bound" in far.why
    near = nw.explain("marginals:4^5:2", BOTH, nw.Central(composition="many"))
    assert "% above the lower bound" in near.why


@pytest.mark.parametrize("queries", ["prefix:9", "marginals:2^4:2", "sums"])
def test_files_keep_what_was_asked(tmp_path: Path, queries: str) -> None:
    made = nw.plan(sums() if queries == "sums" else queries, BOTH)
    made.save(tmp_path / "plan.nw")
    again = nw.load(tmp_path / "plan.nw")
    assert isinstance(again, CentralPlan)
    assert (again.asked, again.privacy) == (BOTH, PURE)
    timeless = {"seconds": 0.0}  # no file keeps how long planning took
    assert again.summary() | timeless == made.summary() | timeless


def test_noise_stays_of_its_kind_under_another_budget() -> None:
    made = nw.plan("prefix:9", BOTH)
    half = made.at(nw.Privacy(epsilon=0.5, delta=1e-6))
    assert half.privacy == nw.Privacy(epsilon=0.5)
    assert half.stated == nw.Privacy(epsilon=0.5, delta=1e-6)
    assert made.at(nw.Privacy(epsilon=0.5)).stated == nw.Privacy(epsilon=0.5)


def test_a_promise_that_the_noise_does_not_keep_is_refused() -> None:
    made = nw.plan("prefix:9", BOTH)
    for other in (nw.Privacy(epsilon=0.5, delta=1e-9), PURE, nw.Privacy(rho=1.0)):
        with pytest.raises(InvalidParameter, match="asked"):
            replace(made, asked=other)


def test_several_rows_of_a_person_share_pure_budgets() -> None:
    attributes = [nw.Categorical("item", list("abcd"))]
    domain = nw.Domain(attributes, unit=nw.Unit("person", rows=3))
    asked = nw.Workload.from_spec({"queries": [{"marginal": ["item"]}]}, domain)
    made = nw.plan(asked, BOTH)
    assert made.privacy == PURE
    assert made.stated == BOTH
    assert made.spend.promise().epsilon <= 1
    assert (
        made.achieved <= nw.plan(asked, BOTH, nw.Central(composition="many")).achieved
    )


def test_a_ledger_of_gaussian_noise_names_the_plan_that_fits(tmp_path: Path) -> None:
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", BOTH)
    counts = np.arange(8)
    with pytest.raises(BudgetExceeded, match="--composition many") as refused:
        nw.plan("identity:8", BOTH).release(counts, ledger=ledger, dataset="people")
    assert "--epsilon 1 --delta 1e-09" in str(refused.value)
    many = nw.plan("identity:8", BOTH, nw.Central(composition="many"))
    many.release(counts, ledger=ledger, dataset="people")


def test_a_ledger_of_pure_noise_takes_the_plan(tmp_path: Path) -> None:
    ledger = nw.Ledger(tmp_path / "budget.db")
    ledger.create("people", BOTH, limits=limits_of(BOTH, rule="sum"))
    nw.plan("identity:8", BOTH).release(np.arange(8), ledger=ledger, dataset="people")
    with pytest.raises(BudgetExceeded):
        nw.plan("identity:8", BOTH).release(
            np.arange(8) + 1, ledger=ledger, dataset="people@2"
        )


@pytest.mark.parametrize("texts", [["identity:8", "prefix:8"], ["identity:4"] * 40])
def test_plans_together_have_the_noise_that_errs_less_in_all(texts: list[str]) -> None:
    both, many, pure = (
        nw.plan(nw.Several(texts), privacy, nw.Central(composition=composition))
        for privacy, composition in ((BOTH, "one"), (BOTH, "many"), (PURE, "one"))
    )
    totals = [
        sum(p.accuracy.variance.sum() for p in made.plans)
        for made in (both, many, pure)
    ]
    assert totals[0] == pytest.approx(min(totals[1:]))
    assert both.keeps_budget
    assert both.privacy == (PURE if totals[2] < totals[1] else BOTH)
    assert (totals[2] < totals[1]) == (len(texts) == 2)


@pytest.mark.parametrize("target", [nw.Target("max", 50), nw.Target("rmse", 3)])
@pytest.mark.parametrize("text", ["prefix:16", "identity:8", "marginals:2^11:2"])
def test_targets_are_met_by_the_smaller_budget_of_both(
    text: str, target: nw.Target
) -> None:
    best = nw.explain(text, nw.Accuracy([target], delta=1e-9)).plan
    many = nw.explain(
        text, nw.Accuracy([target], delta=1e-9), nw.Central(composition="many")
    ).plan
    pure = nw.explain(text, nw.Accuracy([target], pure=True)).plan
    least = min(many.privacy.epsilon, pure.privacy.epsilon)
    assert best.stated.epsilon == pytest.approx(least, rel=1e-9)
    assert best.stated.delta == 1e-9
    told = best.forecast()
    assert (told.max if target.measure == "max" else told.rmse) <= target.limit * (
        1 + 1e-9
    )


def test_a_target_in_rho_is_met_by_gaussian_noise() -> None:
    assert nw.explain("prefix:16", nw.Target("max", 50)).plan.privacy.rho is not None


def test_what_pure_noise_cannot_plan_is_planned_all_the_same() -> None:
    """At a vast ε no carries are drawn; at a tiny one noise for all cells is too coarse."""
    for epsilon in (1e-9, 1e4):
        privacy = nw.Privacy(epsilon=epsilon, delta=1e-9)
        try:
            many = nw.plan("marginals:2^12:3", privacy, nw.Central(composition="many"))
        except NoisewrightError:
            continue
        assert nw.plan("marginals:2^12:3", privacy).achieved <= many.achieved


OTHERS = [
    (nw.RunningCount(16), nw.Stream),
    (nw.RunningCount(300), nw.Stream),
    (nw.Moments(3), nw.Central),
    (nw.Moments(100, radius=2.0), nw.Central),
    (nw.Pairs(12), nw.Central),
    (nw.Pairs(100), nw.Central),
]


@pytest.mark.parametrize(("question", "options"), OTHERS, ids=str)
def test_every_question_is_planned_by_the_noise_that_errs_less(
    question: Any, options: Any
) -> None:
    """Pure ε keeps (ε, δ) whatever δ is; where ρ adds up, Gaussian noise costs less."""
    pure = nw.plan(question, PURE)
    gaussian = nw.plan(question, BOTH, options(composition="many"))
    best = nw.plan(question, BOTH)
    assert pure.privacy.kind == "pure"
    assert gaussian.privacy == BOTH
    less = min(pure, gaussian, key=lambda plan: plan.forecast().rmse)
    assert best.privacy == less.privacy
    assert best.forecast().rmse == less.forecast().rmse
    assert best.spend.promise(BOTH.delta).epsilon <= 1


@pytest.mark.parametrize(("question", "options"), OTHERS[::2], ids=str)
def test_many_is_said_of_a_promise_with_delta_alone(
    question: Any, options: Any
) -> None:
    with pytest.raises(InvalidParameter, match="composition"):
        nw.plan(question, PURE, options(composition="many"))
    with pytest.raises(InvalidParameter, match="composition"):
        nw.plan(question, BOTH, options(composition="few"))
