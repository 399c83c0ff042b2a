"""The page of a release: what was promised, how good the answers are, and the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.planning.central import CentralPlan
from noisewright.planning.local import LocalPlan
from noisewright.planning.plan import ReleasedTable
from noisewright.planning.release import Release, Releasing
from noisewright.report.charts import agreement_chart, errors_chart
from noisewright.report.figures import Figure, figures
from noisewright.report.numbers import figure
from noisewright.report.render import render
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
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import PEOPLE, Column

MOST_ROWS = 20_000
_MOST_FIGURES = 120
_OPEN = 6

_PROVENANCE = {
    "time": "released at (UTC)",
    "release": "release",
    "round": "round",
    "people": "reports",
    "mechanism": "mechanism",
    "workload": "queries",
    "strategy_hash": "strategy",
    "plan": "plan",
    "domain": "schema",
    "version": "noisewright",
}


@dataclass(frozen=True)
class Row:
    """One answer in words."""

    label: str
    answer: str
    std: str
    ends: str
    unbiased: str


@dataclass(frozen=True)
class Section:
    """One table: its name, what is drawn of it, and its rows."""

    name: str
    note: str
    error: str
    drawings: list[Figure]
    rows: list[Row]
    more: int
    open: bool


def page(release: Release, truth: FloatArray | None = None, title: str = "Private release") -> str:
    """The page as HTML. `truth` may be given only for synthetic data."""
    known = release.metadata
    sections = list(_sections(release, truth))
    plan = release.plan
    return render(
        "release.html",
        title=title,
        lead=_lead(release, truth),
        tiles=[promise_tile(plan.privacy), *_tiles(release)],
        person=for_one_person(plan.spend, plan.privacy.neighbours, known["statement"]["unit"]),
        limits=_limits(plan, known),
        error=ERRORS.get(known.get("error", ""), "in its own sense"),
        sections=sections,
        unsure=any(getattr(each, "unsure", False) for s in sections for each in s.drawings),
        changed=release.beside is not None,
        truth=None if truth is None else _against(release, truth),
        steps=[_step(step) for step in known["statement"]["post_processing"]],
        provenance=provenance(known),
        record=json.dumps(dict(known), indent=2, ensure_ascii=False, default=str),
    )


def _lead(release: Release, truth: FloatArray | None) -> str:
    tables, hidden = len(release.tables), int(np.isnan(release.answers).sum())
    left_out = f" ({hidden:,} of them left out)" if hidden else ""
    text = (
        f"{len(release):,} answers{left_out} in {tables:,} table{'s' if tables != 1 else ''}: "
        f"{asked_for([table.name for table in release.tables])}. Every one is protected by the "
        f"same promise: {promise_sentence(release.plan.privacy.neighbours)}."
    )
    if truth is not None:
        text += (
            " The people are synthetic, so the true counts are shown in orange; a report on real"
            " people never holds them."
        )
    return text


def _tiles(release: Release) -> list[Tile]:
    counts = [t.unit == PEOPLE for t in release.tables for _ in range(t.queries)]
    std = release.std[np.array(counts) & ~np.isnan(release.std)]
    typical, largest = "none left", "none left"
    if std.size:
        typical, largest = f"± {figure(np.sqrt(np.mean(std**2)))}", f"± {figure(std.max())}"
    return [
        Tile("typical error", typical, "people, root mean square over counts"),
        Tile("largest error", largest, "people, standard error of a count"),
        ratio_tile(release.metadata),
    ]


def _limits(plan: Releasing, known: Mapping[str, Any]) -> list[Limit]:
    if isinstance(plan, LocalPlan):
        return local_limits(plan)
    known_ratio = known.get("ratio") is not None
    forecast = plan.forecast() if known_ratio and isinstance(plan, CentralPlan) else None
    errors = {} if forecast is None else {"rmse": forecast.rmse, "max": forecast.max}
    return limits({"bounds": [], **errors, **known})


# --- tables ---------------------------------------------------------------------------------------


def _sections(release: Release, truth: FloatArray | None) -> Iterator[Section]:
    start, rows, drawn = 0, 0, 0
    for number, table in enumerate(release.tables):
        part = slice(start, start + table.queries)
        column = release.intervals.part(part)
        drawings = figures(table, column, None if truth is None else truth[part])
        if drawn + len(drawings) > _MOST_FIGURES:
            drawings = []
        shown = min(table.queries, max(0, MOST_ROWS - rows))
        yield Section(
            name=table.name,
            note=_note(table, column),
            error=_error(table, column),
            drawings=drawings,
            rows=_rows(release, slice(start, start + shown)),
            more=table.queries - shown,
            open=number < _OPEN,
        )
        start, rows, drawn = start + table.queries, rows + shown, drawn + len(drawings)


def _note(table: ReleasedTable, column: Column) -> str:
    hidden = int(np.isnan(column.answers).sum())
    said = f"{table.queries:,} answer{'s' if table.queries != 1 else ''}"
    return said + (f", {hidden:,} left out" if hidden else "")


def _error(table: ReleasedTable, column: Column) -> str:
    """The standard errors of a table, or its intervals where there are none to state."""
    unit = " people" if table.unit == PEOPLE else f" {table.unit}"
    std, name = column.std[~np.isnan(column.std)], "standard error"
    if not std.size:
        std, name = (column.each[1] - column.each[0]) / 2, "interval ±"
        std = std[~np.isnan(std)]
    if not std.size:
        return ""
    low, high = figure(float(std.min())), figure(float(std.max()))
    return f"{name} {low if low == high else f'{low} to {high}'}{unit}"


def _rows(release: Release, part: slice) -> list[Row]:
    column = release.intervals.part(part)
    plain = column if release.beside is None else release.beside.part(part)
    values = zip(
        release.labels[part], column.answers, column.std, *column.each, plain.answers, plain.std,
        strict=True,
    )  # fmt: skip
    return [
        Row(
            label=label,
            answer=figure(answer),
            std="" if std != std else figure(std),
            ends="" if low != low else f"{figure(low)} … {figure(high)}",
            unbiased=f"{figure(unbiased)} ± {figure(beside)}" if release.beside else "",
        )
        for label, answer, std, low, high, unbiased, beside in values
    ]


# --- beside the answers ---------------------------------------------------------------------------


def _against(release: Release, truth: FloatArray) -> dict[str, str] | None:
    """How private answers about made-up people compare with the truth about them."""
    shown = ~np.isnan(release.answers + release.std)
    if not shown.any():
        return None
    inside, together = (
        ((lower <= truth) & (truth <= upper))[shown]
        for lower, upper in (release.intervals.each, release.intervals.all)
    )
    return {
        "agreement": agreement_chart(release.answers[shown], truth[shown]),
        "errors": errors_chart(release.std[shown], (release.answers - truth)[shown]),
        "inside": f"{inside.mean():.1%}",
        "together": "all of them"
        if together.all()
        else "not all of them, as happens once in twenty releases",
    }


def _step(step: Mapping[str, Any]) -> str:
    """One step after the noise, in words; defaults say nothing."""
    plain: tuple[object, ...] = (None, False, {}, 0.0, "plug-in")
    said = {name: value for name, value in step.items() if value not in plain}
    return ", ".join(
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')}: {value}"
        for name, value in said.items()
    )


def provenance(known: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where answers come from: times, names, hashes and the ledger's entry."""
    pairs = facts(known, _PROVENANCE)
    ledger = known.get("ledger")
    if isinstance(ledger, Mapping):
        told = [f"{name.replace('_', ' ')} {value}" for name, value in ledger.items()]
        pairs.append(("ledger", str(ledger.get("note") or ", ".join(told))))
    elif ledger is not None:
        pairs.append(("ledger", str(ledger)))
    return pairs
