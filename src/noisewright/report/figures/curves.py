"""Curves in the bands that hold them, and a band alone where it is too thin to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.report.figures.bars import Place, Scale, marked
from noisewright.report.words.numbers import brief, figure, ticks
from noisewright.workload.questions.statistics import Column
from noisewright.workload.questions.table_axes import Axis

_THIN = 0.05  # bands below this part of the scale cannot be read
_ALIKE = 4  # times: panels whose answers differ by less share one scale
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


@dataclass(frozen=True, eq=False)
class Banded:
    """Answers with the ends of both of their bands, to be drawn at `places` between 0 and 1."""

    answers: FloatArray
    each: tuple[FloatArray, FloatArray]
    all: tuple[FloatArray, FloatArray]
    places: FloatArray
    truth: FloatArray | None = None

    @property
    def width(self) -> float:
        """The widest of the outer band."""
        return float(np.nanmax(self.all[1] - self.all[0]))

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point."""
        return float(np.nanmin(self.all[0])), float(np.nanmax(self.all[1]))

    def around(self) -> Banded:
        """The same as differences from the answers."""
        centre = self.answers
        each, all_ = (
            (low - centre, high - centre) for low, high in (self.each, self.all)
        )
        truth = None if self.truth is None else self.truth - centre
        return Banded(0 * centre, each, all_, self.places, truth)


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
        Banded(
            column.answers[part],
            (column.each[0][part], column.each[1][part]),
            (column.all[0][part], column.all[1][part]),
            places,
            None if truth is None else truth[part],
        )
        for part in parts
    ]
    tops = [each.ends[1] for each in drawn]
    one = max(tops) < _ALIKE * min(tops)
    ends = (min(each.ends[0] for each in drawn), max(tops)) if one else None
    thin = any(each.width < _THIN * each.ends[1] for each in drawn)

    return [
        curve(
            each, name, f"{axis.name}, up to", unit, across, ends=ends,
            own_scale=not one, zoomed=thin,
        )
        for name, each in zip(names, drawn, strict=True)
    ]  # fmt: skip


def curve(
    drawn: Banded,
    title: str,
    horizontal: str,
    unit: str,
    across: tuple[Place, ...],
    *,
    ends: tuple[float, float] | None = None,
    own_scale: bool = False,
    zoomed: bool = False,
) -> Curve:
    """A curve in its bands, between `ends` or its own; with the bands alone where asked."""
    bottom, top = ends or drawn.ends
    if 0 < bottom < 0.5 * top:
        bottom = 0.0

    scale = Scale(bottom, top)
    first = figure(float(drawn.answers[0]))
    last = figure(float(drawn.answers[-1]))
    reach = f"band at most {figure(drawn.width / 2)} either side"
    zoom = None
    if zoomed:
        zoom = curve(drawn.around(), "how far off it may be", "", unit, across)

    return Curve(
        title=title,
        horizontal=horizontal,
        unit=f"{unit}, own scale" if own_scale else unit,
        line=_path(scale, drawn.places, drawn.answers),
        band=_area(scale, drawn.places, drawn.all),
        inner=_area(scale, drawn.places, drawn.each),
        truth="" if drawn.truth is None else _path(scale, drawn.places, drawn.truth),
        across=across,
        up=scale.marks(4),
        says=f"{title or horizontal}: from {first} to {last} {unit}, {reach}",
        zoom=zoom,
    )


def even(count: int) -> FloatArray:
    """Places evenly apart."""
    return np.linspace(0.0, 1.0, count) if count > 1 else np.zeros(1)


def step_marks(steps: int) -> tuple[Place, ...]:
    """A few round steps between the first and the last."""
    marks = [
        mark for mark in ticks(1, steps) if mark == int(mark) and 1 <= mark <= steps
    ]
    return marked(Scale(1, max(steps, 2)), marks, lambda mark: f"{mark:,.0f}")


def _along(axis: Axis) -> tuple[FloatArray, tuple[Place, ...]]:
    """Where answers stand and what is written below: numbers where cells end in numbers."""
    if len(axis.ends) == len(axis.labels) > 1:
        scale = Scale(axis.ends[0], axis.ends[-1])
        spread = scale.high - scale.low
        return (np.array(axis.ends) - scale.low) / spread, marked(
            scale, ticks(scale.low, scale.high, 7), brief
        )
    return even(len(axis.labels)), _spread(axis.labels)


def _spread(labels: Sequence[str], most: int = 6) -> tuple[Place, ...]:
    """A few labels, evenly spaced, the first and the last among them; fewer where room is small."""
    steps = max(len(labels) - 1, 1)
    count = max(2, min(most, _LETTERS // max(map(len, labels), default=1)))
    wanted = {round(k * steps / (count - 1)) for k in range(count)}
    chosen = sorted(wanted & set(range(len(labels))))

    return tuple(
        Place(round(100 * k / steps, 2), labels[k], spare=0 < place < len(chosen) - 1)
        for place, k in enumerate(chosen)
    )


def _area(scale: Scale, places: FloatArray, ends: tuple[FloatArray, FloatArray]) -> str:
    back = _path(scale, places[::-1], ends[0][::-1])
    return f"{_path(scale, places, ends[1])} L{back[1:]} Z"


def _path(scale: Scale, places: FloatArray, values: FloatArray) -> str:
    points = [
        f"{1000 * place:.1f},{1000 - 10 * scale(value):.1f}"
        for place, value in zip(
            places.tolist(), np.nan_to_num(values).tolist(), strict=True
        )
    ]
    return "M" + " L".join(points if len(points) > 1 else points * 2)
