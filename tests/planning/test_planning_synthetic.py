"""Made-up rows agree with the release they come from, and never touch data."""

from __future__ import annotations

import sys
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.table_tree import (
    _information,
    drawn_cells,
    drawn_within,
    join_order,
)
from noisewright.planning.after.synthetic import synthesise

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
    for name, place in zip(
        DOMAIN.names, np.unravel_index(rows.cells, DOMAIN.shape), strict=True
    ):
        np.testing.assert_array_equal(
            DOMAIN[name].encode(frame[name].to_numpy()), place
        )


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
    counts = np.bincount(
        drawn_cells(np.zeros(4), 8, np.random.default_rng(0)), minlength=4
    )
    np.testing.assert_array_equal(counts, [2, 2, 2, 2])


@pytest.mark.parametrize("count", [0, -1, 2.5, 10**9, True])
def test_numbers_of_rows_that_make_no_sense_are_refused(release, count):
    with pytest.raises(InvalidParameter, match="count"):
        release.synthesise(count)


def test_a_release_without_a_schema_and_one_without_tables_are_refused():
    plain = nw.plan("identity:4", nw.Privacy(rho=1.0)).release([1, 2, 3, 4])
    with pytest.raises(InvalidParameter, match="schema"):
        synthesise(plain, 10)
    wide = nw.Domain([nw.Numeric.integers(f"n{i}", 0, 99) for i in range(4)])
    spec = {"queries": [{"cdf": name} for name in wide.names]}
    plan = nw.plan(nw.Workload.from_spec(spec, wide), nw.Privacy(rho=1.0))
    frame = pd.DataFrame({f"n{i}": [1, 2, 3] for i in range(4)})
    with pytest.raises(TooLarge, match="tables of counts"):
        plan.release(frame).synthesise(10)


def test_attributes_that_were_not_asked_say_nothing_of_those_that_were():
    """Sex behind two hundred cells of age and income: no pattern of the cells may decide it."""
    domain = nw.Domain(
        [
            nw.Numeric("age", list(range(0, 101, 5))),
            nw.Numeric("income", list(range(0, 101, 10))),
            nw.Categorical("sex", ["F", "M"]),
        ]
    )
    spec = {"queries": [{"marginal": ["sex"]}]}
    plan = nw.plan(nw.Workload.from_spec(spec, domain), nw.Privacy(rho=50.0))
    counts = np.zeros(domain.shape, dtype=np.int64)
    counts[..., 0], counts[..., 1] = 3, 7
    release = plan.release(counts.ravel())
    for number in (40, 200, 1000):
        rows = release.synthesise(number)
        women = int((rows.places[:, 2] == 0).sum())
        share = release.answers[0] / release.answers.sum()
        assert abs(women - share * number) < 1
        assert rows.distances["sex"] == pytest.approx(
            abs(women / number - share), abs=1e-4
        )
    assert (np.bincount(rows.places[:, 0]) > 0).all()


def test_rows_of_a_schema_too_large_to_list_match_all_that_was_asked():
    """A ring of tables, which rows put together table by table do not close."""
    domain = nw.Domain([nw.Boolean(f"c{i}") for i in range(24)])
    pairs = [["c0", "c1"], ["c1", "c2"], ["c0", "c2"]]
    spec = {"queries": [{"marginal": pair} for pair in pairs]}
    plan = nw.plan(nw.Workload.from_spec(spec, domain), nw.Privacy(rho=50.0))
    rng = np.random.default_rng(3)
    cells = rng.choice(8, 4000, p=[0.3, 0.05, 0.05, 0.1, 0.05, 0.1, 0.1, 0.25])
    frame = pd.DataFrame({f"c{i}": rng.random(4000) < 0.5 for i in range(24)})
    for i in range(3):
        frame[f"c{i}"] = (cells >> i & 1).astype(bool)
    rows = plan.release(frame).synthesise(2000)
    assert not rows.extrapolated
    assert np.ptp(rows.places, axis=0).all()


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_kind_lie_in_its_cells_by_their_chances(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 5, 60)
    chances = rng.exponential(size=60) * (rng.random(60) < 0.6)
    kinds[:5], chances[:5] = np.arange(5), 1.0
    numbers = np.array([0, 1, 7, 300, 5000])
    cells = drawn_within(kinds, chances, numbers, rng)
    np.testing.assert_array_equal(np.bincount(kinds[cells], minlength=5), numbers)
    own = chances * (kinds == 4)
    drawn = np.bincount(cells[kinds[cells] == 4], minlength=60)
    assert np.abs(drawn - 5000 * own / own.sum()).max() < 1 + 1e-6


def wide_release():
    """Thirty binary columns, each like the one before it; all neighbours and one far pair asked."""
    rng = np.random.default_rng(5)
    columns = [rng.random(4000) < 0.5]
    for _ in range(29):
        columns.append(np.where(rng.random(4000) < 0.9, columns[-1], ~columns[-1]))
    names = [f"c{i}" for i in range(30)]
    domain = nw.Domain([nw.Boolean(name) for name in names])
    pairs = [[a, b] for a, b in pairwise(names)]
    spec = {"queries": [{"marginal": pair} for pair in [*pairs, ["c0", "c29"]]]}
    plan = nw.plan(nw.Workload.from_spec(spec, domain), nw.Privacy(rho=50.0))
    return plan.release(pd.DataFrame(dict(zip(names, columns, strict=True))))


def test_rows_beyond_listable_cells_match_the_tables_they_are_put_together_from():
    release = wide_release()
    rows = release.synthesise(3000)
    frame = rows.to_pandas()
    assert frame.shape == (3000, 30)
    assert len(rows.distances) == 30
    assert set(rows.matched) | set(rows.extrapolated) == set(rows.distances)
    assert len(rows.matched) >= 29
    for name, share in rows.distances.items():
        first, second = name.split(" × ")
        table = (
            nw.post_process(release, non_negative=True)
            .table(name)
            .to_pandas()["answer"]
        )
        counts = np.bincount(
            2 * frame[first].astype(int) + frame[second].astype(int), minlength=4
        )
        apart = np.abs(counts / 3000 - table / table.sum()).sum() / 2
        assert share == pytest.approx(apart, abs=1e-9)
    assert "made up" in rows.note


def test_the_order_of_joining_is_a_tree_of_most_information():
    """Against every spanning tree of four attributes."""
    rng = np.random.default_rng(6)
    joint = rng.dirichlet(np.full(16, 0.3)).reshape(2, 2, 2, 2)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    tables = {
        pair: joint.sum(axis=tuple(i for i in range(4) if i not in pair)).ravel()
        for pair in pairs
    }
    told = {
        pair: _information((2,) * 4, pair, pair[:1], tables[pair]) for pair in pairs
    }
    steps = join_order((2,) * 4, tables)
    chosen = sum(told[block] for block, old, _ in steps if old)
    singles = [block for block, old, _ in steps if not old]
    trees = [
        edges
        for edges in combinations(pairs, 3)
        if len({i for edge in edges for i in edge}) == 4
    ]
    assert chosen + sum(told[block] for block in singles) == pytest.approx(
        max(sum(told[edge] for edge in edges) for edges in trees if singles[0] in edges)
    )


def test_tables_are_handed_to_private_pgm(release, monkeypatch):
    class LinearMeasurement:
        def __init__(self, noisy_measurement, clique, stddev=1.0):
            self.values, self.clique, self.stddev = noisy_measurement, clique, stddev

    monkeypatch.setitem(
        sys.modules, "mbi", SimpleNamespace(LinearMeasurement=LinearMeasurement)
    )
    measured = release.to_mbi()
    assert [m.clique for m in measured] == [("sex", "age"), ("works",)]
    np.testing.assert_array_equal(measured[0].values, release.answers[:8])
    assert measured[0].stddev == pytest.approx(release.std[0])
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(InvalidParameter, match="mbi"):
        release.to_mbi()
