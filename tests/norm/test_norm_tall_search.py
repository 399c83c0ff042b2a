"""Boxes of many rows over few columns: by weights on rows and columns, against other ways."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import TooLarge
from noisewright.learn.realizable import penalty_box
from noisewright.norm.approximate.approximate import boxed_norm
from noisewright.norm.approximate.box import Box
from noisewright.norm.approximate.box_search import TallSearch
from oracles.sdp import boxed_gamma2


@pytest.mark.parametrize("seed", range(6))
def test_small_boxes_agree_with_the_semidefinite_program(seed: int) -> None:
    """With limits of one side only, and shifts in every second case."""
    rng = np.random.default_rng(seed)
    middle, width = rng.normal(size=(8, 4)), rng.uniform(0.05, 0.4, size=(8, 4))
    lower, upper = middle - width, middle + width
    kind = rng.integers(0, 6, size=middle.shape)
    lower[kind == 0], upper[kind == 1] = -np.inf, np.inf
    box = Box.of(lower, upper, bool(seed % 2))
    search = TallSearch(box)
    search.run(1e-3, 600)
    exact = boxed_gamma2(lower, upper, box.shift)
    assert search.upper == pytest.approx(exact, rel=1e-2)
    assert search.lower <= exact * (1 + 1e-5)
    assert search.lower >= exact * 0.95
    near = search.best.approximation - search.best.shifts[:, None]
    assert (near >= lower - 1e-9).all()
    assert (near <= upper + 1e-9).all()


@pytest.mark.parametrize(
    ("text", "alpha"), [("intervals:12", 0.05), ("thresholds:20", 0.0)]
)
def test_penalties_agree_with_the_other_search(text: str, alpha: float) -> None:
    lower, upper = penalty_box(nw.learn.concepts(text), alpha)
    plain = boxed_norm(lower, upper, shift=True, tolerance=1e-3)
    search = TallSearch(Box.of(lower, upper, True))
    search.run(1e-2, 400)
    assert search.upper >= plain.lower_bound * (1 - 1e-9)
    assert search.upper <= 1.02 * plain.value
    assert search.lower <= plain.value * (1 + 1e-9)
    assert search.lower >= 0.98 * plain.value


def test_boxes_of_one_matrix_are_its_factorization() -> None:
    matrix = np.random.default_rng(0).normal(size=(900, 12))
    near, exact = (
        nw.approximate_norm(matrix, 0.0, tolerance=1e-3),
        nw.factorize(matrix, np.inf),
    )
    assert near.value == pytest.approx(exact.value, rel=1e-3)
    assert near.lower_bound <= exact.value
    assert near.gap <= 1e-3


@pytest.mark.parametrize("shift", [False, True])
def test_all_intervals_of_64_points_are_certified(shift: bool) -> None:
    """2,080 rows as a plain matrix, of which nobody knows that they are intervals."""
    matrix = nw.workload("ranges:64").dense()
    near = nw.approximate_norm(matrix, 0.05, shift=shift, tolerance=2e-2)
    assert near.gap <= 2e-2
    inside = near.approximation - near.shifts[:, None]
    assert np.abs(inside - matrix).max() <= 0.05 * (1 + 1e-9)
    assert near.value < nw.factorize("ranges:64", np.inf, tolerance=1e-2).value


def test_boxes_of_zero_cost_nothing_and_huge_ones_are_refused() -> None:
    search = TallSearch(Box.of(np.full((5, 2), -1.0), np.full((5, 2), 1.0), False))
    assert search.run(1e-3, 10) == 0
    assert not search.best.approximation.any()
    with pytest.raises(TooLarge, match="9,000,000"):
        nw.approximate_norm(np.eye(2000, 1500), 0.1)
