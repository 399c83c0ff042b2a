"""Pages of a plan and of its rehearsal: what is promised, how wrong answers will be, who tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from noisewright.planning.central.comparing import Explanation, Reason
from noisewright.planning.central.rehearsal import (
    DeclarationCost,
    Rehearsal,
    RehearsedTable,
)
from noisewright.planning.plan import Plan
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.pages import record_text, render
from noisewright.report.words.bounds import certified
from noisewright.report.words.facts import Record, Tile, byline, facts, number_with_noun
from noisewright.report.words.numbers import figure
from noisewright.report.words.plans import Line, plan_words
from noisewright.report.words.promises import (
    Person,
    kept_sentence,
    promise_sentence,
    promise_tile,
)

_SHOWN = (
    "mechanism",
    "queries",
    "size",
    "steps",
    "memory",
    "status",
    "report_bytes",
    "certificate",
    "seconds",
    "plan",
)


def explained_page(told: Explanation) -> str:
    """The page of a plan with the reasons for it."""
    return plan_page(told.plan, None, told.why, told.others)


def plan_page(
    plan: Plan, title: str | None = None, why: str = "", others: Sequence[Reason] = ()
) -> str:
    """The page as HTML; nothing was spent yet, and nothing private is in it."""
    known = plan.summary()
    words = plan_words(plan)
    proved = certified(plan, known)
    local = plan.model == "local"
    unit = "one report, sent by one person" if local else "one person"
    promised = promise_sentence(plan.privacy.neighbours)

    return render(
        "plan.html",
        title=title or words.title,
        byline=byline({}),
        lead=f"{words.asked} Nothing was spent yet. Once released, {promised}."
        + kept_sentence(plan),
        tiles=[
            promise_tile(plan.privacy),
            *words.tiles,
            *([proved.tile] if words.tells_ratio else []),
        ],
        person=Person.of(
            plan.spend, plan.privacy, str(known.get("person", unit)), local=local
        ),
        limits=proved.limits,
        compared=proved.compared if words.is_bounded else "",
        heading=words.heading,
        drawings=words.drawings,
        heads=words.heads,
        tables=words.tables,
        notes=words.notes,
        runners_up=runners_up(known, why, others),
        provenance=facts({"plan": plan.digest, **known}, _SHOWN),
        record=record_text(known),
    )


_ERRORS = {"rmse": "root mean square error", "max": "error of the least certain answer"}
_FAR = 8
"""Times the plan: bars beyond are cut, lest its own cannot be seen."""


@dataclass(frozen=True)
class RunnersUp:
    """Why this plan, what others would reach beside it, and which were not asked, by reason."""

    why: str = ""
    drawings: tuple[Bars, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def is_any(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.why or self.drawings or self.refused)


def runners_up(known: Record, why: str, others: Sequence[Reason]) -> RunnersUp:
    """What is known of the others: from an explanation, or from the plan's own record."""
    name = str(known.get("mechanism", "this plan"))
    if not others:
        return RunnersUp(why, _by_people(name, known))

    reached: list[tuple[str, float, float]] = []
    refused: dict[str, list[str]] = {}
    for each in others:
        if each.achieved is None or each.times is None:
            refused.setdefault(each.reason, []).append(each.mechanism)
        else:
            reached.append((each.mechanism, each.achieved, each.times))

    return RunnersUp(
        f"{name}: {why}." if why else "",
        _by_error(name, reached, _ERRORS.get(str(known.get("error")), "error")),
        tuple((reason, ", ".join(names)) for reason, names in refused.items()),
    )


def _by_error(
    plan: str, others: Sequence[tuple[str, float, float]], title: str
) -> tuple[Bars, ...]:
    """Errors of mechanisms, and how many times the plan's they are."""
    if not others:
        return ()

    _, error, times = others[0]
    rows = [(plan, error / times, 1.0), *others]
    return (_bars(title, [(n, f"± {figure(v)}", t) for n, v, t in rows]),)


def _by_people(plan: str, known: Record) -> tuple[Bars, ...]:
    others = [
        (str(row["mechanism"]), float(row["sample_complexity"]))
        for row in known.get("runners_up", [])
        if row.get("sample_complexity")
    ]
    needed = known.get("sample_complexity")
    if not others or not needed:
        return ()

    own = float(needed)
    rows = [
        (name, number_with_noun(ceil(people), "person", "people"), people / own)
        for name, people in [(plan, own), *others]
    ]
    return (_bars("people needed", rows),)


def _bars(title: str, rows: Sequence[tuple[str, str, float]]) -> Bars:
    """Bars beside the plan's own, which comes first."""
    top = min(_FAR, max(times for _, _, times in rows))
    return Bars(
        title,
        "",
        tuple(
            Bar(
                name,
                text if place == 0 else f"{text}, {times:.2f} ×",
                width=round(100 * min(times, top) / top, 2),
                cut=times > top,
                chosen=place == 0,
            )
            for place, (name, text, times) in enumerate(rows)
        ),
    )


_HEADS = (
    "table",
    "answers",
    "forecast",
    "found",
    "median relative error",
    "within 95 %",
    "left out",
)


def rehearsal_page(rehearsal: Rehearsal, title: str = "Rehearsal") -> str:
    """The page as HTML: errors alone, no answers."""
    tables = rehearsal.tables
    answers = sum(table.queries for table in tables)
    covered = sum(table.covered * table.queries for table in tables) / max(answers, 1)
    known = rehearsal.summary()

    return render(
        "plan.html",
        title=title,
        byline=byline({}),
        lead="A whole release, many times over, on data that are public or made up, with seeded "
        "noise. It protects nobody and publishes nothing: errors are shown, no answers.",
        tiles=[
            *_promised(rehearsal),
            Tile("runs", f"{rehearsal.runs:,}", f"seed {rehearsal.seed}"),
            Tile("answers", f"{answers:,}", f"in {len(tables):,} tables"),
            Tile(
                "within their intervals", f"{100 * covered:.1f} %", "95 % are promised"
            ),
        ],
        heading="Errors found",
        heads=_HEADS,
        tables=[_rehearsed(table) for table in tables],
        notes=[_cost_in_words(cost) for cost in rehearsal.declarations],
        provenance=facts(
            known, {"runs": "runs", "seed": "seed", "plan": "hash of the plan"}
        ),
        record=record_text(known),
    )


def _promised(rehearsal: Rehearsal) -> list[Tile]:
    if rehearsal.privacy is None:
        return []
    note = "of a release; nothing is spent here"
    return [replace(promise_tile(rehearsal.privacy), note=note)]


def _cost_in_words(cost: DeclarationCost) -> str:
    """What bounds and bins do to the statistics of an attribute."""
    told = (
        f"{cost.attribute}: {100 * cost.clipped:.3g} % of people lie beyond its bounds, which "
        f"moves their mean by {figure(cost.mean_shift)}"
    )
    if cost.bin_shift is None:
        return f"{told}."

    return f"{told}; its bins move a quantile by {figure(cost.bin_shift)}."


def _rehearsed(table: RehearsedTable) -> Line:
    relative = "–" if table.relative is None else f"{100 * table.relative:.2g} %"
    return Line(
        table.name,
        (
            f"{table.queries:,}",
            "–" if table.predicted is None else f"± {figure(table.predicted)}",
            f"± {figure(table.realised)}",
            relative,
            f"{100 * table.covered:.1f} %",
            f"{100 * table.left_out:.3g} %",
        ),
        None,
    )
