"""The tables of a page: each with its name, what is drawn of it, and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from noisewright.arrays import BoolArray, FloatArray
from noisewright.planning.plan import ReleasedTable
from noisewright.planning.release import Release
from noisewright.report.figures import Figure, figures
from noisewright.report.words.numbers import decimals, error_figure, figure, rounded
from noisewright.report.words.queries import drawable
from noisewright.workload.questions.statistics import PEOPLE, Column

MOST_ROWS = 20_000
"""Of answers on a page: a browser scrolls through so many without a halt."""

_MOST_FIGURES = 200
"""Of tables on a page, for the same reason."""

_OPEN = 6
"""Tables that are open when a page is: what fits on a few screens."""

# of the largest error: differences of variances cancel to the root of 1e-16
_ROUNDING = 1e-7
HEADS = ("query", "answer", "std. error", "95 % interval")


@dataclass(frozen=True)
class Section:
    """One table: its name, how large and how wrong it is, what is drawn of it, and its rows."""

    name: str
    note: str
    error: str
    drawings: list[Figure]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    heads: Sequence[str] = HEADS
    more: int = 0
    open: bool = True


def sections(release: Release, truth: FloatArray | None) -> list[Section]:
    """Every table of a release, with every row up to a number that a browser bears."""
    heads = HEADS if release.beside is None else (*HEADS, "unbiased")
    result: list[Section] = []
    start = 0
    rows = 0
    drawn = 0
    for number, table in enumerate(release.tables):
        part = slice(start, start + table.queries)
        column = _settled(release.intervals.part(part))
        shaped = drawable(release.plan.workload, table, release.labels[part])
        known = None if truth is None else truth[part]
        drawings = list(figures(shaped, column, known))
        if drawn + len(drawings) > _MOST_FIGURES:
            drawings = []

        shown = min(table.queries, max(0, MOST_ROWS - rows))
        result.append(
            Section(
                name=table.name,
                note=_note(table, column),
                error=_error(table, column),
                drawings=drawings,
                rows=_rows(release, column, start, shown),
                heads=heads,
                more=table.queries - shown,
                open=number < _OPEN,
            )
        )
        start += table.queries
        rows += shown
        drawn += len(drawings)

    return result


def _note(table: ReleasedTable, column: Column) -> str:
    hidden = int(np.isnan(column.answers).sum())
    said = f"{table.queries:,} answer{'s' if table.queries != 1 else ''}"
    return said + (f", {hidden:,} left out" if hidden else "")


def _error(table: ReleasedTable, column: Column) -> str:
    """The standard errors of a table, or its intervals where there are none to state."""
    unit = " people" if table.unit == PEOPLE else f" of {table.unit}"
    std = column.std[~np.isnan(column.std)]
    name = "standard error"
    if not std.size:
        name = "95 % ±"
        std = column.half[~np.isnan(column.answers + column.half)]

    return f"{name} {error_range(std)}{unit}" if std.size else ""


def error_range(errors: FloatArray) -> str:
    """The least and the largest of several errors, or the one that all are."""
    low, high = (error_figure(float(end)) for end in (errors.min(), errors.max()))
    return low if low == high else f"{low} to {high}"


def answer_row(
    label: str, answer: float, std: float, low: float, high: float
) -> list[str]:
    """One answer in words, to the digits that its error allows."""
    half = (high - low) / 2
    digits = decimals(std if std == std and std > 0 else half)
    exact = not (std > 0 or half > 0)

    return [
        label,
        figure(answer) if exact else rounded(answer, digits),
        "" if std != std else error_figure(std),
        "" if low != low else f"{rounded(low, digits)} … {rounded(high, digits)}",
    ]


def _settled(column: Column) -> Column:
    """Without errors that are rounding alone, as where the parts of a known whole add up."""
    exact = _is_rounding(column.std) & _is_rounding(column.half)
    if not exact.any():
        return column

    std = np.where(exact, 0.0, column.std)
    each, all_ = (
        (np.where(exact, column.answers, low), np.where(exact, column.answers, high))
        for low, high in (column.each, column.all)
    )
    return Column(column.answers, std, each, all_)


def _is_rounding(errors: FloatArray) -> BoolArray:
    """Which errors are nothing beside the largest."""
    largest = errors[~np.isnan(errors)].max(initial=0.0)
    return np.asarray(errors <= _ROUNDING * largest)


def _rows(release: Release, column: Column, start: int, count: int) -> list[list[str]]:
    part = slice(start, start + count)
    numbers = (column.answers, column.std, *column.each)
    values = zip(*(each[:count].tolist() for each in numbers), strict=True)
    labels = release.labels[part]
    rows = [
        answer_row(label, *each) for label, each in zip(labels, values, strict=True)
    ]
    if release.beside is not None:
        beside = release.beside.part(part)
        for cells, answer, std in zip(rows, beside.answers, beside.std, strict=True):
            cells.append(f"{figure(answer)} ± {figure(std)}")

    return rows
