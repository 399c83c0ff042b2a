"""Rehearsals tell what releases would be like, and are no releases."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter

RNG = np.random.default_rng(4)
N = 4000
TABLE = pa.table(
    {
        "sex": RNG.choice(["F", "M"], N),
        "hours": RNG.normal(38, 12, N),
        "age": RNG.integers(0, 90, N),
    }
)
DOMAIN = nw.Domain(
    [
        nw.Categorical("sex", ("F", "M")),
        nw.Numeric("hours", (0, 20, 40, 60), outside="clip"),
        nw.Numeric("age", (0, 30, 60, 90)),
    ]
)
SPEC = {
    "queries": [
        {"marginal": ["age", "sex"]},
        {"sum": "hours", "by": ["sex"]},
        {"mean": "hours", "by": ["sex"]},
        {"variance": "hours", "by": ["sex"]},
        {"quantiles": "hours", "at": [0.5]},
    ]
}
PLAN = nw.plan(nw.Workload.from_spec(SPEC, DOMAIN), nw.Privacy(rho=0.2))


@pytest.fixture(scope="module")
def rehearsal():
    return PLAN.simulate(TABLE, seed=1, runs=400)


def test_predicted_and_realised_errors_agree(rehearsal) -> None:
    """400 runs of a table of two answers at least: 10 % is 5.6 deviations of a root mean square."""
    for table in rehearsal.tables[:4]:
        assert table.realised == pytest.approx(table.predicted, rel=0.1), table.name
        assert table.covered > 0.93
        assert table.left_out == 0
    assert rehearsal.tables[4].predicted is None


def test_what_clipping_and_bins_cost_is_told(rehearsal) -> None:
    (hours,) = rehearsal.declarations
    values = TABLE["hours"].to_numpy()
    assert hours.clipped == pytest.approx(((values < 0) | (values > 60)).mean())
    shift = np.rint(np.clip(values, 0, 60)).mean() - values.mean()
    assert hours.mean_shift == pytest.approx(shift)
    assert 0 < hours.bin_shift < 20


def test_a_seed_repeats_a_rehearsal_and_another_does_not() -> None:
    first, again, other = (PLAN.simulate(TABLE, seed=s, runs=5) for s in (7, 7, 8))
    assert first.summary() == again.summary()
    assert first.summary()["tables"] != other.summary()["tables"]


def test_small_groups_are_told_to_be_lost() -> None:
    spec = {"queries": [{"mean": "hours", "by": ["age", "sex"]}]}
    plan = nw.plan(nw.Workload.from_spec(spec, DOMAIN), nw.Privacy(rho=1e-5))
    assert plan.simulate(TABLE, seed=1, runs=20).tables[0].left_out > 0.5


def test_a_rehearsal_is_no_release(rehearsal, tmp_path) -> None:
    assert not isinstance(rehearsal, nw.Release)
    for name in (
        "save",
        "write",
        "answer",
        "answers",
        "to_arrow",
        "measurement",
        "metadata",
    ):
        assert not hasattr(rehearsal, name)
    page = tmp_path / "r.html"
    nw.report(rehearsal, page)
    assert "publishes nothing" in page.read_text(encoding="utf-8")
    assert not {"answer", "answers", "measurement"} & set(rehearsal.summary())
    with pytest.raises(InvalidParameter, match="at least 2"):
        PLAN.simulate(TABLE, seed=1, runs=1)


def test_counts_are_rehearsed_on_a_histogram() -> None:
    plan = nw.plan("prefix:8", nw.Privacy(epsilon=1))
    told = plan.simulate(np.arange(8), seed=2, runs=400).tables[0]
    assert told.realised == pytest.approx(told.predicted, rel=0.15)
