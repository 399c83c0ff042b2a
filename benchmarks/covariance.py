"""Second moments of 100 columns, unit rows, ε = 1, replace-one: errors by the number of people.

    python benchmarks/covariance.py               # the tables
    python benchmarks/covariance.py --pictures    # and the picture of docs/pictures

Three rates of [004], with k = d² entries: noise in the shape of a ball needs about k/(εα) people
for a Frobenius error of α, noise in the shape of what rows can do √k·w/(εα), and after a projection
w²/(εα²) are enough where that is less; w, about 2√d, is the width of the possible matrices. For k
queries over n cells w² is about log n per query, which gives the rates k/(εα), √(k log n)/(εα) and
log n/(εα²). Where each takes over is measured here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import noisewright as nw
from noisewright.central.geometry.second_moments import GRID, SecondMoments
from noisewright.estimate.moments import above_noise, possible_moments

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "covariance.svg"
COLUMNS, DRAWS = 100, 3
PRIVACY = nw.Privacy(1.0, neighbours="replace-one")
BALL, MEASURED = "ball", "Wishart difference"
PROJECTED, DENOISED, NO_DATA = "projected", "denoised", "no data"
COLOURS = {
    BALL: "#a8b1bd", MEASURED: "#1f6feb", PROJECTED: "#d97706", DENOISED: "#1a7f37",
    NO_DATA: "#6e7781",
}  # fmt: skip


def factors(kind: str) -> np.ndarray:
    """Columns whose outer products add up to the second moment of a population, of trace one."""
    if kind == "spiked":
        shares = np.full(COLUMNS, 0.2 / (COLUMNS - 3))
        shares[:3] = np.array([0.45, 0.25, 0.1])
    elif kind == "one direction":
        shares = np.zeros(COLUMNS)
        shares[0] = 1.0
    else:
        shares = np.full(COLUMNS, 1 / COLUMNS)
    turned = np.linalg.qr(np.random.default_rng(5).standard_normal((COLUMNS, COLUMNS)))[
        0
    ]
    return np.asarray(turned * np.sqrt(shares))


def errors(kind: str, people: float, rng: np.random.Generator) -> dict[str, float]:
    """Frobenius errors over draws of noise; the population is the data."""
    method = SecondMoments(COLUMNS, 1.0, 0.0, PRIVACY)
    root = factors(kind)
    truth = root @ root.T
    scale = float(method.scale) / GRID**2 / people
    spectrum = method.spectrum / people
    sums: dict[str, list[float]] = {MEASURED: [], PROJECTED: [], DENOISED: []}
    for _ in range(DRAWS):
        g, h = rng.standard_normal((2, COLUMNS + 1, COLUMNS))
        noisy = truth + scale * (g.T @ g - h.T @ h)
        for name, own in (
            (MEASURED, noisy),
            (PROJECTED, possible_moments(noisy, 1.0)),
            (DENOISED, above_noise(noisy, spectrum, 1.0)),
        ):
            sums[name].append(float(((own - truth) ** 2).sum()))
    told = {name: float(np.sqrt(np.mean(own))) for name, own in sums.items()}
    # of the symmetric matrix; two rows differ by √2 at most
    k = COLUMNS * (COLUMNS + 1) // 2
    told[BALL] = float(np.sqrt(2 * k * (k + 1))) / people
    told[NO_DATA] = float(np.linalg.norm(truth - np.eye(COLUMNS) / COLUMNS))
    return told


def crossing(people: np.ndarray, first: np.ndarray, second: np.ndarray) -> float | None:
    """The number of people from which `first` is below `second` no more; None where it stays so."""
    gaps = np.log(first) - np.log(second)
    places = np.flatnonzero((gaps[:-1] < 0) & (gaps[1:] >= 0))
    if not len(places):
        return None
    i = int(places[-1])
    share = gaps[i] / (gaps[i] - gaps[i + 1])
    return float(np.exp(np.log(people[i]) + share * np.log(people[i + 1] / people[i])))


def main() -> None:
    rng = np.random.default_rng(7)
    grid = 10 ** np.arange(1.5, 6.76, 0.25)
    rows: list[dict[str, Any]] = []
    for kind in ("spiked", "one direction", "even"):
        told = [errors(kind, people, rng) for people in grid]
        by = {name: np.array([own[name] for own in told]) for name in told[0]}
        for i in range(0, len(grid), 4):
            text = ", ".join(f"{name} {by[name][i]:.4g}" for name in COLOURS)
            print(f"{kind}, {grid[i]:,.0f} people: {text}")
        # Without a projection errors fall as 1/N; projected ones as 1/√N where people are few.
        half = crossing(grid, by[PROJECTED], 0.9 * by[MEASURED])
        least = crossing(grid, by[NO_DATA], np.minimum(by[PROJECTED], by[DENOISED]))
        slopes = np.diff(np.log(by[PROJECTED])) / np.diff(np.log(grid))
        few = slopes[(grid[1:] < (half or grid[-1])) & (grid[:-1] > (least or grid[0]))]
        slope = f"{few.mean():.2f}" if len(few) else "unknown"
        first = f"{kind}: worth its noise from {least or grid[0]:,.0f} people"
        print(
            f"{first}; projections gain 10 % up to {half or grid[-1]:,.0f}, at a rate of N^{slope}"
        )
        rows += [
            {"people": float(n), "kind": kind, "way": name, "error": float(by[name][i])}
            for name in by
            for i, n in enumerate(grid)
        ]
    alone = nw.plan(nw.Moments(COLUMNS, means=False, missing="zero"), PRIVACY).errors(
        1
    )["second_moment"]
    both = nw.plan(nw.Moments(COLUMNS, missing="zero"), PRIVACY).errors(1)
    print(f"N × error before projection: {alone:,.1f}")
    halves = both["covariance_by_halves"]
    print(
        f"N × worst error of covariances: {both['covariance']:,.0f}; in halves {halves:,.0f}"
    )
    released(rng)
    if "--pictures" in sys.argv:
        picture(rows)


def released(rng: np.random.Generator) -> None:
    """Spiked people, released in full: rows, grid and exact noise."""
    plan = nw.plan(nw.Moments(COLUMNS, means=False, missing="zero"), PRIVACY)
    root = factors("spiked")
    for power in (3, 4, 5, 6):
        exact, truth = 0, np.zeros((COLUMNS, COLUMNS))
        for _ in range(max(1, 10**power // 10**5)):
            rows = rng.standard_normal((min(10**power, 10**5), COLUMNS)) @ root.T
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            exact, truth = (
                exact + plan.mechanism.exact([rows])[0],
                truth + rows.T @ rows,
            )
        release, truth = plan.noisy((exact, 10**power)), truth / 10**power
        ways = release.second_moment, release.projected, release.denoised
        told = " ".join(f"{np.linalg.norm(own - truth):.5f}" for own in ways)
        print(
            f"10^{power} spiked people released, measured, projected, denoised: {told}"
        )


def picture(rows: list[dict[str, Any]]) -> None:
    """Errors by the number of people, a panel for every population."""
    import altair as alt

    colour = alt.Color("way:N", title=None, sort=list(COLOURS),
                       scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
                       legend=alt.Legend(orient="bottom", symbolType="stroke"))  # fmt: skip
    ticks = [100, 10_000, 1_000_000]
    x = alt.X(
        "people:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=ticks, format=",")
    )
    y = alt.Y("error:Q", scale=alt.Scale(type="log", domain=[1e-3, 10], clamp=True),
              title="Frobenius error", axis=alt.Axis(values=[1e-3, 1e-2, 1e-1, 1, 10]))  # fmt: skip
    panels = []
    for kind in ("spiked", "one direction", "even"):
        own = [
            row for row in rows if row["kind"] == kind and 1e-3 <= row["error"] <= 10
        ]
        lines = alt.Chart(alt.Data(values=own)).mark_line(strokeWidth=2, clip=True)
        title = alt.TitleParams(f"{kind} population", anchor="start")
        drawn = lines.encode(x=x, y=y, color=colour)
        panels.append(drawn.properties(width=230, height=230, title=title))
    below = "100 columns, unit rows, ε = 1, replace-one; noise falls as 1/N"
    chart = alt.hconcat(*panels, spacing=28).properties(
        title=alt.TitleParams(
            "Second moments: what a projection gains", subtitle=below, anchor="start"
        )
    )
    styled = chart.configure_view(stroke=None).configure_axis(
        gridColor="#eceff3", labelFontSize=11
    )
    styled.configure_title(fontSize=14, subtitleFontSize=11).save(str(PICTURE))


if __name__ == "__main__":
    main()
