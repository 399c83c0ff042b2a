"""Biased estimates: their errors by enumeration, their optimality, and what a plan says of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.errors import InvalidParameter
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.shrinkage import affine_bound, minimax_affine
from noisewright.local.histogram.sets import RandomizedResponse

PRIVACY = nw.Privacy(epsilon=1)
WORKLOAD = nw.workload("prefix:3")


def enumerated(held: tuple[int, ...]) -> float:
    """Squared error over all outcomes of these people's reports, added up outcome by outcome."""
    strategy = RandomizedResponse(3, 1.0)
    shrunk = minimax_affine(strategy, table_gram(WORKLOAD), len(held), 1e-6)
    q, total = strategy.dense(), 0.0
    truth = WORKLOAD.matvec(np.bincount(held, minlength=3).astype(float))
    for reports in product(range(3), repeat=len(held)):
        chance = np.prod([q[o, u] for o, u in zip(reports, held, strict=True)])
        tally = np.bincount(reports, minlength=3)
        answers = WORKLOAD.matvec(shrunk.histogram(tally))
        total += chance * float(((answers - truth) ** 2).sum())
    return total


def test_errors_are_those_of_all_outcomes_and_worst_where_all_are_alike() -> None:
    strategy = RandomizedResponse(3, 1.0)
    shrunk = minimax_affine(strategy, table_gram(WORKLOAD), 3, 1e-6)
    for cell in range(3):
        assert enumerated((cell,) * 3) == pytest.approx(shrunk.errors[cell], rel=1e-9)
    assert shrunk.value == pytest.approx(shrunk.errors.max(), rel=1e-12)
    for held in [(0, 1, 2), (0, 0, 2), (1, 1, 2)]:
        assert enumerated(held) <= shrunk.value * (1 + 1e-9)


@pytest.mark.parametrize(
    "kind", ["randomized-response", "subset-selection", "hadamard"]
)
def test_no_affine_estimate_has_a_smaller_worst_error(kind: str) -> None:
    """Bayes risk at the least favourable prior, from the normal equations of counts of reports."""
    plan = nw.plan("prefix:5", PRIVACY, nw.Local(mechanism=kind))
    people, q = 40, plan.strategy.dense()
    shrunk = plan.shrinkage(people)
    prior = shrunk.certificate.prior
    w = WORKLOAD_5
    seen = people * np.diag(q @ prior) + people * (people - 1) * (q * prior) @ q.T
    cross = people**2 * (w * prior) @ q.T
    risk = people**2 * float(((w**2) * prior).sum()) - float(
        np.trace(cross @ np.linalg.pinv(seen, rcond=1e-13) @ cross.T)
    )
    assert shrunk.lower_bound == pytest.approx(risk, rel=1e-5)
    assert shrunk.gap <= 2e-3
    assert shrunk.value < shrunk.unbiased


def test_the_bound_is_worked_out_from_any_prior_and_no_estimate_is_below_it() -> None:
    """Random priors and affine estimates, whose errors are added up from their definition."""
    rng = np.random.default_rng(0)
    strategy, gram, people = RandomizedResponse(3, 1.0), table_gram(WORKLOAD).dense(), 4
    q, w = strategy.dense(), WORKLOAD.dense()
    best = minimax_affine(strategy, table_gram(WORKLOAD), people, 1e-6)
    for _ in range(200):
        prior = rng.dirichlet(np.ones(3))
        bound = affine_bound(strategy, gram, people, prior)
        assert bound <= best.value * (1 + 1e-9)
        estimate = np.linalg.inv(q) * rng.uniform(0, 1.2) + rng.normal(0, 0.1, (3, 3))
        mean = estimate @ q
        away = people * (w @ (mean - np.eye(3)))
        spread = (w @ estimate) ** 2 @ q - (w @ mean) ** 2
        worst = ((away**2).sum(axis=0) + people * spread.sum(axis=0)).max()
        assert bound <= worst * (1 + 1e-9)
        assert best.lower_bound <= worst * (1 + 1e-9)


WORKLOAD_5 = nw.workload("prefix:5").dense()


def test_the_figures_of_the_prototype() -> None:
    """identity:64 at normalised variances 0.1, 0.01 and 0.001: .135, .606, .939 of the error."""
    plan = nw.plan("identity:64", PRIVACY, nw.Local(mechanism="subset-selection"))
    needed = plan.analysis.worst_case / plan.workload.queries
    shares = [
        plan.shrinkage(int(np.ceil(needed / v))).share ** 2 for v in (0.1, 0.01, 0.001)
    ]
    np.testing.assert_allclose(shares, [0.135, 0.606, 0.939], atol=0.002)


def test_a_plan_says_what_shrinking_gains_and_where_it_ends() -> None:
    plan = nw.plan("identity:8", PRIVACY, nw.Local(mechanism="subset-selection"))
    forecast = plan.forecast(20, shrink=True)
    assert forecast.shrunk_worst_rmse is not None
    assert forecast.shrinking_ends is not None
    assert forecast.shrunk_worst_rmse < 0.8 * forecast.worst_rmse
    assert plan.shrinkage(2 * forecast.shrinking_ends).share > 0.99
    assert plan.shrinkage(forecast.shrinking_ends // 2).share < 0.99
    assert plan.forecast(20).shrinkage is None
    assert {"shrunk_worst_rmse", "shrinking_ends"} <= set(forecast.summary())


def test_unbiased_answers_stay_and_intervals_hold() -> None:
    """300 estimates from 60 people in one cell; nominal 95 %, below 0.9 has chance 1e-4."""
    plan = nw.plan("identity:8", PRIVACY, nw.Local(mechanism="subset-selection"))
    data = np.zeros(60, dtype=np.int64)
    truth, held, shrunk_error, plain_error = np.eye(8)[0] * 60, 0, 0.0, 0.0
    for _ in range(300):
        reports = plan.randomize(data)
        shrunk, plain = plan.estimate(reports, shrink=True), plan.estimate(reports)
        low, high = shrunk.intervals.each
        held += int(low[1] <= truth[1] <= high[1])
        assert (low <= shrunk.answers + 1e-9).all()
        assert (shrunk.answers <= high + 1e-9).all()
        shrunk_error += float(((shrunk.answers - truth) ** 2).sum())
        plain_error += float(((plain.answers - truth) ** 2).sum())
    assert held >= 270
    assert shrunk_error < plain_error
    assert shrunk.answers.sum() == pytest.approx(60, abs=1e-6)


def test_shrinking_stands_alone() -> None:
    plan = nw.plan("identity:4", PRIVACY, nw.Local(mechanism="subset-selection"))
    reports = plan.randomize(np.zeros(10, dtype=np.int64))
    with pytest.raises(InvalidParameter, match="shrink="):
        plan.estimate(reports, shrink=True, non_negative=True)


def test_the_command_shrinks(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plan = nw.plan("identity:4", PRIVACY, nw.Local(mechanism="subset-selection"))
    plan.save(tmp_path / "p.nw")
    plan.aggregate(plan.randomize(np.zeros(50, dtype=np.int64))).save(
        tmp_path / "r.agg"
    )
    command = ["estimate", str(tmp_path / "p.nw"), str(tmp_path / "r.agg"), "--shrink"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output


def test_a_rehearsal_compares_kinds_of_answers_and_holds_intervals() -> None:
    """80 people in one of 8 cells, 60 runs; 95 % of 480 answers, below 0.9 has chance 1e-6."""
    plan = nw.plan("identity:8", PRIVACY, nw.Local(mechanism="subset-selection"))
    told = plan.rehearse(
        np.eye(8, dtype=int)[2] * 80, runs=60, rng=np.random.default_rng(0)
    )
    shrunk = plan.shrinkage(80)
    assert told.rmse["shrunk"] == pytest.approx(np.sqrt(shrunk.errors[2] / 8), rel=0.15)
    assert told.rmse["unbiased"] == pytest.approx(
        np.sqrt(shrunk.unbiased / 8), rel=0.15
    )
    assert told.rmse["non_negative"] < told.rmse["shrunk"] < told.rmse["unbiased"]
    assert min(told.coverage.values()) > 0.9
    again = plan.rehearse(
        np.eye(8, dtype=int)[2] * 80, runs=60, rng=np.random.default_rng(0)
    )
    assert again == told
    for bad in (
        [1, 2],
        np.full(8, 0.5),
        -np.ones(8, dtype=int),
        np.zeros(8, dtype=int),
    ):
        with pytest.raises(InvalidParameter, match="histogram="):
            plan.rehearse(bad, rng=np.random.default_rng(0))
