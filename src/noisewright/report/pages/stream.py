"""The page of a stream: its running count in its band, and what was promised for all its steps."""

from __future__ import annotations

import json

import numpy as np

from noisewright.errors import OutOfReach
from noisewright.planning.streams.running import StreamRelease
from noisewright.report.figures.curves import Banded, Curve, curve, even, step_marks
from noisewright.report.pages.release import PROVENANCE
from noisewright.report.render import render
from noisewright.report.sections import Section, row, spread
from noisewright.report.words.numbers import figure
from noisewright.report.words.promises import (
    Person,
    Tile,
    byline,
    compared,
    limits,
    promise_tile,
    provenance,
)
from noisewright.workload.questions.statistics import PEOPLE

_PROVENANCE = {**PROVENANCE, "time": "started on"}
_MOST_ROWS = 1_000
_MOST_POINTS = 600
_CHANGES = {"add-remove": "been left out", "replace-one": "come at another step"}


def stream_page(release: StreamRelease, title: str = "Private running count") -> str:
    """The page as HTML: answers alone, nothing that the stream remembers."""
    if not len(release):
        raise OutOfReach(
            "no step of the stream was answered yet; there is nothing to draw"
        )

    known = release.metadata
    plan = release.plan
    lead = (
        f"{len(release):,} of {known['steps']:,} planned steps, every one under the same promise: "
        "all that is published of this stream, now and later, would look almost the same had any "
        f"one person {_CHANGES[known['neighbours']]}."
    )
    return render(
        "release.html",
        title=title,
        byline=byline(known, "started on"),
        lead=lead,
        tiles=[promise_tile(plan.privacy), *_tiles(release)],
        person=Person.of(plan.spend, plan.privacy, known["person"]),
        limits=limits({"bounds": [], **known}),
        compared=compared(known),
        sections=[_section(release)],
        notes=[],
        truth=None,
        steps=["Nothing: every answer is unbiased, as it was measured."],
        provenance=provenance({"plan": plan.digest, **known}, _PROVENANCE),
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _tiles(release: StreamRelease) -> list[Tile]:
    last = figure(release.answers[-1])
    error = figure(release.std[-1])
    largest = figure(release.plan.forecast().max)
    return [
        Tile("running count", last, f"people, at step {len(release):,}"),
        Tile("error now", f"± {error}", "people, standard error of the latest"),
        Tile("largest error", f"± {largest}", "people, of any planned step"),
    ]


def _section(release: StreamRelease) -> Section:
    """All steps drawn, and the latest as rows, the last one first."""
    count = len(release)
    latest = range(count - 1, max(-1, count - 1 - _MOST_ROWS), -1)
    ends = zip(release.answers, release.std, release.lower, release.upper, strict=True)
    told = list(ends)

    return Section(
        name="people so far",
        note=f"{count:,} answers",
        error=f"standard error {spread(release.std)} people",
        drawings=[_curve(release)],
        rows=[row(f"step {k + 1:,}", *map(float, told[k])) for k in latest],
        more=count - len(latest),
    )


def _curve(release: StreamRelease) -> Curve:
    count = len(release)
    chosen = np.unique(np.linspace(0, count - 1, _MOST_POINTS).round().astype(np.int64))
    drawn = Banded(
        release.answers[chosen],
        (release.lower[chosen], release.upper[chosen]),
        (release.lower_all[chosen], release.upper_all[chosen]),
        even(count)[chosen],
    )

    return curve(drawn, "", "step", PEOPLE, step_marks(count), zoomed=True)
