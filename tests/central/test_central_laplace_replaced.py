"""Pure privacy for replaced people: a public total, rows of both signs, bounds over pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisewright.central.laplace.strategy import (
    replaced_bound,
    replaced_laplace,
)
from noisewright.norm.l1_search import signed_identity
from noisewright.workload import workload
from oracles.l1_strategies import distance, known_total_error

TEXTS = ["prefix:7", "identity:5", "ranges:4", "prefix:3*prefix:3", "marginals:2^3:2"]


@pytest.mark.parametrize("text", TEXTS)
def test_plans_have_the_error_of_least_squares_and_beat_plain_counts(text: str) -> None:
    asked = workload(text)
    planned = replaced_laplace(asked, (asked.size,), 2)
    (block,) = planned.strategy.blocks
    a = block.factors[0][:-1].astype(float)
    assert (block.factors[0][-1] == block.factors[0][-1, 0]).all()
    expected = known_total_error(asked.dense(), a) * distance(a)
    assert planned.value == pytest.approx(expected, rel=1e-4)
    cells = known_total_error(asked.dense(), np.eye(asked.size)) * 2
    assert planned.bound <= planned.value <= cells * (1 + 1e-3)


@pytest.mark.parametrize(
    ("text", "best"), [("identity:2", 1.0), ("prefix:2", 0.5**0.5)]
)
def test_two_cells_are_one_count(text: str, best: float) -> None:
    """With the total known, one of the two counts decides both."""
    planned = replaced_laplace(workload(text), (2,), 2)
    assert planned.value == pytest.approx(best, rel=2e-3)
    assert planned.bound == pytest.approx(best, rel=1e-3)


@given(seed=st.integers(0, 10_000), cells=st.integers(2, 6), queries=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_no_strategy_beats_the_bound(seed: int, cells: int, queries: int) -> None:
    rng = np.random.default_rng(seed)
    w = rng.integers(-1, 3, size=(queries, cells)).astype(float)
    w[0] = np.arange(cells)
    bound, _ = replaced_bound(workload(w), 2)
    for a in (
        w,
        np.eye(cells),
        np.concatenate([np.eye(cells), rng.normal(size=(2, cells))]),
    ):
        assert bound <= known_total_error(w, a) * distance(a) * (1 + 1e-6)


def test_bounds_beyond_pairs_hold_too() -> None:
    asked = workload("prefix:60")
    bound, _ = replaced_bound(asked, 2)
    pairs = len(list(combinations(range(60), 2)))
    assert pairs > 1024
    found = signed_identity(asked.gram(), (60,)).strategy
    assert bound <= known_total_error(asked.dense(), found) * distance(found)
