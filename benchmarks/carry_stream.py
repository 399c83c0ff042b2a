"""Pure running counts: carry noise against trees with negative digits, 2^6 to 2^20 steps.

    python benchmarks/carry_stream.py             # the table
    python benchmarks/carry_stream.py --pictures  # and the pictures of docs/pictures

Root mean square errors over all steps at ε = 1. The tree (Andersson, Pagh, Steiner, Torkamani, FORC
2025) has the best number of children for each length; carry noise has as many levels as is best.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import noisewright as nw
from noisewright.privacy.flat_core import flat_core

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles.signed_tree import best_tree_error

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


class Seeded:
    """Reproducible bytes, for a picture alone."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        return self._rng.bytes(count)


def lengths() -> list[dict[str, object]]:
    """One row per length and method."""
    rows: list[dict[str, object]] = []
    print(f"{'steps':>9s} {'carry':>8s} {'levels':>6s} {'tree':>8s} {'ratio':>6s}")
    for power in range(6, 21, 2):
        plan = nw.plan_stream(2**power, nw.Privacy(epsilon=1))
        carry, tree = float(np.sqrt(np.mean(plan.errors**2))), best_tree_error(2**power)
        print(f"{2**power:9d} {carry:8.3f} {len(plan.levels):6d} {tree:8.3f} {carry / tree:6.3f}",
              flush=True)  # fmt: skip
        rows.append({"steps": 2**power, "error": carry, "method": "carry noise"})
        rows.append({"steps": 2**power, "error": tree, "method": "tree with negative digits"})
    return rows


def laws(core: float) -> list[dict[str, object]]:
    """The density of Laplace noise, and with a flat core."""
    x = np.linspace(-7, 7, 281)
    flat = np.exp(-np.maximum(np.abs(x) - core, 0)) / (2 * core + 2)
    pairs = (("Laplace", np.exp(-np.abs(x)) / 2), (f"flat core, c = {core:g}", flat))
    return [{"d": a, "density": b, "noise": n} for n, p in pairs for a, b in zip(x, p, strict=True)]


def walks(steps: int) -> list[dict[str, object]]:
    """Noise of running counts: sums of Laplace draws, and of draws that take back cores."""
    plan = nw.plan_stream(steps, nw.Privacy(epsilon=1))
    (level,) = plan.levels
    plain = np.cumsum(flat_core(1.0, np.zeros(steps, dtype=np.int64), Seeded(5)))
    draws = flat_core(1.0, level.cores, Seeded(5))
    inside = np.clip(draws, -level.cores, level.cores)
    carried = np.cumsum(draws - inside) + inside
    pairs = (("Laplace on every step", plain), ("carry noise", carried))
    return [
        {"step": k + 1, "error": int(v), "noise": name}
        for name, values in pairs
        for k, v in enumerate(values)
    ]


def pictures(rows: list[dict[str, object]]) -> None:
    import altair as alt

    colours = alt.Scale(range=["#b0b7c3", "#1f6feb"])
    density = (
        alt.Chart(alt.InlineData(values=laws(3.0)), width=300, height=220, title="One draw")
        .mark_line(strokeWidth=2)
        .encode(
            alt.X("d:Q", title="noise, in people (ε = 1)"),
            alt.Y("density:Q", title="density"),
            alt.Color("noise:N", scale=colours, sort=None, title=None,
                      legend=alt.Legend(orient="bottom")),
        )
    )  # fmt: skip
    walk = (
        alt.Chart(alt.InlineData(values=walks(64)), width=420, height=220,
                  title="Error of a running count of 64 steps")
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            alt.X("step:Q", title="step"),
            alt.Y("error:Q", title="error, in people"),
            alt.Color("noise:N", scale=colours, sort=None, title=None,
                      legend=alt.Legend(orient="bottom")),
        )
    )  # fmt: skip
    both = alt.hconcat(density, walk, spacing=40).resolve_scale(color="independent")
    styled = both.configure_view(stroke=None).configure_axis(gridColor="#eceff3")
    styled.save(str(PICTURES / "carry.svg"))
    chart = (
        alt.Chart(alt.InlineData(values=rows), width=560, height=260)
        .mark_line(point=True, strokeWidth=2)
        .encode(
            alt.X("steps:Q", scale=alt.Scale(type="log", base=2), title="steps",
                  axis=alt.Axis(values=[2**k for k in range(6, 21, 2)], format=",d")),
            alt.Y("error:Q", title="root mean square error, in people (ε = 1)"),
            alt.Color("method:N", scale=alt.Scale(range=["#1f6feb", "#b0b7c3"]), title=None,
                      legend=alt.Legend(orient="top-left")),
        )
        .configure_view(stroke=None)
        .configure_axis(gridColor="#eceff3")
    )  # fmt: skip
    chart.save(str(PICTURES / "carry-stream.svg"))


if __name__ == "__main__":
    table = lengths()
    if "--pictures" in sys.argv:
        pictures(table)
