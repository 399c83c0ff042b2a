"""Mechanisms that a plan was chosen before: what they would reach, or why nobody asked them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noisewright.planning.central.choice.explain import Reason
from noisewright.report.figures.bars import Bar, Bars
from noisewright.report.words.numbers import figure
from noisewright.report.words.promises import counted

_ERRORS = {"rmse": "root mean square error", "max": "error of the least certain answer"}
_FAR = 8  # times the plan: bars beyond are cut, lest its own cannot be seen


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


def runners_up(
    known: Mapping[str, Any], why: str, others: Sequence[Reason]
) -> RunnersUp:
    """What is known of the others: from an explanation, or from the plan's own record."""
    own = str(known.get("mechanism", "this plan"))
    if not others:
        return RunnersUp(why, _by_people(own, known))

    reached = [
        each for each in others if each.achieved is not None and each.times is not None
    ]
    refused: dict[str, list[str]] = {}
    for each in others:
        if each not in reached:
            refused.setdefault(each.reason, []).append(each.mechanism)

    return RunnersUp(
        f"{own}: {why}." if why else "",
        _by_error(own, reached, _ERRORS.get(str(known.get("error")), "error")),
        tuple((reason, ", ".join(names)) for reason, names in refused.items()),
    )


def _by_error(own: str, others: Sequence[Reason], title: str) -> tuple[Bars, ...]:
    values = [
        (each.mechanism, each.achieved or 0.0, each.times or 1.0) for each in others
    ]
    if not values:
        return ()

    least = values[0][1] / values[0][2]
    rows = [(own, least, 1.0), *values]
    return (_bars(title, [(n, f"± {figure(v)}", t) for n, v, t in rows]),)


def _by_people(own: str, known: Mapping[str, Any]) -> tuple[Bars, ...]:
    others = [
        (str(row["mechanism"]), float(row["sample_complexity"]))
        for row in known.get("runners_up", [])
        if row.get("sample_complexity")
    ]
    needed = known.get("sample_complexity")
    if not others or not needed:
        return ()

    rows = [(own, float(needed)), *others]
    texts = [
        (name, counted(-int(-people // 1), "person", "people"), people)
        for name, people in rows
    ]
    return (
        _bars(
            "people needed",
            [(n, text, people / rows[0][1]) for n, text, people in texts],
        ),
    )


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
                own=place == 0,
            )
            for place, (name, text, times) in enumerate(rows)
        ),
    )
