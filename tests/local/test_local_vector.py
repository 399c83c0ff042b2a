"""Vectors: the local matrix mechanism, one-bit and PrivUnit over columns of a factorization."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.central.laplace.strategy import replaced_laplace
from noisewright.errors import InvalidParameter
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.storage import pack, unpack
from noisewright.local.vector.codebook import (
    Codebook,
    factor_columns,
    largest_distance,
    one_bit,
    privunit,
)
from noisewright.local.vector.noisy_columns import VectorStrategy, matrix_l1, matrix_l2
from noisewright.workload import workload
from oracles.privacy_oracles import SeededSource

TEXTS = ["identity:6", "prefix:8", "marginals:2^3:1"]


def make(kind, w, epsilon=1.0):
    return matrix_l1(w, epsilon) if kind == "l1" else matrix_l2(w, epsilon, 1e-6)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_variances_are_those_of_the_least_squares_answers(kind, text):
    w = workload(text)
    strategy = make(kind, w)
    analysis = Analysis(strategy, w)
    n, dense = w.size, w.dense()
    # With the number of people known, answers are mean answers and (W − W̄)C⁺ of what was sent.
    c = strategy.columns - strategy.columns.mean(axis=1, keepdims=True)
    v = (dense - dense.mean(axis=1, keepdims=True)) @ np.linalg.pinv(c, rcond=1e-7)
    expected = (v**2).sum() * strategy.law.variance
    np.testing.assert_allclose(analysis.type_variances, expected, rtol=1e-6)
    x = np.arange(1.0, n + 1)
    np.testing.assert_allclose(
        analysis.covariance(x),
        x.sum() * strategy.law.variance * v @ v.T,
        rtol=1e-5,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        strategy.moment(strategy.prior), strategy.information.dense(), atol=1e-9
    )
    m = w.gram().dense()
    scale = strategy.energy(m) @ x
    assert scale == pytest.approx(np.sum(strategy.moment(x) * m), rel=1e-9)


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_estimates_are_unbiased_with_the_stated_covariance(kind):
    w = workload("prefix:5")
    strategy = make(kind, w, 4.0)
    people, runs = 40, 3000
    values = np.arange(people) % 5
    reports = strategy.randomize(np.tile(values, runs), SeededSource(1))
    assert strategy.collector.valid(reports).all()
    sums = reports.reshape(runs, people, -1).sum(axis=1)
    answers = np.array([w.matvec(strategy.estimate(s, people)) for s in sums])
    x = np.bincount(values, minlength=5)
    variances = Analysis(strategy, w).query_variances(x.astype(float))
    # the last answer is the number of people, known exactly
    std = np.sqrt(variances[:-1])
    z = (answers.mean(axis=0) - w.matvec(x))[:-1] / std * np.sqrt(runs)
    # Four z-scores beyond 5, or a variance off by 12 % (over 4 deviations): fixed seed, below 1e-4.
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(answers.std(axis=0)[:-1], std, rtol=0.06)
    np.testing.assert_allclose(answers[:, -1], people, atol=1e-5)


def test_privacy_is_that_of_the_noise():
    w = workload("prefix:8")
    laplace, gaussian = matrix_l1(w, 0.7), matrix_l2(w, 0.7, 1e-6)
    assert laplace.loss.epsilon <= laplace.epsilon
    assert laplace.loss.epsilon <= 0.7
    assert laplace.loss.epsilon == pytest.approx(0.7, rel=1e-6)
    assert gaussian.loss.epsilon <= gaussian.epsilon
    assert gaussian.loss.epsilon == 0.7
    assert gaussian.loss.delta == pytest.approx(1e-6, rel=1e-6)
    for strategy in (laplace, gaussian):
        assert strategy.loss.ratio is None
        again = unpack(*pack(strategy))
        np.testing.assert_array_equal(again.columns, strategy.columns)
        assert again.law == strategy.law


@pytest.mark.parametrize("order", [1, 2])
def test_largest_distance_is_over_all_pairs(order):
    columns = np.random.default_rng(0).normal(size=(3, 9))
    pairs = columns[:, :, None] - columns[:, None, :]
    expected = np.linalg.norm(pairs, ord=order, axis=0).max()
    assert expected <= largest_distance(columns, order) <= expected * (1 + 1e-8)


def test_columns_reach_the_workload_up_to_shifts():
    for text in TEXTS:
        dense = workload(text).dense()
        columns = factor_columns(workload(text))
        centred = dense - dense.mean(axis=1, keepdims=True)
        left = centred @ np.linalg.pinv(columns)
        np.testing.assert_allclose(left @ columns, centred, atol=1e-6)


@pytest.mark.parametrize(
    "text", ["prefix:64", "prefix:100", "parity:6:3", "marginals:2^4:1"]
)
def test_laplace_noise_in_each_persons_hands_is_no_worse_than_a_curators_per_person(
    text,
):
    """The same strategies: every report has the noise that one release would have for everybody.

    Rows of 2^28 steps and of 2^16 differ by less than a thousandth.
    """
    w = workload(text)
    central = replaced_laplace(w, (w.size,), 2).value
    variance = Analysis(matrix_l1(w, 1.0), w).worst_case
    assert variance <= 2 * central**2 * w.queries * (1 + 1e-3)
    cells = VectorStrategy(2**28 * np.eye(w.size, dtype=np.int64), 1.0)
    assert variance < 0.8 * Analysis(cells, w).worst_case


def test_far_vectors_are_impossible_or_implausible():
    strategy = matrix_l1(workload("identity:4"), 1.0)
    reports = strategy.randomize(np.zeros(3, dtype=int), SeededSource(3))
    reports[0] = 2**55
    assert strategy.collector.valid(reports).tolist() == [False, True, True]
    reports[1] = 2**45
    assert strategy.collector.plausible(reports[1:], 40).tolist() == [False, True]


@pytest.mark.parametrize("make_one", [one_bit, privunit])
@pytest.mark.parametrize("text", ["identity:8", "prefix:8", "marginals:2^4:2"])
def test_codebooks_answer_their_workload(make_one, text):
    w = workload(text)
    strategy = make_one(w, 1.0)
    q = strategy.dense()
    assert (np.unique((q > q.min()).sum(axis=0)) == strategy.favoured[0]).all()
    analysis = Analysis(strategy, w)
    np.testing.assert_allclose(analysis.reconstruction() @ q, w.dense(), atol=1e-7)
    assert strategy.loss.epsilon <= strategy.epsilon
    assert strategy.two_valued


def test_bad_parameters():
    with pytest.raises(InvalidParameter):
        VectorStrategy(np.ones((2, 3)), 1.0)
    with pytest.raises(InvalidParameter):
        VectorStrategy(np.ones((2, 3), dtype=np.int64), 1.0, 2.0)
    with pytest.raises(InvalidParameter):
        Codebook.of(
            np.ones((2, 3), dtype=np.int64), np.ones((4, 3), dtype=np.int64), 1.0
        )
    with pytest.raises(InvalidParameter):
        one_bit(workload("prefix:4"), 0.0)


def test_the_nearest_directions_are_owned_and_of_equal_ones_the_first():
    rng = np.random.default_rng(6)
    for chosen in (1, 3, 8):
        vectors, directions = rng.integers(-1, 2, (3, 7)), rng.integers(-1, 2, (20, 3))
        owned = Codebook.of(vectors, directions, 1.0, chosen).owned
        products = vectors.T @ directions.T
        for row, mine in zip(products, owned, strict=True):
            order = sorted(range(len(row)), key=lambda i: (-row[i], i))
            assert set(np.flatnonzero(mine)) == set(order[:chosen])
