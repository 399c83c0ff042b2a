"""Projections: the nearest possible answers, unbiased ones beside, errors simulated in public."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import noisewright as nw
from noisewright.central.mechanism import Given
from noisewright.errors import InvalidParameter
from noisewright.estimate.nearest import AnswerSpace, Possible
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from noisewright.workload.structure import terms
from oracles.privacy_oracles import SeededSource

REPLACED = Privacy(1.0, neighbours="replace-one")
BUDGETS = [
    REPLACED,
    Privacy(1.0),
    Privacy(1.0, 1e-6, neighbours="replace-one"),
    Privacy(rho=0.5),
]


@pytest.mark.parametrize("text", ["prefix:7", "marginals:2^4:2", "random:5x12:1"])
@pytest.mark.parametrize("at_most", [False, True])
def test_no_possible_answers_are_nearer_than_the_gap_allows(text, at_most):
    """Against a convex solver over the same histograms."""
    import cvxpy

    asked, rng = workload(text), np.random.default_rng(1)
    matrix = asked.dense()
    noisy = matrix @ rng.multinomial(20, np.ones(asked.size) / asked.size) + rng.normal(
        0, 8, (3, asked.queries)
    )
    possible = Possible(20.0, at_most)
    fits, distance = AnswerSpace(asked).nearest(noisy, possible, 1e-3)
    assert distance <= 1e-3
    for fit, target in zip(fits, noisy, strict=True):
        assert fit.min() >= 0
        assert fit.sum() <= 20 + 1e-9 if at_most else fit.sum() == pytest.approx(20)
        h = cvxpy.Variable(asked.size, nonneg=True)
        total = [cvxpy.sum(h) <= 20] if at_most else [cvxpy.sum(h) == 20]
        cvxpy.Problem(
            cvxpy.Minimize(cvxpy.sum_squares(matrix @ h - target)), total
        ).solve(solver=cvxpy.CLARABEL)
        assert np.linalg.norm(matrix @ (fit - h.value)) <= distance + 1e-4


def test_large_and_small_domains_are_fitted_alike(monkeypatch):
    """By transforms, and by the Gram matrix itself."""
    asked, rng = workload("parity:6:<=2"), np.random.default_rng(2)
    noisy = rng.normal(0, 30, (2, asked.queries))
    small = AnswerSpace(asked).nearest(noisy, Possible(50.0), 1e-3)[0]
    monkeypatch.setattr("noisewright.estimate.nearest._DENSE_CELLS", 1)
    large = AnswerSpace(asked).nearest(noisy, Possible(50.0), 1e-3)[0]
    np.testing.assert_allclose(asked.matvec(small.T), asked.matvec(large.T), atol=3e-3)


@pytest.mark.parametrize("privacy", BUDGETS, ids=lambda p: p.text())
def test_answers_are_possible_and_unbiased_ones_stay_beside(privacy, tmp_path):
    plan = nw.plan(
        "marginals:2^4:2", privacy, nw.Central(mechanism="projection", people=60)
    )
    assert plan.spend.neighbours == privacy.neighbours
    assert plan.stated == privacy
    histogram = np.random.default_rng(3).multinomial(60, np.ones(16) / 16)
    release = plan.noisy(plan.exact(histogram), source=SeededSource(4))
    assert release.is_changed
    assert release.answers.min() >= -1e-9
    tables = release.answers.reshape(-1, 4).sum(axis=1)
    np.testing.assert_allclose(tables, tables[0])
    if privacy.neighbours == "replace-one":
        np.testing.assert_allclose(tables, 60)
    lower, upper = release.intervals.each
    assert (lower <= release.answers).all()
    assert (release.answers <= upper).all()
    width = release.unbiased.each[1] - release.unbiased.each[0]
    assert (upper - lower >= width - 1e-9).all()
    release.save(tmp_path / "release.nwr")
    again = nw.load(tmp_path / "release.nwr")
    np.testing.assert_array_equal(again.answers, release.answers)
    np.testing.assert_array_equal(again.unbiased.answers, release.unbiased.answers)
    assert "unbiased" in release.to_pandas().columns


def test_what_is_measured_is_the_noise_of_the_inner_mechanism():
    """Fed the same bytes, both measure the same: a projection spends nothing of its own."""
    plan = nw.plan(
        "marginals:2^4:2", REPLACED, nw.Central(mechanism="projection", people=60)
    )
    counts = plan.exact(np.arange(16))
    whole = plan.mechanism.measure(counts, SeededSource(5))
    inner = plan.mechanism.inner.measure(counts, SeededSource(5))
    for mine, theirs in zip(whole.parts[0].values, inner.values, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert whole.values[0][0] == np.arange(16).sum()
    assert plan.spend == plan.mechanism.inner.spend
    protected = nw.plan(
        "marginals:2^4:2", Privacy(1.0), nw.Central(mechanism="projection", people=60)
    )
    assert (
        protected.mechanism.measure(protected.exact(np.arange(16)), None).values == ()
    )


@pytest.mark.parametrize("text", ["marginals:2^4:2", "prefix:12"])
def test_forecasts_are_met_at_the_histograms_they_are_for(text):
    """60 releases at an even histogram: within a third, some five deviations of the mean square."""
    size = workload(text).size
    even = np.ones(size)
    plan = nw.plan(
        text, REPLACED, nw.Central(mechanism="projection", people=40, public=[even])
    )
    people = np.random.default_rng(6).multinomial(40, even / size)
    truth, source = plan.workload.matvec(people), SeededSource(7)
    errors = [
        plan.noisy(plan.exact(people), source=source).answers - truth for _ in range(60)
    ]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(
        plan.forecast().rmse, rel=1 / 3
    )
    assert plan.accuracy.kind == "simulated"
    assert plan.accuracy.bias is not None


def test_few_people_are_told_nearer_and_the_choice_is_the_best_forecast():
    rows = nw.compare("parity:6:<=2", REPLACED, nw.Central(people=20))
    planned = {row.mechanism: row for row in rows if row.refusal is None}
    assert planned["projection"].achieved < planned["laplace-strategy"].achieved / 1.5
    assert planned["projection"].errors == planned["no-data"].errors == "simulated"
    assert planned["carry"].errors == "exact"
    chosen = nw.plan("parity:6:<=2", REPLACED, nw.Central(people=20))
    best = min(
        (r for r in planned.values() if r.mechanism != "no-data"),
        key=lambda r: r.achieved,
    )
    assert chosen.mechanism.name == best.mechanism


def test_without_people_nothing_biased_is_planned():
    assert "projection" not in {
        row.mechanism for row in nw.compare("prefix:6", REPLACED) if row.refusal is None
    }
    with pytest.raises(InvalidParameter, match="people"):
        nw.plan("prefix:6", REPLACED, nw.Central(mechanism="projection"))
    with pytest.raises(InvalidParameter, match="people"):
        nw.plan("prefix:6", REPLACED, nw.Central(public=[np.ones(6)]))
    for people in (0, -3, 1.5):
        with pytest.raises(InvalidParameter, match="people"):
            Given(people)
    for histogram in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(InvalidParameter, match="public"):
            Given(5, (np.array(histogram),))


def test_steps_that_fit_again_are_refused_and_rows_come_from_the_histogram():
    domain = nw.Domain(
        [nw.Categorical("a", ["x", "y"]), nw.Categorical("b", ["u", "v", "w"])]
    )
    plan = nw.plan(
        "identity:6",
        REPLACED,
        nw.Central(mechanism="projection", people=9),
        domain=domain,
    )
    release = plan.release(np.array([9, 0, 0, 0, 0, 0]))
    with pytest.raises(InvalidParameter, match="histogram"):
        nw.post_process(release, non_negative=True)
    assert len(release.synthesise(50)) == 50


@pytest.mark.parametrize("space", ["cells", "answers"])
@pytest.mark.parametrize("privacy", [REPLACED, Privacy(1.0)], ids=lambda p: p.text())
def test_no_data_are_told_worse_than_the_bound_beside_the_forecast(privacy, space):
    """Everybody in one cell, in two, and spread: 40 releases each; the bound is on their mean."""
    plan = nw.plan(
        "marginals:2^4:2", privacy, nw.Central(mechanism="projection", people=30)
    )
    plan = replace(
        plan,
        proposal=replace(plan.proposal, mechanism=replace(plan.mechanism, space=space)),
        known_accuracy=None,
    )
    bound = plan.accuracy.worst_rmse
    assert plan.achieved <= bound
    spread = np.random.default_rng(1).multinomial(30, np.ones(16) / 16)
    for people in (
        30 * np.eye(16, dtype=int)[3],
        15 * np.eye(16, dtype=int)[[2, 13]].sum(0),
        spread,
    ):
        truth, source = plan.workload.matvec(people), SeededSource(9)
        errors = [
            plan.noisy(plan.exact(people), source=source).answers - truth
            for _ in range(40)
        ]
        assert np.sqrt(np.mean(np.square(errors))) <= bound


def test_few_people_are_bounded_by_the_width_and_not_by_the_noise():
    few = nw.plan(
        "parity:4:<=2", REPLACED, nw.Central(mechanism="projection", people=2)
    )
    unbiased = nw.plan("parity:4:<=2", REPLACED, nw.Central(mechanism="carry"))
    assert unbiased.accuracy.worst_rmse is None
    assert "worst_rmse" not in unbiased.summary()
    assert few.summary()["worst_rmse"] == few.accuracy.worst_rmse < unbiased.achieved


def test_plans_say_where_what_is_easily_had_is_nearer():
    even = np.ones(16)
    plan = nw.plan("marginals:2^4:2", REPLACED, nw.Central(people=30, public=[even]))
    assert "no-data" in plan.status
    assert "one-way" in plan.status
    many = nw.plan(
        "marginals:2^4:2", REPLACED, nw.Central(people=10**6, mechanism="carry")
    )
    assert "less" not in many.status
    rows = {
        row.mechanism: row
        for row in nw.compare("marginals:2^4:2", REPLACED, nw.Central(people=10**6))
    }
    assert rows["one-way"].errors == "simulated"
    assert rows["one-way"].achieved < rows["no-data"].achieved
    single = {
        row.mechanism for row in nw.compare("prefix:6", REPLACED, nw.Central(people=20))
    }
    assert "one-way" not in single


def test_forecasts_of_other_questions_are_not_scaled_by_the_noise_of_the_fit():
    """Cells asked later of a fit to as many prefix sums; the same sums rebuilt are recognised."""
    plan = nw.plan("prefix:12", REPLACED, nw.Central(mechanism="projection", people=40))
    fitted = replace(plan.mechanism, space="answers")
    sums, cells = (
        terms(workload(text), (12,)) for text in ("prefix:12", "identity:12")
    )
    unbiased = {id(asked): fitted.inner.accuracy(asked) for asked in (sums, cells)}
    noise = unbiased[id(sums)].draw(40, np.random.default_rng(8))
    corrections = [
        fitted._variance_correction(noise, asked, unbiased[id(asked)])
        for asked in (sums, cells)
    ]
    known, drawn = unbiased[id(sums)].variance.mean(), (noise**2).mean()
    assert corrections == [pytest.approx(np.sqrt(known / drawn)), 1.0]

    three = terms(workload("random:3x12:1"), (12,))
    later = [fitted.accuracy(asked) for asked in (cells, [*cells, *three])]
    np.testing.assert_allclose(later[0].error, later[1].error[:12])
