"""Promises in words, with the numbers that they mean for one person."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import exp

from noisewright.planning.central.plan import CentralPlan
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend, best_guess
from noisewright.report.words.facts import Record, Tile
from noisewright.report.words.numbers import figure, percent_above, plain_number

_USUAL_DELTA = 1e-9
"""At which ρ is told as an ε: below one over the people there are."""
_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}


def promise_tile(privacy: Privacy) -> Tile:
    """What is promised."""
    known = {name: getattr(privacy, name) for name in _SYMBOLS}
    return Tile("privacy", promise_parameters(known), _NEIGHBOURS[privacy.neighbours])


def promise_parameters(known: Record, digits: int = 6) -> str:
    """The parameters of a promise that are known, such as ε = 1, δ = 10⁻⁹."""
    told = {symbol: known.get(name) for name, symbol in _SYMBOLS.items()}
    return ", ".join(
        letter_equals(symbol, plain_number(value, digits))
        for symbol, value in told.items()
        if value is not None
    )


def letter_equals(symbol: str, value: str) -> str:
    """A letter and its value, which no line break parts."""
    return f"{symbol}\u00a0=\u00a0{value}"


_NEIGHBOURS = {
    "add-remove": "whether or not any one person takes part",
    "replace-one": "whatever any one person answers",
}
_CHANGES = {
    "add-remove": ("been left out", "whether a given person took part"),
    "replace-one": (
        "given other answers",
        "which of two sets of answers a given person gave",
    ),
}


def promise_sentence(neighbours: str) -> str:
    """The promise in a sentence."""
    return (
        "what is published would look almost the same had any one person "
        f"{_CHANGES[neighbours][0]}"
    )


@singledispatch
def kept_sentence(plan: object) -> str:
    """What was asked for, where a plan keeps more than that; empty otherwise."""
    return ""


@kept_sentence.register
def _kept_by_curator(plan: CentralPlan) -> str:
    """Pure noise keeps a promise that was asked with a δ."""
    if plan.asked is None:
        return ""

    asked = promise_tile(plan.asked).value
    told = f" Asked for was {asked}: the noise is for that ε alone, and keeps it without any δ."
    if "rho" in plan.spends:
        rho = letter_equals("ρ", figure(plan.spends["rho"]))
        told += f" Where releases add up in ρ it counts {rho}."

    return told


@dataclass(frozen=True)
class Person:
    """What a promise means for one person: sentences, and the chance of the best guess."""

    sentences: list[str]
    guess: str
    part: float

    @classmethod
    def of(
        cls, spend: Spend, privacy: Privacy, unit: str, *, local: bool = False
    ) -> Person:
        """In words and in numbers, for the unit of privacy named.

        `local`: the promise holds for what each person sends, whoever reads it.
        """
        guess = best_guess(spend)
        part = round(min(100.0, 200 * (guess - 0.5)), 2)
        changed = _CHANGES[privacy.neighbours][1]
        seen = (
            "Even with that person's report in hand,"
            if local
            else "With all that is published"
        )
        told = [
            f"The unit of privacy: {unit}.",
            f"Somebody who knows everything about all others tosses a coin on {changed}, and is "
            f"right {percent_above(0.5)} of the time. {seen} no guess is right more than "
            f"{percent_above(guess)} of the time.",
            *_in_figures(spend, privacy),
        ]
        if local:
            told.append(
                "True answers stay with the people who gave them; nobody collects them."
            )

        told.append(
            "What holds for people in general can still be learnt from these answers, also about "
            "people who took no part."
        )
        return cls(told, percent_above(guess), part)


def _in_figures(spend: Spend, privacy: Privacy) -> list[str]:
    """The promise as odds where it is pure, and as the usual ε where it is stated as ρ."""
    if any(getattr(loss, "delta", 0.0) for loss in spend.losses):
        return []

    if spend.mu:
        if privacy.epsilon is not None:
            return []  # told in the usual figures already
        epsilon = letter_equals("ε", figure(spend.promise(_USUAL_DELTA).epsilon or 0.0))
        return [
            f"In the usual figures: {epsilon} at {letter_equals('δ', plain_number(_USUAL_DELTA))}."
        ]

    pure = spend.promise().epsilon or 0.0
    if pure >= 30:
        return []

    odds = exp(pure) * 0.01 / 0.99
    return [
        f"Whoever held something about a person {percent_above(0.01)} likely can come to hold it "
        f"{percent_above(odds / (1 + odds))} likely at most, whatever else they know."
    ]
