"""All parities of at most 3 of 14 bits (16,384 cells, ε = 1, replace-one): what few people allow.

    python benchmarks/projection.py               # the table
    python benchmarks/projection.py --bits 10     # fewer cells
    python benchmarks/projection.py --pictures    # and the picture of docs/pictures

The mechanism with the best forecast beside the best in simulation, at three kinds of histograms;
forecasts are made at that kind, simulations at other draws of people and noise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import noisewright as nw
from noisewright.central.geometry.balls import BallMechanism
from noisewright.central.geometry.fitted_plans import sketch_candidates
from noisewright.central.geometry.hardt_talwar import best_balls, whole_queries
from noisewright.central.mechanism import Given
from noisewright.central.registry import CENTRAL
from noisewright.estimate.nearest import AnswerSpace, Possible
from noisewright.planning.central.problems import central_problem
from noisewright.workload import workload as as_workload
from noisewright.workload.structure import terms

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles.mwem import mwem

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "projection.svg"
PRIVACY = nw.Privacy(1.0, neighbours="replace-one")
PEOPLE = (100, 1000, 10_000)
KINDS = ("even", "ranked", "few cells")
DRAWS = 2
CLOSE = 0.05  # of the noise, as in a plan: nearer than this, a fit is not improved
NO_DATA, MWEM = "no data", "MWEM"
COLOURS = {
    "Laplace on cells": "#a8b1bd", "projected in cells": "#1f6feb", "in answers": "#7cb1ff",
    "JL": "#d97706", NO_DATA: "#6e7781", MWEM: "#b4458a", "one ball": "#e3c08a",
}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """Noise on what is measured, and the histograms nearest to it; None answers as measured."""

    noise: Callable[[int, np.random.Generator], np.ndarray]
    exact: Callable[[np.ndarray], np.ndarray]
    nearest: Callable[[np.ndarray, Possible], np.ndarray] | None

    def errors(
        self, asked: nw.Workload, people: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Errors of all answers, a row for every draw of noise."""
        noise = self.noise(DRAWS, rng)
        if self.nearest is None:
            return noise
        fits = self.nearest(self.exact(people) + noise, Possible(people.sum()))
        return np.asarray(asked.matvec((fits - people).T).T)


def ways(asked: nw.Workload) -> dict[str, list[Way]]:
    """Every mechanism by name; of JL one for every number of rows."""
    problem = central_problem(asked, PRIVACY, nw.Central())
    sizes, every = problem.sizes, as_workload(f"identity:{asked.size}")
    inner = CENTRAL["laplace-cells"].plan(problem).mechanism
    cells = inner.accuracy(terms(every, sizes))

    def in_answers(
        measured: nw.Workload,
        draw: Callable[[int, np.random.Generator], np.ndarray],
        size: float,
    ) -> Way:
        space = AnswerSpace(measured)

        def nearest(noisy: np.ndarray, possible: Possible) -> np.ndarray:
            return space.nearest(noisy, possible, CLOSE * size)[0]

        return Way(draw, measured.matvec, nearest)

    def on_answers(count: int, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(asked.matvec(cells.draw(count, rng).T).T)

    spread = float(np.sqrt(inner.accuracy(problem.terms).variance.sum()))
    result = {
        "Laplace on cells": [Way(on_answers, asked.matvec, None)],
        "projected in cells": [Way(cells.draw, lambda x: x, lambda y, p: p.nearest(y))],
        "in answers": [in_answers(asked, on_answers, spread)],
        "JL": [],
    }
    matrix = whole_queries(problem)
    assert matrix is not None
    for rows in sketch_candidates(matrix, 128):
        if len(rows) < 32:
            continue
        whole = len(rows) == len(matrix)
        # Parities vary alike in all directions: of all of them, one ball is the best.
        one = BallMechanism(sizes, (rows,), (1.0,), PRIVACY) if whole else None
        balls = one or best_balls(sizes, PRIVACY, rows)
        measured = asked if whole else as_workload(rows.astype(np.float64))
        accuracy = balls.accuracy(terms(measured, sizes))
        size = float(np.sqrt(accuracy.variance.sum()))
        result["JL"].append(in_answers(measured, accuracy.draw, size))
        if whole:
            result["one ball"] = [Way(accuracy.draw, asked.matvec, None)]
    return result


def size_of(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, default=14)
    parser.add_argument("--pictures", action="store_true")
    options = parser.parse_args()
    asked = nw.workload(f"parity:{options.bits}:<=3")
    began = time.process_time()
    known, rows = ways(asked), []
    print(
        f"planned in {time.process_time() - began:.0f} s of processor time", flush=True
    )
    rng = np.random.default_rng(1)
    worst = 0.0
    for count in PEOPLE:
        for kind, shares in zip(KINDS, Given(1).shares(asked.size), strict=True):
            public, people = (
                rng.multinomial(count, shares).astype(float) for _ in range(2)
            )
            told: dict[str, tuple[float, float]] = {}
            for name, options_of in known.items():
                forecasts = [
                    size_of(way.errors(asked, public, rng)) for way in options_of
                ]
                best = options_of[int(np.argmin(forecasts))]
                told[name] = min(forecasts), size_of(best.errors(asked, people, rng))
            even = [
                size_of(asked.matvec(own - count / asked.size))
                for own in (public, people)
            ]
            told[NO_DATA] = even[0], even[1]
            chosen = min(told, key=lambda name: told[name][0])
            told[MWEM] = float("nan"), size_of(mwem(asked, people, rng))
            ratio = told[chosen][1] / min(error for _, error in told.values())
            worst = max(worst, ratio)
            text = "; ".join(f"{name} {a:.0f}/{b:.0f}" for name, (a, b) in told.items())
            print(
                f"{count}, {kind}: {text}; chosen {chosen}, {ratio:.2f} of the best",
                flush=True,
            )
            rows += [
                {"people": count, "kind": kind, "mechanism": name, "error": own[1],
                 "chosen": name == chosen}
                for name, own in told.items()
            ]  # fmt: skip
    print(f"chosen by forecast: at most {worst:.2f} of the best of all in simulation")
    print(f"{time.process_time() - began:.0f} s of processor time")
    if options.pictures:
        picture(rows, asked)


def picture(rows: list[dict[str, Any]], asked: nw.Workload) -> None:
    """Errors by the number of people, a panel for every kind of histogram."""
    import altair as alt

    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    legend = alt.Legend(orient="bottom", columns=7, symbolType="stroke")
    colour = alt.Color(
        "mechanism:N", title=None, sort=list(COLOURS), scale=scale, legend=legend
    )
    x = alt.X(
        "people:Q",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(values=list(PEOPLE), format=","),
    )
    y = alt.Y(
        "error:Q", scale=alt.Scale(type="log"), title="root mean square error, people"
    )
    panels = []
    for kind in KINDS:
        own = alt.Chart(alt.Data(values=[row for row in rows if row["kind"] == kind]))
        lines = own.mark_line(strokeWidth=2, point=False).encode(x=x, y=y, color=colour)
        rings = own.mark_point(size=110, strokeWidth=2, filled=False).encode(
            x=x,
            y=y,
            color=colour,
            opacity=alt.condition("datum.chosen", alt.value(1), alt.value(0)),
        )
        title = alt.TitleParams(f"{kind} histogram", anchor="start")
        panels.append((lines + rings).properties(width=230, height=230, title=title))
    below = f"{asked.text()}, {asked.size:,} cells, ε = 1, replace-one; rings: chosen by forecast"
    chart = alt.hconcat(*panels, spacing=28).properties(
        title=alt.TitleParams("What few people allow", subtitle=below, anchor="start")
    )
    styled = chart.configure_view(stroke=None).configure_axis(
        gridColor="#eceff3", labelFontSize=11
    )
    styled.configure_title(fontSize=14, subtitleFontSize=11).save(str(PICTURE))


if __name__ == "__main__":
    main()
