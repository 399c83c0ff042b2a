"""Tidy answers: typed columns say what the text says; tables by name; unbiased answers stay."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", (0, 18, 40, 65), integer=True, outside="other"),
        nw.Numeric("income", (0, 1.5, 10), levels={"band": [0, 10]}),
        nw.Date("day", "2024-01-15", "2024-03-10", "month"),
        nw.Boolean("member"),
        nw.Categorical("code", (3, 7)),
        nw.Categorical("answer", ("yes", "no"), outside="other"),
    ]
)
N = 400
ROWS = np.random.default_rng(2)
TABLE = pa.table(
    {
        "age": ROWS.integers(0, 80, N),
        "income": ROWS.uniform(0, 10, N),
        "day": [
            dt.date(2024, 1, 15) + dt.timedelta(days=int(k))
            for k in ROWS.integers(0, 50, N)
        ],
        "member": ROWS.random(N) < 0.5,
        "code": ROWS.choice([3, 7], N),
        "answer": ROWS.choice(["yes", "no", "?"], N),
    }
)


def released(*queries: dict) -> nw.Release:
    plan = nw.plan(
        nw.Workload.from_spec({"queries": list(queries)}, DOMAIN), nw.Privacy(rho=1e4)
    )
    return plan.release(TABLE)


def test_typed_columns_select_the_people_they_name() -> None:
    """The oracle counts rows of the table by the bounds and values that the columns state."""
    release = released(
        {"marginal": ["age", "day"]},
        {"cdf": "age", "by": ["member"]},
        {"ranges": "income"},
        {"marginal": ["code", "answer"]},
    )
    people = TABLE.to_pandas()
    frame = release.to_pandas()
    assert frame["code"].dropna().isin([3, 7]).all()
    assert len(frame) == len(release)
    compared = 0
    for row in frame.to_dict("records"):
        if "other" in row["query"]:
            continue
        chosen = pd.Series(True, index=people.index)
        for name in ("age", "income", "day"):
            low, high = row[f"{name}_from"], row[f"{name}_to"]
            if pd.notna(low):
                top = people[name] <= high if name != "income" else people[name] < high
                chosen &= (people[name] >= low) & (top | (high == 10))
        for column, name in (
            ("member", "member"),
            ("code", "code"),
            ("answer_", "answer"),
        ):
            if row[column] is not None and pd.notna(row[column]):
                chosen &= people[name] == row[column]
        assert row["answer"] == pytest.approx(chosen.sum(), abs=1), row["query"]
        compared += 1
    assert compared == 9 + 6 + 3 + 4


def test_columns_have_the_types_of_their_attributes() -> None:
    release = released(
        {"marginal": ["age", "day"]}, {"marginal": ["member", "code", "answer"]}
    )
    schema = release.to_arrow().schema
    kinds = {name: schema.field(name).type for name in schema.names}
    assert kinds["age_from"] == kinds["age_to"] == kinds["code"] == pa.int64()
    assert kinds["day_from"] == pa.date32()
    assert kinds["member"] == pa.bool_()
    assert kinds["answer_"] == pa.string()  # an attribute never hides a column of ours
    assert kinds["answer"] == pa.float64()
    days = (
        release.table("age × day").to_pandas()[["day_from", "day_to"]].drop_duplicates()
    )
    assert days["day_from"].tolist()[0] == dt.date(2024, 1, 15)
    assert days["day_to"].tolist() == [
        dt.date(2024, 1, 31),
        dt.date(2024, 2, 29),
        dt.date(2024, 3, 10),
    ]


def test_levels_and_quantiles_have_columns() -> None:
    release = released(
        {"marginal": ["band", "code"]},
        {"quantiles": "income", "at": [0.25, 0.5], "by": ["code"]},
    )
    frame = release.to_pandas()
    assert set(frame["band"].dropna()) == {"[0, 10]"}
    assert frame["quantile"].dropna().tolist() == [0.25, 0.5] * 2
    assert set(frame["statistic"]) == {"count", "quantile of income"}


def test_quantiles_by_level_and_tables_beside_means_are_planned() -> None:
    """Both once failed: a level had no axis, and counts beside sums were taken for all measures."""
    release = released(
        {"quantiles": "age", "at": [0.5], "by": ["band"]},
        {"mean": "income", "by": ["code"], "unit": 0.5},
        {"ranges": "income"},
        {"cdf": "age", "by": ["member"]},
        {"marginal": ["member", "code"]},
    )
    assert release.table("quantiles of age by band").to_arrow()["answer"][
        0
    ].as_py() == pytest.approx(32, abs=8)


def test_a_table_is_found_by_name_and_pivoted() -> None:
    release = released(
        {"marginal": ["code", "answer"]}, {"cdf": "age", "by": ["member"]}
    )
    table = release.table("answer*code")
    assert table.name == "code × answer"
    wide = table.pivot("answer").to_pandas()
    assert list(wide.columns) == ["code", "yes", "no", "other"]
    long = table.to_pandas().set_index(["code", "answer_"])["answer"]
    for _, row in wide.iterrows():
        for value in ("yes", "no", "other"):
            assert row[value] == long[(row["code"], value)]
    errors = release.table("age*member").pivot("age", values="std_error").to_pandas()
    assert errors.shape == (2, 1 + 4)
    assert errors.columns[1] == "up to 0–17"
    assert release.table("age*member").pivot().to_polars().shape == (4, 2 + 2)
    for wrong in (lambda: release.table("zork"), lambda: table.pivot("zork")):
        with pytest.raises(InvalidParameter, match="zork"):
            wrong()
    with pytest.raises(InvalidParameter, match="column of figures"):
        table.pivot(values="query")


def test_unbiased_answers_stay_beside_changed_ones(tmp_path: Path) -> None:
    plan = nw.plan(
        nw.Workload.from_spec(
            {"queries": [{"marginal": ["age", "code", "member"]}]}, DOMAIN
        ),
        nw.Privacy(rho=1e-3),
    )
    release = plan.release(TABLE)
    assert "unbiased" not in release.to_arrow().column_names
    changed = nw.post_process(release, non_negative=True, integer=True)
    changed = nw.post_process(changed, suppress=0.2)
    changed.save(tmp_path / "r.nwr")
    nw.load(tmp_path / "r.nwr").write(tmp_path / "a.csv", excel=True)
    frame = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_allclose(frame["unbiased"], release.answers)
    np.testing.assert_allclose(frame["unbiased_std_error"], release.std)
    assert frame["answer"].isna().any()
    assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    release.write(tmp_path / "plain.csv")
    assert not (tmp_path / "plain.csv").read_bytes().startswith(b"\xef\xbb\xbf")


def test_fitted_estimates_keep_the_unbiased_ones() -> None:
    plan = nw.plan("identity:16", nw.Privacy(epsilon=1), nw.Local())
    reports = plan.randomize(np.zeros(300, dtype=np.int64))
    plain, fitted = plan.estimate(reports), plan.estimate(reports, non_negative=True)
    np.testing.assert_allclose(fitted.to_arrow()["unbiased"].to_numpy(), plain.answers)
    assert fitted.answers.min() >= 0 > plain.answers.min()


def test_parts_are_the_same_rows_and_hold_no_more_text_than_their_own(
    tmp_path: Path,
) -> None:
    release = released(
        {"marginal": ["age", "answer"]},
        {"cdf": "income", "by": ["member"]},
        {"ranges": "age"},
        {"marginal": ["band", "code"]},
        {"mean": "income", "by": ["day"]},
    )
    whole = release.to_arrow()
    for rows in (1, 7, 1000):
        parts = list(release.to_batches(rows))
        assert [len(part) for part in parts[:-1]] == [rows] * (len(parts) - 1)
        assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
        assert {part.schema for part in parts} == {parts[0].schema}
    told = 0

    def each_label():
        nonlocal told
        for label in release.labels:
            told += 1
            yield label

    object.__setattr__(release.plan, "each_label", each_label)
    for number, _ in enumerate(release.to_batches(5), start=1):
        assert told == min(5 * number, len(release))
    release.write(tmp_path / "a.parquet")
    release.write(tmp_path / "a.csv", excel=True)
    assert (tmp_path / "a.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert len(pd.read_csv(tmp_path / "a.csv")) == len(
        pd.read_parquet(tmp_path / "a.parquet")
    )
