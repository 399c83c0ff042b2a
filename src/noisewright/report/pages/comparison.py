"""Mechanisms and norms side by side as charts, with the lower bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisewright.errors import InvalidParameter
from noisewright.files import check_writable, replacing
from noisewright.report.charts import INK, PRIVATE, TRUTH, styled
from noisewright.solution import BoundClass

if TYPE_CHECKING:
    import altair as alt

    from noisewright.norm.approximate.approximate import ApproximateNorm
    from noisewright.norm.factorize import Factorization

FORMATS = ("html", "svg", "png")


def check_chart(path: str) -> None:
    """Refuse, before any work, a chart that cannot be written or whose suffix names no format."""
    if Path(path).suffix.removeprefix(".").lower() not in FORMATS:
        raise InvalidParameter(
            "chart", path, f"must end in {', '.join(FORMATS)}", "try chart.svg"
        )
    check_writable(path, "chart")


def write_chart(chart: alt.TopLevelMixin, path: str) -> None:
    """Write a chart in the format of its suffix; a page of it fetches nothing."""
    kind = Path(path).suffix.removeprefix(".").lower()
    with replacing(path, "chart") as temporary:
        chart.save(str(temporary), format=kind, scale_factor=2, inline=kind == "html")


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

    rows = [
        {"mechanism": name, "value": value, "shown": _shown(value, ratio)}
        for name, value, ratio in sorted(values, key=lambda row: row[1])
    ]
    # A logarithm has no zero for a bar to start from, so values are dots.
    low, high = _range([value for _, value, _ in values] + ([least] if least else []))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("value:Q", title=axis, scale=scale)
    y = alt.Y("mechanism:N", sort=None, title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    dots = base.mark_point(filled=True, size=110, opacity=1, color=PRIVATE).encode(x=x)
    labels = base.mark_text(align="left", dx=10, color=INK).encode(x=x, text="shown:N")
    layers = [dots, labels]
    if least:
        rule = alt.Chart(
            alt.Data(values=[{"least": least, "text": f"bound: {bound_class}"}])
        )
        line = rule.mark_rule(strokeDash=[5, 4], color=TRUTH, strokeWidth=1.5)
        text = rule.mark_text(
            align="left", baseline="bottom", dx=3, color=TRUTH
        ).encode(x="least:Q", y=alt.value(-4), text="text:N")
        layers = [line.encode(x="least:Q"), text, *layers]

    heading = alt.TitleParams(title, anchor="start", color=INK, fontSize=14, offset=18)
    chart = alt.layer(*layers).properties(
        width=520, height=24 * len(rows) + 16, title=heading
    )
    chart = styled(chart, "white").configure_axisY(
        grid=False, labelColor=INK, labelFontSize=12
    )
    write_chart(chart, path)


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
    rows = [
        {
            "cells": result.workload.size,
            "norm": f"{getattr(result, 'norm', math.inf):g}",
            "workload": result.workload.brief(),
            "what": what,
            "error": error,
        }
        for result in results
        for what, error in (
            ("value", result.value),
            ("lower bound", result.lower_bound),
        )
    ]
    x = alt.X("norm:N", sort=None, title="norm of the error")
    if by_size:
        x = alt.X("cells:Q", scale=alt.Scale(type="log"), title="cells")

    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x,
        y=alt.Y(
            "error:Q", scale=alt.Scale(zero=False), title="error per unit of noise"
        ),
        color=alt.Color("norm:N" if by_size else "workload:N", sort=None),
    )
    # Value and bound mostly coincide: hollow diamonds leave the dots on the line in sight.
    lines = base.transform_filter("datum.what == 'value'").mark_line()
    shapes = alt.Scale(domain=["value", "lower bound"], range=["circle", "diamond"])
    points = base.mark_point(size=90, strokeWidth=1.5).encode(
        shape=alt.Shape("what:N", scale=shapes, title=None)
    )
    write_chart(alt.layer(lines, points).properties(width=420, height=260), path)
