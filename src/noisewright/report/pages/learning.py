"""Pages of learning, refutation and selection without a curator, and of what they found."""

from __future__ import annotations

from typing import Any

from noisewright.display import Shown
from noisewright.learn.one_each import ONE_EACH
from noisewright.learn.outcomes import Learned, Outcome, Refutation
from noisewright.learn.plans import LearningPlan
from noisewright.learn.selection import Selected, Selection
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.pages import record, render
from noisewright.report.words.numbers import figure, share
from noisewright.report.words.promises import (
    Person,
    Tile,
    byline,
    counted,
    facts,
    promise_tile,
)

_TASKS = {
    "agnostic": "a concept that labels at most a share α more of people wrongly than the best one",
    "realizable": "a concept that labels at most a share α of people wrongly, where one is right",
    "refute": "whether some concept labels a share of at most θ wrongly, or none less than θ + α",
    "refute-realizable": "whether some concept labels everybody rightly, or none comes within α",
}
_TIMES = (0.25, 0.5, 1, 2, 4)
_SAID = {"alpha": "α", "theta": "θ", "people": "reports"}
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
    known = subject.summary()
    privacy = subject.privacy
    told = _plan(subject) if isinstance(subject, LearningPlan) else _selection(subject)
    chance = Tile("may fail", share(known["beta"]), f"β = {known['beta']:g}, at most")

    return _page(
        known,
        person=_person(privacy),
        tiles=[promise_tile(privacy), *told.pop("tiles"), chance],
        provenance=facts(known, _NAMES),
        **told,
    )


def outcome_page(outcome: Outcome | Selected) -> str:
    """The page of what reports say, and what is proven of it."""
    warning = f" {outcome.warning}." if outcome.warning else ""
    privacy = outcome.privacy
    return _page(
        dict(_facts(outcome)),
        title="What the reports say",
        lead=f"From {counted(outcome.people, 'report')}, each randomised by the person who sent "
        f"it.{warning}",
        tiles=[
            *([promise_tile(privacy)] if privacy else []),
            *_found(outcome),
            _proven(outcome),
        ],
        person=_person(privacy) if privacy else None,
        provenance=[(_SAID.get(name, name), text) for name, text in _facts(outcome)],
    )


def _found(outcome: Outcome | Selected) -> list[Tile]:
    """What the reports say, and what that means."""
    if isinstance(outcome, Learned):
        wrong = (
            None
            if outcome.loss is None
            else f"labels {share(outcome.loss)} of people wrongly"
        )
        return [
            Tile(
                "concept",
                outcome.name,
                f"{wrong}, as estimated" if wrong else "as chosen",
            )
        ]

    if isinstance(outcome, Refutation):
        said = "some concept fits" if outcome.fits else "no concept fits"
        return [
            Tile(
                "verdict",
                said,
                f"labels up to {share(outcome.theta)} of people wrongly",
            )
        ]

    if isinstance(outcome, Selected):
        return [
            Tile(
                "coordinate",
                f"{outcome.coordinate:,}",
                "whose mean is the largest found",
            )
        ]

    return []


def _proven(outcome: Outcome | Selected) -> Tile:
    """How close that is to the best, and how surely."""
    sure = f"but for a chance of {share(outcome.beta)}"
    if outcome.alpha is None:
        return Tile("proven", "nothing", "from so few reports")
    return Tile("proven", f"within {figure(outcome.alpha)}", f"of the best, {sure}")


def _person(privacy: Privacy) -> Person:
    spend = Spend(
        privacy.neighbours, (Promise(privacy.epsilon or 0.0, privacy.delta or 0.0),)
    )
    return Person.of(spend, privacy, _REPORT, local=True)


def _facts(shown: Shown) -> list[tuple[str, str]]:
    return shown._facts()


def _page(known: dict[str, Any], **told: Any) -> str:
    heading = "How close with how many people"
    return render(
        "plan.html", byline=byline({}), heading=heading, record=record(known), **told
    )


def _plan(plan: LearningPlan) -> dict[str, Any]:
    concepts = plan.concepts
    return {
        "title": "Plan to learn" if "refute" not in plan.task else "Plan to refute",
        "lead": f"{concepts.title}: {concepts.count:,} concepts over {concepts.size:,} points. "
        f"Everybody sends one randomised report, and these tell {_TASKS[plan.task]}.",
        "tiles": [
            Tile("people needed", f"{plan.people:,}", f"for α = {plan.alpha:g}"),
            Tile("concepts", f"{concepts.count:,}", f"over {concepts.size:,} points"),
            *([_protocol(plan)] if plan.protocol else []),
        ],
        "drawings": [_by_people(plan)] if plan.people else [],
    }


def _protocol(plan: LearningPlan) -> Tile:
    """What a report is about, and how many people the other way takes."""
    about = "one concept" if plan.protocol == ONE_EACH else "all concepts"
    others = [f"{name} takes {people:,} people" for name, people in plan.others.items()]
    return Tile("a report tells of", about, "; ".join(others) or "the only way tried")


def _by_people(plan: LearningPlan) -> Bars:
    """The accuracy that is proven with fewer and with more people than the plan needs."""
    crowds = sorted({max(1, round(times * plan.people)) for times in _TIMES})
    rows = []
    for people in crowds:
        alpha = plan.accuracy(people)
        text = "nothing is proven" if alpha is None else f"α = {figure(alpha)}"
        rows.append(
            Bar(
                f"{people:,} people",
                text,
                width=100.0 if alpha is None else 100 * alpha,
            )
        )

    return Bars(
        "what is proven, by how many report (a full bar: nothing)", "", tuple(rows)
    )


def _selection(selection: Selection) -> dict[str, Any]:
    result = selection.result()
    proven = (
        "nothing proven yet" if result.alpha is None else f"within {result.alpha:.3g}"
    )
    state = "finished" if selection.finished else "under way"

    return {
        "title": "Selection",
        "lead": f"Which of {selection.contest.coordinates:,} coordinates has the largest mean, "
        f"from one randomised bit of each person; {state}.",
        "tiles": [
            Tile(
                "people asked",
                f"{selection.asked:,}",
                f"of {selection.people:,} at most",
            ),
            Tile("leads", f"coordinate {result.coordinate:,}", proven),
        ],
    }
