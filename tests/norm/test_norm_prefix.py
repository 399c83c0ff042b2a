"""Streaming factorizations of the prefix sums against dense matrices and the optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.norm.exact.prefix import (
    Kind,
    StreamFactorization,
    geometric_root,
    prefix_nuclear_bound,
    stream_factorization,
)
from oracles.factorizations import value

KINDS: list[Kind] = ["column-normalised", "square-root", "banded"]


def square_root(steps: int) -> np.ndarray:
    c = np.ones(steps)
    for j in range(1, steps):
        c[j] = c[j - 1] * (2 * j - 1) / (2 * j)
    return c


def matrices(stream: StreamFactorization) -> tuple[np.ndarray, np.ndarray]:
    n = stream.steps
    strategy = np.tril(toeplitz(stream.coefficients)) / stream.column_lengths(0, n)
    return strategy, np.tril(np.ones((n, n))) @ np.linalg.inv(strategy)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 3, 50, 300])
def test_errors_and_sensitivity_are_those_of_the_matrices(
    kind: Kind, steps: int
) -> None:
    stream = stream_factorization(steps, kind, band=8)
    strategy, reconstruction = matrices(stream)
    lengths = np.linalg.norm(strategy, axis=0)
    assert lengths.max() == pytest.approx(1, rel=1e-12)
    if kind == "column-normalised":
        np.testing.assert_allclose(lengths, 1, rtol=1e-12)
    np.testing.assert_allclose(
        stream.errors, np.linalg.norm(reconstruction, axis=1), rtol=1e-9
    )
    for norm in (2.0, 4.0, math.inf):
        assert stream.solution(norm).value == pytest.approx(
            value(strategy, reconstruction, norm), rel=1e-9
        )
        assert stream.solution(norm).gap >= 0


@pytest.mark.parametrize("steps", [1, 2, 9, 64])
def test_the_bound_is_the_nuclear_norm(steps: int) -> None:
    s = np.linalg.svd(np.tril(np.ones((steps, steps))), compute_uv=False)
    bound = prefix_nuclear_bound(steps)
    assert bound <= s.sum() / steps
    assert bound == pytest.approx(s.sum() / steps, rel=1e-12)


def test_geometric_sequences_add_up_to_the_square_root() -> None:
    for steps, precision in ((100, 1e-2), (3000, 1e-3), (3000, 1e-6)):
        rates, gains = geometric_root(steps, precision)
        sums = np.array([np.sum(gains * rates ** (j - 1)) for j in range(1, steps)])
        np.testing.assert_allclose(sums, square_root(steps)[1:], rtol=5 * precision)
        assert (gains > 0).all()
        assert ((rates > 0) & (rates < 1)).all()


def test_streams_lie_between_the_optimum_and_the_plain_square_root() -> None:
    best = nw.factorize("prefix:64")
    largest = nw.factorize("prefix:64", math.inf)
    normalised = stream_factorization(64)
    plain = stream_factorization(64, "square-root")
    assert best.lower_bound <= normalised.solution(2).value <= plain.solution(2).value
    assert (
        largest.lower_bound
        <= normalised.solution(math.inf).value
        <= plain.solution(math.inf).value
    )
    root = square_root(64)
    assert plain.solution(math.inf).value == pytest.approx(np.sum(root**2), rel=3e-3)


def test_a_million_steps_need_a_handful_of_numbers() -> None:
    stream = stream_factorization(1_000_000)
    assert stream.memory <= 20
    assert np.isfinite(stream.column_lengths(999_000, 1_000_000)).all()
    assert stream.solution(2).lower_bound == pytest.approx(5.0995, abs=1e-4)


@pytest.mark.slow
def test_a_million_steps_are_near_the_bound() -> None:
    stream = stream_factorization(1_000_000)
    assert 0 < stream.solution(2).gap < 0.02
    assert 0 < stream.solution(math.inf).gap < 0.04


@pytest.mark.parametrize(
    ("steps", "kind", "name"),
    [(0, "square-root", "steps"), (10**9, "square-root", "steps"), (5, "tree", "kind")],
)
def test_refusals(steps: int, kind: Kind, name: str) -> None:
    with pytest.raises(InvalidParameter, match=f"{name}="):
        stream_factorization(steps, kind)
