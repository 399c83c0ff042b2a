"""Charts of released tables as inline SVG: nothing is fetched when a page is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewright.planning.plan import ReleasedTable
from noisewright.planning.release import Release
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import PEOPLE
from noisewright.workload.table_axes import Axis

if TYPE_CHECKING:
    import altair as alt

    from noisewright.central.mechanism import Integers
    from noisewright.planning.running import StreamRelease

INK, MUTED, PRIVATE, TRUTH = "#1c2430", "#6b7685", "#2563c9", "#d9772b"
_MOST_LABELS = 60
_WIDTH, _HEIGHT = 520, 260
_Row = dict[str, str | float | None]  # None: left out, or not known


def table_chart(
    release: Release, table: ReleasedTable, start: int, truth: FloatArray | None
) -> str | None:
    """A chart of one table as SVG: a line for a CDF, dots with intervals, or a heat map.

    None for tables that no chart fits, or of which every answer is left out.
    """
    part = slice(start, start + table.queries)
    kinds = [axis.kind for axis in table.axes]
    if np.isnan(release.answers[part]).all():
        return None
    if len(kinds) == 1 and table.queries <= _MOST_LABELS and kinds[0] != "range":
        rows = _rows(release, table, part, truth)
        chart = _intervals(rows, table.axes[0], table.unit)
        if truth is not None:
            chart = _with_differences(chart, rows, table.axes[0])
    elif len(kinds) == 2 and max(len(axis.labels) for axis in table.axes) <= _MOST_LABELS:
        chart = _heat(release, table, part)
    else:
        return None
    return _svg(chart)


def _rows(
    release: Release, table: ReleasedTable, part: slice, truth: FloatArray | None
) -> list[_Row]:
    """What is drawn of each answer."""
    (axis,) = table.axes
    lower, upper = release.intervals.all
    columns = {"answer": release.answers, "low": lower, "high": upper}
    if truth is not None:
        columns |= {"truth": truth, "difference": release.answers - truth}
        columns["low_difference"] = lower - release.answers
        columns["high_difference"] = upper - release.answers
    values = {name: _plain(column[part]) for name, column in columns.items()}
    return [
        {"label": label, **{name: column[k] for name, column in values.items()}}
        for k, label in enumerate(axis.labels)
    ]


def _plain(values: FloatArray) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def _base(rows: list[_Row], axis: Axis) -> alt.Chart:
    import altair as alt

    x = alt.X("label:N", sort=list(axis.labels), title=_axis_title(axis))
    return alt.Chart(alt.Data(values=rows)).encode(x=x)


def _intervals(rows: list[_Row], axis: Axis, unit: str) -> alt.LayerChart:
    """A line in its band for a CDF, else dots on their intervals; ticks where truth is known."""
    import altair as alt

    base = _base(rows, axis)
    y = alt.Y("low:Q", title=unit, axis=alt.Axis(format="~s"))
    if axis.kind == "cumulative":
        band = base.mark_area(opacity=0.22, color=PRIVATE)
        answers = base.mark_line(color=PRIVATE, strokeWidth=2.2)
    else:
        y = y.scale(zero=True)
        band = base.mark_rule(color=PRIVATE, strokeWidth=2)
        answers = base.mark_point(filled=True, size=55, color=PRIVATE, opacity=1)
    layers = [band.encode(y=y, y2="high:Q"), answers.encode(y="answer:Q")]
    if "truth" in rows[0]:
        layers.append(base.mark_tick(color=TRUTH, thickness=2.4, size=15).encode(y="truth:Q"))
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)


def _with_differences(chart: alt.LayerChart, rows: list[_Row], axis: Axis) -> alt.VConcatChart:
    """The chart above, and below it how far private and true answers are apart."""
    import altair as alt

    base = _base(rows, axis)
    y = alt.Y("low_difference:Q", title="private − true", axis=alt.Axis(tickCount=4))
    band = base.mark_area(opacity=0.16, color=PRIVATE, interpolate="step")
    zero = base.mark_line(color=TRUTH, strokeWidth=1.6).encode(y=alt.datum(0))
    dots = base.mark_point(filled=True, size=38, color=PRIVATE, opacity=1).encode(y="difference:Q")
    strip = alt.layer(band.encode(y=y, y2="high_difference:Q"), zero, dots)
    strip = strip.properties(width=_WIDTH, height=90)
    return alt.vconcat(chart.properties(height=190), strip, spacing=8)


def _heat(release: Release, table: ReleasedTable, part: slice) -> alt.Chart:
    import altair as alt

    first, second = table.axes
    least = 0.0 if table.unit == PEOPLE else -np.inf
    answers = _plain(np.maximum(release.answers[part], least))
    places = [(a, b) for a in first.labels for b in second.labels]
    rows = [{"a": a, "b": b, "answer": n} for (a, b), n in zip(places, answers, strict=True)]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke="white", strokeWidth=0.6)
        .encode(
            x=alt.X("b:N", sort=list(second.labels), title=_axis_title(second)),
            y=alt.Y("a:N", sort=list(first.labels), title=_axis_title(first)),
            color=alt.Color(
                "answer:Q",
                scale=alt.Scale(scheme="blues"),
                legend=alt.Legend(format="~s", title=table.unit, gradientLength=150),
            ),
        )
        .properties(
            width=int(np.clip(420 // len(second.labels), 26, 70)) * len(second.labels),
            height=max(18, min(34, 130 // len(first.labels))) * len(first.labels),
        )
    )


def stream_chart(release: StreamRelease, chosen: Integers) -> str:
    """A running count in the band that holds all steps at once, at the steps chosen."""
    import altair as alt

    columns = {"step": release.steps, "answer": release.answers}
    columns |= {"low": release.lower_all, "high": release.upper_all}
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(*(column[chosen].tolist() for column in columns.values()), strict=True)
    ]
    x = alt.X("step:Q", title="step", axis=alt.Axis(format="~s", tickMinStep=1))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x.scale(nice=False, zero=False))
    y = alt.Y("low:Q", title=f"{PEOPLE} so far", axis=alt.Axis(format="~s")).scale(nice=False)
    alone = len(rows) == 1
    band = base.mark_rule(color=PRIVATE) if alone else base.mark_area(opacity=0.22, color=PRIVATE)
    line = base.mark_point(color=PRIVATE) if alone else base.mark_line(color=PRIVATE)
    layers = [band.encode(y=y, y2="high:Q"), line.encode(y="answer:Q")]
    return _svg(alt.layer(*layers).properties(width=2 * _WIDTH, height=_HEIGHT + 60))


def _axis_title(axis: Axis) -> str:
    return f"{axis.name}, up to" if axis.kind == "cumulative" else axis.name


def agreement_chart(answers: FloatArray, truth: FloatArray) -> str:
    """Every private answer against the true count, both on a log scale from one person up."""
    import altair as alt

    shown = (answers >= 1) & (truth >= 1)
    rows = [
        {"true": float(t), "private": float(a)}
        for a, t in zip(answers[shown], truth[shown], strict=True)
    ]
    scale = alt.Scale(type="log", domain=[1, float(max(truth.max(), answers.max()))])
    axis = alt.Axis(format="~s", tickCount=5)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("true:Q", scale=scale, axis=axis, title="true count"),
        y=alt.Y("private:Q", scale=scale, axis=axis, title="private answer"),
    )
    dots = base.mark_point(filled=True, size=14, color=PRIVATE, opacity=0.45)
    same = base.mark_line(color=TRUTH, strokeWidth=1.3).encode(y=alt.Y("true:Q", scale=scale))
    return _svg(alt.layer(same, dots).properties(width=_WIDTH - 60, height=300))


def errors_chart(predicted: FloatArray, observed: FloatArray) -> str:
    """Standardised errors of a release whose truth is known, against the law they should follow."""
    import altair as alt

    z = observed / predicted
    edges = np.linspace(-4, 4, 33)
    counts, _ = np.histogram(np.clip(z, -3.999, 3.999), edges)
    middles = (edges[:-1] + edges[1:]) / 2
    expected = len(z) * 0.25 * np.exp(-(middles**2) / 2) / np.sqrt(2 * np.pi)
    rows = [
        {"z": float(m), "count": int(c), "expected": float(e)}
        for m, c, e in zip(middles, counts, expected, strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("z:Q", title="error / its standard error", axis=alt.Axis(values=list(range(-4, 5))))
    )
    bars = base.mark_bar(color=PRIVATE, opacity=0.35, size=13).encode(
        y=alt.Y("count:Q", title="answers")
    )
    curve = base.mark_line(color=INK, strokeWidth=1.6, interpolate="monotone").encode(
        y="expected:Q"
    )
    return _svg(alt.layer(bars, curve).properties(width=_WIDTH - 60, height=300))


def styled(chart: alt.TopLevelMixin, background: str = "transparent") -> alt.TopLevelMixin:
    """The look that all charts share."""
    plain = chart.configure(
        font="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
        background=background,
    )
    return plain.configure_axis(
        labelColor=MUTED,
        titleColor=INK,
        titleFontWeight="normal",
        gridColor="#e7eaef",
        domainColor="#c6ccd5",
        tickColor="#c6ccd5",
        labelLimit=150,
    ).configure_view(stroke=None)


def _svg(chart: alt.TopLevelMixin) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(styled(chart).to_json(), vl_version="6.4")).strip()
