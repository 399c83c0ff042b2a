"""Each person asked about one table: unbiased, with the variance stated, report by report."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.composed.parts import Parts
from noisewright.local.fixedpoint import WORD
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.storage import pack, unpack
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.workload import Identity, Prefix, Stack, Weighted, kron
from noisewright.workload.kinds.marginals import OnAttributes
from oracles.privacy_oracles import SeededSource

SIZES = (3, 2, 4)
SHARES = np.array([0.3, 0.7])


def parts(epsilon=1.3):
    components = (RandomizedResponse(3, epsilon), HadamardResponse(8, epsilon))
    return Parts.of(SIZES, ((0,), (1, 2)), components, SHARES)


def questions():
    return Stack(
        (
            Weighted(2.0, OnAttributes(SIZES, (0,), Prefix(3))),
            OnAttributes(SIZES, (1, 2), kron([Identity(2), Prefix(4)])),
        )
    )


def test_chances_are_those_of_the_components():
    strategy = parts()
    q = strategy.dense()
    np.testing.assert_allclose(q.sum(axis=0), 1.0, atol=1e-12)
    assert sum(strategy.weights) == WORD
    assert np.log((q.max(axis=1) / q.min(axis=1)).max()) <= 1.3 + 1e-9
    assert strategy.loss.epsilon <= strategy.epsilon
    assert strategy.loss.epsilon == pytest.approx(1.3, abs=1e-9)


def test_answers_are_unbiased_and_their_variance_is_the_one_stated():
    strategy, asked = parts(), questions()
    q, w = strategy.dense(), asked.dense()
    reports = np.eye(strategy.outputs, dtype=np.int64)
    said = np.array([strategy.answers(asked, report, 1) for report in reports])
    np.testing.assert_allclose(q.T @ said, w.T, atol=1e-9)
    added = q.T @ (said**2).sum(axis=1) - (w**2).sum(axis=0)
    analysis = Analysis(strategy, asked)
    # no shared attribute
    assert analysis.worst_case == pytest.approx(added.max(), rel=1e-9)
    assert analysis.average_case == pytest.approx(added.mean(), rel=1e-9)
    assert analysis.objective == pytest.approx(
        24 * added.mean() + (w**2).sum(), rel=1e-9
    )


def test_covariances_of_tables_are_sums_over_people():
    strategy = parts()
    q = strategy.dense()
    people = np.random.default_rng(1).integers(0, 5, 24).astype(float)
    for table, axes in (((0,), (1, 2)), ((1, 2), (0,))):
        counts = people.reshape(SIZES).sum(axis=axes).ravel()
        reports = np.eye(strategy.outputs, dtype=np.int64)
        said = np.array(
            [strategy.table(strategy.interactions(r, 1), table) for r in reports]
        )
        truth = q.T @ said
        expected = np.einsum("u,ou,oi,oj->ij", people, q, said, said)
        expected -= np.einsum("u,ui,uj->ij", people, truth, truth)
        found = strategy.table_covariance(table, people.sum(), counts)
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert not strategy.table_covariance((), 5).any()


def test_reports_follow_the_chances():
    # The bound is the 1 − 1e-9 quantile: a right sampler fails for one seed in 10⁹.
    from scipy.stats import chi2

    strategy = parts()
    value, draws = 17, 200_000
    reports = strategy.randomize(np.full(draws, value), SeededSource(3))
    counted = np.bincount(reports, minlength=strategy.outputs)
    expected = draws * strategy.dense()[:, value]
    statistic = ((counted - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-9, strategy.outputs - 1)


def test_storage_and_refusals():
    strategy = parts()
    again = unpack(*pack(strategy))
    np.testing.assert_array_equal(again.dense(), strategy.dense())
    with pytest.raises(OutOfReach):
        Analysis(strategy, OnAttributes(SIZES, (0, 1), Identity(6)))
    with pytest.raises(InvalidParameter):
        Parts.of(SIZES, ((0,), (1,)), strategy.components, SHARES)
    with pytest.raises(InvalidParameter):
        Parts(SIZES, strategy.tables, strategy.components, (WORD // 2, WORD // 2 - 1))
    assert not strategy.collector.valid(np.array([strategy.outputs])).any()


def test_questions_about_many_attributes_are_planned_by_parts(tmp_path):
    domain = nw.Domain(
        [
            nw.Numeric.integers("age", 0, 19),
            nw.Categorical("town", tuple(f"t{i}" for i in range(30))),
            nw.Categorical("job", tuple("abcdefgh")),
        ]
    )
    spec = {"queries": [{"cdf": "age"}, {"marginal": ["town"]}, {"marginal": ["job"]}]}
    asked = nw.Workload.from_spec(spec, domain)
    plan = nw.plan(asked, nw.Privacy(epsilon=1), nw.Local(effort="low"))
    assert plan.mechanism.name == "union"
    assert all(
        plan.sample_complexity() < row["sample_complexity"] for row in plan.runners_up
    )
    plan.save(tmp_path / "parts.nw")
    loaded = nw.load(tmp_path / "parts.nw")
    assert loaded.sample_complexity() == plan.sample_complexity()
    cells = np.random.default_rng(0).integers(0, domain.size, 4000)
    truth = asked.matvec(np.bincount(cells, minlength=domain.size))
    # 58 answers; an error of seven deviations comes once in 10¹⁰ right runs.
    for chosen in ({}, {"non_negative": True}, {"population": True}):
        found = loaded.estimate(
            plan.strategy.randomize(cells, SeededSource(4)), **chosen
        )
        assert (np.abs(found.answers - truth) <= 7 * found.std + 1e-6).all()
    assert loaded.forecast(4000).rmse == pytest.approx(found.std.mean(), rel=0.5)


class Upturned(RandomizedResponse):
    """A component whose other cells are a hundred times likelier than the true one."""

    threshold = 2**64 // 201


def test_no_component_hides_behind_another():
    honest, upturned = RandomizedResponse(3, 1.3), Upturned(3, 1.3)
    for pair in ((honest, upturned), (upturned, honest)):
        mixture = Mixture.of(list(pair), [Coarsening(3), Coarsening(3)], SHARES)
        for strategy in (Parts.of((3, 3), ((0,), (1,)), pair, SHARES), mixture):
            assert strategy.loss.epsilon == pytest.approx(np.log(100))
            with pytest.raises(InvalidParameter, match="not kept"):
                _ = strategy.promise
    assert (
        Parts.of((3, 3), ((0,), (1,)), (honest, honest), SHARES).promise.epsilon == 1.3
    )
