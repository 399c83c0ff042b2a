"""What is drawn of a table: rows with error bars, curves in bands, or grids of cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.planning.plan import ReleasedTable
from noisewright.report.figures.bars import MOST_BARS, Bars, bars
from noisewright.report.figures.curves import Curve, curves
from noisewright.report.figures.grids import Grid, grids
from noisewright.workload.questions.statistics import PEOPLE, Column
from noisewright.workload.questions.table_axes import Axis

_MOST_COLUMNS = 100
"""Of a grid: more are narrower than three points of a page."""
_MOST_PANELS = 12
"""Curves or grids of one table: what fits on two screens."""

Figure = Bars | Curve | Grid


def figures(
    table: ReleasedTable, column: Column, truth: FloatArray | None
) -> Sequence[Figure]:
    """What is drawn of a table; nothing where no drawing says more than its rows."""
    axes = table.axes
    shape = tuple(len(axis.labels) for axis in axes)
    if not axes or np.prod(shape) != table.queries or np.isnan(column.answers).all():
        return []

    kinds = [axis.kind for axis in axes]
    if "range" in kinds or kinds.count("cumulative") > 1:
        return []
    if "cumulative" in kinds:
        return _curves(table, column, truth, kinds.index("cumulative"))

    fits = table.queries <= MOST_BARS
    if len(axes) == 1 or (table.unit != PEOPLE and fits):
        return [bars(table, column, truth)] if fits else []

    panels = int(np.prod(shape[:-2]))
    if panels > _MOST_PANELS or max(shape[-2:]) > _MOST_COLUMNS:
        return []

    parts = np.arange(table.queries).reshape(panels, *shape[-2:])
    return grids(_names(axes[:-2]), axes[-2], axes[-1], column, parts)


def _curves(
    table: ReleasedTable, column: Column, truth: FloatArray | None, place: int
) -> Sequence[Figure]:
    """One curve for every combination of the other attributes, if there are not too many."""
    axis = table.axes[place]
    names = _names([other for other in table.axes if other is not axis])
    if len(names) > _MOST_PANELS:
        return []

    shape = [len(axis.labels) for axis in table.axes]
    numbers = np.arange(table.queries).reshape(shape)
    parts = np.moveaxis(numbers, place, -1).reshape(len(names), -1)

    return curves(names, axis, table.unit, column, parts, truth)


def _names(axes: Sequence[Axis]) -> list[str]:
    """Every combination of values in words; one empty name for no attribute."""
    labels = [[f"{axis.name} = {label}" for label in axis.labels] for axis in axes]
    return [", ".join(names) for names in product(*labels)]
