"""What is said of a strategy in four ways is one and the same: forecast, analysis, matrix, trial.

The oracle knows of a strategy its chances Q (or its noise) and what each report adds to the
answers, asked one report at a time; it forms V(Diag(q) − qqᵀ)Vᵀ and nothing else. Forecasts and
analyses come from closed forms; trials from clients and collectors. In a trial the mean square of
120 Gaussian errors lies beyond 6.5 of its standard deviations with a chance below 1e-7, some 600
of them below 1e-4 together, had the seeds not been fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from local.strategies import KINDS, listed_reports
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.storage import HOMES
from noisewright.local.vector.noisy_columns import VectorStrategy
from noisewright.planning.local.plan import LocalPlan, NamedStrategy
from noisewright.workload import Workload, workload
from noisewright.workload.kinds.explicit import Explicit
from oracles.local_matrix import answer_covariance
from oracles.privacy_oracles import SeededSource

EPSILONS = (0.4, 2.5)
PEOPLE, RUNS = 300, 120
CASES = [
    # Half of the grid at once, such that every kind meets every workload and both budgets.
    pytest.param(name, asked, epsilon, marks=pytest.mark.slow if (i + j) % 2 else ())
    for name, (_, answered) in KINDS.items()
    for i, asked in enumerate(answered)
    for j, epsilon in enumerate(EPSILONS)
]
TRIALS = [case for case in CASES if case.values[1] != "total"]


def built(name, asked, epsilon):
    strategy = KINDS[name][0](epsilon)
    if isinstance(asked, Workload):
        return strategy, asked
    return strategy, workload(asked if ":" in asked else f"{asked}:{strategy.size}")


def covariances(strategy, asked):
    """The covariance of the answers that one person of each type adds, by the oracle."""
    if isinstance(strategy, VectorStrategy):
        nothing = strategy.answers(
            asked, np.zeros(strategy.collector.counters, dtype=np.int64), 1
        )
        units = np.eye(strategy.collector.counters, dtype=np.int64) * 2**20
        v = (
            np.array([strategy.answers(asked, unit, 1) - nothing for unit in units]).T
            / 2**20
        )
        one = strategy.law.standard_deviation**2 * v @ v.T
        return np.repeat(one[None], strategy.size, axis=0)
    q, reports = strategy.dense(), listed_reports(strategy)
    possible = q.max(axis=1) > 0
    tallies = [strategy.collector.tally(report[None]) for report in reports[possible]]
    v = np.array([strategy.answers(asked, tally, 1) for tally in tallies]).T
    # without bias
    np.testing.assert_allclose(v @ q[possible], asked.dense(), atol=1e-7)
    kinds = np.eye(strategy.size)
    return np.array([answer_covariance(q[possible], v, kind) for kind in kinds])


def test_every_stored_kind_is_here():
    assert {build(1.0).kind for build, _ in KINDS.values()} == set(HOMES)


@pytest.mark.parametrize(("name", "asked", "epsilon"), CASES)
def test_forecast_analysis_and_matrix_agree(name, asked, epsilon):
    strategy, asked = built(name, asked, epsilon)
    each = covariances(strategy, asked)
    diagonals = np.diagonal(each, axis1=1, axis2=2)
    totals = diagonals.sum(axis=1)
    scale = max(float(totals.max()), 1.0)
    close = {"rtol": 1e-7, "atol": 1e-9 * scale}

    analysis = Analysis(strategy, asked)
    np.testing.assert_allclose(analysis.worst_case, totals.max(), **close)
    np.testing.assert_allclose(analysis.average_case, totals.mean(), **close)
    whole = strategy.size * totals.mean() + (asked.dense() ** 2).sum()
    assert analysis.objective == pytest.approx(whole, rel=1e-7)

    plan = LocalPlan(asked, None, NamedStrategy(name, strategy))
    even = diagonals.mean(axis=0)
    np.testing.assert_allclose(plan.forecast(PEOPLE).std ** 2 / PEOPLE, even, **close)
    expected = np.sqrt(PEOPLE * max(totals.max(), 0.0) / asked.queries)
    assert plan.forecast(PEOPLE).worst_rmse == pytest.approx(
        expected, rel=1e-7, abs=1e-4
    )

    if strategy.lists_cells:
        people = np.arange(1.0, strategy.size + 1)
        accuracy = LocalAccuracy(strategy, asked, int(people.sum()), people)
        np.testing.assert_allclose(
            accuracy.variance, people @ diagonals, rtol=1e-7, atol=1e-8 * scale
        )
        together = np.einsum("u,uij->ij", people, each)
        found = analysis.covariance(people)
        np.testing.assert_allclose(found, together, rtol=1e-6, atol=1e-8 * scale)
        found = accuracy.covariance(np.arange(asked.queries))
        np.testing.assert_allclose(found, together, rtol=1e-6, atol=1e-8 * scale)
        np.testing.assert_allclose(analysis.type_variances, totals, **close)
        worst = LocalAccuracy(strategy, asked, PEOPLE, errors="worst").variance / PEOPLE
        np.testing.assert_allclose(worst, diagonals.max(axis=0), **close)


@pytest.mark.parametrize(("name", "asked", "epsilon"), TRIALS)
def test_trials_have_the_variances_stated(name, asked, epsilon):
    strategy, asked = built(name, asked, epsilon)
    counts = np.full(strategy.size, PEOPLE // strategy.size)
    values = np.repeat(np.arange(strategy.size), counts)
    reports = strategy.randomize(np.tile(values, RUNS), SeededSource(5))
    tallies = [strategy.collector.tally(part) for part in np.split(reports, RUNS)]
    answers = np.array(
        [strategy.answers(asked, tally, len(values)) for tally in tallies]
    )
    plan = LocalPlan(asked, None, NamedStrategy(name, strategy))
    std = plan.forecast(len(values)).std
    live = std > 1e-6 * std.max()
    errors = answers - asked.matvec(counts.astype(float))
    np.testing.assert_allclose(errors[:, ~live], 0.0, atol=1e-6 * len(values))
    z = errors[:, live] / std[live]
    assert np.abs(z.mean(axis=0)).max() * np.sqrt(RUNS) < 6.5
    assert np.abs((z**2).mean(axis=0) - 1.0).max() < 6.5 * np.sqrt(2 / RUNS)


@pytest.mark.parametrize("epsilon", [0.4, pytest.param(2.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", [n for n, (_, answered) in KINDS.items() if "prefix" in answered]
)
def test_constants_added_to_queries_change_no_error(name, epsilon):
    strategy, plain = built(name, "prefix", epsilon)
    matrix = plain.dense()
    for constant in (1e3, 1e7):  # the smaller one leaves digits for the oracle
        moved = Explicit(
            matrix + constant * np.linspace(-1.0, 1.0, len(matrix))[:, None].round(1)
        )
        one, other = Analysis(strategy, plain), Analysis(strategy, moved)
        np.testing.assert_allclose(other.type_variances, one.type_variances, rtol=1e-7)
        before, after = (
            LocalAccuracy(strategy, w, PEOPLE).variance for w in (plain, moved)
        )
        np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9 * before.max())
        # and the collector, who answers the queries as they are, agrees
        if constant == 1e3:
            each = np.diagonal(covariances(strategy, moved), axis1=1, axis2=2)
            mean = PEOPLE * each.mean(axis=0)
            np.testing.assert_allclose(after, mean, rtol=1e-5, atol=1e-6 * after.max())
