"""Promises and bounds in words, with the numbers that they mean for one person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import exp, isclose, isfinite
from typing import Any

from noisewright import __version__
from noisewright.local.choose.cost import ALPHA
from noisewright.planning.local import LocalPlan
from noisewright.planning.plan import ReleasedTable
from noisewright.privacy.budget import Privacy
from noisewright.privacy.guessing import best_guess
from noisewright.privacy.spend import Spend
from noisewright.report.numbers import figure, plain, share, when
from noisewright.solution import BoundClass
from noisewright.workload.statistics import PEOPLE

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
    text = ", ".join(
        f"{symbol}\u00a0=\u00a0{plain(value)}" for symbol, value in known if value is not None
    )
    return Tile("privacy", text, _NEIGHBOURS[privacy.neighbours])


_NEIGHBOURS = {
    "add-remove": "whether or not any one person takes part",
    "replace-one": "whatever any one person answers",
}
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


@dataclass(frozen=True)
class Person:
    """What a promise means for one person: sentences, and the chance of the best guess."""

    sentences: list[str]
    guess: str
    part: float

    @classmethod
    def of(cls, spend: Spend, neighbours: str, unit: str) -> Person:
        """In words and in numbers, for the unit of privacy named."""
        guess = best_guess(spend)
        part = round(min(100.0, 200 * (guess - 0.5)), 2)
        return cls(_for_one_person(spend, neighbours, unit, guess), share(guess), part)


def _for_one_person(spend: Spend, neighbours: str, unit: str, guess: float) -> list[str]:
    told = [
        f"The unit of privacy: {unit}.",
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
    """What was asked, by name."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def asked_in_words(tables: Sequence[ReleasedTable], most: int = 6) -> str:
    """What was asked: names where these are few, and else how many of each kind."""
    if len(tables) <= most:
        return asked_for([table.name for table in tables])
    kinds = Counter(map(_kind, tables))
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())


def tables_in_words(tables: Sequence[ReleasedTable]) -> str:
    """How many tables there are, and what was asked."""
    count = len(tables)
    return f"{count:,} table{'s' if count != 1 else ''}: {asked_in_words(tables)}"


def _kind(table: ReleasedTable) -> str:
    """What a table is, as it reads after a number."""
    kinds = {axis.kind for axis in table.axes}
    if table.unit != PEOPLE:
        return f"of {table.says.split(' of ')[0]}s"
    if "cumulative" in kinds:
        return "cumulative"
    if "range" in kinds:
        return "of ranges"
    return _WAYS.get(len(table.axes), f"{len(table.axes)}-way")


_WAYS = {0: "of counts", 1: "one-way", 2: "two-way", 3: "three-way"}


def facts(known: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those of a record's entries that have a name here, as text."""
    return [(name, _fact(known[key])) for key, name in names.items() if known.get(key) is not None]


def _fact(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if float(value).is_integer() else figure(value)


def provenance(known: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where figures come from: times, names, hashes and the entry of the ledger."""
    record = {**known, "time": when(str(known["time"]))} if known.get("time") else known
    return [*facts(record, names), *_ledger_facts(known.get("ledger"))]


def _ledger_facts(ledger: object) -> list[tuple[str, str]]:
    if not isinstance(ledger, Mapping):
        return [] if ledger is None else [("ledger", str(ledger))]
    if not ledger.get("recorded"):
        return [("ledger", str(ledger.get("note", "not recorded")))]
    return [
        ("dataset", dataset_of(ledger)),
        ("entry of the ledger", f"{ledger['entry']} of {ledger['ledger']}"),
        ("hash of all entries up to it", str(ledger["hash"])),
        ("how spends add up", str(ledger["rule"])),
    ]


def dataset_of(ledger: object) -> str:
    """The dataset that a ledger's note names, with its version; empty without one."""
    if not isinstance(ledger, Mapping) or not ledger.get("dataset"):
        return ""
    version = ledger.get("version")
    return f"{ledger['dataset']}{f', version {version}' if version else ''}"


def byline(known: Mapping[str, Any]) -> str:
    """Of what, when and by which version, on one line."""
    time, version = known.get("time"), known.get("version", __version__)
    drawn = f"page drawn on {when(datetime.now(UTC).isoformat())}"
    told = [dataset_of(known.get("ledger")), when(str(time)) if time else drawn]
    return " · ".join([*filter(None, told), f"noisewright {version}"])
