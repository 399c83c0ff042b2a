"""What every strategy promises, checked against its matrix written out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from local.strategies import SMALL, listed_reports, scores
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    TooLarge,
)
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.bounds.trace import contrast_limit
from noisewright.local.histogram import hashing
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import SubsetSelection, UnaryEncoding
from noisewright.local.storage import pack, unpack
from noisewright.workload import workload
from oracles import local_matrix as oracle
from oracles.privacy_oracles import SeededSource

NAMES = sorted(SMALL)


@pytest.fixture(params=NAMES)
def strategy(request):
    return SMALL[request.param]


def possible(strategy):
    """Rows that can come, with their scores."""
    q = strategy.dense()
    keep = q.max(axis=1) > 0
    return q[keep], scores_of(strategy)[keep]


_SCORES: dict[int, np.ndarray] = {}


def scores_of(strategy):
    key = id(strategy)
    if key not in _SCORES:
        with np.errstate(all="ignore"):
            _SCORES[key] = scores(strategy)
    return _SCORES[key]


def test_columns_are_distributions_and_rows_are_private(strategy):
    q, _ = possible(strategy)
    np.testing.assert_allclose(q.sum(axis=0), 1.0, atol=1e-12)
    ratio = (q.max(axis=1) / q.min(axis=1)).max()
    assert np.log(ratio) <= strategy.epsilon + 1e-9
    assert strategy.loss.epsilon <= strategy.epsilon
    assert strategy.loss.epsilon == pytest.approx(np.log(ratio), abs=1e-9)


def test_the_score_is_unbiased_for_the_information(strategy):
    q, s = possible(strategy)
    np.testing.assert_allclose((q.T @ s).T, strategy.information.dense(), atol=1e-9)


def test_moment_and_energy_are_those_of_the_score(strategy):
    q, s = possible(strategy)
    x = np.arange(1.0, strategy.size + 1)
    np.testing.assert_allclose(
        strategy.moment(x), s.T @ (s * (q @ x)[:, None]), rtol=1e-9, atol=1e-9
    )
    m = np.random.default_rng(0).normal(size=(strategy.size,) * 2)
    m = m @ m.T
    expected = q.T @ np.einsum("ou,uv,ov->o", s, m, s)
    np.testing.assert_allclose(strategy.energy(m), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["identity", "prefix", "ranges", "total"])
def test_variances_and_covariance_follow_from_the_matrix(strategy, name):
    w = workload(f"{name}:{strategy.size}")
    q, _ = possible(strategy)
    dense = w.dense()
    reports = listed_reports(strategy)[strategy.dense().max(axis=1) > 0]
    v = dense @ np.stack(
        [strategy.estimate(strategy.collector.tally(r[None]), 1) for r in reports],
        axis=1,
    )
    np.testing.assert_allclose(v @ q, dense, atol=1e-9)
    x = np.arange(1.0, strategy.size + 1)
    covariance = (v * (q @ x)) @ v.T - (dense * x) @ dense.T
    analysis = Analysis(strategy, w)
    np.testing.assert_allclose(analysis.covariance(x), covariance, atol=1e-8)
    np.testing.assert_allclose(
        analysis.query_variances(x), np.diag(covariance), atol=1e-8
    )
    variances = (v**2).sum(axis=0) @ q - (dense**2).sum(axis=0)
    np.testing.assert_allclose(analysis.type_variances, variances, atol=1e-8)
    mean = (variances + (dense**2).sum(axis=0)).sum()
    assert analysis.objective == pytest.approx(mean, rel=1e-9, abs=1e-9)


def test_estimates_add_up_over_reports(strategy):
    reports = listed_reports(strategy)
    reports = reports[strategy.dense().max(axis=1) > 0]
    half = len(reports) // 2
    whole = strategy.collector.tally(reports)
    np.testing.assert_array_equal(
        whole,
        strategy.collector.tally(reports[:half])
        + strategy.collector.tally(reports[half:]),
    )
    assert strategy.collector.valid(reports).all()
    estimate = strategy.estimate(whole, len(reports))
    # the number of people is known
    assert estimate.sum() == pytest.approx(len(reports))
    assert len(whole) == strategy.collector.counters


def test_reports_follow_the_matrix(strategy):
    people, source = 4000, SeededSource(11)
    q = strategy.dense()
    listed = {
        bytes(np.ascontiguousarray(r)): i
        for i, r in enumerate(listed_reports(strategy))
    }
    dtype = listed_reports(strategy).dtype
    for value in (0, strategy.size - 1):
        reports = strategy.randomize(np.full(people, value), source)
        assert strategy.collector.valid(reports).all()
        reports = reports.astype(dtype)
        rows = [listed[bytes(np.ascontiguousarray(r))] for r in reports]
        counts = np.bincount(rows, minlength=len(q))
        expected = people * q[:, value]
        keep = expected > 0
        assert counts[~keep].sum() == 0
        statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
        freedom = keep.sum() - 1
        # Six standard deviations of a chi-square, fixed seed: false alarm below 1e-5 in each case.
        assert statistic < freedom + 6 * np.sqrt(2 * freedom) + 20


def test_what_is_stored_rebuilds_the_strategy(strategy):
    settings, arrays = pack(strategy)
    again = unpack(json.loads(json.dumps(settings)), arrays)
    assert type(again) is type(strategy)
    np.testing.assert_array_equal(again.dense(), strategy.dense())
    assert again.specification.layout == strategy.specification.layout


@pytest.mark.parametrize("name", ["subset-selection", "rappor", "unary"])
def test_sets_with_stray_bits_are_not_valid(name):
    strategy = SMALL[name]
    report = strategy.randomize([0], SeededSource(1))
    assert strategy.collector.valid(report).all()
    report[0, -1] |= 1
    assert not strategy.collector.valid(report).any()


def test_exponentially_many_reports_are_not_listed():
    for strategy in (SubsetSelection(200, 1.0), UnaryEncoding(200, 1.0)):
        with pytest.raises(TooLarge):
            strategy.dense()


@pytest.mark.parametrize("name", NAMES)
def test_bad_parameters_are_refused(name):
    settings, arrays = pack(SMALL[name])
    if "components" in settings or "strategy" in settings:
        pytest.skip("its components hold the budget")
    for epsilon in (0.0, -1.0, float("nan"), 1e9):
        with pytest.raises(InvalidParameter):
            unpack({**settings, "epsilon": epsilon}, arrays)
    for epsilon in (0.9 * SMALL[name].epsilon, 1.1 * SMALL[name].epsilon):
        with pytest.raises(NoisewrightError):
            _ = unpack({**settings, "epsilon": epsilon}, arrays).promise


def test_storage_refuses_what_it_does_not_know():
    with pytest.raises(FileFormatError):
        unpack({"kind": "no-such-strategy"}, {})
    with pytest.raises(FileFormatError):
        unpack({"kind": "hadamard"}, {})
    for strategy in SMALL.values():
        again = unpack(*pack(strategy))
        np.testing.assert_array_equal(again.dense(), strategy.dense())


@pytest.mark.parametrize("kind", [SubsetSelection, UnaryEncoding])
def test_one_cell_is_refused(kind):
    with pytest.raises(InvalidParameter, match="size=1"):
        kind(1, 1.0)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("size", [2, 3, 9])
def test_unary_encodings_are_decoded_as_well_as_can_be(size, epsilon, symmetric):
    """The best reconstruction of the matrix written out, from weighted counts alone."""
    strategy = UnaryEncoding(size, epsilon, symmetric)
    for text in (f"identity:{size}", f"prefix:{size}"):
        w = workload(text)
        best = oracle.type_variances(strategy.dense(), w.dense())
        # Weights that are best but for rounding lose next to nothing.
        np.testing.assert_allclose(strategy.type_variances(w.gram()), best, rtol=1e-5)


def test_unary_weights_at_large_sizes_and_budgets():
    for size, epsilon in ((10_000, 0.5), (100, 40.0), (5, 1e-6)):
        strategy = UnaryEncoding(size, epsilon)
        assert strategy.collector.weights.min() >= 1
        most = contrast_limit(size, epsilon) * size / (size - 1)
        assert 0 < strategy.contrast <= most * (1 + 1e-9)


@pytest.mark.parametrize(("size", "buckets"), [(9, 3), (20, 3), (23, 5), (6, 7)])
def test_large_hashing_is_never_understated(size, buckets, monkeypatch):
    strategy = LocalHashing(size, 2.0, buckets)
    grams = [
        workload(text.format(size)).gram() for text in ("prefix:{}", "random:5x{}:1")
    ]
    exact = [strategy.type_variances(gram) for gram in grams]
    monkeypatch.setattr(hashing, "DENSE_SIZE", 4)
    for gram, expected in zip(grams, exact, strict=True):
        assert (strategy.type_variances(gram) >= expected - 1e-9).all()
