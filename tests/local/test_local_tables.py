"""Fourier and union: marginal tables of small domains against matrices, and of large ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach, TooLarge
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.bounds.trace import lower_bound
from noisewright.local.composed.table_strategy import TableData
from noisewright.local.composed.union import union
from noisewright.local.fixedpoint import whole_weights
from noisewright.local.storage import pack, unpack
from noisewright.local.transform import fourier as fourier_module
from noisewright.local.transform.fourier import fourier
from noisewright.local.transform.invariants import _dense, walsh_energies
from noisewright.workload import workload
from oracles import local_matrix as oracle
from oracles.privacy_oracles import SeededSource

SMALL = [
    "marginals:2^3:2",
    "marginals:2^4:<=2",
    "marginals:3x2x2:<=2",
    "marginals:3x5:<=1",
]


def answer_matrix(strategy, w):
    """What each report adds to each answer, one report at a time."""
    singles = np.eye(strategy.outputs, dtype=np.int64)
    return np.array([strategy.answers(w, single, 1) for single in singles]).T


@pytest.mark.parametrize(
    "text",
    [
        "identity:16",
        "prefix:16",
        "ranges:16",
        "total:16",
        "marginals:2^4:2",
        "allmarginals:2^4",
        "prefix:4*identity:4",
        "prefix:8+2@ranges:8",
        "parity:4:2",
        "prefix:3*identity:4",
        "prefix:11",
    ],
)
def test_energies_of_characters(text):
    gram = workload(text).gram()
    np.testing.assert_allclose(walsh_energies(gram), _dense(gram), atol=1e-9)


@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_union_is_the_best_estimate_from_its_reports(text, epsilon):
    w = workload(text)
    strategy = union(w.gram(), epsilon)
    q, dense = strategy.dense(), w.dense()
    possible = q.max(axis=1) > 0
    v = answer_matrix(strategy, w)[:, possible]
    np.testing.assert_array_equal(unpack(*pack(strategy)).dense(), q)
    q = q[possible]
    np.testing.assert_allclose(v @ q, dense, atol=1e-9)
    variances = (v**2).sum(axis=0) @ q - (dense**2).sum(axis=0)
    np.testing.assert_allclose(variances, strategy.type_variances(w.gram()))
    np.testing.assert_allclose(variances, oracle.type_variances(q, dense))
    covariance = (v * q.sum(axis=1)) @ v.T - dense @ dense.T
    np.testing.assert_allclose(
        strategy.uniform_query_variances(w, w.size), np.diag(covariance), atol=1e-9
    )
    assert strategy.loss.epsilon <= strategy.epsilon


@pytest.mark.parametrize("text", SMALL)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_errors_of_the_union_follow_the_data(text, epsilon):
    w = workload(text)
    strategy = union(w.gram(), epsilon)
    possible = strategy.dense().max(axis=1) > 0
    q, v = strategy.dense()[possible], answer_matrix(strategy, w)[:, possible]
    x = np.random.default_rng(2).geometric(0.2, w.size).astype(float)
    expected = oracle.answer_covariance(q, v, x)
    found = w.dense() @ strategy.covariance(x) @ w.dense().T
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    data = TableData.even(strategy, w, 1)
    tables = {b: workload_table(strategy.sizes, b, x) for b in data.tables}
    skewed = replace(data, people=x.sum(), tables=tables)
    np.testing.assert_allclose(skewed.answers(), w.matvec(x))
    np.testing.assert_allclose(skewed.variances(), np.diag(expected), atol=1e-9)
    worst = [
        np.diag(oracle.answer_covariance(q, v, row)) for row in np.eye(w.size) * x.sum()
    ]
    np.testing.assert_allclose(
        skewed.worst_variances(), np.max(worst, axis=0), atol=1e-9
    )


def workload_table(sizes, attributes, x):
    away = tuple(i for i in range(len(sizes)) if i not in attributes)
    return x.reshape(sizes).sum(axis=away).ravel()


@pytest.mark.parametrize("text", SMALL[:2])
def test_fourier_by_tables_equals_fourier_by_vectors(text, monkeypatch):
    w = workload(text)
    strategy = fourier(w.gram(), 1.0)
    q, dense = strategy.dense(), w.dense()
    tally = np.random.default_rng(3).integers(0, 9, strategy.outputs)
    by_vector = strategy.answers(w, tally, int(tally.sum()))
    variances = strategy.uniform_query_variances(w, 100)
    worst = strategy.type_variances(w.gram())
    np.testing.assert_allclose(worst, oracle.type_variances(q, dense))
    assert strategy.worst_variance(w.gram()) == pytest.approx(worst.max())
    monkeypatch.setattr(fourier_module, "LARGEST_VECTOR", 2)
    strategy = fourier(w.gram(), 1.0)
    np.testing.assert_allclose(strategy.answers(w, tally, int(tally.sum())), by_vector)
    np.testing.assert_allclose(
        strategy.uniform_query_variances(w, 100), variances, atol=1e-9
    )
    counts = np.array([5.0, 1.0, 0.0, 2.0])
    x = np.zeros(w.size)
    x[:: w.size // 4] = counts  # the table of the first two attributes
    expected = oracle.answer_covariance(
        q, oracle.reconstruction(q, np.kron(np.eye(4), np.ones(w.size // 4))), x
    )
    np.testing.assert_allclose(
        strategy.table_covariance((0, 1), 8, counts), expected, atol=1e-9
    )


@pytest.mark.parametrize("make", [fourier, union])
def test_fifty_binary_attributes(make):
    w = workload("marginals:2^50:2")
    strategy = make(w.gram(), 1.0)
    analysis = Analysis(strategy, w)
    bound = lower_bound(w, 1.0).sample_complexity()
    assert bound <= analysis.sample_complexity()
    people = 20_000
    values = np.random.default_rng(0).integers(0, 2**50, people)
    tally = strategy.collector.tally(strategy.randomize(values, SeededSource(4)))
    answers = strategy.answers(w, tally, people)
    variances = strategy.uniform_query_variances(w, people)
    assert variances.sum() == pytest.approx(people * analysis.worst_case)
    standardised = (answers - people / 4) / np.sqrt(variances)
    # 4900 weakly dependent squares of mean one: 25 % is beyond ten standard deviations.
    assert np.mean(standardised**2) == pytest.approx(1.0, abs=0.25)
    with pytest.raises(OutOfReach, match="query 0"):
        Analysis(strategy, workload("marginals:2^50:3"))


def test_characters_never_drawn_are_out_of_reach():
    strategy = fourier(workload("marginals:2^4:1").gram(), 1.0)
    Analysis(strategy, workload("marginals:2^4:<=1"))
    with pytest.raises(OutOfReach, match="query 0"):
        Analysis(strategy, workload("marginals:2^4:2"))
    with pytest.raises(OutOfReach, match="query 1 "):
        Analysis(strategy, workload(np.array([np.ones(16), np.eye(16)[3]])))


def test_weights_of_the_union_cannot_be_improved():
    w = workload("marginals:3x2x4:<=2")
    best = union(w.gram(), 1.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        shares = np.array([float(x) for x in best.weights]) * rng.uniform(0.9, 1.1, 6)
        other = replace(best, weights=tuple(whole_weights(shares)))
        assert other.worst_variance(w.gram()) >= best.worst_variance(w.gram()) * (
            1 - 1e-9
        )


def test_bad_input():
    with pytest.raises(NoisewrightError, match="is for marginal tables"):
        union(workload("prefix:8").gram(), 1.0)
    with pytest.raises(InvalidParameter):
        fourier(workload("prefix:8").gram(), 0.0)
    with pytest.raises(TooLarge):
        union(workload("marginals:100x100x100:2").gram(), 1.0)
    with pytest.raises(TooLarge):
        fourier(workload("prefix:5000").gram(), 1.0)
