"""Pages of what was measured without cells: columns, pairs of attributes, and running counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, singledispatch
from itertools import islice
from typing import Protocol

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import OutOfReach
from noisewright.estimate.intervals import normal_multiplier
from noisewright.planning.plan import LEVEL, Plan, ReleasedTable
from noisewright.planning.rows.covariance import CovarianceRelease
from noisewright.planning.rows.pairs import PairsRelease
from noisewright.planning.streams import RunningStream, StreamRelease
from noisewright.report.figures import Figure
from noisewright.report.figures.bars import MOST_BARS, bars
from noisewright.report.figures.curves import (
    Banded,
    Curve,
    Frame,
    curve,
    evenly_spaced,
    step_marks,
)
from noisewright.report.figures.grids import grids
from noisewright.report.pages import record_text, render
from noisewright.report.pages.release import PROVENANCE
from noisewright.report.sections import Section, answer_row, error_range
from noisewright.report.words.bounds import certified
from noisewright.report.words.facts import Tile, asked_for, byline, provenance
from noisewright.report.words.numbers import figure
from noisewright.report.words.promises import Person, promise_sentence, promise_tile
from noisewright.workload.questions.statistics import PEOPLE, Column
from noisewright.workload.questions.table_axes import Axis

_MOST_ROWS = 5_000
"""Of one table of pairs: all pairs of a hundred columns."""
_SHARE = "% of people"
_PROVENANCE = {**PROVENANCE, "people": "people"}
_BIASED = "biased, no standard error"


class Measured(Protocol):
    """What every release tells of itself."""

    @property
    def plan(self) -> Plan: ...

    @property
    def metadata(self) -> Mapping[str, object]: ...


def row_page(release: Measured) -> str:
    """The page as HTML; of a kind that has no words of its own, what was promised and spent."""
    plan = release.plan
    known = release.metadata
    proved = certified(plan, known)

    return render(
        "release.html",
        byline=byline(known),
        person=Person.of(plan.spend, plan.privacy, "one row is one person"),
        limits=proved.limits,
        compared=proved.compared,
        provenance=provenance({"plan": plan.digest, **known}, _PROVENANCE),
        record=record_text(known),
        **_told(release),
    )


@singledispatch
def _told(release: Measured) -> dict[str, object]:
    plan = release.plan
    promised = promise_sentence(plan.privacy.neighbours)
    return {
        "title": "Private release",
        "lead": f"{plan.title}: {promised}.",
        "tiles": [promise_tile(plan.privacy)],
        "sections": [],
        "notes": [],
        "steps": [],
    }


@_told.register
def _moments(release: CovarianceRelease) -> dict[str, object]:
    plan = release.plan
    std = release.std
    tables = [name for name in ("mean", "covariance", "second_moment") if name in std]
    draw = partial(_section, plan.columns, plan.multiplier)
    sections = [
        draw(name.replace("_", " "), getattr(release, name), std[name])
        for name in tables
    ]
    nothing = np.full((len(plan.columns),) * 2, np.nan)
    drawn = draw("correlation", release.correlation, nothing)

    return {
        "title": "Private means and covariances",
        "lead": f"Means, second moments and covariances of {asked_for(plan.columns)}, rows longer "
        f"than {plan.mechanism.radius:g} shortened to that. All follow from one noisy matrix: "
        f"{promise_sentence(plan.privacy.neighbours)}.",
        "tiles": [
            promise_tile(plan.privacy),
            _people(release),
            *(
                Tile(
                    f"error of a {name.replace('_', ' ')}",
                    f"± {_rms(std[name])}",
                    "root mean square",
                )
                for name in tables[:2]
            ),
        ],
        "sections": [*sections[:2], drawn, *sections[2:]],
        "notes": [
            "Standard errors are those of the noise; how people vary is not in them."
        ],
        "steps": [
            "Second moments and means are as they were measured.",
            "The correlation is the nearest matrix that can be one: biased, often nearer.",
        ],
    }


@_told.register
def _pairs(release: PairsRelease) -> dict[str, object]:
    plan = release.plan
    size = len(plan.columns)
    error = np.full((size, size), 100 * plan.forecast().rmse / max(release.people, 1.0))
    own = plan.mechanism.mean_errors(release.means) * 100 / max(release.people, 1.0)
    nothing = np.full((size, size), np.nan)
    measured = "both, as measured"
    draw = partial(_section, plan.columns, normal_multiplier, unit=_SHARE)

    return {
        "title": "Private pairs of attributes",
        "lead": f"What share of people has both of any two of {asked_for(plan.columns)}. "
        f"All follow from two noisy measurements: {promise_sentence(plan.privacy.neighbours)}.",
        "tiles": [
            promise_tile(plan.privacy),
            _people(release),
            Tile("pairs", f"{len(release):,}", "answered at once"),
            Tile("error as measured", f"± {figure(error[0, 0])}", "% points, at worst"),
        ],
        "sections": [
            draw("each", 100 * release.means, own),
            draw("both", 100 * release.proportions, nothing),
            draw(measured, 100 * release.measured_proportions, error),
        ],
        "notes": ["In per cent of people. On the diagonal stands an attribute alone."],
        "steps": [
            "“both” is estimated from few common factors that stand out of the noise, within what "
            "the single shares allow: biased, and mostly much nearer than what was measured.",
        ],
    }


def _people(release: CovarianceRelease | PairsRelease) -> Tile:
    public = release.public_people is not None
    return Tile(
        "people",
        figure(release.people),
        "public" if public else "as measured, with noise",
    )


def _rms(errors: FloatArray) -> str:
    return figure(float(np.sqrt(np.mean(errors**2))))


def _section(
    columns: tuple[str, ...], multiplier: Callable[[float], float], name: str, values: FloatArray,
    std: FloatArray, unit: str = "",
) -> Section:  # fmt: skip
    """Numbers of columns as rows, or of pairs of columns as a grid; pairs once each.

    `multiplier` tells how many standard errors an interval of a level has to either side.
    """
    flat = values.ravel()
    errors = std.ravel()
    width = multiplier(LEVEL), multiplier(1 - (1 - LEVEL) / len(flat))
    column = Column.around(flat, errors, *width)
    rows = [
        answer_row(label, flat[k], errors[k], column.each[0][k], column.each[1][k])
        for label, k in islice(_labelled(columns, values.ndim), _MOST_ROWS)
    ]
    count = len(columns) if values.ndim == 1 else len(columns) * (len(columns) + 1) // 2
    known = errors[~np.isnan(errors)]

    return Section(
        name=name,
        note=f"{count:,} number{'s' if count != 1 else ''}",
        error=f"standard error {error_range(known)} {unit}".rstrip()
        if known.size
        else _BIASED,
        drawings=_drawings(columns, name, column, values.ndim, unit),
        rows=rows,
        more=count - len(rows),
        open=name != "second moment",
    )


def _labelled(columns: tuple[str, ...], order: int) -> Iterator[tuple[str, int]]:
    """Every column, or every pair of columns once, and its place among the numbers."""
    if order == 1:
        yield from ((name, k) for k, name in enumerate(columns))
        return
    for i, first in enumerate(columns):
        for j in range(i, len(columns)):
            yield f"{first}, {columns[j]}", i * len(columns) + j


def _drawings(
    columns: tuple[str, ...], name: str, column: Column, order: int, unit: str
) -> list[Figure]:
    axis = Axis("column", "value", columns)
    count = len(columns)
    if count > MOST_BARS:
        return []
    if order == 1:
        return [bars(ReleasedTable(name, count, (axis,), unit), column, None)]

    part = np.arange(count * count).reshape(1, count, count)
    return [*grids([""], axis, axis, column, part, signed=True)]


_STARTED = {**PROVENANCE, "time": "started on"}
_LATEST = 1_000
"""Steps that are told in rows; all of them are drawn, and in the file."""
_MOST_POINTS = 600
"""Of a curve of steps: more than a screen has points across."""
_CHANGES = {"add-remove": "been left out", "replace-one": "come at another step"}


def running_page(stream: RunningStream) -> str:
    """The page of what a stream has answered: the stream itself is secret."""
    return stream_page(stream.release)


def stream_page(release: StreamRelease, title: str = "Private running count") -> str:
    """The page as HTML: answers alone, nothing that the stream remembers."""
    if not len(release):
        raise OutOfReach(
            "no step of the stream was answered yet; there is nothing to draw"
        )

    known = release.metadata
    plan = release.plan
    proved = certified(plan, known)
    lead = (
        f"{len(release):,} of {known['steps']:,} planned steps, every one under the same promise: "
        "all that is published of this stream, now and later, would look almost the same had any "
        f"one person {_CHANGES[plan.privacy.neighbours]}."
    )
    return render(
        "release.html",
        title=title,
        byline=byline(known, "started on"),
        lead=lead,
        tiles=[promise_tile(plan.privacy), *_stream_tiles(release)],
        person=Person.of(plan.spend, plan.privacy, plan.person),
        limits=proved.limits,
        compared=proved.compared,
        sections=[_stream_section(release)],
        steps=["Nothing: every answer is unbiased, as it was measured."],
        provenance=provenance({"plan": plan.digest, **known}, _STARTED),
        record=record_text(known),
    )


def _stream_tiles(release: StreamRelease) -> list[Tile]:
    last = figure(release.answers[-1])
    error = figure(release.std[-1])
    largest = figure(release.plan.forecast().max)

    return [
        Tile("running count", last, f"people, at step {len(release):,}"),
        Tile("error now", f"± {error}", "people, standard error of the latest"),
        Tile("largest error", f"± {largest}", "people, of any planned step"),
    ]


def _stream_section(release: StreamRelease) -> Section:
    """All steps drawn, and the latest as rows, the last one first."""
    count = len(release)
    latest = range(count - 1, max(-1, count - 1 - _LATEST), -1)
    ends = zip(release.answers, release.std, release.lower, release.upper, strict=True)
    told = list(ends)

    return Section(
        name="people so far",
        note=f"{count:,} answers",
        error=f"standard error {error_range(release.std)} people",
        drawings=[_curve(release)],
        rows=[answer_row(f"step {k + 1:,}", *map(float, told[k])) for k in latest],
        more=count - len(latest),
    )


def _curve(release: StreamRelease) -> Curve:
    count = len(release)
    each = (release.lower, release.upper)
    all_ = (release.lower_all, release.upper_all)
    column = Column(release.answers, release.std, each, all_)
    drawn = Banded(column, evenly_spaced(count)).thinned(_MOST_POINTS)

    frame = Frame("", "step", PEOPLE, step_marks(count))
    return curve(drawn, frame, zoomed=True)
