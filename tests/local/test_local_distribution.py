"""The likeliest distribution: near in the reports' own metric, smooth where cells are ordered."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import noisewright as nw
from local.strategies import SMALL
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.nearest import project_to_total
from noisewright.local.analysis import distribution as distribution_module
from noisewright.local.analysis.distribution import (
    Line,
    Roughness,
    distribution,
    likely_shares,
    lines_of,
    smoothing,
)
from noisewright.local.composed.union import union
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import ReportFormat
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

LINE = (Line(24, np.ones(24)),)


def _collected(strategy, people, seed=0, **robust):
    # not what drew the people
    reports = strategy.randomize(people, SeededSource(1000 + seed))
    return Aggregate(ReportFormat(strategy), **robust).add(reports)


def _information(cells: int, seed: int = 0) -> np.ndarray:
    """One of full rank whose cells are not alike: the total is known."""
    rows = np.random.default_rng(seed).normal(size=(2 * cells, cells))
    rows -= rows.mean(axis=1, keepdims=True)
    return rows.T @ rows / (8 * cells) + np.ones((cells, cells))


def _density(cells: int) -> np.ndarray:
    return np.diff(beta.cdf(np.linspace(0, 1, cells + 1), 5, 2))


# --- distances to the truth -----------------------------------------------------------------------


def test_it_is_far_nearer_than_clipped_answers_and_the_projection_of_cells():
    """Fixed seeds; the case that was reported: prefix:64, ε = 1, 20,000 people of Beta(5, 2).

    Over 200 runs its mean distance was 0.82 times that of clipped answers, and 0.20 times that of
    the projection. Other dice than these would raise a false alarm with a chance of 1e-4.
    """
    plan = nw.plan("prefix:64", nw.Privacy(epsilon=1), nw.Local(effort="low"))
    here, clipped, projected = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        people = rng.choice(64, size=20_000, p=_density(64))
        truth = np.cumsum(np.bincount(people, minlength=64)) / len(people)
        collected = _collected(plan.strategy, people, seed)
        answers = plan.estimate(collected).answers / len(people)
        cells = project_to_total(np.diff(answers, prepend=0.0), 1.0)
        here.append(np.abs(np.cumsum(plan.distribution(collected)) - truth).mean())
        clipped.append(np.abs(np.clip(answers, 0, 1) - truth).mean())
        projected.append(np.abs(np.cumsum(cells) - truth).mean())
    assert np.mean(here) <= 0.95 * np.mean(clipped)
    assert np.mean(here) <= 0.4 * np.mean(projected)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_every_strategy_gives_shares(name):
    strategy = SMALL[name]
    people = np.random.default_rng(1).integers(0, strategy.size, 300)
    shares = distribution(_collected(strategy, people))
    assert shares.shape == (strategy.size,)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)


def test_tables_drawn_at_random_are_fitted_together():
    """Fixed seed; shares within 0.1, five standard errors: false alarm below 1e-5."""
    strategy = union(workload("marginals:2^3:2").gram(), 3.0)
    shares = np.array([0.3, 0.05, 0.1, 0.05, 0.2, 0.05, 0.05, 0.2])
    people = np.random.default_rng(0).choice(8, size=20_000, p=shares)
    found = distribution(_collected(strategy, people))
    asked = workload("marginals:2^3:2")
    np.testing.assert_allclose(asked.matvec(found), asked.matvec(shares), atol=0.1)


def test_medians_over_groups_give_shares_too():
    people = np.repeat(np.arange(6), [500, 0, 0, 100, 300, 100])
    shares = distribution(_collected(RandomizedResponse(6, 2.0), people, groups=5))
    assert shares.sum() == pytest.approx(1)
    # Fixed seed; deviations of about 0.03: within 5 of them.
    np.testing.assert_allclose(shares, np.bincount(people) / 1000, atol=0.15)


# --- what it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [(), LINE])
def test_without_noise_it_is_the_truth(lines):
    truth = _density(24)
    found = likely_shares(1e13 * _information(24), truth, lines)
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_reports_that_say_nothing_leave_it_even():
    shares = np.random.default_rng(0).normal(size=24) + 1 / 24
    shares -= shares.mean() - 1 / 24
    faint = 1e-9 * _information(24) + np.ones((24, 24))
    np.testing.assert_allclose(likely_shares(faint, shares, LINE), 1 / 24, atol=1e-5)
    # And so do directions of which they say nothing.
    halves = np.kron(np.eye(2), np.ones((3, 3)))
    found = likely_shares(1e8 * halves, np.array([0.6, 0.1, 0.0, 0.1, 0.2, 0.0]))
    np.testing.assert_allclose(found, [0.7 / 3] * 3 + [0.1] * 3, atol=1e-6)


def test_cells_without_order_may_be_numbered_in_any_way():
    information, rng = 500 * _information(24), np.random.default_rng(2)
    shares = rng.normal(1 / 24, 0.05, 24)
    order = rng.permutation(24)
    turned = likely_shares(information[np.ix_(order, order)], shares[order])
    np.testing.assert_allclose(
        turned, likely_shares(information, shares)[order], atol=1e-9
    )


def test_a_line_may_be_read_from_its_other_end():
    information, shares = (
        500 * _information(24),
        np.random.default_rng(3).normal(1 / 24, 0.05, 24),
    )
    there, back = (
        likely_shares(information[::step, ::step], shares[::step], LINE)
        for step in (1, -1)
    )
    np.testing.assert_allclose(back[::-1], there, atol=1e-9)
    assert np.ptp(there) < np.ptp(likely_shares(information, shares))  # it was smoothed


def test_all_cells_alike_are_projected(monkeypatch):
    """From the closed form where cells are many, and by the general way."""
    strategy = RandomizedResponse(12, 1.0)
    collected = _collected(strategy, np.random.default_rng(0).integers(0, 4, 500))
    plain = strategy.estimate(collected.tally[0], 500) / 500
    found = distribution(collected)
    # The pull to the even distribution weighs one where reports weigh about 35.
    np.testing.assert_allclose(found, project_to_total(plain, 1.0), atol=0.02)
    monkeypatch.setattr(distribution_module, "DENSE_SIZE", 8)
    np.testing.assert_allclose(distribution(collected), found, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_the_evidence_is_the_chance_of_the_shares(order):
    """Against the normal density of x̂ with both covariances written out."""
    information, cells = 2e4 * _information(8), 8
    shares = np.random.default_rng(5).normal(1 / 8, 0.1, cells)
    rough = Roughness.of((Line(cells, np.ones(cells)),), order)
    metric, pull = information + np.eye(cells), information @ shares + 1 / cells
    found, form = smoothing(metric, pull, rough)

    def log_density(prior: np.ndarray) -> float:
        spread = np.linalg.inv(information) + np.linalg.inv(np.eye(cells) + prior)
        away = shares - 1 / cells
        return -0.5 * (
            np.linalg.slogdet(spread)[1] + away @ np.linalg.solve(spread, away)
        )

    assert log_density(form) >= max(log_density(form * step) for step in (0.5, 2.0))
    # Up to a constant, which no smoothing shows.
    plain = 0.5 * pull @ np.linalg.solve(metric, pull)
    unsmoothed = log_density(np.zeros((cells, cells)))
    assert found - plain == pytest.approx(log_density(form) - unsmoothed, abs=1e-6)


# --- lines ----------------------------------------------------------------------------------------


def test_lines_are_what_is_ordered():
    def placed(lines):
        return [(line.cells, line.first, line.widths.tolist()) for line in lines]

    asked = workload("prefix:3*identity:2")
    assert placed(lines_of(asked, None)) == [(3, 0, [1, 1, 1]), (2, 0, [])]
    assert placed(lines_of(workload("identity:4"), None)) == [(4, 0, [])]
    domain = nw.Domain(
        [
            nw.Numeric(
                "age", (-np.inf, 18, 30, 40, np.inf), integer=True, outside="other"
            ),
            nw.Numeric("income", (0, 1, 4, 4)),
            nw.Numeric.integers("children", 0, 3),
            nw.Categorical("town", ("a", "b")),
        ],
        reviewed=True,
    )
    assert placed(lines_of(workload(f"identity:{domain.size}"), domain)) == [
        (5, 1, [12, 10]),
        (3, 0, [1, 3]),
        (4, 0, [1, 1, 1, 1]),
        (2, 0, []),
    ]


@pytest.mark.parametrize("order", [1, 2])
def test_roughness_is_zero_where_densities_are_even_alone(order):
    widths = np.array([1.0, 2.0, 4.0, 1.0, 1.0])
    lines = Line(7, widths, 1), Line(2, np.zeros(0))
    rough = Roughness.of(lines, order)
    values = np.linalg.eigvalsh(rough.matrix)
    assert np.count_nonzero(values > 1e-9 * values[-1]) == 2 * (5 - order)
    np.testing.assert_allclose(
        np.sort(rough.eigenvalues), values, atol=1e-9 * values[-1]
    )
    even = np.kron([9.0, *widths, 5.0], [0.3, 0.7])
    np.testing.assert_allclose(rough.matrix @ even, 0, atol=1e-9 * values[-1])


def test_what_is_too_large_is_refused_and_nobody_says_nothing():
    large = union(workload("marginals:2^20:1").gram(), 1.0)
    with pytest.raises(TooLarge, match="tables"):
        distribution(_collected(large, np.array([0, 5])))
    with pytest.raises(InvalidParameter, match="no valid report"):
        distribution(Aggregate(ReportFormat(RandomizedResponse(4, 1.0))))
