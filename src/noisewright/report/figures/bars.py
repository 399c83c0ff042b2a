"""Scales, and answers as rows on them: a bar or a dot with its interval and that of all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.planning.plan import ReleasedTable
from noisewright.report.words.numbers import brief, ticks, with_error
from noisewright.workload.questions.statistics import PEOPLE, Column


@dataclass(frozen=True)
class Place:
    """A label or mark; a spare one is left out where there is little room."""

    at: float
    text: str = ""
    spare: bool = False


class Scale:
    """Numbers to per cent; what lies beyond an end is put there."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high if high > low else low + 1

    def __call__(self, value: float) -> float:
        return round(
            100 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 3
        )

    def marks(self, most: int) -> tuple[Place, ...]:
        """Round numbers on the scale."""
        return marked(self, ticks(self.low, self.high, most))


def marked(
    scale: Callable[[float], float],
    values: Sequence[float],
    text: Callable[[float], str] = brief,
) -> tuple[Place, ...]:
    """Marks at values; where more than four do not fit, every other one goes."""
    return tuple(
        Place(scale(value), text(value), spare=len(values) > 4 and k % 2 == 1)
        for k, value in enumerate(values)
    )


MOST_BARS = 60
# times the next answer: drawn whole, a bar this long hides the errors of all others
_FAR = 12


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
    rows = tuple(
        _bar(
            label,
            column,
            k,
            scale,
            from_zero,
            top,
            None if truth is None else float(truth[k]),
        )
        for k, label in enumerate(_labels(table))
    )
    zero = scale(0.0) if scale.low <= 0 <= scale.high else None
    title = ", ".join(axis.name for axis in table.axes)

    return Bars(title, table.unit, rows, from_zero, zero, scale.marks(5))


def _bar(
    label: str, column: Column, k: int, scale: Scale, from_zero: bool, top: float,
    truth: float | None,
) -> Bar:  # fmt: skip
    answer = float(column.answers[k])
    half = float(column.each[1][k] - column.each[0][k]) / 2
    if np.isnan(answer):
        return Bar(label, with_error(answer, half), known=False)

    cut = answer > top
    return Bar(
        label=label,
        text=with_error(answer, half),
        at=scale(answer),
        start=min(scale(0.0), scale(answer)),
        width=round(abs(scale(answer) - scale(0.0)), 3),
        each=None if cut else _ends(scale, column.each, k),
        all=None if cut else _ends(scale, column.all, k),
        truth=None if truth is None or cut else scale(truth),
        cut=cut,
    )


def _scale(column: Column, from_zero: bool) -> tuple[Scale, float]:
    """The scale of the answers that are told, and how large an answer fits on it."""
    told = ~np.isnan(column.answers)
    low_all = column.all[0][told]
    high_all = column.all[1][told]
    answers = column.answers[told]
    ends = np.concatenate([answers, low_all, high_all])
    ends = ends[np.isfinite(ends)]
    low = float(ends.min())
    high = float(ends.max())
    top = np.inf
    if from_zero:
        low = min(low, 0.0)
        high = max(high, 0.0)
        if len(answers) > 2:
            order = np.argsort(answers)
            rest = float(np.nanmax(high_all[order[:-1]]))
            if answers[order[-1]] > _FAR * rest > 0:
                high = top = 1.15 * rest

    return Scale(low, high), float(top)


def _labels(table: ReleasedTable) -> Sequence[str]:
    return [
        ", ".join(names) for names in product(*(axis.labels for axis in table.axes))
    ]


def _ends(
    scale: Scale, ends: tuple[FloatArray, FloatArray], k: int
) -> tuple[float, float] | None:
    low = float(ends[0][k])
    high = float(ends[1][k])
    return (
        None
        if np.isnan(low + high)
        else (scale(low), round(scale(high) - scale(low), 3))
    )
