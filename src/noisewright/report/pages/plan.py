"""The page of a plan: what will be promised, how wrong each table will be, and who else tried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from noisewright.planning.central.choice.explain import Reason
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.plan import Plan
from noisewright.report.render import render
from noisewright.report.runners_up import runners_up
from noisewright.report.words.plans import plan_words
from noisewright.report.words.promises import (
    COMPARED_PEOPLE,
    Limit,
    Person,
    byline,
    compared,
    facts,
    kept_sentence,
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


def plan_page(
    plan: Plan, title: str | None = None, why: str = "", others: Sequence[Reason] = ()
) -> str:
    """The page as HTML; nothing was spent yet, and nothing private is in it."""
    known = plan.summary()
    words = plan_words(plan)
    local = isinstance(plan, LocalPlan)
    unit = "one report, sent by one person" if local else "one person"
    promised = promise_sentence(plan.privacy.neighbours)

    return render(
        "plan.html",
        title=title or words.title,
        byline=byline({}),
        lead=f"{words.asked} Nothing was spent yet. Once released, {promised}."
        + kept_sentence(plan),
        tiles=[promise_tile(plan.privacy), *words.tiles],
        person=Person.of(
            plan.spend, plan.privacy, known.get("person", unit), local=local
        ),
        limits=_limits(plan, known),
        compared=COMPARED_PEOPLE
        if local
        else compared(known, plan)
        if words.is_bounded
        else "",
        heading=words.heading,
        drawings=words.drawings,
        heads=words.heads,
        tables=words.tables,
        notes=words.notes,
        runners_up=runners_up(known, why, others),
        provenance=facts({"plan": plan.digest, **known}, _NAMES),
        record=json.dumps(known, indent=2, ensure_ascii=False, default=str),
    )


def _limits(plan: Plan, known: dict[str, Any]) -> list[Limit]:
    return (
        local_limits(plan)
        if isinstance(plan, LocalPlan)
        else limits({"bounds": [], **known})
    )
