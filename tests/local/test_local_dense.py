from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.errors import InvalidParameter, OutOfReach
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.listed import UNIT, MatrixStrategy
from noisewright.local.storage import pack, unpack
from noisewright.workload import workload
from oracles import local_matrix as oracle


def private_matrix(m, n, epsilon, seed):
    rng = np.random.default_rng(seed)
    q = oracle.random_strategy(m, n, epsilon, rng)
    assert (q.max(axis=1) <= q.min(axis=1) * np.exp(epsilon)).all()
    return q


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 8), st.sampled_from([0.5, 1.0, 3.0]), st.integers(0, 10**6))
def test_rounding_honours_epsilon_and_columns_exactly(n, epsilon, seed):
    strategy = MatrixStrategy.from_chances(
        private_matrix(3 * n, n, epsilon, seed), epsilon
    )
    assert (strategy.weights.sum(axis=0) == UNIT).all()
    assert strategy.loss.epsilon <= epsilon


def test_analysis_equals_the_published_formulas():
    q, w = private_matrix(20, 6, 1.0, 3), workload("prefix:6")
    strategy = MatrixStrategy.from_chances(q, 1.0)
    analysis = Analysis(strategy, w)
    rounded, dense = strategy.dense(), w.dense()
    x = np.arange(6.0)
    v = oracle.reconstruction(rounded, dense)
    np.testing.assert_allclose(
        analysis.type_variances, oracle.type_variances(rounded, dense)
    )
    expected = oracle.answer_covariance(rounded, v, x)
    np.testing.assert_allclose(analysis.covariance(x), expected, atol=1e-9)
    np.testing.assert_allclose(
        analysis.query_variances(x), np.diag(expected), atol=1e-9
    )
    np.testing.assert_allclose(analysis.reconstruction() @ rounded, dense, atol=1e-9)
    assert analysis.total_variance(x) == pytest.approx(np.trace(expected))
    mean = analysis.objective / 6 - w.gram().trace() / 6
    assert analysis.average_case == pytest.approx(mean)


def test_two_valued_matrix_stays_two_valued_and_round_trips():
    strategy = MatrixStrategy.from_chances(oracle.randomized_response(16, 1.0), 1.0)
    assert strategy.two_valued
    again = unpack(*pack(strategy))
    np.testing.assert_array_equal(again.weights, strategy.weights)


def test_reports_follow_the_matrix():
    strategy = MatrixStrategy.from_chances(private_matrix(4, 3, 1.0, 1), 1.0)
    people = 60_000

    class Seeded:
        def __init__(self):
            self.rng = np.random.default_rng(5)

        def bytes(self, count):
            return self.rng.bytes(count)

    source = Seeded()
    for value in range(3):
        reports = strategy.randomize(np.full(people, value), source)
        counts = strategy.collector.tally(reports)
        expected = people * strategy.dense()[:, value]
        statistic = ((counts - expected) ** 2 / expected).sum()
        # Chi-square with 4 degrees of freedom: false alarm below 1e-6 (fixed seed).
        assert statistic < 34


def test_out_of_reach_names_the_query():
    q = np.repeat(oracle.randomized_response(2, 1.0), 2, axis=1)  # cannot tell 0 from 1
    strategy = MatrixStrategy.from_chances(q, 1.0)
    Analysis(strategy, workload(np.array([[1.0, 1.0, 0.0, 0.0]])))
    with pytest.raises(OutOfReach, match="query 0"):
        Analysis(strategy, workload("identity:4"))


@pytest.mark.parametrize(
    ("q", "epsilon"),
    [
        (np.eye(3), 1.0),
        (np.full((2, 2), 0.4), 1.0),
        (oracle.randomized_response(4, 2.0), 1.0),
        (np.full((2, 2), np.nan), 1.0),
        (oracle.randomized_response(4, 1.0), 0.0),
        (oracle.randomized_response(4, 1.0), -1.0),
        (oracle.randomized_response(4, 1.0), float("nan")),
    ],
)
def test_bad_matrices_are_refused(q, epsilon):
    with pytest.raises(InvalidParameter):
        MatrixStrategy.from_chances(q, epsilon)


def test_values_outside_the_domain_are_refused_without_being_quoted():
    strategy = MatrixStrategy.from_chances(oracle.randomized_response(4, 1.0), 1.0)
    for bad in ([77], [-1], [0.5], ["a"]):
        with pytest.raises(InvalidParameter) as failure:
            strategy.randomize(bad)
        assert "77" not in str(failure.value)


def test_chances_that_add_up_only_by_overflow_are_refused():
    with pytest.raises(InvalidParameter, match="sum to 2\\^62"):
        MatrixStrategy(np.full((5, 3), UNIT, dtype=np.int64), 1.0)
