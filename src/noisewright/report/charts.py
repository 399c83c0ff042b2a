"""Charts: private answers beside the truth about made-up people, mechanisms, and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import require
from noisewright.files import check_writable, replacing_file
from noisewright.solution import BoundClass

if TYPE_CHECKING:
    import altair as alt

    from noisewright.norm.approximate.approximate import ApproximateNorm
    from noisewright.norm.factorize import Factorization

INK = "#1c2430"
MUTED = "#6b7685"
PRIVATE = "#2563c9"
TRUTH = "#d9772b"
_WIDTH = 520
"""Of a chart in points: two of them fit beside each other on a page."""


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
        x=alt.X(
            "true:Q",
            scale=scale,
            axis=axis,
            title="true count",
        ),
        y=alt.Y(
            "private:Q",
            scale=scale,
            axis=axis,
            title="private answer",
        ),
    )
    dots = base.mark_point(
        filled=True,
        size=14,
        color=PRIVATE,
        opacity=0.45,
    )
    same = base.mark_line(color=TRUTH, strokeWidth=1.3)
    same = same.encode(y=alt.Y("true:Q", scale=scale))

    return _square(alt.layer(same, dots))


def errors_chart(predicted: FloatArray, observed: FloatArray) -> str:
    """Standardised errors of a release whose truth is known, beside the Gaussian law."""
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
    axis = alt.Axis(values=list(range(-4, 5)))
    x = alt.X("z:Q", title="error / its standard error", axis=axis)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    bars = base.mark_bar(color=PRIVATE, opacity=0.35, size=13)
    bars = bars.encode(y=alt.Y("count:Q", title="answers"))
    curve = base.mark_line(color=INK, strokeWidth=1.6, interpolate="monotone")
    curve = curve.encode(y="expected:Q")

    return _square(alt.layer(bars, curve))


def styled_chart(
    chart: alt.TopLevelMixin, background: str = "transparent"
) -> alt.TopLevelMixin:
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


def _square(chart: alt.LayerChart) -> str:
    """A chart in the form of a page's own pictures, as SVG."""
    import vl_convert

    sized = chart.properties(width=_WIDTH - 60, height=300)
    described = styled_chart(sized).to_json()
    return str(vl_convert.vegalite_to_svg(described, vl_version="6.4")).strip()


FORMATS = ("html", "svg", "png")


def check_chart(path: str) -> None:
    """Refuse, before any work, a chart that cannot be written or whose suffix names no format."""
    require(
        Path(path).suffix.removeprefix(".").lower() in FORMATS,
        "chart",
        path,
        f"must end in {', '.join(FORMATS)}",
        "try chart.svg",
    )
    check_writable(path, "chart")


def write_chart(chart: alt.TopLevelMixin, path: str) -> None:
    """Write a chart in the format of its suffix; a page of it fetches nothing."""
    kind = Path(path).suffix.removeprefix(".").lower()
    with replacing_file(path, "chart") as temporary:
        chart.save(
            str(temporary),
            format=kind,
            scale_factor=2,
            inline=kind == "html",
        )


def draw_comparison(
    values: Sequence[tuple[str, float, float | None]],
    least: float | None,
    bound_class: BoundClass | None,
    title: str,
    axis: str,
    path: str,
) -> None:
    """Write a chart of named values, smallest first, on a logarithmic axis, and the bound.

    Every value comes with its ratio to the bound for it, where there is one.
    """
    import altair as alt

    rows: list[dict[str, object]] = [
        {"mechanism": name, "value": value, "shown": _shown(value, ratio)}
        for name, value, ratio in sorted(values, key=lambda row: row[1])
    ]
    # A logarithm has no zero for a bar to start from, so values are dots.
    low, high = _range([value for _, value, _ in values] + ([least] if least else []))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    layers = _dots(rows, alt.X("value:Q", title=axis, scale=scale))
    if least:
        layers = [*_bound(least, f"bound: {bound_class}"), *layers]

    heading = alt.TitleParams(
        title,
        anchor="start",
        color=INK,
        fontSize=14,
        offset=18,
    )
    height = 24 * len(rows) + 16
    chart = alt.layer(*layers).properties(width=_WIDTH, height=height, title=heading)
    plain = styled_chart(chart, "white")
    named = plain.configure_axisY(grid=False, labelColor=INK, labelFontSize=12)
    write_chart(named, path)


def _dots(rows: Sequence[dict[str, object]], x: alt.X) -> list[alt.Chart]:
    """A dot for every value, and its figure beside it."""
    import altair as alt

    y = alt.Y("mechanism:N", sort=None, title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    dots = base.mark_point(
        filled=True,
        size=110,
        opacity=1,
        color=PRIVATE,
    )
    labels = base.mark_text(align="left", dx=10, color=INK)
    return [dots, labels.encode(text="shown:N")]


def _bound(least: float, name: str) -> list[alt.Chart]:
    """A line at the bound, and its name."""
    import altair as alt

    rule = alt.Chart(alt.Data(values=[{"least": least, "text": name}]))
    line = rule.mark_rule(strokeDash=[5, 4], color=TRUTH, strokeWidth=1.5)
    text = rule.mark_text(
        align="left",
        baseline="bottom",
        dx=3,
        color=TRUTH,
    )
    above = {"y": alt.value(-4), "text": "text:N"}
    return [line.encode(x="least:Q"), text.encode(x="least:Q", **above)]


def _range(values: list[float]) -> tuple[float, float]:
    """Ends of the axis, with room for labels to the right of the largest value."""
    low = min(values)
    high = max(values)
    spread = max(high / low, 2.0)
    return low / spread**0.08, high * spread**0.35


def _shown(value: float, ratio: float | None) -> str:
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{digits}  ({ratio:.2f} ×)" if ratio else digits


def draw_norms(results: Sequence[Factorization | ApproximateNorm], path: str) -> None:
    """Write a chart of value and bound against the norm, or against the size where it varies."""
    import altair as alt

    by_size = len({result.workload.size for result in results}) > 1
    rows: list[dict[str, object]] = []
    for result in results:
        row = {
            "cells": result.workload.size,
            "norm": f"{getattr(result, 'norm', math.inf):g}",
            "workload": result.workload.brief(),
        }
        rows.append({**row, "what": "value", "error": result.value})
        rows.append({**row, "what": "lower bound", "error": result.lower_bound})

    x = alt.X("norm:N", sort=None, title="norm of the error")
    if by_size:
        x = alt.X("cells:Q", scale=alt.Scale(type="log"), title="cells")

    scale = alt.Scale(zero=False)
    y = alt.Y("error:Q", scale=scale, title="error per unit of noise")
    color = alt.Color("norm:N" if by_size else "workload:N", sort=None)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=color)
    # Value and bound mostly coincide: hollow diamonds leave the dots on the line in sight.
    lines = base.transform_filter("datum.what == 'value'").mark_line()
    shapes = alt.Scale(domain=["value", "lower bound"], range=["circle", "diamond"])
    points = base.mark_point(size=90, strokeWidth=1.5).encode(
        shape=alt.Shape("what:N", scale=shapes, title=None)
    )
    write_chart(alt.layer(lines, points).properties(width=420, height=260), path)
