"""What a plan of any kind will answer and how wrong that will be, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from math import isfinite, sqrt
from typing import cast

import numpy as np

from noisewright.local.choose.cost import ALPHA
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.found.open_values import OpenPlan
from noisewright.planning.found.values import ValuePlan
from noisewright.planning.local.forecast import CUT_SHORT, LocalForecast
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.plan import Forecast, Plan, TableError
from noisewright.planning.rows.covariance import CovariancePlan
from noisewright.planning.rows.pairs import PairsPlan
from noisewright.planning.streams import StreamPlan
from noisewright.planning.together import Together
from noisewright.report.figures import Figure
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.figures.curves import Banded, curve, even, step_marks
from noisewright.report.words.numbers import error_figure, figure, plain
from noisewright.report.words.promises import (
    Tile,
    asked_for,
    certified,
    tables_in_words,
)
from noisewright.workload.questions.statistics import PEOPLE

_PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
"""How many people errors of shares are told for: from a village to a city."""
_HEADS = ("table", "answers", "typical error", "95 % for all at once")
_DEPENDS = "– depends on how many people there are."
_UNITS = "Counts in people; sums, means and quantiles in the unit of what they are of."


@dataclass(frozen=True)
class Line:
    """A row of a table of errors, with its error as a part of the largest."""

    name: str
    cells: tuple[str, ...]
    part: float | None


@dataclass(frozen=True)
class PlanWords:
    """What is asked, the figures that matter most, and the errors drawn or table by table.

    `is_bounded` where bounds on errors are known or looked for.
    """

    asked: str
    tiles: Sequence[Tile]
    title: str = "Plan of a release"
    heading: str = "How wrong the answers will be"
    is_bounded: bool = True
    drawings: list[Figure] = field(default_factory=list)
    heads: Sequence[str] = _HEADS
    tables: Sequence[Line] = ()
    notes: Sequence[str] = ()


@singledispatch
def plan_words(plan: Plan) -> PlanWords:
    """The words of a plan, by its kind."""
    return PlanWords(
        f"{type(plan).__name__}.", _error_tiles(cast("Forecast", plan.forecast()))
    )


@plan_words.register
def _central(plan: CentralPlan) -> PlanWords:
    errors = _by_unit([plan])
    tables, notes = _lines(errors)
    return PlanWords(
        asked=f"Asked: {tables_in_words(plan.tables(), plan.workload)}.",
        tiles=[
            *_count_tiles(errors, plan.forecast()),
            certified(plan, plan.summary()).tile,
        ],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _local(plan: LocalPlan) -> PlanWords:
    off = plain(100 * sqrt(plan.alpha or ALPHA), 3)
    goal = f"for shares that are ± {off} % points off (root mean square), whatever the data"
    tables, notes = _lines(_by_unit([plan])) if plan.people else ([], [])
    search = f" The search for this plan was {CUT_SHORT}." if plan.cut_short else ""
    errors = {count: plan.forecast(count).worst_rmse / count for count in _PEOPLE}

    return PlanWords(
        title="Plan of a survey",
        asked=f"Asked: {tables_in_words(plan.tables(), plan.workload)}. "
        f"Everybody's answer is randomised before it is sent.{search}",
        tiles=[
            Tile("people needed", f"{plan.people_for():,}", goal),
            Tile(
                "a report", f"{plan.format.length} bytes", "sent once by every person"
            ),
            certified(plan, {}).tile,
        ],
        drawings=[
            _shares("standard error of a share, at worst, by how many report", errors)
        ],
        tables=tables,
        notes=notes,
    )


@plan_words.register(StreamPlan)
def _stream(plan: StreamPlan) -> PlanWords:
    forecast = plan.forecast()
    std = forecast.std
    chosen = np.unique(np.linspace(0, len(std) - 1, 600).round().astype(np.int64))
    part = std[chosen]
    drawn = Banded(part, (part, part), (0 * part, part), even(len(std))[chosen])
    marks = step_marks(len(std))

    return PlanWords(
        title="Plan of a running count",
        asked=f"A running count of people, one answer at each of {len(std):,} steps.",
        tiles=[*_error_tiles(forecast), certified(plan, plan.summary()).tile],
        drawings=[curve(drawn, "standard error of every step", "step", PEOPLE, marks)],
    )


@plan_words.register
def _together(plan: Together) -> PlanWords:
    errors = _by_unit(plan.plans)
    tables, notes = _lines(errors)
    return PlanWords(
        title="Plans that share a budget",
        asked=f"{len(plan.plans)} plans about the same people.",
        tiles=[
            *_count_tiles(errors, plan.forecast()),
            certified(plan, plan.summary()).tile,
        ],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _open(plan: OpenPlan) -> PlanWords:
    assumed = plan.assumed()
    errors = _by_unit([assumed])
    tables, notes = _lines(errors)

    return PlanWords(
        title="Plan of a release over values nobody listed",
        asked=f"The values of {', '.join(plan.open_names)} that enough people hold, and over "
        f"them {tables_in_words(assumed.tables())}.",
        tiles=[
            *_count_tiles(errors, plan.forecast()),
            certified(plan, plan.summary()).tile,
        ],
        drawings=[_told_values(plan.chances())],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _values(plan: ValuePlan) -> PlanWords:
    last = plan.selection.certain
    counts = sorted(
        {1, last, *(max(1, round(last * part / 8)) for part in range(1, 8))}
    )
    return PlanWords(
        title="Plan of a list of values",
        heading="Which values will be told",
        is_bounded=False,
        asked=f"The values of {plan.column} that enough people hold.",
        tiles=[
            Tile("told for certain", f"{last:,} people", "or more hold the value"),
            Tile(
                "told of one person",
                plain(plan.chance(1), 3),
                "chance, where nobody else holds it",
            ),
        ],
        drawings=[_told_values({count: plan.chance(count) for count in counts})],
    )


@plan_words.register
def _covariance(plan: CovariancePlan) -> PlanWords:
    names = {
        "mean": "a mean",
        "second_moment": "a second moment",
        "covariance": "a covariance",
    }
    size = len(plan.columns)
    errors = {count: plan.errors(count) for count in _PEOPLE}
    rows = [name for name in names if name in errors[_PEOPLE[0]]]
    parts = {name: size**0.5 if name == "mean" else size for name in rows}

    return PlanWords(
        title="Plan of means and covariances",
        asked=f"Means, second moments and covariances of {asked_for(plan.columns)}. Rows "
        f"longer than {plan.mechanism.radius:g} are shortened to that.",
        tiles=[
            Tile(
                "columns",
                f"{size:,}",
                f"rows of length {plan.mechanism.radius:g} at most",
            ),
            Tile("noise", plan.mechanism.name, "on all of them at once"),
            certified(plan, plan.summary()).tile,
        ],
        heads=("people", *(f"error of {names[name]}" for name in rows)),
        tables=[
            Line(
                f"{count:,}",
                tuple(
                    f"± {figure(errors[count][name] / parts[name])}" for name in rows
                ),
                None,
            )
            for count in _PEOPLE
        ],
        notes=[
            "Root mean square over columns or pairs of them, in the units of the columns."
        ],
    )


@plan_words.register
def _pairs(plan: PairsPlan) -> PlanWords:
    forecast = plan.forecast()
    pairs = len(forecast.std)
    return PlanWords(
        title="Plan of pairs of attributes",
        asked=f"How many people have both of any two of {len(plan.columns):,} attributes: "
        f"{asked_for(plan.columns)}.",
        tiles=[
            Tile("pairs", f"{pairs:,}", "answered at once"),
            *_error_tiles(forecast),
        ],
        heads=("people", "standard error of a share as measured, at worst"),
        tables=[
            Line(
                f"{count:,}",
                (f"± {figure(100 * forecast.rmse / count)} % points",),
                None,
            )
            for count in _PEOPLE
        ],
    )


def _error_tiles(forecast: Forecast | LocalForecast) -> list[Tile]:
    return [
        Tile("typical error", f"± {figure(forecast.rmse)}", "people, root mean square"),
        Tile(
            "largest error",
            f"± {figure(forecast.max)}",
            "people, standard error of one answer",
        ),
    ]


def _by_unit(plans: Sequence[CentralPlan | LocalPlan]) -> list[tuple[str, TableError]]:
    """The errors of every table, with the unit that they are in."""
    return [
        (table.unit, error)
        for plan in plans
        for table, error in zip(plan.tables(), plan.table_errors(), strict=True)
    ]


def _count_tiles(
    errors: Sequence[tuple[str, TableError]], forecast: Forecast | LocalForecast
) -> list[Tile]:
    """Errors of counts alone: those of sums and means have units of their own."""
    counts = [
        error for unit, error in errors if unit == PEOPLE and isfinite(error.rmse)
    ]
    if not counts:
        return _error_tiles(forecast) if not errors else []

    total = sum(error.queries for error in counts)
    typical = sqrt(sum(error.queries * error.rmse**2 for error in counts) / total)
    largest = max(error.max for error in counts)

    return [
        Tile(
            "typical error",
            f"± {figure(typical)}",
            "people, root mean square over counts",
        ),
        Tile(
            "largest error", f"± {figure(largest)}", "people, standard error of a count"
        ),
    ]


def _lines(errors: Sequence[tuple[str, TableError]]) -> tuple[list[Line], list[str]]:
    """Name, answers, typical and largest error of every table, and what to know of them.

    A bar is a part of the largest error in the same unit.
    """
    known: dict[str, list[float]] = {}
    for unit, error in errors:
        known.setdefault(unit, []).extend([error.rmse] * isfinite(error.rmse))

    lines = [
        Line(
            error.name,
            (
                f"{error.queries:,}",
                _error(error.rmse),
                _error(error.simultaneous_halfwidth),
            ),
            _part(error.rmse, known[unit]),
        )
        for unit, error in errors
    ]
    units = {unit for unit, _ in errors}
    notes = [_UNITS] if units - {PEOPLE} else []

    return lines, [
        *notes,
        *([_DEPENDS] if not all(isfinite(e.rmse) for _, e in errors) else []),
    ]


def _part(error: float, all_: Sequence[float]) -> float | None:
    """An error as a part of the largest; none where there is nothing to compare it with."""
    if not isfinite(error) or len(all_) < 2 or not max(all_) > 0:
        return None
    return round(100 * error / max(all_), 2)


def _error(value: float) -> str:
    return f"± {error_figure(value)}" if isfinite(value) else "–"


def _shares(title: str, errors: Mapping[int, float]) -> Bars:
    """Outlook of shares by how many people there are."""
    largest = max(errors.values())
    rows = tuple(
        Bar(
            f"{count:,} people",
            f"± {100 * error:.2g} % points",
            width=100 * error / largest,
        )
        for count, error in errors.items()
    )
    return Bars(title, "", rows)


def _told_values(chances: Mapping[int, float]) -> Bars:
    """The fraction of values that are told, by how many people hold each."""
    rows = tuple(
        Bar(
            f"{count:,} {'person' if count == 1 else 'people'}",
            _chance(chance),
            width=round(100 * chance, 2),
        )
        for count, chance in chances.items()
    )
    return Bars("values that are told, by how many people hold each", "", rows)


def _chance(chance: float) -> str:
    """A chance in per cent; what is not certain is not said to be."""
    return "> 99.9 %" if 0.9995 <= chance < 1 else f"{plain(100 * chance, 3)} %"
