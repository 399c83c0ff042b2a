"""Promises and bounds in words, with the numbers that they mean for one person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import singledispatch
from math import ceil, exp, isclose, isfinite
from typing import Any

from noisewright import __version__
from noisewright.local.choose.cost import ALPHA
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.local.plan import LocalPlan
from noisewright.planning.plan import ReleasedTable
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend, best_guess
from noisewright.report.words.numbers import figure, plain, share, when
from noisewright.report.words.queries import workload_in_words
from noisewright.solution import BoundClass
from noisewright.workload import Workload
from noisewright.workload.questions.statistics import PEOPLE

_ERRORS = {"rmse": " (root mean square)", "max": " (of the least certain one)"}
_FULL = "A full bar cannot be bettered within its class."
_COMPARED_PEOPLE = (
    "The people that this needs, beside the fewest that any method of a "
    f"class needs. {_FULL}"
)
_USUAL_DELTA = 1e-9
"""At which ρ is told as an ε: below one over the people there are."""


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
        _equals(name, plain(value)) for name, value in known if value is not None
    )
    return Tile("privacy", text, _NEIGHBOURS[privacy.neighbours])


def _equals(symbol: str, value: str) -> str:
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
def kept_by_curator(plan: CentralPlan) -> str:
    """Pure noise keeps a promise that was asked with a δ."""
    if plan.asked is None:
        return ""

    asked = promise_tile(plan.asked).value
    told = f" Asked for was {asked}: the noise is for that ε alone, and keeps it without any δ."
    if "rho" in plan.spends:
        rho = _equals("ρ", figure(plan.spends["rho"]))
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
            f"right {share(0.5)} of the time. {seen} no guess is right more than {share(guess)} "
            "of the time.",
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
        return cls(told, share(guess), part)


def _in_figures(spend: Spend, privacy: Privacy) -> list[str]:
    """The promise as odds where it is pure, and as the usual ε where it is stated as ρ."""
    if any(getattr(loss, "delta", 0.0) for loss in spend.losses):
        return []

    if spend.mu:
        if privacy.epsilon is not None:
            return []  # told in the usual figures already
        epsilon = _equals("ε", figure(spend.promise(_USUAL_DELTA).epsilon or 0.0))
        return [
            f"In the usual figures: {epsilon} at {_equals('δ', plain(_USUAL_DELTA))}."
        ]

    pure = spend.promise().epsilon or 0.0
    if pure >= 30:
        return []

    odds = exp(pure) * 0.01 / 0.99
    return [
        f"Whoever held something about a person {share(0.01)} likely can come to hold it "
        f"{share(odds / (1 + odds))} likely at most, whatever else they know."
    ]


@dataclass(frozen=True)
class Certified:
    """How close errors are to the least: for a plan, or a record where no plan is known."""

    tile: Tile
    limits: Sequence[Limit]
    compared: str


@singledispatch
def certified(plan: object, known: Mapping[str, Any]) -> Certified:
    """What is proved of the errors in a record, by the kind of their plan."""
    return Certified(ratio_tile(known), limits(known), _compared(known))


@certified.register
def certified_with_curator(plan: CentralPlan, known: Mapping[str, Any]) -> Certified:
    """Bounds on the error; where questions are weighed, so is what is compared."""
    told = dict(known)
    if known.get("ratio") is not None:
        forecast = plan.forecast()
        told = {"rmse": forecast.rmse, "max": forecast.max, **known}

    weighed = len(set(plan.weights)) > 1
    return Certified(ratio_tile(known), limits(told), _compared(known, weighed))


@certified.register
def certified_without_curator(plan: LocalPlan, known: Mapping[str, Any]) -> Certified:
    """The people that reports need against the fewest that any method of a class needs."""
    facts = plan.summary()
    ratio = facts["certified_ratio"] or facts["ratio"]
    proved = {"ratio": ratio, "bound_class": facts["bound_class"]}
    return Certified(ratio_tile(proved), _local_limits(plan), _COMPARED_PEOPLE)


def ratio_tile(known: Mapping[str, Any]) -> Tile:
    """How close to the least error: among linear strategies, or else in the widest class known."""
    ratio = known.get("ratio")
    limited = known.get("bound_class")
    for bound in known.get("bounds", ()):
        if known.get("ratio") is None and bound["ratio"] is not None:
            ratio = bound["ratio"]
            limited = bound["class"]

    certain = ratio is not None and isfinite(ratio)
    return Tile(
        "against the lower bound",
        f"{ratio:.3f} ×" if certain else "no bound known",
        f"bound for {limited}" if certain else "nothing is certified",
    )


def _compared(known: Mapping[str, Any], weighed: bool = False) -> str:
    """What the ratios of a record compare."""
    told = _ERRORS.get(known.get("error", ""), "")
    if told and weighed:
        told = told.replace(")", ", questions weighed)")

    return (
        f"The error of these answers{told}, beside the least that a class of "
        f"methods has. {_FULL}"
    )


def limits(known: Mapping[str, Any]) -> list[Limit]:
    """The bounds of a record, the narrowest class first."""
    bounds = [
        (each["class"], each["lower_bound"], each["ratio"])
        for each in known.get("bounds", ())
    ]
    if known.get("bound_class") is not None:
        bounds.insert(0, (known["bound_class"], known["lower_bound"], known["ratio"]))

    plain = [known[error] for error in ("rmse", "max") if known.get(error)]
    return [
        Limit(
            part=None if not ratio or not isfinite(ratio) else round(100 / ratio, 2),
            ratio="–" if ratio is None else f"{ratio:.3f} ×",
            says=f"{figure(bound)} people: {name}"
            if _of_people(bound, ratio, plain)
            else name,
            statement=f"{BoundClass(name).statement}.",
        )
        for name, bound, ratio in bounds
    ]


def _of_people(bound: float, ratio: float | None, errors: Sequence[float]) -> bool:
    """Whether a bound is about an error in people; weights and sums have units of their own."""
    if ratio is None or not errors:
        return True
    return any(isclose(bound * ratio, error, rel_tol=1e-3) for error in errors)


def _local_limits(plan: LocalPlan) -> list[Limit]:
    """The people that reports need against the fewest that any method of a class needs."""
    best = plan.certificate
    worst = plan.analysis.worst_case
    if best is None or not best.sample_complexity(ALPHA) > 0:
        return []

    ratio = best.ratio(worst)
    needed, least = (ceil(each.sample_complexity(ALPHA)) for each in (plan, best))
    return [
        Limit(
            part=None if ratio is None else round(100 / ratio, 2),
            ratio="–" if ratio is None else f"{ratio:.3f} ×",
            says=f"{needed:,} people where no method of its class needs fewer than "
            f"{least:,}: {BoundClass.UNBIASED}",
            statement=f"{BoundClass.UNBIASED.statement}.",
        )
    ]


def asked_for(names: Sequence[str], most: int = 6) -> str:
    """What was asked, by name."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def tables_in_words(
    tables: Sequence[ReleasedTable], workload: Workload | None = None
) -> str:
    """How many tables there are, and what was asked: names where few, how many of a kind else."""
    count = len(tables)
    if workload is not None and not workload.statistics:
        return f"{tables[0].name}, {workload_in_words(workload)}"
    if count <= _MOST_NAMES:
        return f"{counted(count, 'table')}: {asked_for([table.name for table in tables], count)}"

    kinds = Counter(map(_kind, tables))
    told = ", ".join(counted(each, *kind) for kind, each in kinds.items())
    return f"{count:,} tables: {told}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun, as it reads: 1 table, 2 tables."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _kind(table: ReleasedTable) -> tuple[str, str]:
    """What a table is, alone and where there are several."""
    kinds = {axis.kind for axis in table.axes}
    if table.unit != PEOPLE:
        name = f"of {table.says.split(' of ')[0]}s"
        return f"table {name}", f"tables {name}"

    if "cumulative" in kinds:
        return "CDF", "CDFs"
    if "range" in kinds:
        return "table of ranges", "tables of ranges"
    if not table.axes:
        return "table of counts", "tables of counts"

    name = _WAYS.get(len(table.axes), f"{len(table.axes)}-way")
    return f"{name} table", f"{name} tables"


_WAYS = {1: "one-way", 2: "two-way", 3: "three-way"}
_MOST_NAMES = 8
"""Of tables in a sentence: more are told by how many there are of a kind."""


def facts(known: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those of a record's entries that have a name here, as text."""
    return [
        (name, _fact(known[key]))
        for key, name in names.items()
        if known.get(key) is not None
    ]


def _fact(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if float(value).is_integer() else figure(value)


def provenance(
    known: Mapping[str, Any], names: Mapping[str, str]
) -> list[tuple[str, str]]:
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


def byline(known: Mapping[str, Any], made: str = "released on") -> str:
    """Of what, when and by which version, on one line; plans have no time but that of the page."""
    time = known.get("time")
    version = known.get("version", __version__)
    drawn = f"page drawn on {when(datetime.now(UTC).isoformat())}"
    told = [
        dataset_of(known.get("ledger")),
        f"{made} {when(str(time))}" if time else drawn,
    ]

    return " · ".join([*filter(None, told), f"noisewright\u00a0{version}"])
