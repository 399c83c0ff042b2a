"""Queries in text, such as `prefix:12`: what they ask in words, and what their answers stand for.

Questions about a table name their attributes; these have cells by number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.plan import ReleasedTable
from noisewright.report.figures.bars import MOST_BARS
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.questions.table_axes import Axis

_MOST_POINTS = 4_096  # of a curve: what a browser draws at once
_KINDS: dict[type[Workload], Literal["value", "cumulative"]] = {
    Identity: "value",
    Prefix: "cumulative",
}


def workload_in_words(workload: Workload) -> str:
    """What queries ask, for those that have plain words, and how many there are for others."""
    cells = f"{workload.size:,} cells"
    words: dict[type[Workload], str] = {
        Identity: f"how many people are in each of {cells}",
        Prefix: f"how many people are in the first k of {cells}, for every k",
        Ranges: f"how many people are in every run of neighbouring cells, of {cells}",
        Total: "how many people there are",
    }
    count = f"{workload.queries:,} weighted count{'s' if workload.queries != 1 else ''}"

    return words.get(type(workload), f"{count} of people in {cells}")


def drawable(
    plan: object, table: ReleasedTable, labels: Sequence[str]
) -> ReleasedTable:
    """The table with axes that it can be drawn over, where queries in text leave it without."""
    if table.axes or not isinstance(plan, CentralPlan | LocalPlan):
        return table
    axes = _axes(plan.workload)
    if not axes and len(labels) <= MOST_BARS:
        axes = (Axis("query", "query", tuple(labels)),)
    return replace(table, axes=axes)


def _axes(workload: Workload) -> tuple[Axis, ...]:
    """One axis per factor of a product of cells and running sums; none for anything else."""
    factors = workload.factors if type(workload) is Kron else (workload,)
    if workload.queries > _MOST_POINTS or not all(
        type(each) in _KINDS for each in factors
    ):
        return ()

    names = (
        ["cell"]
        if len(factors) == 1
        else [f"cell of {k + 1}" for k in range(len(factors))]
    )
    return tuple(
        Axis(
            name,
            _KINDS[type(each)],
            tuple(map(str, range(each.size))),
            _ends(each.size),
        )
        for name, each in zip(names, factors, strict=True)
    )


def _ends(size: int) -> tuple[float, ...]:
    return tuple(map(float, range(size)))
