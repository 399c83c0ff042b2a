"""Report pages are self-contained, escape what they show, and hold truth only when it is given."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import noisewright as nw
from noisewright.report.figures import Bars, Curve, Grid, figures
from noisewright.report.pages import asset
from noisewright.report.pages.release import release_page
from noisewright.report.words.numbers import mark_texts, ticks, with_error

DOMAIN = nw.Domain(
    [
        nw.Numeric("age", (0, 18, 65, 100), integer=True),
        nw.Categorical("group", ["<script>alert(1)</script>", "b & c"]),
    ]
)
SPEC = {
    "queries": [
        {"cdf": "age"},
        {"histogram": "group"},
        {"marginals": 2},
        {"ranges": "age"},
    ]
}


class Tags(HTMLParser):
    """Collects the tags and addresses of a page, and what its scripts hold."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href") and v]
        self.scripts += [""] * (tag == "script")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts[-1] += data


def tags_of(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


@pytest.fixture(scope="module")
def release():
    asked = nw.Workload.from_spec(SPEC, DOMAIN)
    return nw.plan(asked, nw.Privacy(epsilon=1, delta=1e-9)).release(np.arange(6) * 100)


def test_a_page_fetches_nothing_and_escapes_labels(release, tmp_path: Path) -> None:
    nw.report(release, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    tags = tags_of(text)
    assert tags.scripts == [asset("search.js")]  # no label became a script
    assert tags.addresses == []
    assert "default-src 'none'" in unescape(text)
    assert "&lt;script&gt;" in text


def test_every_table_is_drawn_by_what_it_asks_and_has_every_row(release) -> None:
    kinds, start = [], 0
    for table in release.tables:
        part = slice(start, start + table.queries)
        kinds.append(
            [type(each) for each in figures(table, release.intervals.part(part), None)]
        )
        start += table.queries
    assert kinds == [[Curve], [Bars], [Grid], []]
    text = release_page(release)
    assert text.count('<details class="table-of-answers"') == len(release.tables)
    assert len(answer_rows(text)) == len(release)


def test_truth_is_shown_only_when_given(release) -> None:
    truth = np.full(len(release), 123456.0)
    assert "Private against true" not in release_page(release)
    assert "Private against true" in release_page(release, truth)


def test_a_release_without_attributes_has_a_page_too() -> None:
    plain = nw.plan("prefix:4", nw.Privacy(rho=0.5)).release(np.arange(4))
    text = release_page(plain)
    assert "ρ\u00a0=\u00a00.5" in text
    assert "prefix:4" in text


@pytest.fixture(scope="module")
def sparse():
    """A plan and its release from a table whose answers are mostly smaller than their noise."""
    plan = nw.plan(
        nw.Workload.from_spec(SPEC, DOMAIN), nw.Privacy(epsilon=0.1, delta=1e-9)
    )
    return plan, plan.release(np.array([1, 0, 3_000, 2, 0, 1]))


def answer_rows(text: str) -> list[list[str]]:
    """The cells of the tables of answers, row by row."""
    bodies = re.findall(
        r'<table class="answers[^"]*">.*?<tbody>(.*?)</tbody>', text, re.DOTALL
    )
    rows = [row for body in bodies for row in body.split("</tr>") if "<td" in row]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def test_intervals_are_those_of_the_release(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, non_negative=True)
    lower, upper = shown.intervals.each
    assert lower.min() == 0 > (shown.answers - release.halfwidth).min()
    ends = [row[3].split(" … ") for row in answer_rows(release_page(shown))]
    assert [number(low) for low, _ in ends] == pytest.approx(lower, rel=5e-3, abs=0.5)
    assert [number(high) for _, high in ends] == pytest.approx(upper, rel=5e-3, abs=0.5)


def test_bars_hold_the_intervals_of_the_release(sparse) -> None:
    _, release = sparse
    table, start = release.tables[1], release.tables[0].queries
    column = release.intervals.part(slice(start, start + table.queries))
    (drawing,) = figures(table, column, None)
    assert isinstance(drawing, Bars)
    low, high = min(0, column.all[0].min()), max(0, column.all[1].max())
    for row, first, last in zip(drawing.rows, *column.all, strict=True):
        assert row.all is not None
        left, width = row.all
        assert low + left / 100 * (high - low) == pytest.approx(
            first, abs=1e-3 * (high - low)
        )
        assert width / 100 * (high - low) == pytest.approx(
            last - first, abs=1e-3 * (high - low)
        )


def test_a_band_too_thin_to_see_is_drawn_again_on_its_own_scale() -> None:
    asked = nw.Workload.from_spec({"queries": [{"cdf": "age"}]}, DOMAIN)
    release = nw.plan(asked, nw.Privacy(rho=1.0)).release(np.full(6, 1_000_000))
    (drawing,) = figures(release.tables[0], release.intervals, None)
    assert isinstance(drawing, Curve)
    assert drawing.zoom is not None
    small = nw.plan(asked, nw.Privacy(rho=1e-4)).release(np.full(6, 100))
    (wide,) = figures(small.tables[0], small.intervals, None)
    assert isinstance(wide, Curve)
    assert wide.zoom is None


def test_panels_share_a_scale_where_they_are_alike_and_say_so_where_not() -> None:
    asked = nw.Workload.from_spec(
        {"queries": [{"cdf": "age", "by": ["group"]}]}, DOMAIN
    )
    plan = nw.plan(asked, nw.Privacy(rho=1.0))
    for counts, alike in (([500, 600] * 3, True), ([500, 50_000] * 3, False)):
        release = plan.release(np.array(counts))
        panels = figures(release.tables[0], release.intervals, None)
        assert len({panel.up for panel in panels}) == (1 if alike else 2)
        assert all(("own scale" in panel.unit) != alike for panel in panels)


def test_curves_stand_where_their_cells_end() -> None:
    asked = nw.Workload.from_spec({"queries": [{"cdf": "age"}]}, DOMAIN)
    release = nw.plan(asked, nw.Privacy(rho=1.0)).release(np.full(6, 100))
    (drawing,) = figures(release.tables[0], release.intervals, None)
    places = [float(point.split(",")[0]) for point in drawing.line[1:].split(" L")]
    # Ages up to 17, 64 and 100.
    assert places == pytest.approx([0, 1000 * 47 / 83, 1000], abs=0.1)


def test_a_bar_that_would_hide_all_others_is_cut_and_told_so() -> None:
    domain = nw.Domain([nw.Categorical("land", ["a", "b", "c"])])
    asked = nw.Workload.from_spec({"queries": [{"histogram": "land"}]}, domain)
    release = nw.plan(asked, nw.Privacy(rho=1.0)).release(np.array([90_000, 120, 60]))
    (drawing,) = figures(release.tables[0], release.intervals, None)
    assert [row.cut for row in drawing.rows] == [True, False, False]
    assert drawing.rows[1].width > 50
    assert "goes on beyond the scale" in release_page(release)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (39.512, 0.7621, "39.51 ± 0.76"),
        (2523.1, 41.2, "2,523 ± 41"),
        (-0.49, 53.0, "0 ± 53"),
        (-12.4, 53.0, "−12 ± 53"),
        (12.0, 0.0, "12.0"),
        (float("nan"), 3.0, "left out"),
    ],
)
def test_numbers_have_the_digits_that_their_error_allows(value, error, text) -> None:
    assert with_error(value, error) == text


@pytest.mark.parametrize("centre", [0.0, 0.3, -0.3, 18.4, 1_234.5, -98_765.0, 2e7])
@pytest.mark.parametrize("spread", [0.002, 0.04, 0.7, 3.0, 40.0, 5_000.0])
def test_marks_of_a_scale_stand_where_they_say(centre: float, spread: float) -> None:
    """However narrow the scale is beside the numbers on it."""
    values = ticks(centre - spread / 2, centre + spread / 2)
    texts = mark_texts(values)
    assert len(set(texts)) == len(values)
    units = {"k": 1e3, "M": 1e6, "G": 1e9}
    for value, text in zip(values, texts, strict=True):
        plain = text.replace("−", "-").replace(",", "")
        told = float(plain.rstrip("kMG")) * units.get(plain[-1], 1.0)
        assert told == pytest.approx(value, abs=spread / 50)


def test_grids_beside_each_other_are_wide_enough_for_the_words_above_them() -> None:
    """A panel as narrow as its numbers would hide its last columns."""
    short, long = (
        nw.Domain([nw.Categorical("a", list("xy")), nw.Categorical("b", values)])
        for values in (("s", "t", "u"), ("unemployed", "self-employed", "retired"))
    )
    widths = []
    for domain in (short, long):
        workload = nw.Workload.from_spec(
            {"queries": [{"marginal": ["a", "b"]}]}, domain
        )
        release = nw.plan(workload, nw.Privacy(epsilon=1)).release(np.full(6, 5))
        (grid,) = figures(release.tables[0], release.intervals, None)
        widths.append(grid.width)
    letters = len("unemployed" + "employed" + "retired")
    assert widths[1] - widths[0] > 0.5 * (letters - 3 * 6)


def test_cells_whose_interval_reaches_far_are_marked(sparse) -> None:
    _, release = sparse
    table = release.tables[2]
    start = sum(t.queries for t in release.tables[:2])
    column = release.intervals.part(slice(start, start + table.queries))
    (drawing,) = figures(table, column, None)
    assert isinstance(drawing, Grid)
    marked = [cell.unsure for _, cells in drawing.rows for cell in cells]
    half = (column.each[1] - column.each[0]) / 2
    assert marked == (half > np.abs(column.answers) / 2).tolist()
    assert drawing.unsure == any(marked)


def test_suppressed_answers_are_said_to_be_left_out(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, suppress=0.2)
    hidden = np.isnan(shown.answers)
    assert 0 < hidden.sum() < len(hidden)
    text = release_page(shown)
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert [row[1] == "left out" for row in answer_rows(text)] == hidden.tolist()
    assert f"{hidden.sum()} of them left out" in text


def test_a_release_with_every_answer_left_out_has_a_page(sparse) -> None:
    _, release = sparse
    text = release_page(nw.post_process(release, suppress=1e-9))
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert {row[1] for row in answer_rows(text)} == {"left out"}


def test_the_truth_is_held_against_the_intervals_of_the_release(sparse) -> None:
    _, release = sparse
    shown = nw.post_process(release, non_negative=True)
    assert "100.0% of the true counts lie in their own" in release_page(
        shown, shown.intervals.each[0]
    )


def test_errors_of_pure_noise_are_not_said_to_be_gaussian() -> None:
    for privacy, gaussian in (
        (nw.Privacy(epsilon=1), False),
        (nw.Privacy(rho=0.5), True),
    ):
        made = nw.plan("prefix:4", privacy).release(np.arange(4))
        assert (
            "the Gaussian law they should follow" in release_page(made, made.answers)
        ) is gaussian


def test_sums_and_means_are_not_counted_in_people() -> None:
    plan = nw.plan(nw.Sums("age", [["group"]], DOMAIN), nw.Privacy(rho=0.5))
    rows = [{"age": 30, "group": "b & c"}] * 5_000 + [
        {"age": 70, "group": "b & c"}
    ] * 5_000
    release = plan.release(pa.Table.from_pylist(rows))
    text = release_page(release)
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    heads = re.findall(
        r"<summary><b>(.*?)</b><span>.*?</span><span>(.*?)</span></summary>", text
    )
    errors = dict(heads)
    assert errors["group"].endswith("people")
    assert errors["sum of age by group"].endswith(" of age")
    places = [name for t in release.tables for name in [t.name] * t.queries]
    means = [
        row
        for row, name in zip(answer_rows(text), places, strict=True)
        if name.startswith("mean")
    ]
    assert [row[1] == "left out" for row in means] == [True, False]
