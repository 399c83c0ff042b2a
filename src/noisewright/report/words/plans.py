"""What a plan of any kind will answer and how wrong that will be, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from math import isfinite, sqrt
from typing import cast

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
from noisewright.report.figures.curves import (
    Banded,
    Frame,
    curve,
    evenly_spaced,
    step_marks,
)
from noisewright.report.words.facts import Tile, asked_for, tables_in_words
from noisewright.report.words.numbers import error_figure, figure, plain_number
from noisewright.workload.questions.statistics import PEOPLE, Column

_PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
"""How many people errors of shares are told for: from a village to a city."""
_HEADS = ("table", "answers", "typical error", "95 % for all at once")
_MOST_POINTS = 600
"""Of a curve of steps: more than a screen has points across."""
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

    `is_bounded` where bounds on errors are known or looked for; `tells_ratio` where the nearest of
    them is among the figures that matter.
    """

    asked: str
    tiles: Sequence[Tile]
    title: str = "Plan of a release"
    heading: str = "How wrong the answers will be"
    is_bounded: bool = True
    tells_ratio: bool = True
    drawings: list[Figure] = field(default_factory=list)
    heads: Sequence[str] = _HEADS
    tables: Sequence[Line] = ()
    notes: Sequence[str] = ()


@singledispatch
def plan_words(plan: Plan) -> PlanWords:
    """The words of a plan, by its kind."""
    forecast = cast("Forecast", plan.forecast())
    return PlanWords(
        f"{type(plan).__name__}.", _error_tiles(forecast), tells_ratio=False
    )


@plan_words.register
def _words_with_curator(plan: CentralPlan) -> PlanWords:
    """Errors table by table."""
    asked = f"Asked: {tables_in_words(plan.tables(), plan.workload)}."
    return _Errors.of([plan]).words(asked, plan.forecast())


@plan_words.register
def _words_without_curator(plan: LocalPlan) -> PlanWords:
    """How many people are needed, and errors of shares by how many there are."""
    off = plain_number(100 * sqrt(plan.alpha or ALPHA), 3)
    goal = f"for shares that are ± {off} % points off (root mean square), whatever the data"
    tables = _Errors.of([plan] if plan.people else [])
    search = f" The search for this plan was {CUT_SHORT}." if plan.cut_short else ""
    errors = {count: plan.forecast(count).worst_rmse / count for count in _PEOPLE}
    title = "standard error of a share, at worst, by how many report"

    return PlanWords(
        title="Plan of a survey",
        asked=f"Asked: {tables_in_words(plan.tables(), plan.workload)}. "
        f"Everybody's answer is randomised before it is sent.{search}",
        tiles=[
            Tile("people needed", f"{plan.people_for():,}", goal),
            Tile(
                "a report", f"{plan.format.length} bytes", "sent once by every person"
            ),
        ],
        drawings=[_shares(title, errors)],
        tables=tables.lines,
        notes=tables.notes,
    )


@plan_words.register
def _words_of_stream(plan: StreamPlan) -> PlanWords:
    """The error of every step, drawn."""
    forecast = plan.forecast()
    std = forecast.std
    below = Column(std, std, (std, std), (0 * std, std))
    drawn = Banded(below, evenly_spaced(len(std))).thinned(_MOST_POINTS)
    marks = step_marks(len(std))
    frame = Frame("standard error of every step", "step", PEOPLE, marks)

    return PlanWords(
        title="Plan of a running count",
        asked=f"A running count of people, one answer at each of {len(std):,} steps.",
        tiles=_error_tiles(forecast),
        drawings=[curve(drawn, frame)],
    )


@plan_words.register
def _words_together(plan: Together) -> PlanWords:
    """Errors of the tables of all plans."""
    asked = f"{len(plan.plans)} plans about the same people."
    words = _Errors.of(plan.plans).words(asked, plan.forecast())
    return replace(words, title="Plans that share a budget")


@plan_words.register
def _words_of_open_values(plan: OpenPlan) -> PlanWords:
    """Errors as they would be of the values assumed, and which values will be told."""
    assumed = plan.assumed()
    asked = (
        f"The values of {', '.join(plan.open_names)} that enough people hold, and over "
        f"them {tables_in_words(assumed.tables())}."
    )
    return replace(
        _Errors.of([assumed]).words(asked, plan.forecast()),
        title="Plan of a release over values nobody listed",
        drawings=[_told_values(plan.chances())],
    )


@plan_words.register
def _words_of_values(plan: ValuePlan) -> PlanWords:
    """Which values will be told, by how many people hold them."""
    last = plan.selection.certain
    counts = sorted(
        {1, last, *(max(1, round(last * part / 8)) for part in range(1, 8))}
    )

    return PlanWords(
        title="Plan of a list of values",
        heading="Which values will be told",
        is_bounded=False,
        tells_ratio=False,
        asked=f"The values of {plan.column} that enough people hold.",
        tiles=[
            Tile("told for certain", f"{last:,} people", "or more hold the value"),
            Tile(
                "told of one person",
                plain_number(plan.chance(1), 3),
                "chance, where nobody else holds it",
            ),
        ],
        drawings=[_told_values({count: plan.chance(count) for count in counts})],
    )


@plan_words.register
def _words_of_moments(plan: CovariancePlan) -> PlanWords:
    """Errors of means and covariances, by how many people there are."""
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
        ],
        heads=("people", *(f"error of {names[name]}" for name in rows)),
        tables=[
            Line(f"{count:,}", _each(errors[count], parts), None) for count in _PEOPLE
        ],
        notes=[
            "Root mean square over columns or pairs of them, in the units of the columns."
        ],
    )


@plan_words.register
def _words_of_pairs(plan: PairsPlan) -> PlanWords:
    """The error of a share of people, by how many there are."""
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
        tells_ratio=False,
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


def _each(errors: Mapping[str, float], parts: Mapping[str, float]) -> tuple[str, ...]:
    """Root mean squares of one number, from those over all numbers of a kind."""
    return tuple(f"± {figure(errors[name] / part)}" for name, part in parts.items())


def _error_tiles(forecast: Forecast | LocalForecast) -> list[Tile]:
    return _tiles(forecast.rmse, "", forecast.max, "one answer")


def _tiles(typical: float, over: str, largest: float, of: str) -> list[Tile]:
    """The typical and the largest error."""
    mean = f"people, root mean square {over}".rstrip()
    one = f"people, standard error of {of}"

    return [
        Tile("typical error", f"± {figure(typical)}", mean),
        Tile("largest error", f"± {figure(largest)}", one),
    ]


@dataclass(frozen=True)
class _Errors:
    """The errors of every table, with the unit that they are in."""

    known: Sequence[tuple[str, TableError]]

    @classmethod
    def of(cls, plans: Sequence[CentralPlan | LocalPlan]) -> _Errors:
        return cls(
            [
                (table.unit, error)
                for plan in plans
                for table, error in zip(plan.tables(), plan.table_errors(), strict=True)
            ]
        )

    def tiles(self, forecast: Forecast | LocalForecast) -> list[Tile]:
        """Errors of counts alone: those of sums and means have units of their own."""
        if not self.known:
            return _error_tiles(forecast)

        counts = [e for unit, e in self.known if unit == PEOPLE and isfinite(e.rmse)]
        if not counts:
            return []

        squares = sum(error.queries * error.rmse**2 for error in counts)
        typical = sqrt(squares / sum(error.queries for error in counts))
        largest = max(error.max for error in counts)
        return _tiles(typical, "over counts", largest, "a count")

    def words(self, asked: str, forecast: Forecast | LocalForecast) -> PlanWords:
        """What is asked, the typical errors, and those of every table."""
        tiles = self.tiles(forecast)
        return PlanWords(asked, tiles, tables=self.lines, notes=self.notes)

    @property
    def lines(self) -> list[Line]:
        """Name, answers, typical and largest error of every table.

        A bar is a part of the largest error in the same unit.
        """
        alike: dict[str, list[float]] = {}
        for unit, error in self.known:
            alike.setdefault(unit, []).append(error.rmse)

        return [
            Line(
                error.name,
                (
                    f"{error.queries:,}",
                    _error(error.rmse),
                    _error(error.simultaneous_halfwidth),
                ),
                _part(error.rmse, alike[unit]),
            )
            for unit, error in self.known
        ]

    @property
    def notes(self) -> list[str]:
        """What to know of the figures."""
        in_people = all(unit == PEOPLE for unit, _ in self.known)
        certain = all(isfinite(error.rmse) for _, error in self.known)
        return [_UNITS] * (not in_people) + [_DEPENDS] * (not certain)


def _part(error: float, all_: Sequence[float]) -> float | None:
    """An error as a part of the largest; none where there is nothing to compare it with."""
    finite = list(filter(isfinite, all_))
    if not isfinite(error) or len(finite) < 2 or not max(finite) > 0:
        return None
    return round(100 * error / max(finite), 2)


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
    return "> 99.9 %" if 0.9995 <= chance < 1 else f"{plain_number(100 * chance, 3)} %"
