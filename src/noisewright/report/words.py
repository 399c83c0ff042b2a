"""Promises and bounds in words, with the numbers that they mean for one person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isclose, isfinite
from typing import Any

from noisewright.local.choose.cost import ALPHA
from noisewright.planning.local import LocalPlan
from noisewright.privacy.budget import Privacy
from noisewright.privacy.guessing import best_guess
from noisewright.privacy.spend import Spend
from noisewright.report.numbers import figure, share
from noisewright.solution import BoundClass

ERRORS = {"rmse": "root mean square over answers", "max": "in the least certain answer"}


@dataclass(frozen=True)
class Tile:
    """A name, a figure and a note."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Limit:
    """What no method of a class goes below, as a part of the error at hand."""

    part: float | None
    ratio: str
    says: str
    statement: str


def promise_tile(privacy: Privacy) -> Tile:
    """What is promised."""
    symbols = (("epsilon", "ε"), ("delta", "δ"), ("rho", "ρ"))
    known = [(symbol, getattr(privacy, name)) for name, symbol in symbols]
    text = ", ".join(f"{symbol} = {_plain(value)}" for symbol, value in known if value is not None)
    return Tile("privacy", text, f"neighbours: {privacy.neighbours}")


def _plain(value: float) -> str:
    return f"{value:.6g}".replace("e-0", "e-")


_CHANGES = {
    "add-remove": ("been left out", "whether a given person is in it"),
    "replace-one": ("given other answers", "which of two sets of answers a given person gave"),
}


def promise_sentence(neighbours: str) -> str:
    """The promise in a sentence."""
    return (
        "what is published here would look almost the same had any one person "
        f"{_CHANGES[neighbours][0]}"
    )


def for_one_person(spend: Spend, neighbours: str, person: str) -> list[str]:
    """What the promise means for one person, in words and in numbers."""
    guess = best_guess(spend)
    told = [
        f"The unit of privacy: {person}.",
        f"Somebody who knows all other people, and tosses a coin on {_CHANGES[neighbours][1]}, "
        f"is right {share(0.5)} of the time. With everything on this page no guess "
        f"is right more than {share(guess)} of the time.",
    ]
    if all(getattr(loss, "delta", 0.0) == 0.0 for loss in spend.losses) and not spend.mu:
        pure = spend.promise().epsilon or 0.0
        if pure < 30:
            odds = exp(pure) * 0.01 / 0.99
            told.append(
                f"Whoever held something about a person {share(0.01)} likely can come to hold it "
                f"{share(odds / (1 + odds))} likely at most, whatever else they know."
            )
    told.append(
        "What holds for people in general can still be learnt from these answers, also about "
        "people who took no part."
    )
    return told


def ratio_tile(known: Mapping[str, Any]) -> Tile:
    """How close to the least error: among linear strategies, or else in the widest class known."""
    ratio, limited = known.get("ratio"), known.get("bound_class")
    for bound in known.get("bounds", ()):
        if known.get("ratio") is None and bound["ratio"] is not None:
            ratio, limited = bound["ratio"], bound["class"]
    certain = ratio is not None and isfinite(ratio)
    return Tile(
        "against the lower bound",
        f"{ratio:.3f} ×" if certain else "no bound known",
        f"bound for {limited}" if certain else "nothing is certified",
    )


def limits(known: Mapping[str, Any]) -> list[Limit]:
    """The bounds of a record, the narrowest class first."""
    bounds = [(each["class"], each["lower_bound"], each["ratio"]) for each in known["bounds"]]
    if known.get("bound_class") is not None:
        bounds.insert(0, (known["bound_class"], known["lower_bound"], known["ratio"]))
    plain = [known[error] for error in ("rmse", "max") if known.get(error)]
    return [
        Limit(
            part=None if not ratio or not isfinite(ratio) else round(100 / ratio, 2),
            ratio="–" if ratio is None else f"{ratio:.3f} ×",
            says=f"{figure(bound)} people: {name}" if _of_people(bound, ratio, plain) else name,
            statement=f"{BoundClass(name).statement}.",
        )
        for name, bound, ratio in bounds
    ]


def _of_people(bound: float, ratio: float | None, errors: Sequence[float]) -> bool:
    """Whether a bound is about an error in people; weights and sums have units of their own."""
    if ratio is None or not errors:
        return True
    return any(isclose(bound * ratio, error, rel_tol=1e-3) for error in errors)


def local_limits(plan: LocalPlan) -> list[Limit]:
    """The people that reports need against the fewest that any method of a class needs."""
    best, worst = plan.certificate, plan.analysis.worst_case
    if best is None or not best.sample_complexity(ALPHA) > 0:
        return []
    ratio = best.ratio(worst)
    needed, least = plan.sample_complexity(ALPHA), best.sample_complexity(ALPHA)
    return [
        Limit(
            part=None if ratio is None else round(100 / ratio, 2),
            ratio="–" if ratio is None else f"{ratio:.3f} ×",
            says=f"{figure(needed)} people where no method of its class needs fewer than "
            f"{figure(least)}: {BoundClass.UNBIASED}",
            statement=f"{BoundClass.UNBIASED.statement}.",
        )
    ]


def asked_for(names: Sequence[str], most: int = 6) -> str:
    """What was asked, in words."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def facts(known: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those of a record's entries that have a name here, as text."""
    return [(name, str(known[key])) for key, name in names.items() if known.get(key) is not None]
