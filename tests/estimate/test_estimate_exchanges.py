"""Moves of one person at a time make sums better and break nothing that was kept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from estimate.test_estimate_controlled_rounding import margins, sums_of
from noisewright.estimate.rounding import Sums, on_grid
from noisewright.estimate.whole import evenly_rounded, exchange_people

PAIRS = [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("seed", range(6))
def test_every_run_of_cells_strays_by_less_than_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = on_grid(rng.exponential(0.7, 200))
    people = float(np.rint(values.sum()))
    whole = evenly_rounded(values, sums_of(np.eye(200), people))
    assert whole.sum() == people
    assert np.abs(whole - values).max() < 1
    runs = np.cumsum(np.r_[0.0, whole - values])
    assert np.ptp(runs) < 1 + np.abs(values.sum() - people)


@pytest.mark.parametrize("seed", range(4))
def test_moves_keep_people_and_lower_what_strays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = margins((6, 6, 6), PAIRS)
    values = on_grid(rng.exponential(0.5, 216))
    sums = sums_of(near, float(np.rint(values.sum())))
    start = evenly_rounded(values, sums)
    better = exchange_people(start, near @ (start - values), sums)
    before, after = (np.abs(near @ (whole - values)) for whole in (start, better))
    assert better.min() >= 0
    assert better.sum() == start.sum()
    assert after.max() < before.max()
    assert (after**2).sum() < (before**2).sum()
    assert after.max() < len(PAIRS) + 1  # what programs promise of these tables
    again = exchange_people(start, near @ (start - values), sums)
    np.testing.assert_array_equal(better, again)


def test_sums_that_must_come_out_are_kept() -> None:
    rng = np.random.default_rng(9)
    near = margins((4, 4, 4), PAIRS)
    values = rng.exponential(2, 64)
    exact = np.vstack([np.ones(64), np.repeat([1.0, 0.0], [16, 48])])
    for part in (slice(16), slice(16, 64)):
        values[part] *= np.rint(values[part].sum()) / values[part].sum()
    sums = Sums(csr_array(near), csr_array(exact), np.rint(exact @ values))
    start = evenly_rounded(values, sums)
    better = exchange_people(start, near @ (start - values), sums)
    np.testing.assert_array_equal(exact @ better, sums.values)
