"""The page of a rehearsal: errors found on data that need no protection, beside the forecast."""

from __future__ import annotations

import json
from dataclasses import replace

from noisewright.planning.central.rehearsal import Rehearsal, RehearsedTable
from noisewright.report.render import render
from noisewright.report.runners_up import RunnersUp
from noisewright.report.words.numbers import figure
from noisewright.report.words.plans import Line
from noisewright.report.words.promises import Tile, byline, facts, promise_tile

_HEADS = (
    "table",
    "answers",
    "forecast",
    "found",
    "median relative error",
    "within 95 %",
    "left out",
)


def rehearsal_page(rehearsal: Rehearsal, title: str = "Rehearsal") -> str:
    """The page as HTML: errors alone, no answers."""
    tables = rehearsal.tables
    answers = sum(table.queries for table in tables)
    covered = sum(table.covered * table.queries for table in tables) / max(answers, 1)
    known = rehearsal.summary()

    return render(
        "plan.html",
        title=title,
        byline=byline({}),
        lead="A whole release, many times over, on data that are public or made up, with seeded "
        "noise. It protects nobody and publishes nothing: errors are shown, no answers.",
        tiles=[
            *_promised(rehearsal),
            Tile("runs", f"{rehearsal.runs:,}", f"seed {rehearsal.seed}"),
            Tile("answers", f"{answers:,}", f"in {len(tables):,} tables"),
            Tile(
                "within their intervals", f"{100 * covered:.1f} %", "95 % are promised"
            ),
        ],
        person=None,
        limits=[],
        compared="",
        heading="Errors found",
        drawings=[],
        heads=_HEADS,
        tables=[_line(table) for table in tables],
        notes=[
            f"{cost.attribute}: {100 * cost.clipped:.3g} % of people lie beyond its bounds, which "
            f"moves their mean by {figure(cost.mean_shift)}"
            + (
                "."
                if cost.bin_shift is None
                else f"; its bins move a quantile by {figure(cost.bin_shift)}."
            )
            for cost in rehearsal.declarations
        ],
        runners_up=RunnersUp(),
        provenance=facts(
            known, {"runs": "runs", "seed": "seed", "plan": "hash of the plan"}
        ),
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _promised(rehearsal: Rehearsal) -> list[Tile]:
    if rehearsal.privacy is None:
        return []
    return [
        replace(
            promise_tile(rehearsal.privacy), note="of a release; nothing is spent here"
        )
    ]


def _line(table: RehearsedTable) -> Line:
    relative = "–" if table.relative is None else f"{100 * table.relative:.2g} %"
    return Line(
        table.name,
        (
            f"{table.queries:,}",
            "–" if table.predicted is None else f"± {figure(table.predicted)}",
            f"± {figure(table.realised)}",
            relative,
            f"{100 * table.covered:.1f} %",
            f"{100 * table.left_out:.3g} %",
        ),
        None,
    )
