"""Limits that hold whatever liars say, and answers within them."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import NoisewrightError
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.goodness import goodness_of_fit
from noisewright.local.analysis.robust import robust_answers

MECHANISMS = ["randomized-response", "hadamard", "subset-selection", "rappor"]


def planned(
    mechanism: str, workload: str = "identity:8", epsilon: float = 1.0
) -> nw.LocalPlan:
    return nw.plan(workload, nw.Privacy(epsilon), nw.Local(mechanism=mechanism))


def copies(plan: nw.LocalPlan, cell: int, count: int) -> np.ndarray:
    """Copies of one honest report of a cell."""
    return np.repeat(plan.randomize([cell]), count, axis=0)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "local-hashing"])
@pytest.mark.parametrize("workload", ["identity:8", "prefix:8"])
def test_the_truth_lies_within_the_limits(mechanism, workload):
    """Four crowds a case, each missed with chance 5 % at most: three misses have chance 5e-4."""
    plan = planned(mechanism, workload)
    rng = np.random.default_rng(3)
    asked, misses = plan.workload.dense(), 0
    for cell in range(4):
        honest = rng.choice(8, 4750, p=np.arange(1, 9)[::-1] / 36)
        sent = np.concatenate([plan.randomize(honest), copies(plan, 2 * cell, 250)])
        try:
            found = robust_answers(plan.plain_workload, plan.aggregate(sent), 0.05)
        # the noise went beyond its limits, so that liars seem too few
        except NoisewrightError:
            misses += 1
            continue
        truth = asked @ np.bincount(honest, minlength=8)
        # Liars may be anybody: each adds between the least and the largest entry of a query.
        least, most = truth + 250 * asked.min(axis=1), truth + 250 * asked.max(axis=1)
        misses += not (
            (found.lower <= least + 1e-6) & (most <= found.upper + 1e-6)
        ).all()
        assert (found.lower <= found.answers).all()
        assert (found.answers <= found.upper).all()
    assert misses <= 2


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whatever_explains_the_reports_lies_within_the_limits(mechanism):
    """Statistics without noise, of any people and any liars: one explanation is known."""
    plan = planned(mechanism, "prefix:6")
    rng = np.random.default_rng(5)
    asked, people = plan.workload.dense(), 100_000
    for _ in range(10):
        liars = int(rng.integers(0, 10_000))
        shares = rng.dirichlet(np.full(6, 0.3))
        cells = np.floor(shares * (people - liars)).astype(int)
        cells[0] += people - liars - cells.sum()
        honest = plan.aggregate(plan.randomize(np.repeat(np.arange(6), cells)))
        exact = expected_tally(plan, cells)
        lies = plan.aggregate(plan.randomize(np.full(liars, int(rng.integers(6)))))
        total = honest.merge(lies)
        total.tally = (exact + lies.total).astype(np.int64)[None]
        found = robust_answers(plan.plain_workload, total, 0.1)
        own = asked @ cells
        assert (found.lower <= own + liars * asked.min(axis=1) + 10).all()
        assert (own + liars * asked.max(axis=1) - 10 <= found.upper).all()


def expected_tally(plan: nw.LocalPlan, cells: np.ndarray) -> np.ndarray:
    """What honest people's reports add up to on average, by listing all reports."""
    collector, people = plan.strategy.collector, int(cells.sum())
    if plan.mechanism.name in ("randomized-response", "hadamard"):
        exact, total = (
            np.rint(plan.strategy.rows(0, collector.counters) @ cells),
            people,
        )
    elif plan.mechanism.name == "subset-selection":
        other, own = (bound[0] for bound in collector.chance_bounds())
        exact, total = (
            np.rint(other * people + (own - other) * cells),
            collector.size * people,
        )
    else:
        exact = np.rint(bits_added(collector) @ cells)
        total = exact.sum()
    exact[exact.argmax()] += total - exact.sum()  # as many reports as people
    return exact


def bits_added(collector) -> np.ndarray:
    """What a person of each cell (columns) adds to every bit's tally on average."""
    own, other = collector.chances
    sets = (
        np.arange(2**collector.counters)[:, None] >> np.arange(collector.counters)
    ) & 1
    weights = collector.weights[sets.sum(axis=1)]
    columns = []
    for cell in range(collector.counters):
        chances = np.where(np.arange(collector.counters) == cell, own, other)
        chance = np.where(sets == 1, chances, 1 - chances).prod(axis=1)
        columns.append((chance * weights) @ sets)
    return np.stack(columns, axis=1)


def test_limits_are_narrower_than_what_liars_can_do_report_by_report():
    for mechanism in MECHANISMS:
        plan = planned(mechanism)
        crowd = plan.aggregate(plan.randomize(np.arange(20_000) % 8))
        found = robust_answers(plan.plain_workload, crowd, 0.05)
        moved = 1000 * influence(plan.strategy, plan.plain_workload)
        assert (found.upper - found.lower < 2 * moved).all()


def test_copies_of_one_report_are_taken_away():
    """9,000 among 99,000: a cell of 560 people looked like fewer than nobody."""
    plan = planned("hadamard", "identity:16", 0.5)
    rng = np.random.default_rng(11)
    honest = np.concatenate([rng.choice(15, 89_440), np.full(560, 15)])
    reports = plan.randomize(honest)
    outcomes = np.arange(plan.strategy.collector.counters)
    one = [
        plan.strategy.estimate(plan.aggregate(outcomes[i : i + 1]).total, 1)
        for i in outcomes
    ]
    lie = int(np.argmin([cells[15] for cells in one]))
    crowd = plan.aggregate(np.concatenate([reports, np.full(9_000, lie)]))
    plain, robust = plan.estimate(crowd), plan.estimate(crowd, liars=0.1)
    assert plain.answers[15] < -15_000
    # Five standard errors, and as much again for what cannot be told from chance.
    assert abs(robust.answers[15] - 560) < 10 * plain.std[15]
    lower, upper = robust.intervals.all
    assert lower[15] <= 560 + 9_000
    assert upper[15] >= 560
    assert robust.metadata["liars_limit"] == "consistent"
    assert robust.unbiased.answers[15] == plain.answers[15]
    fit = goodness_of_fit(crowd)
    assert 8_000 < fit.least_liars <= 9_000
    with pytest.raises(NoisewrightError, match="too few"):
        plan.estimate(crowd, liars=0.05)


def test_honest_reports_are_left_as_they_are():
    plan = planned("subset-selection", epsilon=2.0)
    crowd = plan.aggregate(plan.randomize(np.arange(20_000) % 8))
    plain, robust = plan.estimate(crowd), plan.estimate(crowd, liars=0.01)
    np.testing.assert_allclose(robust.answers, plain.answers, rtol=1e-6)
    assert goodness_of_fit(crowd).least_liars is None


def test_vectors_need_a_cap():
    plan = nw.plan("prefix:4", nw.Privacy(1.0), nw.Local(mechanism="matrix-l1"))
    reports = plan.randomize(np.arange(2000) % 4)
    with pytest.raises(NoisewrightError, match="cap"):
        plan.estimate(reports, liars=0.05)
    capped = plan.estimate(reports, liars=0.05, cap=6)
    lower, upper = capped.intervals.all
    truth = 500 * np.arange(1, 5)
    # The cap sets honest reports aside now and then.
    assert ((lower <= truth) & (truth <= upper + 20)).all()


def test_large_domains_fall_back_to_the_influence_of_a_report():
    plan = nw.plan(
        "identity:160", nw.Privacy(1.0), nw.Local(mechanism="subset-selection")
    )
    release = plan.estimate(plan.randomize(np.arange(2000) % 160), liars=0.01)
    assert release.metadata["liars_limit"] == "influence"
    assert not release.is_changed
