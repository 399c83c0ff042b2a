"""Scales, and answers as rows on them: a bar or a dot with its interval and that of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.planning.plan import ReleasedTable
from noisewright.report.words.numbers import mark_texts, ticks, with_error
from noisewright.workload.questions.statistics import PEOPLE, Column, Ends


@dataclass(frozen=True)
class Place:
    """A label or mark; a spare one is left out where there is little room."""

    at: float
    text: str = ""
    spare: bool = False


class Scale:
    """Numbers to per cent; what lies beyond an end is put there."""

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high if high > low else low + 1

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(part, 0.0), 1.0), 3)

    def span(self, ends: Ends, k: int) -> tuple[float, float] | None:
        """Where one interval begins and how long it is; None where it is not known."""
        low, high = float(ends[0][k]), float(ends[1][k])
        if np.isnan(low + high):
            return None

        start = self(low)
        return start, round(self(high) - start, 3)

    def marks(self, most: int) -> tuple[Place, ...]:
        """Round numbers on the scale."""
        values = ticks(self.low, self.high, most)
        return self.marked(values, mark_texts(values))

    def marked(
        self, values: Sequence[float], texts: Sequence[str]
    ) -> tuple[Place, ...]:
        """Marks at values; where more than four do not fit, every other one goes."""
        crowded = len(values) > 4
        return tuple(
            Place(self(value), text, spare=crowded and k % 2 == 1)
            for k, (value, text) in enumerate(zip(values, texts, strict=True))
        )


MOST_BARS = 60
"""Rows of one drawing: two screens of a phone."""
# times the next answer: drawn whole, a bar this long hides the errors of all others
_FAR = 12
_BEYOND = 1.15
"""Of the longest bar that is drawn whole: how far one goes on that is cut."""


@dataclass(frozen=True)
class Bar:
    """One answer at a place of the scale; `cut` where its bar goes on beyond it, `chosen`
    if it is singled out among others."""

    label: str
    text: str
    at: float = 0.0
    start: float = 0.0
    width: float = 0.0
    each: tuple[float, float] | None = None
    all: tuple[float, float] | None = None
    truth: float | None = None
    known: bool = True
    cut: bool = False
    chosen: bool = False


@dataclass(frozen=True)
class Bars:
    """Rows of answers on one scale; `from_zero` where lengths mean something."""

    kind: ClassVar[str] = "bars"
    title: str
    unit: str
    rows: tuple[Bar, ...]
    from_zero: bool = True
    zero: float | None = 0.0
    marks: tuple[Place, ...] = ()

    @property
    def names(self) -> int:
        """Letters of the longest label."""
        return max(len(row.label) for row in self.rows)

    @property
    def values(self) -> int:
        """Letters of the longest text."""
        return max(len(row.text) for row in self.rows)

    @property
    def cut(self) -> bool:
        """Whether some bar goes on beyond the scale."""
        return any(row.cut for row in self.rows)


def bars(table: ReleasedTable, column: Column, truth: FloatArray | None) -> Bars:
    """The answers of a table as rows."""
    from_zero = table.unit == PEOPLE
    scale, top = _scale(column, from_zero)
    labels = product(*(axis.labels for axis in table.axes))
    rows = []
    for k, names in enumerate(labels):
        row = _bar(", ".join(names), column, k, scale, top)
        if truth is not None and row.known and not row.cut:
            row = replace(row, truth=scale(float(truth[k])))
        rows.append(row)

    zero = scale(0.0) if scale.low <= 0 <= scale.high else None
    title = ", ".join(axis.name for axis in table.axes)
    return Bars(title, table.unit, tuple(rows), from_zero, zero, scale.marks(5))


def _bar(label: str, column: Column, k: int, scale: Scale, top: float) -> Bar:
    """One answer; its intervals only where it ends on the scale."""
    answer = float(column.answers[k])
    text = with_error(answer, float(column.half[k]))
    if np.isnan(answer):
        return Bar(label, text, known=False)

    at, zero = scale(answer), scale(0.0)
    cut = answer > top
    return Bar(
        label=label,
        text=text,
        at=at,
        start=min(zero, at),
        width=round(abs(at - zero), 3),
        each=None if cut else scale.span(column.each, k),
        all=None if cut else scale.span(column.all, k),
        cut=cut,
    )


def _scale(column: Column, from_zero: bool) -> tuple[Scale, float]:
    """The scale of the answers that are told, and how large an answer fits on it."""
    told = column.part(np.flatnonzero(~np.isnan(column.answers)))
    ends = np.concatenate([told.answers, *told.all])
    ends = ends[np.isfinite(ends)]
    low, high = float(ends.min()), float(ends.max())
    if not from_zero:
        return Scale(low, high), np.inf

    low, high = min(low, 0.0), max(high, 0.0)
    if len(told.answers) > 2:
        *others, largest = np.argsort(told.answers)
        rest = float(np.nanmax(told.all[1][others]))
        if told.answers[largest] > _FAR * rest > 0:
            top = _BEYOND * rest
            return Scale(low, top), top

    return Scale(low, high), np.inf
