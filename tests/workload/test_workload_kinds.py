"""Kinds of question in one specification, and that one more is one class and one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import noisewright as nw
from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.questions.entries import KINDS
from noisewright.workload.questions.measures import CentredSquares
from oracles.privacy_oracles import SeededSource
from workload.share_of_people import read

DOMAIN = nw.Domain(
    [
        nw.Categorical("region", ["N", "S"]),
        nw.Numeric("income", [0, 25, 50, 75, 100], outside="clip"),
        nw.Numeric("hours", [0, 40, 80], integer=True),
    ]
)
TABLE = pa.table(
    {
        "region": ["N"] * 600 + ["S"] * 400,
        "income": np.linspace(1, 99, 1000),
        "hours": [40] * 600 + [20] * 400,
    }
)
SPEC = {
    "queries": [
        {"marginal": ["region"], "weight": 2},
        {"cdf": "income"},
        {"sum": "hours"},
        {"mean": "hours", "by": ["region"]},
        {"quantiles": "income", "at": [0.5, 0.9], "by": ["region"]},
    ]
}


def test_every_kind_of_question_in_one_plan_release_and_file(tmp_path) -> None:
    plan = nw.plan(nw.Workload.from_spec(SPEC, DOMAIN), Privacy(rho=50))
    names = [table.name for table in plan.tables()]
    assert names == [
        "region", "cdf of income", "sum of hours", "mean of hours by region",
        "quantiles of income by region",
    ]  # fmt: skip
    plan.save(tmp_path / "p.nw")
    release = nw.load(tmp_path / "p.nw").release(TABLE)
    frame = release.to_pandas()
    assert len(frame) == len(release.labels) == 2 + 4 + 1 + 2 + 4
    exact = {
        "region": [600, 400],
        "sum of hours": [600 * 40 + 400 * 20],
        "mean of hours by region": [40, 20],
    }
    for name, values in exact.items():
        answers = frame[frame["table"] == name]["answer"]
        np.testing.assert_allclose(answers, values, rtol=0.01)
    quantiles = frame[frame["table"] == "quantiles of income by region"]
    truth = [np.quantile(TABLE["income"].to_numpy()[s], q)
             for s in (slice(0, 600), slice(600, 1000)) for q in (0.5, 0.9)]  # fmt: skip
    assert (quantiles["lower"] <= truth).all()
    assert (quantiles["upper"] >= truth).all()
    assert plan.spend.promise().rho <= 50
    # The count by region is measured once, for the table and for the mean.
    assert len({term.key for term in plan.terms}) == len(plan.terms) == 6


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"mean": "region"}, "numeric"),
        ({"mean": "hours", "by": ["hours"]}, "group"),
        ({"variance": "income", "unit": 1e-6}, "units of the width"),
        ({"sum": "hours", "unit": 0}, "unit"),
        ({"mean": "hours", "unit": 1000}, "one and the same"),
        ({"quantiles": "region"}, "numeric"),
        ({"quantiles": "income", "at": [1.5]}, "level"),
        ({"median": "income"}, "exactly one of"),
    ],
)
def test_bad_questions_are_refused_in_words(entry: dict, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        nw.Workload.from_spec({"queries": [entry]}, DOMAIN)


def test_variances_are_covered_and_hidden_in_noise_for_their_own_width() -> None:
    """200 releases at each budget; coverage alarms in 1e-6 of runs; fixed seed."""
    rng = np.random.default_rng(5)
    hours = rng.integers(0, 81, 1000)
    table = TABLE.set_column(2, "hours", pa.array(hours))
    truth = [hours[:600].var(), hours[600:].var()]
    spec = {"queries": [{"variance": "hours", "by": ["region"]}]}
    for privacy in (
        Privacy(rho=1),
        Privacy(epsilon=2),
        Privacy(rho=1, neighbours="replace-one"),
    ):
        plan = nw.plan(nw.Workload.from_spec(spec, DOMAIN), privacy)
        counts, source = plan.exact(table), SeededSource(3)
        columns = [
            plan.outcome(plan.mechanism.measure(counts, source), ()) for _ in range(200)
        ]
        low, high = (np.array([c.each[k] for c in columns]) for k in (0, 1))
        hits = ((low <= truth) & (truth <= high)).sum(axis=0)
        assert hits.min() >= binom.ppf(1e-6 / 6, 200, 0.95)
        stated = np.array([c.answers for c in columns])
        assert np.abs(np.nanmean(stated, axis=0) / truth - 1).max() < 0.1
    squares = [
        t for t in plan.mechanism.tables if isinstance(t.measure, CentredSquares)
    ]
    reach = squares[0].measure.reach
    extremes = pa.table(
        {"region": ["N"] * 81, "income": [5.0] * 81, "hours": range(81)}
    )
    each = [plan.exact(extremes.slice(k, 1))[squares[0]] for k in range(81)]
    assert reach == max(int(np.abs(e).max()) for e in each)


def test_what_needs_sums_is_refused_without_a_curator() -> None:
    questions = nw.Workload.from_spec({"queries": [{"mean": "hours"}]}, DOMAIN)
    with pytest.raises(InvalidParameter, match="curator"):
        nw.plan(questions, Privacy(epsilon=1), nw.Local())


def test_a_new_kind_of_question_is_one_class_and_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, "share", read)
    spec = {"queries": [{"share": ["region"]}, {"cdf": "income"}]}
    plan = nw.plan(nw.Workload.from_spec(spec, DOMAIN), Privacy(rho=50))
    release = plan.release(TABLE)
    assert release.tables[0].name == "share of region"
    np.testing.assert_allclose(release.answers[:2], [0.6, 0.4], atol=0.01)
    assert release.labels[:2] == ["region = N", "region = S"]


def test_quantiles_of_whole_numbers_whose_last_cell_is_one_number():
    """Declared as 0..9, the last two edges are equal; nine tenths of the people hold that 9."""
    domain = nw.Domain([nw.Numeric.integers("age", 0, 9)])
    asked = nw.Workload.from_spec(
        {"queries": [{"quantiles": "age", "at": [0.05, 0.5]}]}, domain
    )
    histogram = np.array([1_000] + [0] * 8 + [9_000])
    release = nw.plan(asked, nw.Privacy(rho=1.0)).release(histogram)
    lower, upper = release.intervals.all
    assert lower[0] <= 1
    assert (lower[1], release.answers[1], upper[1]) == (9, 9, 9)
