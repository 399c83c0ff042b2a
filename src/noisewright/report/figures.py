"""What is drawn of a table: rows with error bars, curves in bands, or a grid of cells.

Everything is placed in per cent of its frame, so that text keeps its size on any screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from noisewright.central.mechanism import Integers
from noisewright.planning.plan import ReleasedTable
from noisewright.report.numbers import brief, figure, ticks
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import PEOPLE, Column
from noisewright.workload.table_axes import Axis

_MOST_BARS = 60
_MOST_COLUMNS = 60
_MOST_NUMBERS = 16  # columns of a grid in which numbers still fit
_MOST_PANELS = 12
_UNSURE = 0.5  # an interval that reaches further than this part of its answer either side
_DEEPEST = 50  # per cent of the accent colour that text stays readable on
_THIN = 0.02  # bands below this part of the scale cannot be seen


@dataclass(frozen=True)
class Place:
    """A label or mark, in per cent of its frame."""

    at: float
    text: str = ""


@dataclass(frozen=True)
class Bar:
    """One answer as a row: a bar from zero, its own interval and that of all answers at once."""

    label: str
    text: str
    start: float
    width: float
    each: tuple[float, float] | None
    all: tuple[float, float] | None
    truth: float | None = None
    known: bool = True


@dataclass(frozen=True)
class Bars:
    """Rows of answers on one scale."""

    kind: ClassVar[str] = "bars"
    title: str
    unit: str
    rows: tuple[Bar, ...]
    zero: float
    from_zero: bool


@dataclass(frozen=True)
class Curve:
    """A line in the band that holds it everywhere at once; paths are in units of 1000 × 1000."""

    kind: ClassVar[str] = "curve"
    title: str
    horizontal: str
    unit: str
    line: str
    band: str
    truth: str
    across: tuple[Place, ...]
    up: tuple[Place, ...]
    says: str
    zoom: Curve | None = None


@dataclass(frozen=True)
class Cell:
    """A cell of a grid: how dark, whether it is unsure, and what it says."""

    text: str
    depth: float
    unsure: bool
    says: str


@dataclass(frozen=True)
class Grid:
    """Answers of two attributes as a table of coloured cells."""

    kind: ClassVar[str] = "grid"
    title: str
    down: str
    across: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    numbers: bool
    unsure: bool


Figure = Bars | Curve | Grid


def figures(table: ReleasedTable, column: Column, truth: FloatArray | None) -> list[Figure]:
    """What is drawn of a table; nothing where no drawing says more than its rows."""
    axes = table.axes
    shape = tuple(len(axis.labels) for axis in axes)
    if not axes or np.prod(shape) != table.queries or np.isnan(column.answers).all():
        return []
    lines = [place for place, axis in enumerate(axes) if axis.kind == "cumulative"]
    if lines and all(axis.kind in ("value", "cumulative") for axis in axes):
        return _curves(table, column, truth, lines[-1])
    if any(axis.kind in ("range", "cumulative") for axis in axes):
        return []
    if len(axes) == 1 or (table.unit != PEOPLE and table.queries <= _MOST_BARS):
        return [_bars(table, column, truth)] if table.queries <= _MOST_BARS else []
    panels = int(np.prod(shape[:-2]))
    if panels > _MOST_PANELS or max(shape[-2:]) > _MOST_COLUMNS:
        return []
    parts = np.arange(table.queries).reshape(panels, *shape[-2:])
    named = zip(_names(axes[:-2]), parts, strict=True)
    return [_grid(name, axes[-2:], column, part) for name, part in named]


def _names(axes: Sequence[Axis]) -> list[str]:
    """Every combination of values in words; one empty name for no attribute."""
    labels = [[f"{axis.name} = {label}" for label in axis.labels] for axis in axes]
    return [", ".join(names) for names in product(*labels)]


# --- rows with error bars -------------------------------------------------------------------------


def _bars(table: ReleasedTable, column: Column, truth: FloatArray | None) -> Bars:
    (low_all, high_all), from_zero = column.all, table.unit == PEOPLE
    known = np.concatenate([column.answers, low_all, high_all])
    known = known[np.isfinite(known)]
    low, high = float(known.min()), float(known.max())
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    scale = _Scale(low, high)
    (axis, *_), names = table.axes, _labels(table.axes)
    rows = tuple(
        Bar(
            label=name,
            text=_text(column, k),
            start=min(scale(0.0), scale(answer)) if from_zero else scale(answer),
            width=abs(scale(answer) - scale(0.0)) if from_zero else 0.0,
            each=_ends(scale, column.each, k),
            all=_ends(scale, column.all, k),
            truth=None if truth is None else scale(float(truth[k])),
            known=bool(np.isfinite(column.answers[k])),
        )
        for k, (name, answer) in enumerate(
            zip(names, np.nan_to_num(column.answers).tolist(), strict=True)
        )
    )
    title = axis.name if len(table.axes) == 1 else table.name
    return Bars(title, table.unit, rows, scale(0.0) if from_zero else 0.0, from_zero)


def _labels(axes: Sequence[Axis]) -> list[str]:
    if len(axes) == 1:
        return list(axes[0].labels)
    return [", ".join(names) for names in product(*(axis.labels for axis in axes))]


def _text(column: Column, k: int) -> str:
    """An answer with half of its own interval, in words."""
    answer = float(column.answers[k])
    half = float(column.each[1][k] - column.each[0][k]) / 2
    return figure(answer) if np.isnan(answer + half) else f"{figure(answer)} ± {figure(half)}"


def _ends(scale: _Scale, ends: tuple[FloatArray, FloatArray], k: int) -> tuple[float, float] | None:
    low, high = float(ends[0][k]), float(ends[1][k])
    return None if np.isnan(low + high) else (scale(low), scale(high) - scale(low))


class _Scale:
    """Numbers to per cent."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1

    def __call__(self, value: float) -> float:
        return round(100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 3)


# --- curves in bands ------------------------------------------------------------------------------


def _curves(
    table: ReleasedTable, column: Column, truth: FloatArray | None, place: int
) -> list[Figure]:
    axes, shape = table.axes, tuple(len(axis.labels) for axis in table.axes)
    others = axes[:place] + axes[place + 1 :]
    cumulative = [axis for axis in others if axis.kind == "cumulative"]
    names = _names(others)
    if cumulative or len(names) > _MOST_PANELS:
        return []
    numbers = np.moveaxis(np.arange(table.queries).reshape(shape), place, -1)
    parts = numbers.reshape(len(names), -1)
    return [
        _curve(name, axes[place], table.unit, column, part, truth)
        for name, part in zip(names, parts, strict=True)
    ]


def _curve(
    title: str,
    axis: Axis,
    unit: str,
    column: Column,
    part: Integers,
    truth: FloatArray | None,
) -> Curve:
    answers, low, high = column.answers[part], column.all[0][part], column.all[1][part]
    exact = None if truth is None else truth[part]
    horizontal = f"{axis.name}, up to"
    across = _spread(axis.labels)
    zoom = None
    if np.nanmax(high - low) < 2 * _THIN * np.nanmax(np.abs(answers)):
        shift = None if exact is None else exact - answers
        zoom = line_in_band(
            title="how far off all of it may be", horizontal="", unit=unit, across=across,
            answers=0 * answers, low=low - answers, high=high - answers, truth=shift,
        )  # fmt: skip
    return line_in_band(
        title=title, horizontal=horizontal, unit=unit, across=across,
        answers=answers, low=low, high=high, truth=exact, zoom=zoom,
    )  # fmt: skip


def line_in_band(
    *,
    title: str,
    horizontal: str,
    unit: str,
    across: tuple[Place, ...],
    answers: FloatArray,
    low: FloatArray,
    high: FloatArray,
    truth: FloatArray | None = None,
    zoom: Curve | None = None,
) -> Curve:
    """A curve over evenly spaced places, in its band."""
    bottom, top = float(np.nanmin(low)), float(np.nanmax(high))
    if bottom > 0 and bottom < 0.5 * top:
        bottom = 0.0
    scale = _Scale(bottom, top)
    ends = f"from {figure(float(answers[0]))} to {figure(float(answers[-1]))} {unit}"
    wide = f"band at most {figure(float(np.nanmax(high - low)) / 2)} either side"
    return Curve(
        title=title,
        horizontal=horizontal,
        unit=unit,
        line=_path(scale, answers),
        band=f"{_path(scale, high)} L{_path(scale, low[::-1], backwards=True)[1:]} Z",
        truth="" if truth is None else _path(scale, truth),
        across=across,
        up=tuple(Place(scale(value), brief(value)) for value in ticks(bottom, top, 4)),
        says=f"{title or horizontal}: {ends}, {wide}",
        zoom=zoom,
    )


def _path(scale: _Scale, values: FloatArray, backwards: bool = False) -> str:
    steps = max(len(values) - 1, 1)
    points = [
        f"{round(1000 * (steps - k if backwards else k) / steps)},{1000 - 10 * scale(value):.1f}"
        for k, value in enumerate(np.nan_to_num(values).tolist())
    ]
    return "M" + " L".join(points if len(points) > 1 else points * 2)


def _spread(labels: Sequence[str], most: int = 6) -> tuple[Place, ...]:
    """A few labels, evenly spaced, the first and the last among them."""
    steps = max(len(labels) - 1, 1)
    longest = max(map(len, labels))
    count = max(2, min(most, 48 // max(longest, 1)))
    chosen = sorted(
        {round(k * steps / (count - 1)) for k in range(count)} & set(range(len(labels)))
    )
    return tuple(Place(round(100 * k / steps, 2), labels[k]) for k in chosen)


# --- grids of cells -------------------------------------------------------------------------------


def _grid(title: str, axes: Sequence[Axis], column: Column, part: Integers) -> Grid:
    down, across = axes
    if len(across.labels) > len(down.labels) and len(across.labels) > _MOST_NUMBERS:
        down, across, part = across, down, part.T
    answers = column.answers[part]
    half = (column.each[1][part] - column.each[0][part]) / 2
    least = min(0.0, float(np.nanmin(answers)))
    most = max(float(np.nanmax(answers)) - least, 1e-300)
    depth = _DEEPEST * np.sqrt(np.clip(np.nan_to_num(answers - least) / most, 0, 1))
    unsure = half > _UNSURE * np.abs(answers)
    rows = tuple(
        (
            label,
            tuple(
                Cell(
                    text=brief(answer),
                    depth=round(shade, 1),
                    unsure=bool(doubt),
                    says=f"{label}, {other}: {figure(answer)} ± {figure(width)}",
                )
                for other, answer, width, shade, doubt in zip(across.labels, *columns, strict=True)
            ),
        )
        for label, *columns in zip(
            down.labels, answers.tolist(), half.tolist(), depth.tolist(), unsure, strict=True
        )
    )
    fits = len(across.labels) <= _MOST_NUMBERS
    return Grid(title, down.name, across.name, across.labels, rows, fits, bool(unsure.any()))
