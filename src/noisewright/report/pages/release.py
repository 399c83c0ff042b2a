"""The page of a release: what was promised, how good the answers are, and the answers."""

from __future__ import annotations

from typing import cast

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.planning.after.further import ASKED_LATER, COMBINED
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.found.open_values import OpenTables
from noisewright.planning.plan import Plan
from noisewright.planning.release import Release
from noisewright.report.charts import agreement_chart, errors_chart
from noisewright.report.pages import record_text, render
from noisewright.report.sections import sections
from noisewright.report.words.bounds import certified
from noisewright.report.words.facts import (
    Tile,
    byline,
    number_with_noun,
    provenance,
    tables_in_words,
)
from noisewright.report.words.numbers import figure
from noisewright.report.words.promises import (
    Person,
    kept_sentence,
    promise_sentence,
    promise_tile,
)
from noisewright.report.words.queries import steps_in_words
from noisewright.workload.questions.statistics import PEOPLE

PROVENANCE = {
    "time": "released on",
    "release": "name of the release",
    "round": "round",
    "people": "reports",
    "mechanism": "mechanism",
    "strategy_hash": "hash of what was measured",
    "plan": "hash of the plan",
    "domain": "hash of the schema",
    "version": "noisewright",
}
_BELOW_ZERO = (
    "Answers below zero are noise around small numbers. They are left as they are, so that sums "
    "and means of answers stay right on average."
)

_SYNTHETIC = (
    " The people are synthetic, so the true counts are shown in orange; a report on real people "
    "never holds them."
)
_GAUSSIAN = "The curve is the Gaussian law they should follow."
_PURE = (
    "The curve is the Gaussian law of the same spread: under noise for pure ε errors are more often"
    " small than that, and now and then large. Those beyond 4 stand at the ends."
)


def release_page(
    release: Release, truth: FloatArray | None = None, title: str | None = None
) -> str:
    """The page as HTML. `truth` may be given only for synthetic data."""
    known = release.metadata
    plan = release.plan
    local = plan.model == "local"
    proved = certified(plan, known)
    told = release.statement()
    steps = cast("list[dict[str, object]]", told["post_processing"])
    made = "estimated on" if local else "released on"

    return render(
        "release.html",
        title=title or ("Private estimates" if local else "Private release"),
        byline=byline(known, made),
        lead=_lead(release, truth),
        tiles=[promise_tile(plan.privacy), *_tiles(release), proved.tile],
        person=Person.of(plan.spend, plan.privacy, str(told["unit"]), local=local),
        limits=proved.limits,
        compared=proved.compared,
        sections=sections(release, truth),
        notes=_notes(release),
        truth=None if truth is None else _against(release, truth),
        steps=steps_in_words(steps, changed=release.is_changed),
        provenance=provenance({**_digest(plan), **known}, {**PROVENANCE, "time": made}),
        record=record_text(known),
    )


def _lead(release: Release, truth: FloatArray | None) -> str:
    hidden = int(np.isnan(release.answers).sum())
    left_out = f" ({hidden:,} of them left out)" if hidden else ""
    told = (
        f"{number_with_noun(len(release), 'answer')}{left_out} to "
        f"{tables_in_words(release.tables, release.plan.workload)}. "
        "All are protected by one promise: "
        f"{promise_sentence(release.plan.privacy.neighbours)}."
        f"{kept_sentence(release.plan)}"
    )

    return told if truth is None else told + _SYNTHETIC


def _digest(plan: Plan) -> dict[str, str]:
    """By which a release is told to be of a plan; none where nobody made one of these answers."""
    if not isinstance(plan, CentralPlan) or plan.status in (ASKED_LATER, COMBINED):
        return {}
    return {"plan": (plan.selection if isinstance(plan, OpenTables) else plan).digest}


def _tiles(release: Release) -> list[Tile]:
    tables = release.tables
    counts = np.repeat([t.unit == PEOPLE for t in tables], [t.queries for t in tables])
    std = release.std[counts & ~np.isnan(release.std)]
    typical = largest = "none left"
    if std.size:
        typical = f"± {figure(np.sqrt(np.mean(std**2)))}"
        largest = f"± {figure(std.max())}"

    return [
        Tile("typical error", typical, "people, root mean square over counts"),
        Tile("largest error", largest, "people, standard error of a count"),
    ]


def _notes(release: Release) -> list[str]:
    start = 0
    for table in release.tables:
        part = release.answers[start : start + table.queries]
        if table.unit == PEOPLE and (part < 0).any() and not release.is_changed:
            return [_BELOW_ZERO]
        start += table.queries

    return []


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
        "law": _GAUSSIAN if release.plan.spend.mu else _PURE,
    }
