"""Made-up rows agree with the release they come from, and never touch data."""

from __future__ import annotations

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.planning.synthetic import drawn_cells, synthesise

DOMAIN = nw.Domain(
    [
        nw.Categorical("sex", ["f", "m"]),
        nw.Numeric("age", [0, 18, 40, 65, 100]),
        nw.Boolean("works"),
    ]
)
QUESTIONS = {"queries": [{"marginal": ["sex", "age"]}, {"marginal": ["works"]}]}


@pytest.fixture(scope="module")
def release():
    plan = nw.plan(nw.Workload.from_spec(QUESTIONS, DOMAIN), nw.Privacy(rho=1.0))
    return plan.release(np.arange(16) * 40)


def test_tables_of_rows_agree_with_the_release(release):
    rows = release.synthesise(5000)
    fitted = nw.post_process(release, non_negative=True)
    frame = rows.to_pandas()
    assert len(rows) == len(frame) == 5000
    counts = np.bincount(rows.cells, minlength=16).reshape(2, 4, 2)
    share = fitted.answers[:8] / fitted.answers[:8].sum()
    np.testing.assert_allclose(counts.sum(axis=2).ravel() / 5000, share, atol=2 / 5000)
    assert "sex × age" in rows.note
    # Every row lies in the cell that it was drawn from.
    for name, place in zip(DOMAIN.names, np.unravel_index(rows.cells, DOMAIN.shape), strict=True):
        np.testing.assert_array_equal(DOMAIN[name].encode(frame[name].to_numpy()), place)


@pytest.mark.parametrize("seed", range(5))
def test_numbers_of_rows_are_off_by_less_than_one_and_right_on_average(seed):
    rng = np.random.default_rng(seed)
    histogram = rng.exponential(size=200) * (rng.random(200) < 0.3)
    expected = histogram * 1000 / histogram.sum()
    counts = np.bincount(drawn_cells(histogram, 1000, rng), minlength=200)
    assert counts.sum() == 1000
    assert (np.abs(counts - expected) < 1 + 1e-9).all()
    assert (counts[histogram == 0] == 0).all()


def test_nobody_at_all_gives_even_rows():
    counts = np.bincount(drawn_cells(np.zeros(4), 8, np.random.default_rng(0)), minlength=4)
    np.testing.assert_array_equal(counts, [2, 2, 2, 2])


@pytest.mark.parametrize("count", [0, -1, 2.5, 10**9, True])
def test_numbers_of_rows_that_make_no_sense_are_refused(release, count):
    with pytest.raises(InvalidParameter, match="count"):
        release.synthesise(count)


def test_a_release_without_a_schema_and_a_domain_too_large_are_refused():
    plain = nw.plan("identity:4", nw.Privacy(rho=1.0)).release([1, 2, 3, 4])
    with pytest.raises(InvalidParameter, match="schema"):
        synthesise(plain, 10)
    wide = nw.Domain([nw.Numeric.integers(f"n{i}", 0, 99) for i in range(4)])
    spec = {"queries": [{"marginal": ["n0"]}, {"marginal": ["n1"]}]}
    plan = nw.plan(nw.Workload.from_spec(spec, wide), nw.Privacy(rho=1.0))
    import pandas as pd

    frame = pd.DataFrame({f"n{i}": [1, 2, 3] for i in range(4)})
    with pytest.raises(TooLarge, match="joint"):
        plan.release(frame).synthesise(10)
