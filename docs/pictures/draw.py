"""Draw the pictures of the documentation; run it from the root of the repository.

    python docs/pictures/draw.py                # all of them
    python docs/pictures/draw.py epsilon.svg    # one

The pictures of carry noise are drawn by benchmarks/carry_stream.py, that of learning by
benchmarks/learning.py.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

import noisewright as nw
from noisewright.privacy.promise.spend import best_guess
from noisewright.report.charts import styled
from noisewright.solution import BoundClass

FOLDER = Path(__file__).parent
OURS, INK, MUTED = "#2158b8", "#1b2330", "#6b7685"
OTHERS = ("#b4530f", "#17803a", "#8a3ab9", "#8c6d1f")


def _title(text: str, below: str) -> alt.TitleParams:
    return alt.TitleParams(text, subtitle=below, anchor="start", subtitleColor=MUTED)


def _chart(
    rows: list[dict[str, Any]], title: str, below: str, width: int = 330
) -> alt.Chart:
    return alt.Chart(
        alt.InlineData(values=rows), width=width, height=250, title=_title(title, below)
    )


def _colour(field: str, colours: dict[str, str], **legend: Any) -> alt.Color:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=scale,
        legend=alt.Legend(
            orient="bottom", labelLimit=260, symbolType="stroke", **legend
        ),
    )


# --- README: errors with a curator, people without ------------------------------------------------

CURATOR = {
    "noise on every cell": OTHERS[0],
    "best Laplace strategy": OTHERS[1],
    "noisewright": OURS,
    "below this: no mechanism on its worst data": INK,
}


def curator_rows() -> list[dict[str, Any]]:
    """Errors of cumulative counts under pure ε = 1, as plans forecast them."""
    mechanisms = ("laplace-cells", "laplace-strategy", "carry")
    rows = []
    for cells in (8, 16, 32, 64, 128, 256):
        for name, mechanism in zip(CURATOR, mechanisms, strict=False):
            plan = nw.plan(
                f"prefix:{cells}", nw.Privacy(epsilon=1), mechanism=mechanism
            )
            rows.append({"cells": cells, "line": name, "error": plan.forecast().rmse})
        (widest,) = [
            bound.lower_bound
            for bound in plan.forecast().bounds
            if bound.bound_class is BoundClass.ANY_MECHANISM
        ]
        rows.append({"cells": cells, "line": list(CURATOR)[3], "error": widest})
    return rows


SURVEY = {
    "randomized response": "randomized-response (paper)",
    "Hadamard": "hadamard (paper)",
    "hierarchical": "hierarchical (paper)",
    "Fourier": "fourier (paper)",
    "noisewright": "optimised",
    "lower bound": "lower bound",
}
SHOWN = (
    "histogram",
    "prefix",
    "ranges",
    "all marginals",
    "3-way marginals",
    "parity 3",
)


def survey_rows() -> list[dict[str, Any]]:
    """People needed at ε = 1 over 512 cells, from the rows that `reproductions fig1` made."""
    names = {stored: name for name, stored in SURVEY.items()}
    with (FOLDER.parent / "reproduced" / "fig1.csv").open(encoding="utf-8") as file:
        return [
            {"workload": row["workload"], "line": names[row["mechanism"]],
             "people": float(row["people"])}
            for row in csv.DictReader(file)
            if row["epsilon"] == "1" and row["mechanism"] in names and row["workload"] in SHOWN
        ]  # fmt: skip


def readme() -> alt.TopLevelMixin:
    """What it is better at, with a curator and without."""
    left = _chart(
        curator_rows(), "With a curator", "error of cumulative counts, in people, pure ε = 1"
    ).encode(
        alt.X("cells:Q", scale=alt.Scale(type="log", base=2, nice=False), title="cells"),
        alt.Y("error:Q", title=None, scale=alt.Scale(type="log", domain=[1.5, 24], nice=False),
              axis=alt.Axis(values=[2, 3, 5, 8, 12, 20])),
        _colour("line", CURATOR, columns=2),
    )  # fmt: skip
    lines = left.mark_line(point=True, strokeWidth=2)
    colours = dict(zip(SURVEY, [*OTHERS, OURS, INK], strict=True))
    shapes = ["circle"] * 5 + ["stroke"]
    legend = alt.Legend(orient="bottom", columns=3)
    right = _chart(
        survey_rows(), "Without: each person randomises",
        "people for a variance of .01 a query, 512 cells, ε = 1",
    ).mark_point(size=70, strokeWidth=2.5).encode(
        alt.X("people:Q", scale=alt.Scale(type="log", nice=False, domain=[250, 1.2e7]), title=None,
              axis=alt.Axis(format="~s", values=[300, 1e3, 1e4, 1e5, 1e6, 1e7])),
        alt.Y("workload:N", sort=list(SHOWN), title=None),
        alt.Color("line:N", title=None, legend=legend,
                  scale=alt.Scale(domain=list(colours), range=list(colours.values()))),
        alt.Shape("line:N", title=None, legend=legend,
                  scale=alt.Scale(domain=list(colours), range=shapes)),
    )  # fmt: skip
    return alt.hconcat(lines, right, spacing=50).resolve_scale(
        color="independent", shape="independent"
    )


# --- What ε means ---------------------------------------------------------------------------------


def guesses() -> list[dict[str, Any]]:
    """The chance of the best guess about one bit of one person."""
    rows = []
    for epsilon in np.linspace(0.05, 6, 120).tolist():
        pure = best_guess(nw.plan("total:2", nw.Privacy(epsilon=epsilon)).spend)
        gaussian = nw.plan("total:2", nw.Privacy(epsilon=epsilon, delta=1e-9)).spend
        rows.append({"ε": epsilon, "line": "pure ε", "right": pure})
        rows.append({"ε": epsilon, "line": "(ε, 10⁻⁹) by Gaussian noise",
                     "right": best_guess(gaussian)})  # fmt: skip
    return rows


def beliefs() -> list[dict[str, Any]]:
    """The most that somebody can come to hold, by what they held before, under pure ε."""
    rows = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        for prior in np.linspace(0.005, 0.995, 100).tolist():
            odds = prior / (1 - prior) * float(np.exp(epsilon))
            rows.append(
                {
                    "before": prior,
                    "after": odds / (1 + odds),
                    "line": f"ε = {epsilon:g}",
                }
            )
    return rows


def epsilon() -> alt.TopLevelMixin:
    """Two readings of ε: the best guess from an even start, and what any belief can become."""
    percent = alt.Axis(format="%")
    colours = {"pure ε": OURS, "(ε, 10⁻⁹) by Gaussian noise": OTHERS[0]}
    left = _chart(
        guesses(), "Was this person in the table?", "how often the best guess is right"
    ).mark_line(strokeWidth=2).encode(
        alt.X("ε:Q"),
        alt.Y("right:Q", title=None, axis=percent, scale=alt.Scale(domain=[0.5, 1])),
        _colour("line", colours),
    )  # fmt: skip
    names = ["ε = 0.1", "ε = 0.5", "ε = 1", "ε = 2", "ε = 4"]
    shades = ["#9db7e0", "#6f95d2", "#2158b8", "#8a3ab9", "#b4530f"]
    right = _chart(
        beliefs(), "What a belief can become at most", "pure ε, whatever else is known",
    ).mark_line(strokeWidth=2).encode(
        alt.X("before:Q", title="held likely before", axis=percent),
        alt.Y("after:Q", title="after", axis=percent),
        _colour("line", dict(zip(names, shades, strict=True))),
    )  # fmt: skip
    return alt.hconcat(left, right, spacing=50).resolve_scale(color="independent")


# --- Factorizations -------------------------------------------------------------------------------


def _entries(name: str, matrix: np.ndarray) -> list[dict[str, Any]]:
    return [
        {"matrix": name, "row": i, "column": j, "entry": float(matrix[i, j])}
        for i, j in np.ndindex(*matrix.shape)
    ]


def factorization() -> alt.TopLevelMixin:
    """W = RA for cumulative counts: what is asked, what is measured, how it is put together."""
    workload = nw.workload("prefix:16")
    solved = nw.factorize(workload, norm=2)
    # Measurements may be turned without changing error or sensitivity; triangular ones are easiest
    # to read, since each is then about cells up to one of them.
    triangular = np.linalg.qr(np.asarray(solved.strategy)[:, ::-1])[1]
    strategy = triangular[::-1, ::-1]
    strategy = strategy * np.sign(np.diagonal(strategy))[:, None]
    asked = workload.dense()
    reconstruction = asked @ np.linalg.inv(strategy)
    value = np.sqrt((reconstruction**2).sum() / 16) * np.sqrt(
        (strategy**2).sum(axis=0).max()
    )
    plain = np.sqrt((asked**2).sum() / 16)
    parts = [
        ("W: what is asked", "16 cumulative counts of 16 cells", asked),
        ("A: what is measured", "noise is added to these", strategy),
        ("R: how answers are put together", "W = RA, so errors are R times the noise",
         reconstruction),
    ]  # fmt: skip
    largest = max(float(np.abs(matrix).max()) for _, _, matrix in parts)
    scale = alt.Scale(domain=[-largest, 0, largest], range=["#b4530f", "#ffffff", OURS],
                      interpolate="rgb")  # fmt: skip
    charts = [
        alt.Chart(alt.InlineData(values=_entries(name, matrix)), width=220, height=220,
                  title=_title(name, below))
        .mark_rect(stroke="#e7eaef", strokeWidth=0.5)
        .encode(
            alt.X("column:O", axis=None), alt.Y("row:O", axis=None),
            alt.Color("entry:Q", scale=scale, legend=alt.Legend(title=None, orient="bottom",
                      gradientLength=220, tickCount=4)),
        )
        for name, below, matrix in parts
    ]  # fmt: skip
    print(
        f"error per unit of noise: {value:.4f}; cells measured as they are: {plain:.4f}"
    )
    return alt.hconcat(*charts, spacing=40)


# --- Classes of bounds ----------------------------------------------------------------------------


def classes() -> alt.TopLevelMixin:
    """One plan and what four classes of methods cannot go below."""
    plan = nw.plan("prefix:64", nw.Privacy(rho=0.1))
    forecast = plan.forecast()
    bars = {"this plan": forecast.rmse, str(forecast.bound_class): forecast.lower_bound}
    bars |= {str(bound.bound_class): bound.lower_bound for bound in forecast.bounds}
    rows = [
        {"class": name, "error": error, "ours": name == "this plan"}
        for name, error in bars.items()
    ]
    chart = alt.Chart(
        alt.InlineData(values=rows), width=420, height=150,
        title=_title("Cumulative counts of 64 cells, ρ = 0.1",
                     "root mean square error in people, and what each class cannot go below"),
    ).encode(
        alt.X("error:Q", title=None, axis=alt.Axis(tickCount=6)),
        alt.Y("class:N", sort=list(bars), title=None, axis=alt.Axis(labelLimit=330)),
    )  # fmt: skip
    filled = chart.mark_bar(height=16).encode(
        alt.Color("ours:N", legend=None, scale=alt.Scale(domain=[True, False],
                  range=[OURS, "#b9c4d3"])),
    )  # fmt: skip
    return filled + chart.mark_text(align="left", dx=5, color=INK).encode(
        alt.Text("error:Q", format=".3f")
    )


PICTURES = {
    "readme.svg": readme,
    "epsilon.svg": epsilon,
    "factorization.svg": factorization,
    "classes.svg": classes,
}


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    for name in names or list(PICTURES):
        chart = styled(PICTURES[name](), "white").configure_title(
            fontSize=14, color=INK
        )
        text = vl_convert.vegalite_to_svg(chart.to_json(), vl_version="6.4")
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main(sys.argv[1:])
