"""What was done to answers after the noise, in words, and what that does to their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noisewright.report.words.numbers import figure, share

_NOTHING = "Nothing that changes answers: they are unbiased, as they were measured."
_BIASED = "The plan's own estimate, which need not be unbiased."
_PLAIN: tuple[object, ...] = (None, False, {}, 0.0, "plug-in")
_AROUND = (
    "Intervals are those of the unbiased answers, widened where need be to hold these."
)


def _invariants(known: Mapping[str, float]) -> str:
    values = ", ".join(f"{name} = {figure(value)}" for name, value in known.items())
    return (
        f"Public numbers are told as they are, which narrows other intervals: {values}."
    )


_WORDS: dict[str, Callable[[Any], str]] = {
    "invariants": _invariants,
    "non_negative": lambda _: (
        "Answers are those of a fitted table of people in which no count is below zero: no longer "
        f"unbiased, often nearer. {_AROUND}"
    ),
    "integer": lambda _: (
        "Answers are those of a fitted table of whole people, in which no count is below zero. "
        f"{_AROUND}"
    ),
    "suppress": lambda most: (
        f"Answers with a standard error of more than {share(most)} of them are left out. Whether "
        "one is kept depends on its noise, so that all intervals are those for all answers at once."
    ),
    "shrink": lambda _: (
        "Answers are shrunk: biased, with the least error on the worst data that such an estimate "
        f"has. {_AROUND}"
    ),
    "population": lambda _: (
        "Errors are about the population that people were drawn from."
    ),
    "errors": lambda _: (
        "Standard errors are those on the worst data, not the estimated ones."
    ),
    "liars": lambda part: (
        f"Answers and intervals hold even if {share(part)} of the reports were sent to deceive."
    ),
    "margins": lambda _: "Answers are weighted to the public counts of a population.",
}


def steps_in_words(steps: Sequence[Mapping[str, Any]], *, changed: bool) -> list[str]:
    """A sentence or two for each step; that nothing was done is said too."""
    told = [
        _WORDS[name](value) if name in _WORDS else f"{name.replace('_', ' ')}: {value}"
        for step in steps
        for name, value in step.items()
        if value not in _PLAIN
    ]
    return told or [_BIASED if changed else _NOTHING]
