"""The page of a stream: its running count in its band, and what was promised for all its steps."""

from __future__ import annotations

import json

import numpy as np

from noisewright.central.mechanism import Integers
from noisewright.errors import OutOfReach
from noisewright.planning.running import StreamRelease
from noisewright.report.figures import Curve, Place, line_in_band
from noisewright.report.numbers import brief, figure, ticks
from noisewright.report.page import Row, Section, provenance
from noisewright.report.render import render
from noisewright.report.words import Tile, for_one_person, limits, promise_tile
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import PEOPLE

_MOST_ROWS = 1_000
_MOST_POINTS = 600
_CHANGES = {"add-remove": "been left out", "replace-one": "come at another step"}


def stream_page(release: StreamRelease, title: str = "Private running count") -> str:
    """The page as HTML: answers alone, nothing that the stream remembers."""
    if not len(release):
        raise OutOfReach("no step of the stream was answered yet; there is nothing to draw")
    known, plan = release.metadata, release.plan
    lead = (
        f"{len(release):,} of {known['steps']:,} planned steps, every one under the same promise: "
        "all that is published of this stream, now and later, would look almost the same had any "
        f"one person {_CHANGES[known['neighbours']]}."
    )
    return render(
        "release.html",
        title=title,
        lead=lead,
        tiles=[promise_tile(plan.privacy), *_tiles(release)],
        person=for_one_person(plan.spend, plan.privacy.neighbours, known["person"]),
        limits=limits({"bounds": [], **known}),
        error=known.get("error", ""),
        sections=[_section(release)],
        unsure=False,
        changed=False,
        truth=None,
        steps=[],
        provenance=provenance(known),
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _tiles(release: StreamRelease) -> list[Tile]:
    last, error = figure(release.answers[-1]), figure(release.std[-1])
    largest = figure(release.plan.forecast().max)
    return [
        Tile("running count", last, f"people, at step {len(release):,}"),
        Tile("error now", f"± {error}", "people, standard error of the latest"),
        Tile("largest error", f"± {largest}", "people, of any planned step"),
    ]


def _section(release: StreamRelease) -> Section:
    chosen = np.unique(np.linspace(0, len(release) - 1, _MOST_POINTS).round().astype(np.int64))
    note = f"{len(release):,} answers"
    if len(chosen) < len(release):
        note += f", {len(chosen):,} of them drawn"
    low, high = figure(release.std.min()), figure(release.std.max())
    rows = _rows(release)
    return Section(
        name="people so far",
        note=note,
        error=f"standard error {low} to {high} people",
        drawings=[_curve(release, chosen)],
        rows=rows,
        more=len(release) - len(rows),
        open=True,
    )


def _curve(release: StreamRelease, chosen: Integers) -> Curve:
    answers, low, high = release.answers, release.lower_all, release.upper_all
    across = step_marks(len(release))

    def drawn(title: str, horizontal: str, centre: FloatArray, zoom: Curve | None) -> Curve:
        return line_in_band(
            title=title, horizontal=horizontal, unit=PEOPLE, across=across,
            answers=(answers - centre)[chosen], low=(low - centre)[chosen],
            high=(high - centre)[chosen], zoom=zoom,
        )  # fmt: skip

    zoom = drawn("how far off all of it may be", "", answers, None)
    return drawn("", "step", np.zeros_like(answers), zoom)


def step_marks(steps: int) -> tuple[Place, ...]:
    """A few round steps, in per cent of the way from the first to the last."""
    span = max(steps - 1, 1)
    marks = [mark for mark in ticks(1, steps) if mark == int(mark) and 1 <= mark <= steps]
    return tuple(Place(round(100 * (mark - 1) / span, 2), brief(mark)) for mark in marks)


def _rows(release: StreamRelease) -> list[Row]:
    """The latest answers, the last one first."""
    steps = range(len(release) - 1, max(-1, len(release) - 1 - _MOST_ROWS), -1)
    return [
        Row(
            label=f"step {k + 1:,}",
            answer=figure(release.answers[k]),
            std=figure(release.std[k]),
            ends=f"{figure(release.lower[k])} … {figure(release.upper[k])}",
            unbiased="",
        )
        for k in steps
    ]
