"""The report page: what was promised, how good the answers are, and the answers themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from noisewright.planning.plan import ReleasedTable
from noisewright.planning.release import Release
from noisewright.report.charts import agreement_chart, errors_chart, table_chart
from noisewright.solution import BoundClass
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import PEOPLE

_MOST_CHARTS = 24
_MOST_ROWS = 200
_ERRORS = {"rmse": ", root mean square over answers", "max": ", in the least certain answer"}


def page(release: Release, truth: FloatArray | None = None, title: str = "Private release") -> str:
    """The page as HTML. `truth` may be given only for synthetic data."""
    return filled(
        title=escape(title),
        lead=_lead(release, truth),
        tiles=_tiles(release),
        bound=_bound(release),
        charts=_charts(release, truth),
        errors="" if truth is None else _error_section(release, truth),
        answers=_answers(release),
        metadata=escape(json.dumps(dict(release.metadata), indent=2, ensure_ascii=False)),
    )


def _lead(release: Release, truth: FloatArray | None) -> str:
    tables, hidden = len(release.tables), int(np.isnan(release.answers).sum())
    replaced = release.metadata["neighbours"] == "replace-one"
    change = "given other answers" if replaced else "been left out"
    left_out = f" ({hidden:,} of them left out)" if hidden else ""
    text = (
        f"{len(release):,} answers{left_out} in {tables:,} table{'s' if tables != 1 else ''}, "
        "every one protected by the same promise: what is published here would look almost the "
        f"same had any one person {change}."
    )
    if truth is not None:
        text += (
            " The people are synthetic, so the true counts are shown in orange;"
            " a report on real people never holds them."
        )
    return escape(text)


def promise(metadata: Mapping[str, Any]) -> tuple[str, str, str]:
    """The tile of what is promised."""
    spent = metadata["privacy"]
    text = ", ".join(
        f"{symbol} = {spent[name]:g}"
        for name, symbol in (("epsilon", "ε"), ("delta", "δ"), ("rho", "ρ"))
        if spent.get(name) is not None
    )
    return "privacy", text, f"neighbours: {metadata['neighbours']}"


def drawn(tiles: Sequence[tuple[str, str, str]]) -> str:
    """Tiles with a name, a figure and a note each."""
    return "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b>'
        f"<small>{escape(note)}</small></div>"
        for name, value, note in tiles
    )


def filled(**parts: str) -> str:
    """The page of these parts, as HTML."""
    template = Template(files("noisewright.report").joinpath("page.html").read_text("utf-8"))
    return template.substitute(parts)


def _tiles(release: Release) -> str:
    counts = [t.unit == PEOPLE for t in release.tables for _ in range(t.queries)]
    std = release.std[np.array(counts) & ~np.isnan(release.std)]
    typical, largest = "none left", "none left"
    if std.size:
        typical, largest = f"± {np.sqrt(np.mean(std**2)):,.1f}", f"± {std.max():,.1f}"
    ratio = release.metadata.get("ratio")
    best = "no bound known" if ratio is None else f"{ratio:.3f} ×"
    limited = release.metadata.get("bound_class")
    note = "nothing is certified" if ratio is None else f"bound for {limited}"
    tiles = [
        promise(release.metadata),
        ("typical error", typical, "people, root mean square over counts"),
        ("largest error", largest, "people, standard error of a count"),
        ("against the lower bound", best, note),
    ]
    return drawn(tiles)


def _bound(release: Release) -> str:
    """What no method of each class goes below, and what the classes are; nothing without bounds."""
    known = release.metadata
    limits = [(bound["class"], bound["lower_bound"], bound["ratio"]) for bound in known["bounds"]]
    if known.get("bound_class") is not None:
        limits.insert(0, (known["bound_class"], known["lower_bound"], known["ratio"]))
    if not limits:
        return ""
    items = "".join(
        f"<li><b>{'–' if ratio is None else f'{ratio:.3f} ×'}</b><div>{escape(least)}"
        f"<small>{escape(BoundClass(name).statement)}.</small></div></li>"
        for name, bound, ratio in limits
        for least in [f"{bound:,.4g} people: {name}"]
    )
    error = escape(_ERRORS.get(known["error"], ""))
    return (
        "<h2>How close to the least error</h2>"
        f'<p class="quiet">These answers over what no method of a class goes below{error}.</p>'
        f'<ul class="bounds">{items}</ul>'
    )


def _charts(release: Release, truth: FloatArray | None) -> str:
    figures: list[str] = []
    start = 0
    for table in release.tables:
        if len(figures) < _MOST_CHARTS:
            svg = table_chart(release, table, start, truth)
            if svg is not None:
                figures.append(_figure(release, table, start, svg))
        start += table.queries
    left = sum(1 for table in release.tables if table.axes) - len(figures)
    more = f'<p class="quiet">{left} more tables are in the answers below.</p>' if left > 0 else ""
    return "".join(figures) + more


def _figure(release: Release, table: ReleasedTable, start: int, svg: str) -> str:
    part = slice(start, start + table.queries)
    std, hidden = release.std[part], int(np.isnan(release.answers[part]).sum())
    std = std[~np.isnan(std)]
    note = f"{table.queries:,} answers" + (f", {hidden:,} left out" if hidden else "")
    if std.size:
        unit = " people" if table.unit == PEOPLE else ""
        note += f", standard error {std.min():,.1f} to {std.max():,.1f}{unit}"
    return (
        f"<figure>{svg}<figcaption><b>{escape(table.name)}</b>{escape(note)}</figcaption></figure>"
    )


def _error_section(release: Release, truth: FloatArray) -> str:
    shown = ~np.isnan(release.answers + release.std)
    if not shown.any():
        return ""
    inside, together = (
        ((lower <= truth) & (truth <= upper))[shown]
        for lower, upper in (release.intervals.each, release.intervals.all)
    )
    verdict = (
        "all of them" if together.all() else "not all of them, as happens once in twenty releases"
    )
    return (
        "<h2>Is the forecast right?</h2><div class='charts'><figure>"
        + agreement_chart(release.answers[shown], truth[shown])
        + "<figcaption><b>Private against true</b>Every answer of at least one person; on the "
        + "line, the two agree.</figcaption></figure><figure>"
        + errors_chart(release.std[shown], (release.answers - truth)[shown])
        + "<figcaption><b>Errors against their forecast</b>"
        + f"{inside.mean():.1%} of the true counts lie in their own 95 % interval; the "
        + f"simultaneous intervals hold {verdict}. The curve is the Gaussian law they should "
        + "follow.</figcaption></figure></div>"
    )


def _answers(release: Release) -> str:
    rows = []
    names = np.repeat([t.name for t in release.tables], [t.queries for t in release.tables])
    lower, upper = release.intervals.each
    for i in range(min(len(release), _MOST_ROWS)):
        ends = "" if np.isnan(lower[i]) else f"{lower[i]:,.1f} … {upper[i]:,.1f}"
        answer = "left out" if np.isnan(release.answers[i]) else f"{release.answers[i]:,.1f}"
        std = "" if np.isnan(release.std[i]) else f"{release.std[i]:,.1f}"
        cells = [str(names[i]), release.labels[i], answer, std, ends]
        if release.is_changed:
            cells.append(f"{release.unbiased.answers[i]:,.1f} ± {release.unbiased.std[i]:,.1f}")
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    more = len(release) - len(rows)
    tail = f'<p class="quiet">and {more:,} more in the file of answers.</p>' if more > 0 else ""
    beside = "<th>unbiased</th>" if release.is_changed else ""
    return (
        "<table><thead><tr><th>table</th><th>query</th><th>answer</th><th>std. error</th>"
        f"<th>95 % interval</th>{beside}</tr></thead><tbody>{''.join(rows)}</tbody></table>{tail}"
    )
