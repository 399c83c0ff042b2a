"""Local plans: chosen, saved, collected with, estimated from, and refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import FileFormatError, InvalidParameter, TooLarge
from noisewright.local.choose.candidates import compare_local
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.registry import MECHANISMS
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.exchange import write_reports
from noisewright.planning.local.plan import NamedStrategy
from noisewright.workload import workload

FIELDS = {
    "mechanism",
    "epsilon",
    "objective",
    "objective_lower_bound",
    "sample_complexity",
    "sample_complexity_lower_bound",
    "ratio",
    "two_valued",
    "seconds",
    "bound_class",
}


@pytest.fixture(scope="module")
def plan():
    return nw.plan("prefix:12", nw.Privacy(epsilon=1), nw.Local(effort="low"))


def test_the_plan_has_the_smallest_worst_case(plan):
    rows = compare_local(
        workload("prefix:12"), nw.Privacy(epsilon=1), nw.Local(effort="low")
    )
    able = [row for row in rows if row.refusal is None]
    assert plan.mechanism.name == able[0].mechanism
    assert plan.sample_complexity() == pytest.approx(able[0].sample_complexity)
    people = [row.sample_complexity for row in able]
    assert people == sorted(people)
    assert {row["mechanism"] for row in plan.runners_up} == {
        row.mechanism for row in able[1:]
    }
    assert all(set(row.to_dict()) == FIELDS for row in rows)
    assert all(row.ratio >= 1 for row in able)


def test_summary_holds_what_scripts_rely_on(plan):
    summary = plan.summary()
    assert summary.keys() >= FIELDS
    assert (
        summary["ratio"]
        == summary["sample_complexity"] / summary["sample_complexity_lower_bound"]
    )
    assert summary["objective"] >= summary["objective_lower_bound"]


def test_collecting_end_to_end(plan, tmp_path):
    plan.save(tmp_path / "p.nw")
    loaded = nw.load(tmp_path / "p.nw")
    assert loaded.format.name == plan.format.name
    values = np.arange(600) % 12
    blobs = [loaded.client.randomize(int(v)) for v in values[:50]]
    assert {len(b) for b in blobs} == {loaded.format.length}
    assert plan.aggregate(iter(blobs)).people == 50
    assert plan.aggregate(blobs[0]).people == 1
    reports = loaded.randomize(values)
    write_reports(tmp_path / "r.parquet", [loaded.format.encode(reports)])
    from_file = plan.estimate(tmp_path / "r.parquet")
    from_memory = plan.estimate(reports)
    halves = plan.aggregate(reports[:10]).merge(plan.aggregate(reports[10:]))
    from_halves = plan.estimate(Aggregate.from_bytes(halves.to_bytes(), plan.format))
    np.testing.assert_array_equal(from_file.answers, from_memory.answers)
    np.testing.assert_array_equal(from_halves.answers, from_memory.answers)
    frame = from_memory.to_pandas()
    assert list(frame["query"]) == plan.labels()
    assert (frame["lower_all"] <= frame["lower"]).all()
    assert (frame["lower"] <= frame["upper"]).all()
    write_reports(tmp_path / "r.csv", [loaded.format.encode(reports)])
    np.testing.assert_array_equal(
        plan.estimate(tmp_path / "r.csv").answers, from_memory.answers
    )


def test_forecast_shrinks_with_people_and_amplifies(plan):
    one, many = plan.forecast(1000), plan.forecast(100_000)
    np.testing.assert_allclose(many.std, 10 * one.std, rtol=1e-6, atol=1e-3)
    assert one.rmse <= one.worst_rmse * (1 + 1e-9)
    assert plan.forecast(1000, population=True).rmse > one.rmse
    promise = plan.amplified(100_000, 1e-9)
    assert promise.epsilon < plan.epsilon
    for bad in (0, -5, 1.5):
        with pytest.raises(InvalidParameter):
            plan.forecast(bad)


def test_questions_by_name_are_answered_without_their_weights():
    domain = nw.Domain(
        [
            nw.Boolean("works"),
            nw.Categorical("region", values=["north", "south", "west"]),
        ]
    )
    spec = {
        "queries": [{"marginal": ["region"], "weight": 3.0}, {"marginal": ["works"]}]
    }
    questions = nw.Workload.from_spec(spec, domain)
    plan = nw.plan(questions, nw.Privacy(epsilon=2), nw.Local(effort="low"))
    report = plan.client.randomize({"works": True, "region": "south"})
    found = plan.estimate([report])
    assert found.answers[: domain["region"].size].sum() == pytest.approx(1.0)
    with pytest.raises(InvalidParameter):
        nw.plan("identity:4", nw.Privacy(epsilon=1), nw.Local()).client.randomize(
            {"a": 1}
        )


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_can_be_named_saved_and_loaded(name, tmp_path):
    text = "marginals:2^3:2" if name == "union" else "prefix:8"
    delta = 1e-6 if MECHANISMS[name].needs_delta else None
    plan = nw.plan(text, nw.Privacy(epsilon=1, delta=delta), nw.Local(mechanism=name))
    assert plan.mechanism.name == name
    plan.save(tmp_path / "p.nw")
    loaded = nw.load(tmp_path / "p.nw")
    assert loaded.sample_complexity() == plan.sample_complexity()
    found = loaded.estimate(plan.randomize(np.arange(8)))
    assert np.isfinite(found.answers).all()
    sent = [plan.client.randomize(cell) for cell in range(8)]
    collected = loaded.aggregate(sent, groups=2)
    assert collected.people + collected.set_aside["outlier"] == 8
    assert {len(report) for report in sent} == {loaded.format.length}


@pytest.mark.parametrize(
    ("text", "privacy", "options"),
    [
        ("identity:1", {"epsilon": 1}, {}),
        ("prefix:8", {"rho": 1}, {}),
        ("prefix:8", {"epsilon": 1}, {"mechanism": "gaussian"}),
        ("prefix:8", {"epsilon": 1}, {"mechanism": "union"}),
        ("prefix:8", {"epsilon": 100}, {}),
    ],
)
def test_what_cannot_be_planned_is_refused(text, privacy, options):
    with pytest.raises(nw.NoisewrightError):
        nw.plan(text, nw.Privacy(**privacy), nw.Local(**options))


@pytest.mark.parametrize(
    "asked", ["total:9", np.zeros((2, 5)), np.full((3, 4), 0.5), "3@total:4"]
)
def test_queries_that_tell_nobody_apart_are_refused_in_words(asked):
    for planned in (nw.plan, nw.compare):
        with pytest.raises(InvalidParameter, match="tells no two people apart"):
            planned(asked, nw.Privacy(epsilon=1), nw.Local())


@pytest.mark.parametrize("epsilon", [16.5, 20.0, 39.0, 39.5, 40.0])
def test_budgets_whose_errors_are_lost_in_rounding_are_refused(epsilon):
    for mechanism in ("auto", *MECHANISMS):
        with pytest.raises(InvalidParameter, match="lost in rounding"):
            nw.plan(
                "identity:4", nw.Privacy(epsilon, 1e-6), nw.Local(mechanism=mechanism)
            )


def test_a_plan_of_a_budget_beyond_the_digits_is_refused_wherever_it_comes_from(plan):
    beyond = RandomizedResponse(12, 30.0)
    with pytest.raises(InvalidParameter, match="lost in rounding"):
        replace(plan, mechanism=plan.mechanism._replace(strategy=beyond), proof=None)


@pytest.mark.parametrize("text", ["identity:2", "identity:4", "prefix:8"])
def test_the_largest_budget_leaves_errors_their_digits(text):
    for name in ("randomized-response", "hadamard", "subset-selection", "optimised"):
        largest = nw.plan(
            text, nw.Privacy(epsilon=16), nw.Local(mechanism=name, effort="low")
        )
        exact = worst_variance(largest.strategy.dense(), largest.workload.dense())
        assert largest.analysis.worst_case == pytest.approx(exact, rel=1e-6)


def worst_variance(chances, queries):
    """The largest variance of WX⁺QᵀD⁻¹ over types, D the chances for an even prior: 50 digits."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(50):
        q, w = mp.matrix(chances.tolist()), mp.matrix(queries.tolist())
        prior = [sum(q[o, u] for u in range(q.cols)) / q.cols for o in range(q.rows)]
        scores = mp.matrix(q.cols, q.rows)
        for o, u in np.ndindex(q.rows, q.cols):
            scores[u, o] = q[o, u] / prior[o]
        v = w * (scores * q) ** -1 * scores
        variances = []
        for u in range(q.cols):
            rows = range(v.rows)
            second = sum(q[o, u] * v[k, o] ** 2 for k in rows for o in range(q.rows))
            variances.append(second - sum(w[k, u] ** 2 for k in rows))
        return float(max(variances))


def test_epsilon_zero_and_what_are_no_options_are_refused():
    with pytest.raises(InvalidParameter):
        nw.Privacy(epsilon=0)
    with pytest.raises(InvalidParameter, match="options="):
        nw.plan("prefix:8", nw.Privacy(epsilon=1), "federated")


def test_aggregates_of_another_plan_are_refused(plan):
    other = nw.plan("prefix:12", nw.Privacy(epsilon=2), nw.Local(effort="low"))
    reports = other.aggregate(other.randomize(np.arange(12)))
    with pytest.raises(InvalidParameter, match="another plan"):
        plan.estimate(reports)
    blobs = [other.client.randomize(3), plan.client.randomize(3)]
    assert plan.aggregate(blobs).set_aside["foreign"] == 1


def test_damaged_plans_are_refused(plan, tmp_path):
    plan.save(tmp_path / "p.nw")
    content = (tmp_path / "p.nw").read_bytes()
    (tmp_path / "q.nw").write_bytes(content[:-20])
    with pytest.raises(FileFormatError):
        nw.load(tmp_path / "q.nw")


def test_a_plan_can_be_made_for_people_and_for_a_variance(tmp_path):
    privacy = nw.Privacy(epsilon=1)
    plain = nw.Local(mechanism="hadamard")
    asked = replace(plain, people=5000, alpha=0.002)
    plan = nw.plan("prefix:12", privacy, asked)
    plan.save(tmp_path / "p.nw")
    for one in (plan, nw.load(tmp_path / "p.nw")):
        assert one.forecast().rmse == one.forecast(5000).rmse
        assert one.people_for() == one.people_for(0.002)
        summary = one.summary()
        assert summary["people_needed"] == one.people_for(0.002)
        assert summary["rmse"] == one.forecast(5000).rmse
        assert summary["shuffled"]["epsilon"] < 1
    for wrong in ({"people": 0}, {"people": 1.5}, {"alpha": 0.0}):
        with pytest.raises(InvalidParameter):
            nw.plan("prefix:12", privacy, replace(plain, **wrong))
    with pytest.raises(InvalidParameter, match="people"):
        nw.plan("prefix:12", privacy, plain).forecast()


def test_chances_that_break_the_promise_are_refused(plan):
    class Eager(RandomizedResponse):
        threshold = 2**64 - 2**40

    with pytest.raises(InvalidParameter, match="not kept"):
        replace(
            plan,
            mechanism=NamedStrategy("eager", Eager(plan.workload.size, plan.epsilon)),
        )


def test_fifty_attributes_from_plan_to_tables(tmp_path):
    plan = nw.plan("marginals:2^50:1", nw.Privacy(epsilon=1), nw.Local(people=4000))
    assert {plan.mechanism.name, *(row["mechanism"] for row in plan.runners_up)} == {
        "fourier",
        "union",
    }
    plan.save(tmp_path / "p.nw")
    plan = nw.load(tmp_path / "p.nw")
    people = np.random.default_rng(0).integers(0, 2**50, 4000)
    collected = plan.aggregate(plan.client.randomize_many(people))
    fitted = plan.estimate(collected, non_negative=True, population=True)
    assert fitted.answers.min() >= 0
    np.testing.assert_allclose(fitted.answers.reshape(50, 2).sum(axis=1), 4000)
    with pytest.raises(TooLarge, match="tables"):
        plan.distribution(collected)


def test_other_errors_can_be_made_small() -> None:
    prior = np.linspace(1.0, 5.0, 8)
    asked = {"effort": "low", "cache": False}
    worst, average, given, flat = (
        nw.plan("prefix:8", nw.Privacy(epsilon=1.0), nw.Local(**asked, **more))
        for more in (
            {},
            {"objective": "average"},
            {"prior": prior},
            {"objective": "average", "norm": np.inf},
        )
    )
    gram = worst.workload.gram()
    shares = prior / prior.sum()
    means = [
        float(shares @ p.strategy.type_variances(gram)) for p in (given, worst, average)
    ]
    assert means[0] <= min(means[1:]) * 1.01
    assert (
        average.strategy.average_variance(gram)
        <= worst.strategy.average_variance(gram) * 1.01
    )
    largest = [
        p.strategy.uniform_query_variances(p.workload, 1).max() for p in (flat, average)
    ]
    assert largest[0] <= largest[1] * (1 + 1e-9)
    with pytest.raises(InvalidParameter, match="norm"):
        nw.plan("prefix:8", nw.Privacy(epsilon=1.0), nw.Local(norm=4.0))


def test_reports_hold_only_what_is_asked():
    domain = nw.Domain(
        [
            nw.Categorical("colour", ("red", "green", "blue")),
            nw.Categorical("town", tuple(f"t{i}" for i in range(50))),
            nw.Numeric.integers("age", 0, 7),
        ],
        reviewed=True,
    )
    spec = {"queries": [{"cdf": "age"}, {"marginal": ["colour"]}]}
    plan = nw.plan(
        nw.Workload.from_spec(spec, domain),
        nw.Privacy(epsilon=1),
        nw.Local(effort="low"),
    )
    assert plan.domain.names == ("colour", "age")
    assert plan.workload.size == 24
    record = {"colour": "red", "town": "t3", "age": 5}
    reports = [plan.client.randomize(record) for _ in range(20)]
    release = plan.estimate(reports)
    assert len(release.answers) == 8 + 3
    assert list(release.to_pandas()["table"].unique()) == ["cdf of age", "colour"]
