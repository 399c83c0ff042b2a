"""The page of a plan: what will be promised, how wrong each table will be, and who else tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from noisewright.planning.central import CentralPlan
from noisewright.planning.explain import Reason
from noisewright.planning.local import LocalPlan
from noisewright.planning.open_values import OpenPlan
from noisewright.planning.plan import Plan, TableError
from noisewright.planning.stream import CarryStreamPlan, StreamPlan
from noisewright.planning.together import Together
from noisewright.report.figures import Bar, Bars, Figure, line_in_band
from noisewright.report.numbers import figure
from noisewright.report.render import render
from noisewright.report.stream_page import step_marks
from noisewright.report.words import (
    ERRORS,
    Limit,
    Tile,
    asked_for,
    facts,
    for_one_person,
    limits,
    local_limits,
    promise_sentence,
    promise_tile,
    ratio_tile,
)
from noisewright.workload.statistics import PEOPLE

_PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
_NAMES = {
    "mechanism": "mechanism",
    "queries": "answers",
    "size": "cells",
    "steps": "steps",
    "memory": "numbers of memory",
    "status": "how the search ended",
    "report_bytes": "bytes of a report",
    "certificate": "proved by",
    "seconds": "seconds of planning",
}


def plan_page(plan: Plan, title: str = "Plan", others: Sequence[Reason] = ()) -> str:
    """The page as HTML; nothing was spent yet, and nothing private is in it."""
    known = plan.summary()
    person = {"local": "one report, sent by one person"}.get(plan.model, "one person")
    promised = promise_sentence(plan.privacy.neighbours)
    return render(
        "plan.html",
        title=title,
        lead=f"{_asked(plan)} Nothing was spent yet. Once released, {promised}.",
        tiles=[promise_tile(plan.privacy), *_tiles(plan, known)],
        person=for_one_person(plan.spend, plan.privacy.neighbours, known.get("person", person)),
        limits=_limits(plan, known),
        error=ERRORS.get(known.get("error", ""), "in its own sense"),
        drawings=_drawings(plan),
        tables=_tables(plan),
        runners_up=_runners_up(known, others),
        provenance=[(name, _short(value)) for name, value in facts(known, _NAMES)],
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _short(text: str) -> str:
    try:
        return text if float(text).is_integer() else figure(float(text))
    except ValueError:
        return text


def _asked(plan: Plan) -> str:
    if isinstance(plan, CentralPlan | LocalPlan):
        return f"Asked: {asked_for([table.name for table in plan.tables()])}."
    if isinstance(plan, Together):
        return f"{len(plan.plans)} plans about the same people."
    if isinstance(plan, OpenPlan):
        told = f"The values of {', '.join(plan.open_names)} that enough people hold, and over them"
        return f"{told}: {asked_for([table.name for table in plan.assumed().tables()])}."
    return "A running count, one answer a step."


def _tiles(plan: Plan, known: dict[str, Any]) -> list[Tile]:
    if isinstance(plan, LocalPlan):
        ratio = known["certified_ratio"] or known["ratio"]
        needed = plan.people_for()
        alpha = f"for a normalised variance of {plan.alpha or 0.01:g}, whatever the data"
        return [
            Tile("people needed", f"{needed:,}", alpha),
            Tile("a report", f"{known['report_bytes']} bytes", "sent once by every person"),
            ratio_tile({"ratio": ratio, "bound_class": known["bound_class"]}),
        ]
    forecast = plan.forecast()
    return [
        Tile("typical error", f"± {figure(forecast.rmse)}", "root mean square over answers"),
        Tile("largest error", f"± {figure(forecast.max)}", "standard error of one answer"),
        ratio_tile(known),
    ]


def _limits(plan: Plan, known: dict[str, Any]) -> list[Limit]:
    if isinstance(plan, LocalPlan):
        return local_limits(plan)
    return limits({"bounds": [], **known})


def _drawings(plan: Plan) -> list[Figure]:
    if isinstance(plan, LocalPlan):
        return [_by_people(plan)]
    if isinstance(plan, OpenPlan):
        return [_by_holders(plan)]
    if isinstance(plan, StreamPlan | CarryStreamPlan):
        std = plan.forecast().std
        chosen = np.unique(np.linspace(0, len(std) - 1, 600).round().astype(np.int64))
        part = std[chosen]
        return [
            line_in_band(
                title="standard error of every step", horizontal="step", unit=PEOPLE,
                across=step_marks(len(std)), answers=part, low=0 * part, high=part,
            )
        ]  # fmt: skip
    return []


def _by_holders(plan: OpenPlan) -> Bars:
    """The fraction of values that are told, by how many people hold each."""
    rows = tuple(
        Bar(f"{count:,} {'person' if count == 1 else 'people'}", f"{100 * chance:.3g} %", 0.0,
            round(100 * chance, 2), None, None)
        for count, chance in plan.chances().items()
    )  # fmt: skip
    return Bars("values that are told, by how many people hold each", "", rows, 0.0, True)


def _by_people(plan: LocalPlan) -> Bars:
    """The typical error of a proportion by how many people take part."""
    errors = [plan.forecast(count).worst_rmse / count for count in _PEOPLE]
    rows = tuple(
        Bar(f"{count:,} people", f"± {100 * error:.3g} % points", 0.0,
            round(100 * error / errors[0], 2), None, None)
        for count, error in zip(_PEOPLE, errors, strict=True)
    )  # fmt: skip
    title = "standard error of a share, root mean square over answers, on the worst data"
    return Bars(title, "", rows, 0.0, True)


def _tables(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Name, answers, typical and largest error of every table."""
    if isinstance(plan, Together):
        errors: Sequence[TableError] = [e for each in plan.plans for e in each.table_errors()]
    elif isinstance(plan, CentralPlan) or (isinstance(plan, LocalPlan) and plan.people):
        errors = plan.table_errors()
    elif isinstance(plan, OpenPlan):
        errors = plan.assumed().table_errors()
    else:
        return []
    return [
        (e.name, f"{e.queries:,}", _error(e.rmse), _error(e.simultaneous_halfwidth)) for e in errors
    ]


def _error(value: float) -> str:
    return f"± {figure(value)}" if isfinite(value) else "depends on how many people there are"


def _runners_up(known: dict[str, Any], others: Sequence[Reason]) -> list[tuple[str, str]]:
    """The other mechanisms: people that they need, errors, or why they were not asked."""
    if others:
        return [(each.mechanism, _runner_up(each)) for each in others]
    rows = known.get("runners_up", [])
    return [
        (str(row["mechanism"]), f"{row['sample_complexity']:,.0f} people")
        for row in rows
        if row.get("sample_complexity")
    ]


def _runner_up(other: Reason) -> str:
    if other.achieved is None or other.times is None:
        return other.reason
    return f"± {figure(other.achieved)}, {other.times:.3f} times this plan's error"
