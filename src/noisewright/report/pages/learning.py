"""Pages of learning, refutation and selection without a curator, and of what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import cast

from noisewright.display import Shown
from noisewright.learn.one_each import ONE_EACH
from noisewright.learn.outcomes import Learned, Outcome, Refutation
from noisewright.learn.plans import LearningPlan
from noisewright.learn.selection import Selected, Selection
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Promise, Spend
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.pages import record_text, render
from noisewright.report.words.facts import Record, Tile, byline, facts, number_with_noun
from noisewright.report.words.numbers import figure, percent_above
from noisewright.report.words.promises import Person, promise_tile

_TASKS = {
    "agnostic": "a concept that labels at most a share α more of people wrongly than the best one",
    "realizable": "a concept that labels at most a share α of people wrongly, where one is right",
    "refute": "whether some concept labels a share of at most θ wrongly, or none less than θ + α",
    "refute-realizable": "whether some concept labels everybody rightly, or none comes within α",
}
_TIMES = (0.25, 0.5, 1, 2, 4)
"""Of the people that a plan needs: for how many more or fewer its accuracy is told."""
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
    told = _told(subject)
    chance = Tile(
        "may fail",
        percent_above(cast("float", known["beta"])),
        f"β = {known['beta']:g}, at most",
    )

    return _page(
        known,
        title=told.title,
        lead=told.lead,
        person=_person(privacy),
        tiles=[promise_tile(privacy), *told.tiles, chance],
        drawings=told.drawings,
        provenance=facts(known, _NAMES),
    )


def outcome_page(outcome: Outcome | Selected) -> str:
    """The page of what reports say, and what is proven of it."""
    warning = f" {outcome.warning}." if outcome.warning else ""
    privacy = outcome.privacy

    return _page(
        dict(_facts(outcome)),
        title="What the reports say",
        lead=f"From {number_with_noun(outcome.people, 'report')}, each randomised by "
        f"the person who sent it.{warning}",
        tiles=[
            *([promise_tile(privacy)] if privacy else []),
            *_found(outcome),
            _proven(outcome),
        ],
        person=_person(privacy) if privacy else None,
        provenance=[(_SAID.get(name, name), text) for name, text in _facts(outcome)],
    )


@singledispatch
def _found(outcome: Outcome | Selected) -> list[Tile]:
    """What the reports say, and what that means."""
    return []


@_found.register
def _learned(outcome: Learned) -> list[Tile]:
    if outcome.loss is None:
        return [Tile("concept", outcome.name, "as chosen")]
    wrong = f"labels {percent_above(outcome.loss)} of people wrongly, as estimated"
    return [Tile("concept", outcome.name, wrong)]


@_found.register
def _refuted(outcome: Refutation) -> list[Tile]:
    said = "some concept fits" if outcome.fits else "no concept fits"
    wrong = f"labels up to {percent_above(outcome.theta)} of people wrongly"
    return [Tile("verdict", said, wrong)]


@_found.register
def _selected(outcome: Selected) -> list[Tile]:
    largest = "whose mean is the largest found"
    return [Tile("coordinate", f"{outcome.coordinate:,}", largest)]


def _proven(outcome: Outcome | Selected) -> Tile:
    """How close that is to the best, and how surely."""
    sure = f"but for a chance of {percent_above(outcome.beta)}"
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


def _page(known: Record, **told: object) -> str:
    heading = "How close with how many people"
    return render(
        "plan.html",
        byline=byline({}),
        heading=heading,
        record=record_text(known),
        **told,
    )


@dataclass(frozen=True)
class _Words:
    """What is being found out, and the figures that matter most."""

    title: str
    lead: str
    tiles: list[Tile]
    drawings: Sequence[Bars] = ()


@singledispatch
def _told(subject: LearningPlan | Selection) -> _Words:
    raise NotImplementedError


@_told.register
def _plan(plan: LearningPlan) -> _Words:
    concepts = plan.concepts
    points = f"over {concepts.size:,} points"

    return _Words(
        "Plan to learn" if "refute" not in plan.task else "Plan to refute",
        f"{concepts.title}: {concepts.count:,} concepts {points}. "
        f"Everybody sends one randomised report, and these tell {_TASKS[plan.task]}.",
        [
            Tile("people needed", f"{plan.people:,}", f"for α = {plan.alpha:g}"),
            Tile("concepts", f"{concepts.count:,}", points),
            *([_protocol(plan)] if plan.protocol else []),
        ],
        [_by_people(plan)] if plan.people else [],
    )


def _protocol(plan: LearningPlan) -> Tile:
    """What a report is about, and how many people the other way takes."""
    about = "one concept" if plan.protocol == ONE_EACH else "all concepts"
    others = [f"{name} takes {people:,} people" for name, people in plan.others.items()]
    return Tile("a report tells of", about, "; ".join(others) or "the only way tried")


def _by_people(plan: LearningPlan) -> Bars:
    """The accuracy that is proven with fewer and with more people than the plan needs."""
    crowds = sorted({max(1, round(times * plan.people)) for times in _TIMES})
    title = "what is proven, by how many report (a full bar: nothing)"
    return Bars(title, "", tuple(_proven_by(plan, people) for people in crowds))


def _proven_by(plan: LearningPlan, people: int) -> Bar:
    alpha = plan.accuracy(people)
    name = f"{people:,} people"
    if alpha is None:
        return Bar(name, "nothing is proven", width=100.0)

    return Bar(name, f"α = {figure(alpha)}", width=100 * alpha)


@_told.register
def _selection(selection: Selection) -> _Words:
    result = selection.result()
    alpha = result.alpha
    proven = "nothing proven yet" if alpha is None else f"within {alpha:.3g}"
    state = "finished" if selection.finished else "under way"
    most = f"of {selection.people:,} at most"

    return _Words(
        "Selection",
        f"Which of {selection.contest.coordinates:,} coordinates has the largest mean, "
        f"from one randomised bit of each person; {state}.",
        [
            Tile("people asked", f"{selection.asked:,}", most),
            Tile("leads", f"coordinate {result.coordinate:,}", proven),
        ],
    )
