"""From reports to answers through the whole pipeline: unbiased, errors as stated, sensible fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from local.strategies import SMALL
from noisewright.errors import InvalidParameter, OutOfReach, TooLarge
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.answers import estimate
from noisewright.local.analysis.distribution import distribution
from noisewright.local.composed.union import union
from noisewright.local.mechanism import LocalProblem
from noisewright.local.registry import MECHANISMS
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.format import ReportFormat
from noisewright.local.strategy import IndexStrategy
from noisewright.local.transform import fourier as fourier_module
from noisewright.local.transform.fourier import fourier
from noisewright.workload import workload
from noisewright.workload.linear.marginal_gram import MarginalGram
from oracles.privacy_oracles import SeededSource

PEOPLE = np.repeat(np.arange(8), [700, 10, 300, 40, 0, 250, 100, 600])
TRUTH = np.bincount(PEOPLE, minlength=8)
ASKED = workload("prefix:8+identity:8")
RUNS = 150


def collected(strategy, people, seed, **robust):
    """Reports encoded, decoded and added up, as between devices and a collector."""
    form = ReportFormat(strategy)
    rows = form.encode(strategy.randomize(people, SeededSource(seed)))
    return Aggregate(form, **robust).add(form.decode(rows))


@pytest.mark.parametrize(
    "name", ["randomized-response", "unary", "hierarchical", "fourier"]
)
def test_answers_are_unbiased_with_the_stated_errors(name):
    """Fixed seeds; 16 queries × 4 mechanisms of |z| < 5.5: false alarm about 1e-5 in all."""
    strategy = MECHANISMS[name].plan(LocalProblem(ASKED, 1.0))
    truth = ASKED.matvec(TRUTH)
    found = [estimate(ASKED, collected(strategy, PEOPLE, seed)) for seed in range(RUNS)]
    errors = np.array([f.answers for f in found]) - truth
    exact = LocalAccuracy(strategy, ASKED, len(PEOPLE), TRUTH.astype(float)).variance
    moving = exact > 1e-6
    z = errors.mean(axis=0)[moving] / np.sqrt(exact[moving] / RUNS)
    assert np.abs(z).max() < 5.5
    np.testing.assert_allclose(errors[:, ~moving], 0.0, atol=1e-6)
    spread = errors.var(axis=0)[moving] / exact[moving]
    assert np.abs(spread - 1).max() < 5.5 * np.sqrt(2 / RUNS)
    plugged = (
        np.mean([f.accuracy.std**2 for f in found], axis=0)[moving] / exact[moving]
    )
    assert np.abs(plugged - 1).max() < 0.1
    covered = np.array(
        [
            np.abs(e) <= f.accuracy.multiplier(0.95) * f.accuracy.std
            for e, f in zip(errors, found, strict=True)
        ]
    )
    assert abs(covered[:, moving].mean() - 0.95) < 0.06
    together = [
        bool(
            (
                np.abs(e) <= f.accuracy.joint_multiplier(0.95) * f.accuracy.std + 1e-6
            ).all()
        )
        for e, f in zip(errors, found, strict=True)
    ]
    assert np.mean(together) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.parametrize("name", SMALL)
def test_worst_errors_are_the_largest_over_people_of_one_kind(name):
    strategy = SMALL[name]
    asked = workload(f"prefix:{strategy.size}+identity:{strategy.size}")
    found = LocalAccuracy(strategy, asked, 50, errors="worst").variance
    kinds = 50.0 * np.eye(strategy.size)
    oracle = [
        np.diag(asked.dense() @ strategy.covariance(x) @ asked.dense().T) for x in kinds
    ]
    np.testing.assert_allclose(found, np.max(oracle, axis=0), rtol=1e-7, atol=1e-7)
    mixed = LocalAccuracy(
        strategy, asked, 50, np.full(strategy.size, 50 / strategy.size)
    ).variance
    assert (found >= mixed - 1e-6).all()


@pytest.mark.parametrize(
    "name", [n for n, s in SMALL.items() if isinstance(s, IndexStrategy)]
)
def test_what_each_report_adds_is_unbiased_and_has_the_stated_variance(name):
    strategy = SMALL[name]
    asked = workload(f"prefix:{strategy.size}")
    w, q, v = (
        asked.dense(),
        strategy.dense(),
        Analysis(strategy, asked).reconstruction(),
    )
    np.testing.assert_allclose(v @ q, w, atol=1e-9)
    each = v**2 @ q - w**2
    np.testing.assert_allclose(
        each.sum(axis=0), Analysis(strategy, asked).type_variances, rtol=1e-7
    )


def test_sampling_errors_are_those_of_a_multinomial():
    share, rng = TRUTH / TRUTH.sum(), np.random.default_rng(0)
    draws = rng.multinomial(500, share, size=4000) @ ASKED.dense().T
    noise = LocalAccuracy(SMALL["fourier"], ASKED, 500, 500 * share)
    expected = replace(noise, population=True).variance - noise.variance
    moving = expected > 1e-6
    ratio = draws.var(axis=0)[moving] / expected[moving]
    # 15 queries: false alarm near 1e-7
    assert np.abs(ratio - 1).max() < 6 * np.sqrt(2 / 4000)
    part = collected(SMALL["fourier"], PEOPLE, 0)
    plain, wide = estimate(ASKED, part), estimate(ASKED, part, population=True)
    assert (wide.accuracy.std >= plain.accuracy.std).all()
    assert wide.accuracy.std.sum() > plain.accuracy.std.sum()


@pytest.mark.parametrize("name", SMALL)
def test_errors_drawn_together_have_the_stated_covariance(name):
    """Fixed seed; at most 300 entries × 12 strategies of |z| < 6.5: false alarm below 1e-6."""
    strategy = SMALL[name]
    asked = workload(f"prefix:{strategy.size}")
    x = np.arange(1.0, strategy.size + 1)
    noise = LocalAccuracy(strategy, asked, int(x.sum()), x)
    assert (noise.kind, noise.bias) == ("exact", None)
    for accuracy in (
        noise,
        replace(noise, population=True),
        replace(noise, price=2.0),
        replace(noise, errors="worst"),
    ):
        full = accuracy.covariance(np.arange(asked.queries))
        largest = accuracy.variance.max()
        np.testing.assert_allclose(
            np.diag(full), accuracy.variance, atol=1e-6 * largest
        )
        # The same but for the order in which a processor's kernels add products up.
        some = accuracy.covariance(np.array([1, 0]))
        np.testing.assert_allclose(some, full[:, [1, 0]], rtol=0, atol=1e-12 * largest)
        errors = accuracy.draw(4000, np.random.default_rng(0))
        deviations = np.sqrt(
            (np.outer(accuracy.variance, accuracy.variance) + full**2) / 4000
        )
        assert (
            np.abs(errors.T @ errors / 4000 - full) <= 6.5 * deviations + 1e-6 * largest
        ).all()
        bounded = accuracy.bounded_multiplier(asked.queries, 0.95)
        assert (
            accuracy.multiplier(0.95)
            <= accuracy.joint_multiplier(0.95)
            <= 1.05 * bounded
        )
    np.testing.assert_allclose(replace(noise, price=2.0).std, 2 * noise.std)
    assert replace(noise, errors="worst").kind == "bound"


def test_how_answers_from_tables_vary_together_is_refused_and_bounded():
    asked = workload("marginals:2^40:1")
    strategy = union(MarginalGram((2,) * 40, {(i,): 1.0 for i in range(40)}), 3.0)
    accuracy = LocalAccuracy(strategy, asked, 100)
    assert accuracy.joint_multiplier(0.95) == accuracy.bounded_multiplier(80, 0.95)
    for ask in (
        accuracy.covariance,
        lambda some: accuracy.draw(len(some), np.random.default_rng()),
    ):
        with pytest.raises(TooLarge, match="use variances"):
            ask(np.arange(2))


def test_the_best_fitting_table_makes_sense_and_is_no_further_from_the_truth():
    strategy = MECHANISMS["randomized-response"].plan(LocalProblem(ASKED, 0.5))
    truth = ASKED.matvec(TRUTH)
    for seed in range(5):
        part = collected(strategy, PEOPLE, seed)
        plain, fit = estimate(ASKED, part), estimate(ASKED, part, non_negative=True)
        assert fit.histogram.min() >= 0
        assert fit.histogram.sum() == pytest.approx(len(PEOPLE))
        np.testing.assert_allclose(fit.answers, ASKED.matvec(fit.histogram))
        np.testing.assert_array_equal(fit.centre, plain.answers)
        # A projection, in the norm of the fit, onto a convex set that holds the truth.
        std = plain.accuracy.std
        scale = np.where(std > 1e-6 * std.max(), std, std.max())
        before = np.linalg.norm((plain.answers - truth) / scale)
        assert np.linalg.norm((fit.answers - truth) / scale) <= before * (1 + 1e-4)
        shares = distribution(part)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)


def test_medians_stay_within_the_honest_groups():
    strategy = MECHANISMS["randomized-response"].plan(LocalProblem(ASKED, 1.0))
    part = collected(strategy, PEOPLE, 3, groups=11)
    honest = np.array(
        [
            len(PEOPLE)
            / part.group_people[g]
            * ASKED.matvec(strategy.estimate(part.tally[g], int(part.group_people[g])))
            for g in range(5, 11)
        ]
    )
    part.tally[:5, 0] += 100_000
    part.group_people[:5] += 100_000
    scale = part.people / len(PEOPLE)
    found = estimate(ASKED, part).answers / scale
    assert (found >= honest.min(axis=0) - 1e-6).all()
    assert (found <= honest.max(axis=0) + 1e-6).all()


def test_no_report_one_report_and_out_of_reach():
    strategy = MECHANISMS["randomized-response"].plan(LocalProblem(ASKED, 1.0))
    form = ReportFormat(strategy)
    with pytest.raises(InvalidParameter, match="no valid report"):
        estimate(ASKED, Aggregate(form).add([b"junk"]))
    one = estimate(ASKED, Aggregate(form).add(np.array([3])))
    assert np.isfinite(one.answers).all()
    assert one.answers[7] == pytest.approx(1)
    assert (one.accuracy.std[:7] > 0).all()
    coarse = fourier(workload("marginals:2^3:1").gram(), 1.0)
    part = collected(coarse, PEOPLE, 0)
    with pytest.raises(OutOfReach, match="query 0"):
        estimate(workload("identity:8"), part)
    with pytest.raises(InvalidParameter, match="errors"):
        estimate(ASKED, collected(strategy, PEOPLE, 0), errors="some")


def test_domains_that_no_vector_holds_are_estimated_by_tables():
    """Fixed seed; 40 attributes, each |z| < 5.5: false alarm below 2e-6."""
    asked = workload("marginals:2^40:1")
    strategy = union(MarginalGram((2,) * 40, {(i,): 1.0 for i in range(40)}), 3.0)
    rng = np.random.default_rng(0)
    people = rng.integers(0, 2**40, size=4000)
    part = collected(strategy, people, 1)
    found = estimate(asked, part)
    bits = (people[:, None] >> np.arange(39, -1, -1)) & 1
    truth = np.stack([(1 - bits).sum(axis=0), bits.sum(axis=0)], axis=1).ravel()
    assert np.abs((found.answers - truth) / found.accuracy.std).max() < 5.5
    wide = estimate(asked, part, population=True)
    binomial = found.answers * (1 - found.answers / 4000)
    np.testing.assert_allclose(wide.accuracy.std**2 - found.accuracy.std**2, binomial)
    assert (
        estimate(asked, part, errors="worst").accuracy.std >= found.accuracy.std - 1e-9
    ).all()


@pytest.mark.parametrize("make", [union, fourier])
def test_tables_that_make_sense_together(make, monkeypatch):
    """Few people in many small tables: fitted tables are tables of people and agree in overlaps."""
    monkeypatch.setattr(fourier_module, "LARGEST_VECTOR", 2)
    asked = workload("marginals:2^6:2")
    strategy = make(asked.gram(), 2.0)
    rng = np.random.default_rng(1)
    people = (rng.random((800, 6)) < [0.02, 0.5, 0.03, 0.9, 0.1, 0.5]) @ (
        1 << np.arange(6)
    )
    part = collected(strategy, people, 1)
    plain, fitted = estimate(asked, part), estimate(asked, part, non_negative=True)
    np.testing.assert_array_equal(plain.answers, fitted.centre)
    assert plain.answers.min() < 0 <= fitted.answers.min()
    assert fitted.histogram is None
    tables = fitted.answers.reshape(-1, 2, 2)
    np.testing.assert_allclose(tables.sum(axis=(1, 2)), 800)
    margins = {}
    for (i, j), table in zip(combinations(range(6), 2), tables, strict=True):
        margins.setdefault(i, []).append(table.sum(axis=1))
        margins.setdefault(j, []).append(table.sum(axis=0))
    for said in margins.values():
        np.testing.assert_allclose(said, np.broadcast_to(said[0], (5, 2)), atol=1e-3)
    truth = asked.matvec(np.bincount(people, minlength=64))
    assert np.sum((fitted.answers - truth) ** 2) < np.sum((plain.answers - truth) ** 2)


def test_medians_over_groups_work_table_by_table():
    asked = workload("marginals:2^30:1")
    strategy = union(MarginalGram((2,) * 30, {(i,): 1.0 for i in range(30)}), 3.0)
    people = np.random.default_rng(0).integers(0, 2**30, size=4000)
    part = collected(strategy, people, 1, groups=5)
    found = estimate(asked, part, non_negative=True, population=True)
    # Sixty answers near 2,000 within 6 deviations, most of them common to both: below 1e-6.
    assert np.abs((found.centre - 2000) / found.accuracy.std).max() < 6
