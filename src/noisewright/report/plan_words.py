"""What a plan of any kind will answer and how wrong that will be, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from math import isfinite

import numpy as np

from noisewright.planning.central import CentralPlan
from noisewright.planning.covariance import CovariancePlan
from noisewright.planning.local import LocalPlan
from noisewright.planning.open_values import OpenPlan
from noisewright.planning.pairs import PairsPlan
from noisewright.planning.plan import Errors, Plan, TableError
from noisewright.planning.stream import CarryStreamPlan, StreamPlan
from noisewright.planning.together import Together
from noisewright.planning.values import ValuePlan
from noisewright.report.figures import Figure
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.figures.curves import Banded, curve, even, step_marks
from noisewright.report.numbers import figure
from noisewright.report.page import certified
from noisewright.report.words import Tile, asked_for, ratio_tile, tables_in_words
from noisewright.workload.statistics import PEOPLE

_CROWDS = (1_000, 10_000, 100_000, 1_000_000)
_HEADS = ("table", "answers", "typical error", "95 % for all at once")
_DEPENDS = "– depends on how many people there are."


@dataclass(frozen=True)
class Line:
    """A row of a table of errors, with its error as a part of the largest."""

    name: str
    cells: tuple[str, ...]
    part: float | None


@dataclass(frozen=True)
class PlanWords:
    """What is asked, the figures that matter most, and the errors drawn or table by table."""

    asked: str
    tiles: Sequence[Tile]
    drawings: list[Figure] = field(default_factory=list)
    heads: Sequence[str] = _HEADS
    tables: Sequence[Line] = ()
    notes: Sequence[str] = ()


@singledispatch
def plan_words(plan: Plan) -> PlanWords:
    """The words of a plan, by its kind."""
    return PlanWords(f"{type(plan).__name__}.", _error_tiles(plan.forecast()))


@plan_words.register
def _central(plan: CentralPlan) -> PlanWords:
    tables, notes = _lines(plan.table_errors())
    return PlanWords(
        asked=f"Asked: {tables_in_words(plan.tables())}.",
        tiles=[*_error_tiles(plan.forecast()), ratio_tile(plan.summary())],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _local(plan: LocalPlan) -> PlanWords:
    goal = f"for a normalised variance of {plan.alpha or 0.01:g}, whatever the data"
    tables, notes = _lines(plan.table_errors()) if plan.people else ([], [])
    errors = {count: plan.forecast(count).worst_rmse / count for count in _CROWDS}
    return PlanWords(
        asked=f"Asked: {tables_in_words(plan.tables())}.",
        tiles=[
            Tile("people needed", f"{plan.people_for():,}", goal),
            Tile("a report", f"{plan.format.length} bytes", "sent once by every person"),
            ratio_tile(certified(plan)),
        ],
        drawings=[_shares("standard error of a share, at worst, by how many report", errors)],
        tables=tables,
        notes=notes,
    )


@plan_words.register(StreamPlan)
@plan_words.register(CarryStreamPlan)
def _stream(plan: StreamPlan | CarryStreamPlan) -> PlanWords:
    forecast = plan.forecast()
    std = forecast.std
    chosen = np.unique(np.linspace(0, len(std) - 1, 600).round().astype(np.int64))
    part = std[chosen]
    drawn = Banded(part, (part, part), (0 * part, part), even(len(std))[chosen])
    marks = step_marks(len(std))
    return PlanWords(
        asked="A running count of people, one answer a step.",
        tiles=[*_error_tiles(forecast), ratio_tile(plan.summary())],
        drawings=[curve(drawn, "standard error of every step", "step", PEOPLE, marks)],
    )


@plan_words.register
def _together(plan: Together) -> PlanWords:
    tables, notes = _lines([error for each in plan.plans for error in each.table_errors()])
    return PlanWords(
        asked=f"{len(plan.plans)} plans about the same people.",
        tiles=[*_error_tiles(plan.forecast()), ratio_tile(plan.summary())],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _open(plan: OpenPlan) -> PlanWords:
    assumed = plan.assumed()
    tables, notes = _lines(assumed.table_errors())
    return PlanWords(
        asked=f"The values of {', '.join(plan.open_names)} that enough people hold, and over "
        f"them {tables_in_words(assumed.tables())}.",
        tiles=[*_error_tiles(plan.forecast()), ratio_tile(plan.summary())],
        drawings=[_told_values(plan.chances())],
        tables=tables,
        notes=notes,
    )


@plan_words.register
def _values(plan: ValuePlan) -> PlanWords:
    last = plan.selection.certain
    counts = sorted({1, last, *(max(1, round(last * part / 8)) for part in range(1, 8))})
    return PlanWords(
        asked=f"The values of {plan.column} that enough people hold.",
        tiles=[
            Tile("told for certain", f"{last:,} people", "or more hold the value"),
            Tile("told of one person", f"{plan.chance(1):.3g}", "at most, by chance"),
        ],
        drawings=[_told_values({count: plan.chance(count) for count in counts})],
    )


@plan_words.register
def _covariance(plan: CovariancePlan) -> PlanWords:
    names = {"mean": "a mean", "second_moment": "a second moment", "covariance": "a covariance"}
    size = len(plan.columns)
    errors = {count: plan.errors(count) for count in _CROWDS}
    rows = [name for name in names if name in errors[_CROWDS[0]]]
    parts = {name: size**0.5 if name == "mean" else size for name in rows}
    return PlanWords(
        asked=f"Means, second moments and covariances of {asked_for(plan.columns)}. Rows "
        f"longer than {plan.method.radius:g} are shortened to that.",
        tiles=[
            Tile("columns", f"{size:,}", f"rows of length {plan.method.radius:g} at most"),
            Tile("noise", plan.mechanism, "on all of them at once"),
            ratio_tile(plan.summary()),
        ],
        heads=("error of", *(f"{count:,} people" for count in _CROWDS)),
        tables=[
            Line(
                names[name],
                tuple(f"± {figure(errors[count][name] / parts[name])}" for count in _CROWDS),
                None,
            )
            for name in rows
        ],
        notes=["Root mean square over columns or pairs of them, in the units of the columns."],
    )


@plan_words.register
def _pairs(plan: PairsPlan) -> PlanWords:
    forecast = plan.forecast()
    pairs = len(forecast.std)
    return PlanWords(
        asked=f"How many people have both of any two of {len(plan.columns):,} attributes: "
        f"{asked_for(plan.columns)}.",
        tiles=[Tile("pairs", f"{pairs:,}", "answered at once"), *_error_tiles(forecast)],
        drawings=[
            _shares(
                "standard error of a share as measured, at worst, by how many people there are",
                {count: forecast.rmse / count for count in _CROWDS},
            )
        ],
    )


def _error_tiles(forecast: Errors) -> list[Tile]:
    return [
        Tile("typical error", f"± {figure(forecast.rmse)}", "root mean square over answers"),
        Tile("largest error", f"± {figure(forecast.max)}", "standard error of one answer"),
    ]


def _lines(errors: Sequence[TableError]) -> tuple[list[Line], list[str]]:
    """Name, answers, typical and largest error of every table, and what to know of them."""
    known = [error.rmse for error in errors if isfinite(error.rmse)]
    lines = [
        Line(
            error.name,
            (f"{error.queries:,}", _error(error.rmse), _error(error.simultaneous_halfwidth)),
            round(100 * error.rmse / max(known), 2) if isfinite(error.rmse) else None,
        )
        for error in errors
    ]
    return lines, [_DEPENDS] if len(known) < len(errors) else []


def _error(value: float) -> str:
    return f"± {figure(value)}" if isfinite(value) else "–"


def _shares(title: str, errors: Mapping[int, float]) -> Bars:
    """Errors of shares by how many people there are."""
    largest = max(errors.values())
    rows = tuple(
        Bar(f"{count:,} people", f"± {100 * error:.2g} % points", width=100 * error / largest)
        for count, error in errors.items()
    )
    return Bars(title, "", rows)


def _told_values(chances: Mapping[int, float]) -> Bars:
    """The fraction of values that are told, by how many people hold each."""
    rows = tuple(
        Bar(
            f"{count:,} {'person' if count == 1 else 'people'}",
            f"{100 * chance:.3g} %",
            width=round(100 * chance, 2),
        )
        for count, chance in chances.items()
    )
    return Bars("values that are told, by how many people hold each", "", rows)
