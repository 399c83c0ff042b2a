"""The page of a plan: what will be promised, how wrong each table will be, and who else tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from noisewright.planning.explain import Reason
from noisewright.planning.local import LocalPlan
from noisewright.planning.plan import Plan
from noisewright.planning.plan_files import plan_digest
from noisewright.report.numbers import figure
from noisewright.report.plan_words import plan_words
from noisewright.report.render import render
from noisewright.report.words import (
    ERRORS,
    Limit,
    Person,
    byline,
    facts,
    limits,
    local_limits,
    promise_sentence,
    promise_tile,
)

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
    "plan": "hash of the plan",
}


def plan_page(plan: Plan, title: str = "Plan", others: Sequence[Reason] = ()) -> str:
    """The page as HTML; nothing was spent yet, and nothing private is in it."""
    known, words = plan.summary(), plan_words(plan)
    unit = {"local": "one report, sent by one person"}.get(plan.model, "one person")
    promised = promise_sentence(plan.privacy.neighbours)
    return render(
        "plan.html",
        title=title,
        byline=byline({}),
        lead=f"{words.asked} Nothing was spent yet. Once released, {promised}.",
        tiles=[promise_tile(plan.privacy), *words.tiles],
        person=Person.of(plan.spend, plan.privacy.neighbours, known.get("person", unit)),
        limits=_limits(plan, known),
        error=ERRORS.get(known.get("error", ""), "in the sense of the bound"),
        heading="How wrong the answers will be",
        drawings=words.drawings,
        heads=words.heads,
        tables=words.tables,
        notes=words.notes,
        runners_up=_runners_up(known, others),
        provenance=facts({"plan": plan_digest(plan), **known}, _NAMES),
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _limits(plan: Plan, known: dict[str, Any]) -> list[Limit]:
    return local_limits(plan) if isinstance(plan, LocalPlan) else limits({"bounds": [], **known})


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
