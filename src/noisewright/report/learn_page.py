"""Pages of learning, refutation and selection without a curator, and of what they found."""

from __future__ import annotations

import json
from typing import Any

from noisewright.display import Shown
from noisewright.learn.learning_plan import LearningPlan
from noisewright.learn.outcomes import Outcome
from noisewright.learn.selection import Selected, Selection
from noisewright.privacy.spend import Promise, Spend
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.numbers import figure, share
from noisewright.report.render import render
from noisewright.report.words import Person, Tile, byline, facts, promise_tile

_TASKS = {
    "agnostic": "a concept whose loss is within α of the best of its class, whatever the labels",
    "realizable": "a concept of loss at most α, where some concept labels everybody rightly",
    "refute": "whether some concept of the class has a loss of at most θ, or none below θ + α",
    "refute-realizable": "whether some concept labels everybody rightly, or none comes within α",
}
_TIMES = (0.25, 0.5, 1, 2, 4)
_REPORT = "one report, sent by one person"
_NAMES = {
    "task": "task",
    "class": "class of concepts",
    "concepts": "concepts",
    "points": "points",
    "protocol": "protocol",
    "coordinates": "coordinates",
    "people": "people needed at most",
    "answers": "people who answered",
    "alpha": "α",
    "beta": "β",
}


def learning_page(subject: LearningPlan | Selection) -> str:
    """The page of a plan to learn or to refute, or of a selection under way, as HTML."""
    known, privacy = subject.summary(), subject.privacy
    spend = Spend(privacy.neighbours, (Promise(privacy.epsilon or 0.0, privacy.delta or 0.0),))
    told = _plan(subject) if isinstance(subject, LearningPlan) else _selection(subject)
    chance = Tile("may fail", share(known["beta"]), f"β = {known['beta']:g}, at most")
    return _page(
        known,
        person=Person.of(spend, privacy.neighbours, _REPORT),
        tiles=[promise_tile(privacy), *told.pop("tiles"), chance],
        provenance=facts(known, _NAMES),
        **told,
    )


def outcome_page(outcome: Outcome | Selected) -> str:
    """The page of what reports say, and what is proven of it."""
    held = "nothing is proven" if outcome.alpha is None else f"accurate within {outcome.alpha:.4g}"
    warning = f" {outcome.warning}." if outcome.warning else ""
    said = _facts(outcome)
    return _page(
        dict(said),
        title="What the reports say",
        lead=f"From {outcome.people:,} reports, each randomised by the person who sent it: "
        f"{held}, but for a chance of {share(outcome.beta)}.{warning}",
        tiles=[Tile(name, text, "") for name, text in said if name != "warning"],
        provenance=said,
    )


def _facts(shown: Shown) -> list[tuple[str, str]]:
    return shown._facts()


def _page(known: dict[str, Any], **told: Any) -> str:
    plain: dict[str, Any] = {
        "byline": byline({}),
        "person": None,
        "limits": [],
        "error": "",
        "heading": "How close with how many people",
        "drawings": [],
        "heads": (),
        "tables": (),
        "notes": (),
        "runners_up": (),
    }
    record = json.dumps(known, indent=2, ensure_ascii=False, default=str)
    return render("plan.html", **{**plain, **told}, record=record)


def _plan(plan: LearningPlan) -> dict[str, Any]:
    concepts = plan.concepts
    return {
        "title": "Plan to learn" if "refute" not in plan.task else "Plan to refute",
        "lead": f"{concepts.title}: {concepts.count:,} concepts over {concepts.size:,} points. "
        f"Everybody sends one randomised report, and these tell {_TASKS[plan.task]}.",
        "tiles": [
            Tile("people needed", f"{plan.people:,}", f"for α = {plan.alpha:g}"),
            Tile("concepts", f"{concepts.count:,}", f"over {concepts.size:,} points"),
        ],
        "drawings": [_by_people(plan)] if plan.people else [],
    }


def _by_people(plan: LearningPlan) -> Bars:
    """The accuracy that is proven with fewer and with more people than the plan needs."""
    crowds = sorted({max(1, round(times * plan.people)) for times in _TIMES})
    rows = []
    for people in crowds:
        alpha = plan.accuracy(people)
        text = "nothing is proven" if alpha is None else f"α = {figure(alpha)}"
        rows.append(Bar(f"{people:,} people", text, width=100.0 if alpha is None else 100 * alpha))
    return Bars("what is proven, by how many report (a full bar: nothing)", "", tuple(rows))


def _selection(selection: Selection) -> dict[str, Any]:
    result = selection.result()
    proven = "nothing proven yet" if result.alpha is None else f"within {result.alpha:.3g}"
    state = "finished" if selection.finished else "under way"
    return {
        "title": "Selection",
        "lead": f"Which of {selection.contest.coordinates:,} coordinates has the largest mean, "
        f"from one randomised bit of each person; {state}.",
        "tiles": [
            Tile("people asked", f"{selection.asked:,}", f"of {selection.people:,} at most"),
            Tile("leads", f"coordinate {result.coordinate:,}", proven),
        ],
    }
