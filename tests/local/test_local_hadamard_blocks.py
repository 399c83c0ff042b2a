"""Hadamard response on domains too large for matrices, against matrices at small sizes."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.errors import TooLarge
from noisewright.local import hadamard as module
from noisewright.local.hadamard import HadamardResponse
from noisewright.local.walsh import prefix_sums
from noisewright.workload import workload

SHAPES = [(5, 1), (7, 1), (11, 2), (14, 2), (16, 4), (30, 4), (29, 8)]


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(module, "DENSE_SIZE", 4)


def written_out(strategy):
    """Q, and what each output adds to each cell."""
    q = strategy.dense()
    singles = np.eye(strategy.outputs, dtype=np.int64)
    return q, np.array([strategy.estimate(one, 1) for one in singles]).T


@pytest.mark.parametrize(("size", "parts"), SHAPES)
@pytest.mark.parametrize("text", ["identity:{}", "total:{}", "prefix:{}", "ranges:{}"])
def test_variances_are_those_of_the_matrix(size, parts, text, large):
    strategy = HadamardResponse(size, 1.3, parts)
    q, v = written_out(strategy)
    np.testing.assert_allclose(v @ q, np.eye(size), atol=1e-9)
    w = workload(text.format(size))
    answers = w.dense() @ v
    expected = (answers**2).sum(axis=0) @ q - (w.dense() ** 2).sum(axis=0)
    np.testing.assert_allclose(strategy.type_variances(w.gram()), expected, atol=1e-8)


def test_sums_of_workloads_and_what_has_no_structure(large):
    strategy = HadamardResponse(11, 1.0, 2)
    both = strategy.type_variances(workload("2@prefix:11+identity:11").gram())
    prefix, identity = (
        strategy.type_variances(workload(t).gram()) for t in ("prefix:11", "identity:11")
    )
    np.testing.assert_allclose(both, 4 * prefix + identity)
    many = HadamardResponse(500, 6.0, 128)
    with pytest.raises(TooLarge, match="intervals"):
        many.type_variances(workload("random:3x500:1").gram())


@pytest.mark.parametrize(("size", "parts"), SHAPES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_any_other_workload_is_never_understated(size, parts, epsilon, large):
    strategy = HadamardResponse(size, epsilon, parts)
    q, v = written_out(strategy)
    for text in (f"random:7x{size}:1", f"random:{3 * size}x{size}:2"):
        w = workload(text)
        energies = ((w.dense() @ v) ** 2).sum(axis=0) @ q
        own = (w.dense() ** 2).sum(axis=0)
        found = strategy.type_variances(w.gram())
        assert (found >= energies - own - 1e-9).all()
        assert (found + own <= np.exp(epsilon) * energies + 1e-9).all()


@pytest.mark.parametrize(("size", "parts"), SHAPES)
def test_single_queries_under_the_prior(size, parts, large):
    strategy = HadamardResponse(size, 1.0, parts)
    _, v = written_out(strategy)
    w = workload(f"prefix:{size}+identity:{size}")
    chances = strategy._full.chances(strategy.outputs)
    second = ((w.dense() @ v) ** 2 * chances).sum(axis=1)
    # The blocks that are not used say nothing: under the prior their outputs are as likely too.
    np.testing.assert_allclose(strategy._full.query_moments(w), second, rtol=1e-9)
    x = np.random.default_rng(0).integers(0, 9, size).astype(float)
    found = strategy.query_variances(w, x)
    np.testing.assert_allclose(found, x.sum() * second - (w.dense() ** 2) @ x, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_prefix_sums_of_characters(size):
    signs = np.array([[(-1) ** (o & i).bit_count() for i in range(size)] for o in range(size)])
    sums = np.cumsum(signs, axis=1)
    for count in range(1, size + 1):
        total, first, second = prefix_sums(size, count)
        np.testing.assert_array_equal(total, sums[:, count - 1])
        np.testing.assert_array_equal(first, sums[:, :count].sum(axis=1))
        np.testing.assert_array_equal(second, (sums[:, :count] ** 2).sum(axis=1))
