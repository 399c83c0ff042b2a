"""Report pages are self-contained, escape what they show, and hold truth only when it is given."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.report import charts
from noisewright.report.page import page

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", (0, 18, 65, 100), integer=True),
        nw.Categorical("group", ["<script>alert(1)</script>", "b & c"]),
    ]
)
SPEC = {"queries": [{"cdf": "age"}, {"histogram": "group"}, {"marginals": 2}, {"ranges": "age"}]}


class Tags(HTMLParser):
    """Collects the tags and addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href") and v]


@pytest.fixture(scope="module")
def release():
    asked = nw.Workload.from_spec(SPEC, DOMAIN)
    return nw.plan(asked, nw.Privacy(epsilon=1, delta=1e-9)).release(np.arange(6) * 100)


def test_a_page_fetches_nothing_and_escapes_labels(release, tmp_path: Path) -> None:
    nw.report(release, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert "script" not in tags.tags
    assert all(address.startswith("#") for address in tags.addresses)
    assert tags.tags.count("svg") == 3
    assert "&lt;script&gt;" in text


def test_truth_is_shown_only_when_given(release) -> None:
    truth = np.full(len(release), 123456.0)
    assert "Private against true" not in page(release)
    assert "Private against true" in page(release, truth)


def test_a_release_without_attributes_has_a_page_too() -> None:
    plain = nw.plan("prefix:4", nw.Privacy(rho=0.5)).release(np.arange(4))
    text = page(plain)
    assert "ρ = 0.5" in text
    assert "prefix:4" in text


@pytest.fixture(scope="module")
def sparse():
    """A plan and its release from a table whose answers are mostly smaller than their noise."""
    plan = nw.plan(nw.Workload.from_spec(SPEC, DOMAIN), nw.Privacy(epsilon=0.1, delta=1e-9))
    return plan, plan.release(np.array([1, 0, 3_000, 2, 0, 1]))


def answer_rows(text: str) -> list[list[str]]:
    """The cells of the table of answers, row by row."""
    body = text.split("<tbody>")[1].split("</tbody>")[0]
    return [re.findall(r"<td>(.*?)</td>", row) for row in body.split("</tr>") if row]


def test_intervals_are_those_of_the_release(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, non_negative=True)
    lower, upper = shown.intervals.each
    assert lower.min() == 0 > (shown.answers - release.halfwidth).min()
    expected = [f"{low:,.1f} … {high:,.1f}" for low, high in zip(lower, upper, strict=True)]
    assert [row[4] for row in answer_rows(page(shown))] == expected


def test_bands_of_charts_are_those_of_the_release(sparse, monkeypatch: pytest.MonkeyPatch) -> None:
    _, release = sparse
    shown = nw.post_process(release, non_negative=True)
    drawn: list[dict[str, float | None]] = []

    def record(chart) -> str:
        parts = [chart, *getattr(chart, "layer", ())]
        drawn.extend(row for part in parts for row in getattr(part.data, "values", ()) or ())
        return "<svg></svg>"

    monkeypatch.setattr(charts, "_svg", record)
    page(shown)
    lower, upper = shown.intervals.all
    bands = {(row["low"], row["high"]) for row in drawn if "low" in row}
    assert bands
    assert bands <= set(zip(lower.tolist(), upper.tolist(), strict=True))


def test_suppressed_answers_are_said_to_be_left_out(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, suppress=0.2)
    hidden = np.isnan(shown.answers)
    assert 0 < hidden.sum() < len(hidden)
    text = page(shown)
    assert "nan" not in text.lower()
    assert [row[2] == "left out" for row in answer_rows(text)] == hidden.tolist()
    assert f"{hidden.sum()} of them left out" in text
    rmse = np.sqrt(np.nanmean(shown.std**2))
    assert f"± {rmse:,.1f}" in text


def test_a_release_with_every_answer_left_out_has_a_page(sparse) -> None:
    _, release = sparse
    text = page(nw.post_process(release, suppress=1e-9))
    assert "nan" not in text.lower()
    assert {row[2] for row in answer_rows(text)} == {"left out"}


def test_the_truth_is_held_against_the_intervals_of_the_release(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, non_negative=True)
    assert "100.0% of the true counts lie in their own" in page(shown, shown.intervals.each[0])


def test_sums_and_means_are_not_counted_in_people() -> None:
    plan = nw.plan_sums("age", [["group"]], nw.Privacy(rho=0.5), DOMAIN)
    rows = [{"age": 30, "group": "b & c"}] * 5_000 + [{"age": 70, "group": "b & c"}] * 5_000
    release = plan.release(pa.Table.from_pylist(rows))
    text = page(release)
    assert "nan" not in text.lower()
    captions = dict(re.findall(r"<figcaption><b>(.*?)</b>(.*?)</figcaption>", text))
    assert captions["group"].endswith("people")
    assert "people" not in captions["sum of age by group"]
    means = [row for row in answer_rows(text) if row[0].startswith("mean")]
    assert [row[2] == "left out" for row in means] == [True, False]
    counts = release.std[: DOMAIN["group"].size]
    assert f"± {np.sqrt(np.mean(counts**2)):,.1f}" in text
