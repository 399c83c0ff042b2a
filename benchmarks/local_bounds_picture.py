"""Draws docs/pictures/bounds.svg: a plan's people over the people that each kind of proof asks for.

python benchmarks/local_bounds_picture.py [WORKLOAD ...]

One point per budget and kind of proof; those that prove nothing are left out. Small workloads, so
that it takes a minute or two.
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt

import noisewright as nw
from noisewright.local.bounds.floors import floors
from noisewright.planning.local.make import plan_local
from noisewright.workload.base import Workload

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
BUDGETS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
NAMED = ("prefix:16", "prefix:4*prefix:4", "random:5x16:0")
KINDS = {
    "trace": "trace",
    "prior": "prior",
    "order": "order",
    "tables": "tables",
    "own": "sets or cuts",
}
COLOURS = ["#8c959f", "#bf8700", "#1a7f37", "#8250df", "#0969da"]
LARGEST = 3.0


Point = dict[str, object]


def points(workload: Workload, epsilon: float) -> list[Point]:
    """The ratio of a plan to every floor."""
    plan = plan_local(
        workload, nw.Privacy(epsilon=epsilon), nw.Local(effort="normal", cache=False)
    )
    worst = plan.analysis.worst_case
    ratios = {
        bound.name: bound.ratio(worst)
        for bound in floors(workload, epsilon, plan.analysis.gram)
    }
    best = plan.certificate
    if plan.proof is not None and best is not None:
        ratios["own"] = best.ratio(worst)
    return [
        {"epsilon": epsilon, "ratio": ratio, "proof": KINDS[name]}
        for name, ratio in ratios.items()
        if ratio is not None and ratio <= LARGEST
    ]


def panel(text: str, rows: list[Point], kinds: list[str]) -> alt.Chart:
    """All budgets of a workload."""
    colours = [COLOURS[list(KINDS.values()).index(kind)] for kind in kinds]
    return (
        alt.Chart(alt.InlineData(values=rows), width=235, height=210, title=text)
        .mark_line(point=True, strokeWidth=2)
        .encode(
            alt.X("epsilon:Q", title="ε", scale=alt.Scale(domain=[0, 6])),
            alt.Y("ratio:Q", title=None, scale=alt.Scale(type="log", domain=[1, LARGEST]),
                  axis=alt.Axis(values=[1, 1.1, 1.25, 1.5, 2, 3], format="~g")),
            alt.Color("proof:N", title="proof by", legend=alt.Legend(orient="top"),
                      scale=alt.Scale(domain=kinds, range=colours)),
        )
    )  # fmt: skip


def main() -> None:
    """Draw and print."""
    rows: dict[str, list[Point]] = {}
    for text in sys.argv[1:] or NAMED:
        rows[text] = [
            p for epsilon in BUDGETS for p in points(nw.workload(text), epsilon)
        ]
        for row in rows[text]:
            print(
                f"{text:<20} ε = {row['epsilon']:<4} {row['proof']:<13} {row['ratio']:.4f}"
            )
    present = {row["proof"] for some in rows.values() for row in some}
    kinds = [kind for kind in KINDS.values() if kind in present]
    chart = alt.hconcat(*(panel(text, rows[text], kinds) for text in rows), spacing=28)
    title = alt.TitleParams(
        "People a plan needs, over the people that are proved to be needed",
        subtitle="by kind of proof; 1 would be the exact optimum, proved",
        anchor="start",
    )
    chart = chart.properties(title=title).configure_view(stroke=None)
    chart = chart.configure_axis(gridColor="#eceff3", labelFontSize=11)
    chart.save(str(PICTURES / "bounds.svg"))


if __name__ == "__main__":
    main()
