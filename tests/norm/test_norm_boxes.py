"""The least γ2 between limits of entries, some infinite: against a semidefinite program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noisewright.errors import Contradiction, InvalidParameter
from noisewright.norm.approximate.approximate import approximate_norm, boxed_norm
from noisewright.norm.approximate.box import Box
from oracles.sdp import boxed_gamma2


@pytest.mark.parametrize("seed", range(8))
def test_random_boxes_agree_with_the_semidefinite_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 7, size=2))
    middle, width = rng.normal(size=shape), rng.uniform(0.05, 0.6, size=shape)
    lower, upper = middle - width, middle + width
    kind = rng.integers(0, 4, size=shape)
    lower[kind == 0], upper[kind == 1] = -np.inf, np.inf
    shift = bool(seed % 2)
    result = boxed_norm(lower, upper, shift=shift)
    exact = boxed_gamma2(lower, upper, shift)
    assert result.value == pytest.approx(exact, rel=2e-3, abs=1e-5)
    assert result.lower_bound <= exact * (1 + 1e-5) + 1e-6
    inside = result.approximation - result.shifts[:, None]
    assert (inside >= lower - 1e-9).all()
    assert (inside <= upper + 1e-9).all()
    product = (
        result.factorization.reconstruction.dense()
        @ result.factorization.strategy.dense()
    )
    np.testing.assert_allclose(product, result.approximation, atol=1e-7)


def test_a_box_around_a_matrix_is_its_approximate_norm() -> None:
    matrix = np.tril(np.ones((6, 6)))
    near = approximate_norm(matrix, 0.1, shift=True)
    assert boxed_norm(matrix - 0.1, matrix + 0.1, shift=True).value == pytest.approx(
        near.value, rel=2e-4
    )


def test_boxes_that_hold_zero_cost_nothing() -> None:
    lower = np.array([[-1.0, -np.inf], [3.0, 2.0]])
    upper = np.array([[np.inf, 0.5], [np.inf, 4.0]])
    assert boxed_norm(lower, upper, shift=True).value == 0
    assert boxed_norm(lower, upper).value > 1


def test_a_witness_that_leans_on_an_infinite_limit_proves_nothing() -> None:
    lower, upper = np.zeros((2, 2)), np.array([[np.inf, 1.0], [1.0, 1.0]])
    result = boxed_norm(lower + 0.5, upper + 0.5)
    bad = replace(result.certificate, matrix=-np.ones((2, 2)))
    with pytest.raises(Contradiction, match="infinite"):
        bad.bound(Box(lower, upper))


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([[1.0]], [[0.0]]),
        ([[np.nan]], [[0.0]]),
        ([[np.inf]], [[np.inf]]),
        ([0.0], [1.0]),
    ],
)
def test_boxes_that_are_none_are_refused(
    lower: list[float], upper: list[float]
) -> None:
    with pytest.raises(InvalidParameter, match="lower="):
        boxed_norm(lower, upper)
