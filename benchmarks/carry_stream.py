"""Pure running counts: carry noise against trees with negative digits, 2^6 to 2^20 steps.

    python benchmarks/carry_stream.py             # the table
    python benchmarks/carry_stream.py --pictures  # and the pictures of docs/pictures

Root mean square errors over all steps at ε = 1. The tree (Andersson, Pagh, Steiner, Torkamani, FORC
2025) has the best number of children for each length; carry noise has as many levels as is best.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import noisewright as nw
from noisewright.central.carry.stream import CarryStreamMechanism

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles.signed_tree import best_tree_error

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
PURE = nw.Privacy(epsilon=1)
CORE = 3.0  # half its width, in scales of the noise
CARRY, LAPLACE = "carry noise", "Laplace on every cell"
STRATEGY, TREE = "best Laplace strategy", "tree with negative digits"
COLOURS = {CARRY: "#1f6feb", LAPLACE: "#a8b1bd", STRATEGY: "#d97706", TREE: "#6e7781"}


def lengths() -> list[dict[str, object]]:
    """One row per length and method."""
    rows: list[dict[str, object]] = []
    print(f"{'steps':>9s} {'carry':>8s} {'levels':>6s} {'tree':>8s} {'ratio':>6s}")
    for power in range(6, 21):
        plan = nw.plan(nw.RunningCount(2**power), PURE)
        assert isinstance(plan.mechanism, CarryStreamMechanism)
        carry, tree = (
            float(np.sqrt(np.mean(plan.mechanism.errors**2))),
            best_tree_error(2**power),
        )
        levels = len(plan.mechanism.levels)
        print(f"{2**power:9d} {carry:8.3f} {levels:6d} {tree:8.3f} {carry / tree:6.3f}",
              flush=True)  # fmt: skip
        rows.append({"steps": 2**power, "error": carry, "noise": CARRY})
        rows.append({"steps": 2**power, "error": tree, "noise": TREE})
    return rows


def laws(core: float) -> list[dict[str, object]]:
    """The density of Laplace noise, and of noise with a flat core: what is taken back, and not."""
    x = np.linspace(-7, 7, 281)
    flat = np.exp(-np.maximum(np.abs(x) - core, 0)) / (2 * core + 2)
    pairs = ((LAPLACE, np.exp(-np.abs(x)) / 2), (CARRY, flat))
    return [
        {
            "d": a,
            "density": b,
            "noise": n,
            "inside": b if n == CARRY and abs(a) <= core else None,
        }
        for n, p in pairs
        for a, b in zip(x, p, strict=True)
    ]


def shapes(core: float) -> list[dict[str, object]]:
    """Where the noise on two cells is as likely as at a distance of 1 and of 2 from its core."""
    rows: list[dict[str, object]] = []
    for t in (2.0, 1.0):
        diamond = [(t, 0.0), (0.0, t), (-t, 0.0), (0.0, -t)]
        ends = [(-core, core + t), (core, -core + t), (core + t, -core)]
        sheared = [(-core - t, core), *ends, (core, -core - t), (-core, core - t)]
        for name, corners in ((LAPLACE, diamond), (CARRY, sheared)):
            rows += [
                {"x": x, "y": y, "place": k, "noise": name, "ring": f"{name} {t}"}
                for k, (x, y) in enumerate([*corners, corners[0]])
            ]
    return rows


def by_step(steps: int) -> list[dict[str, object]]:
    """Standard errors of every running count."""
    strategy = (
        nw.plan(f"prefix:{steps}", PURE, nw.Central(mechanism="laplace-strategy"))
        .forecast()
        .std
    )
    alone = np.sqrt(2.0 * np.arange(1, steps + 1))
    carry = nw.plan(nw.RunningCount(steps), PURE).errors
    pairs = ((LAPLACE, alone), (STRATEGY, strategy), (CARRY, carry))
    return [
        {"step": k + 1, "error": float(v), "noise": name}
        for name, values in pairs
        for k, v in enumerate(values)
    ]


def named(places: dict[str, tuple[float, float]], x: str, y: str) -> Any:
    """The names of lines, written beside them in their colours."""
    import altair as alt

    rows = [{x: at[0], y: at[1], "noise": name} for name, at in places.items()]
    text = alt.Chart(alt.InlineData(values=rows)).mark_text(
        fontSize=12, fontWeight="bold", align="left"
    )
    return text.encode(alt.X(f"{x}:Q"), alt.Y(f"{y}:Q"), alt.Text("noise:N"), _colour())


def _colour() -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    return alt.Color("noise:N", scale=scale, legend=None)


def pictures(rows: list[dict[str, object]]) -> None:
    import altair as alt

    def title(text: str, below: str) -> Any:
        return alt.TitleParams(
            text, subtitle=below, anchor="start", subtitleColor="#57606a"
        )

    law = alt.Chart(
        alt.InlineData(values=laws(CORE)), width=310, height=230,
        title=title("One draw", "shaded: the core, taken back by the next draw"),
    )  # fmt: skip
    inside = alt.Chart(alt.InlineData(values=[r for r in laws(CORE) if r["inside"]]))
    density = inside.mark_area(color=COLOURS[CARRY], opacity=0.18).encode(
        alt.X("d:Q"), alt.Y("inside:Q")
    ) + law.mark_line(strokeWidth=2).encode(
        alt.X("d:Q", title="noise, in people (ε = 1)"),
        alt.Y("density:Q", title="density"),
        _colour(),
    )
    density += named({LAPLACE: (0.6, 0.42), CARRY: (2.2, 0.15)}, "d", "density")
    rings = alt.Chart(
        alt.InlineData(values=shapes(CORE)), width=250, height=230,
        title=title("Noise on two cells", "equally likely on each line; dashed: their sum is zero"),
    )  # fmt: skip
    axis = alt.Scale(domain=[-6, 6], nice=False)
    both = rings.mark_line(strokeWidth=2).encode(
        alt.X("x:Q", title="first cell", scale=axis),
        alt.Y("y:Q", title="second cell", scale=axis),
        _colour(),
        alt.Order("place:Q"),
        alt.Detail("ring:N"),
    )
    line = alt.Chart(
        alt.InlineData(values=[{"x": -5.8, "y": 5.8}, {"x": 5.8, "y": -5.8}])
    )
    both = (
        line.mark_line(strokeDash=[3, 4], color="#8c959f").encode(
            alt.X("x:Q"), alt.Y("y:Q")
        )
        + both
    )
    steps = by_step(64)
    errors = alt.Chart(
        alt.InlineData(values=steps), width=300, height=230,
        title=title("A running count of 64 steps", "standard error at every step"),
    )  # fmt: skip
    curves = errors.mark_line(strokeWidth=2).encode(
        alt.X("step:Q", title="step", scale=alt.Scale(domain=[1, 64], nice=False)),
        alt.Y("error:Q", title="people (ε = 1)"),
        _colour(),
    )
    curves += named(
        {LAPLACE: (24, 11), STRATEGY: (30, 6.7), CARRY: (36, 3.6)}, "step", "error"
    )
    _save(alt.hconcat(density, both, curves, spacing=36), "carry.svg")
    chart = (
        alt.Chart(
            alt.InlineData(values=rows), width=620, height=280,
            title=title("Running counts under pure privacy, ε = 1",
                        "root mean square error over all steps, in people"),
        )
        .mark_line(point=True, strokeWidth=2)
        .encode(
            alt.X("steps:Q", scale=alt.Scale(type="log", base=2, domain=[2**6, 2**20]),
                  title="steps",
                  axis=alt.Axis(values=[2**k for k in range(6, 21, 2)], format=",d")),
            alt.Y("error:Q", title=None),
            _colour(),
        )
    )  # fmt: skip
    names = named({TREE: (2**11.5, 25), CARRY: (2**17, 18)}, "steps", "error")
    _save(chart + names, "carry-stream.svg")


def _save(chart: Any, name: str) -> None:
    styled = chart.configure_view(stroke=None).configure_axis(
        gridColor="#eceff3", labelFontSize=11
    )
    styled.configure_title(fontSize=14, subtitleFontSize=11).save(str(PICTURES / name))


if __name__ == "__main__":
    table = lengths()
    if "--pictures" in sys.argv:
        pictures(table)
