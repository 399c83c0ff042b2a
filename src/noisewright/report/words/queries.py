"""What queries ask and what was done to their answers, in words.

Questions about a table name their attributes; queries in text, such as `prefix:12`, have cells by
number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from noisewright.planning.plan import ReleasedTable
from noisewright.report.figures.bars import MOST_BARS
from noisewright.report.words.numbers import figure, percent_above
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.questions.table_axes import Axis

_MOST_POINTS = 4_096
"""Of a curve: what a browser draws at once."""

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
    workload: Workload, table: ReleasedTable, labels: Sequence[str]
) -> ReleasedTable:
    """The table with axes that it can be drawn over, where queries in text leave it without."""
    if table.axes:
        return table
    axes = _axes(workload)
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


_NOTHING = "Nothing that changes answers: they are unbiased, as they were measured."
_BIASED = "The plan's own estimate, which need not be unbiased."
_PLAIN: tuple[object, ...] = (None, False, {}, 0.0, "plug-in")
_AROUND = (
    "Intervals are those of the unbiased answers, widened where need be to hold these."
)


def _invariants(known: Mapping[str, float]) -> str:
    values = ", ".join(f"{name} = {figure(value)}" for name, value in known.items())
    return (
        f"Public numbers are told as they are, which narrows other intervals: {values}."
    )


_WORDS: dict[str, Callable[[Any], str]] = {
    "invariants": _invariants,
    "non_negative": lambda _: (
        "Answers are those of a fitted table of people in which no count is below zero: no longer "
        f"unbiased, often nearer. {_AROUND}"
    ),
    "integer": lambda _: (
        "Answers are those of a fitted table of whole people, in which no count is below zero. "
        f"{_AROUND}"
    ),
    "suppress": lambda most: (
        f"Answers with a standard error of more than {percent_above(most)} of them are left "
        "out. Whether one is kept depends on its noise, so that all intervals are those for all "
        "answers at once."
    ),
    "shrink": lambda _: (
        "Answers are shrunk: biased, with the least error on the worst data that such an estimate "
        f"has. {_AROUND}"
    ),
    "population": lambda _: (
        "Errors are about the population that people were drawn from."
    ),
    "errors": lambda _: (
        "Standard errors are those on the worst data, not the estimated ones."
    ),
    "liars": lambda part: (
        f"Answers and intervals hold even if {percent_above(part)} of the reports were sent to "
        "deceive."
    ),
    "margins": lambda _: "Answers are weighted to the public counts of a population.",
}


Step: TypeAlias = Mapping[str, Any]
"""What was done to answers: names of steps with their settings."""


def steps_in_words(steps: Sequence[Step], *, changed: bool) -> list[str]:
    """A sentence or two for each step; that nothing was done is said too."""
    told = [
        _WORDS[name](value) if name in _WORDS else f"{name.replace('_', ' ')}: {value}"
        for step in steps
        for name, value in step.items()
        if value not in _PLAIN
    ]
    return told or [_BIASED if changed else _NOTHING]
