"""Curves in the bands that hold them, and a band alone where it is too thin to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.report.figures.bars import Place, Scale
from noisewright.report.words.numbers import figure, ticks
from noisewright.workload.questions.statistics import Column
from noisewright.workload.questions.table_axes import Axis

_THIN = 0.05  # bands below this part of the scale cannot be read
_ALIKE = 4  # times: panels whose answers differ by less share one scale
_ZOOM = "how far off it may be"
_LETTERS = 48  # of all labels below a curve


@dataclass(frozen=True)
class Curve:
    """A line in the band that holds all of it and the one that holds each answer.

    Paths are in units of 1000 × 1000; `says` tells the same in words.
    """

    kind: ClassVar[str] = "curve"
    title: str
    horizontal: str
    unit: str
    line: str
    band: str
    inner: str
    truth: str
    across: tuple[Place, ...]
    up: tuple[Place, ...]
    says: str
    zoom: Curve | None = None


@dataclass(frozen=True)
class Frame:
    """What is written around a curve; `own_scale` where others beside it have another."""

    title: str
    horizontal: str
    unit: str
    across: tuple[Place, ...]
    own_scale: bool = False


@dataclass(frozen=True, eq=False)
class Banded:
    """Answers in both of their bands, to be drawn at `places` between 0 and 1."""

    column: Column
    places: FloatArray
    truth: FloatArray | None = None

    @property
    def width(self) -> float:
        """The widest of the outer band."""
        low, high = self.column.all
        return float(np.nanmax(high - low))

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point."""
        low, high = self.column.all
        return float(np.nanmin(low)), float(np.nanmax(high))

    def thinned(self, most: int) -> Banded:
        """So many points evenly apart, the first and the last among them."""
        count = len(self.places)
        chosen = np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))
        return Banded(self.column.part(chosen), self.places[chosen])

    def around(self) -> Banded:
        """The same as differences from the answers."""
        centre = self.column.answers
        each, all_ = (
            (low - centre, high - centre)
            for low, high in (self.column.each, self.column.all)
        )
        truth = None if self.truth is None else self.truth - centre
        around = Column(0 * centre, self.column.std, each, all_)

        return Banded(around, self.places, truth)


def curves(
    names: Sequence[str],
    axis: Axis,
    unit: str,
    column: Column,
    parts: IntArray,
    truth: FloatArray | None,
) -> list[Curve]:
    """One curve per part: on one scale where they are alike, each with its band apart if thin."""
    places, across = _along(axis)
    drawn = [
        Banded(column.part(part), places, None if truth is None else truth[part])
        for part in parts
    ]
    tops = [each.ends[1] for each in drawn]
    one = max(tops) < _ALIKE * min(tops)
    ends = (min(each.ends[0] for each in drawn), max(tops)) if one else None
    thin = any(each.width < _THIN * each.ends[1] for each in drawn)

    result = []
    for name, each in zip(names, drawn, strict=True):
        frame = Frame(name, f"{axis.name}, up to", unit, across, own_scale=not one)
        result.append(curve(each, frame, ends=ends, zoomed=thin))

    return result


def curve(
    drawn: Banded,
    frame: Frame,
    *,
    ends: tuple[float, float] | None = None,
    zoomed: bool = False,
) -> Curve:
    """A curve in its bands, between `ends` or its own; with the bands alone where asked."""
    bottom, top = ends or drawn.ends
    if 0 < bottom < 0.5 * top:
        bottom = 0.0
    scale = Scale(bottom, top)

    zoom = None
    if zoomed:
        zoom = curve(
            drawn.around(), replace(frame, title=_ZOOM, horizontal="", own_scale=False)
        )

    answers = drawn.column.answers
    first, last = figure(float(answers[0])), figure(float(answers[-1]))
    reach = f"band at most {figure(drawn.width / 2)} either side"
    return Curve(
        title=frame.title,
        horizontal=frame.horizontal,
        unit=f"{frame.unit}, own scale" if frame.own_scale else frame.unit,
        line=_path(scale, drawn.places, answers),
        band=_area(scale, drawn.places, drawn.column.all),
        inner=_area(scale, drawn.places, drawn.column.each),
        truth="" if drawn.truth is None else _path(scale, drawn.places, drawn.truth),
        across=frame.across,
        up=scale.marks(4),
        says=f"{frame.title or frame.horizontal}: from {first} to {last} {frame.unit}, {reach}",
        zoom=zoom,
    )


def evenly_spaced(count: int) -> FloatArray:
    """Places evenly apart."""
    return np.linspace(0.0, 1.0, count) if count > 1 else np.zeros(1)


def step_marks(steps: int) -> tuple[Place, ...]:
    """A few round steps between the first and the last."""
    marks = [mark for mark in ticks(1.0, steps) if mark.is_integer()]
    return Scale(1, max(steps, 2)).marked(marks, [f"{mark:,.0f}" for mark in marks])


def _along(axis: Axis) -> tuple[FloatArray, tuple[Place, ...]]:
    """Where answers stand and what is written below: numbers where cells end in numbers."""
    count = len(axis.labels)
    if not len(axis.ends) == count > 1:
        return evenly_spaced(count), _spread(axis.labels)

    scale = Scale(axis.ends[0], axis.ends[-1])
    places = (np.array(axis.ends) - scale.low) / (scale.high - scale.low)
    return places, scale.marks(7)


def _spread(labels: Sequence[str], most: int = 6) -> tuple[Place, ...]:
    """A few labels, evenly spaced, the first and the last among them; fewer where room is small."""
    fitting = _LETTERS // max(map(len, labels), default=1)
    gaps = max(2, min(most, fitting)) - 1
    steps = max(len(labels) - 1, 1)
    wanted = {round(k * steps / gaps) for k in range(gaps + 1)}
    chosen = sorted(wanted & set(range(len(labels))))

    return tuple(
        Place(round(100 * k / steps, 2), labels[k], spare=0 < place < len(chosen) - 1)
        for place, k in enumerate(chosen)
    )


def _area(scale: Scale, places: FloatArray, ends: tuple[FloatArray, FloatArray]) -> str:
    back = _path(scale, places[::-1], ends[0][::-1])
    return f"{_path(scale, places, ends[1])} L{back[1:]} Z"


def _path(scale: Scale, places: FloatArray, values: FloatArray) -> str:
    pairs = zip(places.tolist(), np.nan_to_num(values).tolist(), strict=True)
    points = [f"{1000 * x:.1f},{1000 - 10 * scale(y):.1f}" for x, y in pairs]
    return "M" + " L".join(points if len(points) > 1 else points * 2)
