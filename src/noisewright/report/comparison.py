"""Mechanisms side by side as a chart: one mark each, and a rule at the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisewright.errors import InvalidParameter
from noisewright.report.charts import INK, PRIVATE, TRUTH, styled
from noisewright.solution import BoundClass

FORMATS = ("html", "svg", "png")


def check_format(path: str) -> str:
    """The format that a file's suffix names."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise InvalidParameter("chart", path, f"must end in {', '.join(FORMATS)}", "try chart.svg")
    return suffix


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

    from noisewright.files import replacing

    rows = [
        {"mechanism": name, "value": value, "shown": _shown(value, ratio)}
        for name, value, ratio in sorted(values, key=lambda row: row[1])
    ]
    # A logarithm has no zero for a bar to start from, so values are dots.
    low, high = _range([value for _, value, _ in values] + ([least] if least else []))
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("value:Q", title=axis, scale=scale)
    y = alt.Y("mechanism:N", sort=None, title=None)
    base: Any = alt.Chart(alt.Data(values=rows)).encode(y=y)
    dots = base.mark_point(filled=True, size=110, opacity=1, color=PRIVATE).encode(x=x)
    labels = base.mark_text(align="left", dx=10, color=INK).encode(x=x, text="shown:N")
    layers = [dots, labels]
    if least:
        rule: Any = alt.Chart(alt.Data(values=[{"least": least, "text": f"bound: {bound_class}"}]))
        line = rule.mark_rule(strokeDash=[5, 4], color=TRUTH, strokeWidth=1.5)
        text = rule.mark_text(align="left", baseline="bottom", dx=3, color=TRUTH).encode(
            x="least:Q", y=alt.value(-4), text="text:N"
        )
        layers = [line.encode(x="least:Q"), text, *layers]
    heading = alt.TitleParams(title, anchor="start", color=INK, fontSize=14, offset=18)
    chart = alt.layer(*layers).properties(width=520, height=24 * len(rows) + 16, title=heading)
    chart = styled(chart, "white").configure_axisY(grid=False, labelColor=INK, labelFontSize=12)
    with replacing(path) as temporary:
        chart.save(str(temporary), format=check_format(path), scale_factor=2)


def _range(values: list[float]) -> tuple[float, float]:
    """Ends of the axis, with room for labels to the right of the largest value."""
    low, high = min(values), max(values)
    spread = max(high / low, 2.0)
    return low / spread**0.08, high * spread**0.35


def _shown(value: float, ratio: float | None) -> str:
    digits = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{digits}  ({ratio:.2f} ×)" if ratio else digits
