"""Answers of two attributes as tables of shaded cells, with numbers where they fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.report.words.numbers import brief_number, decimals, figure, rounded
from noisewright.workload.questions.statistics import Column
from noisewright.workload.questions.table_axes import Axis

_MOST_NUMBERS = 24  # columns in which numbers still fit
_MANY = 8  # columns: from here on the longer of two attributes goes down
_HEADS = 8  # labels above columns without numbers
# an interval that reaches further than this part of its answer either side
_UNSURE = 0.5
_DEEPEST = 50  # per cent of the accent colour that text stays readable on
_LONGEST = 7  # letters of a number in a cell
_LETTER = 0.55  # the width of a letter, as the stylesheet has it
_PADDING = 1.0  # and the room around a number
_LEAST_COLUMN = 3.6  # the same of a column
_MOST_NAMES = 11.0  # and of the names of rows
_LEAST = 1e-300  # a number by which others can be divided, where all are zero
_DIGITS = 2  # after the point, of numbers without an error


@dataclass(frozen=True)
class Cell:
    """A cell of a grid: how dark, whether it is unsure or below zero, and what it says."""

    text: str
    depth: float
    unsure: bool
    below: bool
    says: str


@dataclass(frozen=True)
class Grid:
    """Answers of two attributes; `heads` are labels with the columns that each stands above."""

    kind: ClassVar[str] = "grid"
    title: str
    down: str
    across: str
    heads: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    numbers: bool
    unsure: bool
    error: str
    darkest: str

    @property
    def width(self) -> float:
        """How wide it is where nothing is cut off, in the page's units, generously."""
        texts = [cell.text for _, cells in self.rows for cell in cells]
        longest = max(map(len, texts), default=0)
        columns = 0.0
        for head, _ in self.heads:
            word = max(map(len, re.split("[ -]", head)))  # where a line may break
            widest = max(longest, word)
            columns += max(_LEAST_COLUMN, _LETTER * widest + _PADDING)

        longest = max((len(name) for name, _ in self.rows), default=0)
        names = min(_MOST_NAMES, _LETTER * longest)

        return round(names + _PADDING + columns, 1)


@dataclass(frozen=True)
class _Shading:
    """What all panels of a table share: the answer that is darkest, and digits of numbers.

    Numbers that may well be below zero are as dark as they are far from it, in another colour.
    """

    most: float
    digits: int
    signed: bool

    @classmethod
    def of(cls, column: Column, signed: bool) -> _Shading:
        digits = _DIGITS
        uncertain = column.half[np.isfinite(column.half) & (column.half > 0)]
        if uncertain.size:
            digits = decimals(float(uncertain.min()))

        most = float(np.nanmax(np.abs(column.answers)))
        most = most or _LEAST
        while digits > 0 and len(rounded(most, digits)) > _LONGEST:
            digits -= 1  # in all cells alike

        return cls(most, digits, signed)

    def depth(self, answer: float) -> float:
        if np.isnan(answer) or (answer < 0 and not self.signed):
            return 0.0
        root = sqrt(abs(answer) / self.most)
        return round(_DEEPEST * root, 1)

    def text(self, answer: float) -> str:
        told = rounded(answer, self.digits)
        return told if len(told) <= _LONGEST else brief_number(answer)


def grids(
    names: Sequence[str],
    down: Axis,
    across: Axis,
    column: Column,
    parts: IntArray,
    signed: bool = False,
) -> list[Grid]:
    """One grid per part, shaded alike; `signed` where answers below zero mean something."""
    if len(across.labels) > max(len(down.labels), _MANY):
        down, across, parts = across, down, parts.transpose(0, 2, 1)

    shading = _Shading.of(column, signed)
    return [
        _grid(name, down, across, column.part(part), shading)
        for name, part in zip(names, parts, strict=True)
    ]


def _grid(
    title: str, down: Axis, across: Axis, column: Column, shading: _Shading
) -> Grid:
    answers = column.answers
    half = column.half
    rows = []
    for label, *line in zip(down.labels, answers, half, strict=True):
        values = zip(across.labels, *line, strict=True)
        cells = [
            _cell(f"{label}, {other}", float(answer), float(width), shading)
            for other, answer, width in values
        ]
        rows.append((label, tuple(cells)))

    numbers = len(across.labels) <= _MOST_NUMBERS
    return Grid(
        title=title,
        down=down.name,
        across=across.name,
        heads=_heads(across.labels, len(across.labels) if numbers else _HEADS),
        rows=tuple(rows),
        numbers=numbers,
        unsure=any(cell.unsure for _, cells in rows for cell in cells),
        error=_error(half),
        darkest=figure(shading.most),
    )


def _cell(name: str, answer: float, half: float, shading: _Shading) -> Cell:
    says = f"{name}: {rounded(answer, shading.digits)}"
    return Cell(
        text=shading.text(answer),
        depth=shading.depth(answer),
        unsure=bool(half > _UNSURE * abs(answer)),
        below=bool(answer < 0),
        says=says if np.isnan(half) else f"{says} ± {figure(half)}",
    )


def _error(half: FloatArray) -> str:
    """How far off the numbers of a grid may be."""
    known = half[np.isfinite(half)]
    if not known.size:
        return ""

    low = figure(float(known.min()))
    high = figure(float(known.max()))
    return f"± {low}" if low == high else f"± {low} to {high}"


def _heads(labels: Sequence[str], most: int) -> tuple[tuple[str, int], ...]:
    """Labels of every so many columns, each above all columns up to the next."""
    step = ceil(len(labels) / most)
    starts = range(0, len(labels), step)
    return tuple((labels[start], min(step, len(labels) - start)) for start in starts)
