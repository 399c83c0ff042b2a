"""Hadamard response on domains too large for matrices, against matrices at small sizes."""

from __future__ import annotations

import numpy as np
import pytest

from noisewright.errors import TooLarge
from noisewright.local.transform import hadamard as module
from noisewright.local.transform.hadamard import HadamardResponse
from noisewright.local.transform.walsh import prefix_sums
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
def test_single_queries_with_outputs_of_a_block_alike(size, parts, large):
    strategy = HadamardResponse(size, 1.0, parts)
    q, v = written_out(strategy)
    x = np.random.default_rng(0).integers(0, 9, size).astype(float)
    chances = (q @ x).reshape(strategy.parts, strategy.width)
    chances[:, 1:] = chances[:, 1:].mean(axis=1, keepdims=True)
    for text in (f"prefix:{size}+identity:{size}", f"random:5x{size}:1"):
        w = workload(text)
        second = (w.dense() @ v) ** 2 @ chances.ravel()
        expected = second - w.dense() ** 2 @ x
        np.testing.assert_allclose(strategy.query_variances(w, x), expected, atol=1e-8)
    histogram = workload(f"identity:{size}")
    together = strategy.query_variances(histogram, x).sum()
    # Exact but for cells missing from the last block.
    assert together == pytest.approx(strategy.type_variances(histogram.gram()) @ x, rel=0.02)


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_prefix_sums_of_characters(size):
    signs = np.array([[(-1) ** (o & i).bit_count() for i in range(size)] for o in range(size)])
    sums = np.cumsum(signs, axis=1)
    for count in range(1, size + 1):
        total, first, second = prefix_sums(size, count)
        np.testing.assert_array_equal(total, sums[:, count - 1])
        np.testing.assert_array_equal(first, sums[:, :count].sum(axis=1))
        np.testing.assert_array_equal(second, (sums[:, :count] ** 2).sum(axis=1))
