"""Charts that set private answers beside the truth about made-up people, as inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray

if TYPE_CHECKING:
    import altair as alt

INK = "#1c2430"
MUTED = "#6b7685"
PRIVATE = "#2563c9"
TRUTH = "#d9772b"
_WIDTH = 520


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
    same = base.mark_line(color=TRUTH, strokeWidth=1.3).encode(
        y=alt.Y("true:Q", scale=scale)
    )

    return _svg(alt.layer(same, dots).properties(width=_WIDTH - 60, height=300))


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
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "z:Q",
            title="error / its standard error",
            axis=alt.Axis(values=list(range(-4, 5))),
        )
    )
    bars = base.mark_bar(color=PRIVATE, opacity=0.35, size=13).encode(
        y=alt.Y("count:Q", title="answers")
    )
    curve = base.mark_line(color=INK, strokeWidth=1.6, interpolate="monotone").encode(
        y="expected:Q"
    )

    return _svg(alt.layer(bars, curve).properties(width=_WIDTH - 60, height=300))


def styled(
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


def _svg(chart: alt.TopLevelMixin) -> str:
    import vl_convert

    return str(
        vl_convert.vegalite_to_svg(styled(chart).to_json(), vl_version="6.4")
    ).strip()
