"""Sketched releases: private for the very signs drawn, faithful to the paper, honest of bias."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import gamma, kstest

import noisewright as nw
from noisewright.central.geometry import balls
from noisewright.central.geometry.balls import BallMechanism
from noisewright.central.geometry.fitted_plans import Net, coarse_jl, sketch_candidates
from noisewright.errors import InvalidParameter
from noisewright.planning.central.problems import central_problem
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

REPLACED = Privacy(1.0, neighbours="replace-one")
ASKED = "parity:5:<=3"
BOTH = ["jl", "coarse-jl"]


@pytest.fixture(scope="module")
def plans():
    return {
        name: nw.plan(ASKED, REPLACED, nw.Central(mechanism=name, people=10))
        for name in BOTH
    }


def loss_of_a_replacement(method: BallMechanism) -> float:
    """The most that chances change, from the integers measured: densities fall by ε per radius.

    Squared lengths are whole numbers, so that only the last root and sum are rounded.
    """
    rows = [own.astype(object) for own in method.parts]
    worst = 0.0
    for a, b in combinations(range(rows[0].shape[1]), 2):
        loss = 0.0
        for own, reach, budget in zip(
            rows, method.reaches, method.budgets, strict=True
        ):
            square = sum(int(step) ** 2 for step in own[:, a] - own[:, b])
            loss += Fraction(budget.epsilon) * Fraction(np.sqrt(square / reach))
        worst = max(worst, float(loss))
    return worst


def noise_of(plan, draws: int) -> list[np.ndarray]:
    """What is added to every part, in units of its radius over ε."""
    inner, source = plan.mechanism.inner, SeededSource(8)
    counts = plan.exact(np.array([10] + [0] * 31))
    exact = [rows @ counts[inner.tables[0]].ravel() for rows in inner.parts]
    drawn = [
        plan.mechanism.measure(counts, source).parts[0].values[1:] for _ in range(draws)
    ]
    units = [
        np.sqrt(reach) / budget.epsilon
        for reach, budget in zip(inner.reaches, inner.budgets, strict=True)
    ]
    return [
        (np.array([own[i] for own in drawn]) - exact[i]) / units[i]
        for i in range(len(inner.parts))
    ]


def follows_its_law(plan, draws: int = 400) -> bool:
    """Lengths against Gamma(d), Kolmogorov–Smirnov at 1e-6."""
    parts = noise_of(plan, draws)
    lengths = [np.linalg.norm(part, axis=1) for part in parts]
    laws = [gamma(part.shape[1]).cdf for part in parts]
    return all(
        kstest(own, law).pvalue > 1e-6 for own, law in zip(lengths, laws, strict=True)
    )


@pytest.mark.parametrize("name", BOTH)
def test_no_replacement_changes_chances_by_more_than_epsilon(name, plans):
    method = plans[name].mechanism.inner
    assert loss_of_a_replacement(method) <= 1.0 + 1e-12
    assert plans[name].spend.promise().epsilon <= 1.0
    assert follows_its_law(plans[name])


def test_planted_bugs_are_caught(plans, monkeypatch):
    """Half the scale, another body, another dimension."""
    plan = plans["jl"]
    method = plan.mechanism.inner
    halved = replace(method)
    halved.__dict__["reaches"] = tuple(reach // 4 for reach in method.reaches)
    assert loss_of_a_replacement(halved) > 1.5
    other = replace(method)  # the radius of other signs
    signs = np.random.default_rng(5).choice([-1, 1], size=(4, plan.queries))
    rows = signs @ plan.workload.dense().astype(np.int64)
    other.__dict__["reaches"] = (balls.reach_square(rows, True),) * len(method.parts)
    assert loss_of_a_replacement(other) > 1.5
    true_noise = balls.ball_noise

    def of_less(reach, epsilon, dimension, source):
        return np.append(true_noise(reach, epsilon, dimension - 1, source), 0)

    monkeypatch.setattr(balls, "ball_noise", of_less)
    assert not follows_its_law(plan)
    monkeypatch.setattr(
        balls, "ball_noise", lambda r, e, d, s: true_noise(r, 2 * e, d, s)
    )
    assert not follows_its_law(plan)


def test_what_is_measured_are_signed_sums_of_the_queries():
    matrix = workload(ASKED).dense().astype(np.int64)
    options = list(sketch_candidates(matrix, 20))
    assert [len(rows) for rows in options] == [8, 20, len(matrix)]
    for rows in options[:-1]:
        signs = np.linalg.lstsq(matrix.T, rows.T, rcond=None)[0]
        np.testing.assert_allclose(np.abs(signs), 1.0, atol=1e-9)
    # as many as its dimension: all of them
    np.testing.assert_array_equal(options[-1], matrix)
    assert [len(rows) for rows in sketch_candidates(matrix, 1000)] == [8, len(matrix)]


@pytest.mark.parametrize("text", ["parity:5:<=3", "prefix:20", "random:6x30:2"])
@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.5])
def test_nets_are_maximal_and_move_nobody_by_more_than_half_alpha(text, alpha):
    matrix = np.rint(workload(text).dense() * 3).astype(np.int64)
    distance = alpha * np.sqrt(len(matrix)) / 2
    net = Net.at_distance(matrix, distance)
    columns = matrix.T.astype(float)
    apart = np.linalg.norm(columns[:, None] - columns[net.cells], axis=2)
    among = apart[net.cells] + np.diag([np.inf] * len(net.cells))
    assert (among > distance).all()
    assert (apart.min(axis=1) <= distance).all()
    moved = np.linalg.norm(columns - columns[net.nearest], axis=1)
    np.testing.assert_allclose(moved, apart.min(axis=1))
    assert (moved / np.sqrt(len(matrix)) <= alpha / 2 + 1e-12).all()


def test_a_net_of_ones_own_keeps_people_in_its_cells():
    entry = coarse_jl(alpha=1.2)
    plan = nw.plan("prefix:16", REPLACED, nw.Central(mechanism=entry, people=15))
    assert plan.mechanism.name == "coarse-jl"
    cells = plan.mechanism.support
    assert len(cells) < 16
    release = plan.noisy(
        plan.exact(np.array([0] * 7 + [15] + [0] * 8)), source=SeededSource(1)
    )
    histogram = plan.mechanism.histogram(release.measurement)
    assert set(np.flatnonzero(histogram > 0)) <= set(cells.tolist())
    assert histogram.sum() == pytest.approx(15)
    # Whatever is measured, people of one cell cannot be told from those of the one they stand for.
    measured = plan.mechanism.workload.dense()
    near = [
        int(np.abs(measured - measured[:, [cell]]).sum(axis=0).argmin())
        for cell in range(16)
    ]
    assert len(set(near)) == len(cells)
    for alpha in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidParameter, match="alpha"):
            coarse_jl(alpha)
    with pytest.raises(InvalidParameter, match="one cell for all"):
        nw.plan("prefix:16", REPLACED, nw.Central(mechanism=coarse_jl(1e6), people=15))


@pytest.mark.parametrize("name", BOTH)
def test_intervals_hold_whatever_the_data(name, plans):
    """Everybody in one cell, which no public histogram says: 100 releases, of 26 answers each.

    Each misses with chance 5 % at most; more than 12 % of all would take five deviations of even
    wholly dependent answers in a release.
    """
    plan, source = plans[name], SeededSource(3)
    people = np.zeros(32, dtype=int)
    people[11] = 10
    truth, missed = plan.workload.matvec(people), 0
    for _ in range(100):
        release = plan.noisy(plan.exact(people), source=source)
        lower, upper = release.intervals.each
        missed += int(((truth < lower - 1e-9) | (truth > upper + 1e-9)).sum())
        assert (lower <= release.answers).all()
        assert (release.answers <= upper).all()
    assert missed <= 0.12 * 100 * len(truth)


@pytest.mark.parametrize("name", BOTH)
def test_linear_answers_are_off_by_no_more_than_told(name, plans):
    """From exact rows, at every data set of one cell: between them nothing is worse."""
    plan = plans[name]
    inner, terms = plan.mechanism.inner, plan.terms
    accuracy = inner.accuracy(terms)
    off = np.zeros(plan.queries) if accuracy.bias is None else accuracy.bias
    of_people, weights = inner.reading(terms)
    noise = np.repeat(inner.deviations, [len(rows) for rows in inner.parts])
    for cell, column in enumerate(plan.workload.dense().T):
        rows = np.concatenate([own[:, cell] for own in inner.parts]) / noise
        assert (np.abs(10 * (of_people + weights @ rows - column)) <= off + 1e-6).all()


def test_few_rows_tell_no_unbiased_answers_and_say_so():
    plan = nw.plan(ASKED, REPLACED, nw.Central(mechanism="jl", people=4))
    assert plan.mechanism.workload.queries < plan.queries
    assert not plan.tells_unbiased
    release = plan.release(np.array([4] + [0] * 31))
    assert "unbiased" not in release.to_pandas().columns
    assert release.statement()["unbiased"] is False
    assert plan.record()["projection"]["sketch"] == plan.mechanism.workload.queries
    assert release.answer("parity:5:1").answers.shape == (5,)
    forecast = plan.forecast()
    assert plan.accuracy.kind == "simulated"
    assert plan.accuracy.bias.max() > 0
    assert (forecast.halfwidth >= plan.interval_accuracy.bias).all()


def test_more_people_than_planned_are_refused(plans):
    for plan in plans.values():
        with pytest.raises(InvalidParameter, match="planned for"):
            plan.release(np.array([11] + [0] * 31))


@pytest.mark.parametrize("name", BOTH)
def test_forecasts_are_met_at_the_histograms_they_are_for(name):
    """80 releases: within a third, some five deviations of the mean square."""
    even = np.ones(16)
    plan = nw.plan(
        "parity:4:<=2", REPLACED, nw.Central(mechanism=name, people=30, public=[even])
    )
    people = np.random.default_rng(6).multinomial(30, even / 16)
    truth, source = plan.workload.matvec(people), SeededSource(7)
    errors = [
        plan.noisy(plan.exact(people), source=source).answers - truth for _ in range(80)
    ]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(
        plan.forecast().rmse, rel=1 / 3
    )


@pytest.mark.parametrize("name", BOTH)
def test_files_hold_rows_and_radii_are_computed_anew(name, plans, tmp_path):
    plan = plans[name]
    release = plan.release(np.array([10] + [0] * 31))
    release.save(tmp_path / "r.nwr")
    again = nw.load(tmp_path / "r.nwr")
    np.testing.assert_array_equal(again.answers, release.answers)
    assert again.plan.mechanism.inner.reaches == plan.mechanism.inner.reaches
    assert again.plan.spend == plan.spend


def test_forged_sketches_are_refused(plans):
    method = plans["coarse-jl"].mechanism
    for support in ([3, 1], [0, 0], [-1, 2], [0, 32], []):
        with pytest.raises(InvalidParameter, match="support"):
            replace(method, support=np.array(support, dtype=np.int64))
    with pytest.raises(InvalidParameter, match="people"):
        replace(method.inner, people=0)
    with pytest.raises(InvalidParameter, match="public"):
        replace(method.inner, privacy=Privacy(1.0))


@pytest.mark.parametrize("name", BOTH)
def test_sketches_say_what_they_are_not_for(name):
    from noisewright.central.registry import CENTRAL

    def reason(text, privacy, people):
        return CENTRAL[name].refuses(
            central_problem(workload(text), privacy, nw.Central(people=people))
        )

    few = 10
    assert "replace-one" in reason(ASKED, Privacy(1.0), few)
    assert "people" in reason(ASKED, REPLACED, None)
    assert "pure" in reason(ASKED, Privacy(1.0, 1e-6, neighbours="replace-one"), few)
    assert "whole numbers" in reason("0.37@prefix:8", REPLACED, few)
    for epsilon in (1e-300, 1e300):
        assert "epsilon" in reason(
            ASKED, Privacy(epsilon, neighbours="replace-one"), few
        )
    rows = nw.compare("parity:4:<=2", REPLACED, nw.Central(people=10))
    row = {row.mechanism: row for row in rows}[name].to_dict()
    assert row["rmse"] > 0
    assert row["errors"] == "simulated"
