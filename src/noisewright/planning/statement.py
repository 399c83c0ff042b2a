"""What travels with answers: who is protected and how, and what a plan's record says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from noisewright import __version__
from noisewright.central.mechanism import Mechanism
from noisewright.container import flattened, rebuilt, value_digest
from noisewright.display import Fact, value_text
from noisewright.planning.plan import LEVEL
from noisewright.planning.spending import UNRECORDED, LedgerNote, noise_of
from noisewright.privacy.exact.rounding import float_above
from noisewright.privacy.promise.budget import Contribution, Privacy
from noisewright.workload.questions.statistics import PEOPLE

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release
    from noisewright.solution import BoundTold


_UNIT = {
    "central": "one row of the table, taken to be one person",
    "local": "one report, sent by one person",
}
_FIXED = (
    "what is measured and how was fixed by the plan, before any of these data were read"
)
_TOLD = "; tables are over the values that the first part of the plan told, as it says"
_ALONE = f"{_FIXED}; what other releases about these people cost is not known here"


def statement(release: Release) -> dict[str, object]:
    """Unit, neighbours, law, scale, sensitivity, adaptivity, steps, versions: ready for JSON.

    Everything is derived from the plan that draws the noise and from the steps of the release.
    """
    plan = release.plan
    record = plan.record()
    model = str(record.get("model", "central"))
    steps = [msgspec.structs.asdict(step) for step in release.steps]

    return {
        "unit": record.get("person", _UNIT[model]),
        "neighbours": plan.privacy.neighbours,
        "promise": plan.privacy.text(),
        "spend": plan.spend.to_dict(),
        "noise": noise_of(record),
        "noise_unit": "grid steps of the integers that are measured",
        "adaptivity": adaptivity(release.ledger) + (_TOLD if "open" in record else ""),
        "post_processing": steps,
        "unbiased": not plan.changes(())
        and not any(step.get("non_negative") or step.get("integer") for step in steps),
        "ledger": UNRECORDED if release.ledger is None else release.ledger.to_dict(),
        "versions": {"noisewright": __version__, "numpy": np.__version__},
    }


WORDS = {
    "queries": "answers",
    "size": "cells",
    "memory": "numbers of memory",
    "status": "how the search ended",
    "report_bytes": "one report",
    "certificate": "proved by",
    "seconds": "time of planning",
    "plan": "hash of the plan",
    "strategy_hash": "hash of what was measured",
    "release": "name of the release",
    "domain": "hash of the schema",
    "rmse": "root mean square error",
    "max": "largest standard error",
    "worst_rmse": "error at most, whatever the data",
    "class": "class of concepts",
    "alpha": "α",
    "beta": "β",
}
"""What facts are called by people, where that is not their name."""

UNITS = {"worst_rmse": PEOPLE, "report_bytes": "bytes", "seconds": "s"}
"""In what facts are counted."""

_SYMBOLS = {"mu": "μ", "ratio": "ε", "epsilon": "ε", "delta": "δ"}


def facts(known: Mapping[str, object]) -> list[Fact]:
    """What is known of a plan or a release: one list for scripts, screens and pages."""
    return [
        Fact(
            name,
            value,
            WORDS.get(name, name.replace("_", " ")),
            UNITS.get(name, ""),
            _said(name, value),
        )
        for name, value in known.items()
    ]


def _said(name: str, value: object) -> object:
    """Promises, losses and bounds as people write them; None for what is said as it is."""
    if isinstance(value, Mapping):
        return _SAYINGS[name](value) if name in _SAYINGS else None
    if name == "seconds" and isinstance(value, float):
        return f"{value:.2g}"  # another run takes another time
    if name == "bounds" and isinstance(value, Sequence):
        return "; ".join(map(_bound, value))
    return None


def _losses(spend: Mapping[str, Any]) -> list[str]:
    told = []
    for loss in spend["losses"]:
        figures = [(symbol, loss[k]) for k, symbol in _SYMBOLS.items() if k in loss]
        text = ", ".join(f"{symbol} = {value_text(v)}" for symbol, v in figures)
        told.append(f"{text} ({loss['loss']})")

    return told


def _bound(bound: BoundTold) -> str:
    least = value_text(bound["lower_bound"])
    return f"{bound['class']}: {least} ({value_text(bound['ratio'])} ×)"


_SAYINGS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "privacy": lambda stated: Privacy.from_dict(stated).text(),
    "spend": _losses,
    "ledger": lambda note: None if note.get("recorded") else note.get("note"),
}


def adaptivity(ledger: LedgerNote | None) -> str:
    """What was fixed before the data were read, and what may have followed answers."""
    if ledger is None:
        return _ALONE
    return (
        f"{_FIXED}; other releases from dataset {ledger.dataset!r} may have been chosen"
        f" after seeing answers, and its budget holds for that ({ledger.rule})"
    )


def central_record(plan: CentralPlan) -> dict[str, object]:
    """What a release spends and how, but for bounds of wider classes: ready for JSON."""
    errors = plan.errors
    return {
        "format": "noisewright-release",
        "version": __version__,
        "model": "central",
        "mechanism": plan.mechanism.name,
        "privacy": plan.privacy.to_dict(),
        "neighbours": plan.privacy.neighbours,
        "person": plan.person,
        "spend": plan.spend.to_dict(),
        "spends": plan.spends,
        **_asked(plan),
        "strategy_hash": strategy_hash(plan.mechanism),
        "workload": plan.workload.brief(),
        "domain": None if plan.domain is None else plan.domain.fingerprint,
        "queries": plan.queries,
        "interval_level": LEVEL,
        "libraries": {"numpy": np.__version__},
        **measured(plan),
        "error": errors.error,
        "lower_bound": errors.lower_bound,
        "ratio": errors.ratio,
        "bound_class": errors.bound_class,
        "bounds": [],
        **({"notes": notes} if (notes := _notes(plan)) else {}),
    }


def central_summary(plan: CentralPlan) -> dict[str, object]:
    """The figures of a plan, before anything is released."""
    forecast = plan.forecast()
    return {
        "mechanism": plan.mechanism.name,
        "privacy": plan.privacy.to_dict(),
        "spends": plan.spends,
        **_asked(plan),
        "person": plan.person,
        **forecast.summary(),
        "error": forecast.error,
        "queries": plan.queries,
        "size": prod(plan.sizes),
        **measured(plan),
        "status": plan.status,
        "seconds": plan.seconds,
    }


def _asked(plan: CentralPlan) -> dict[str, object]:
    """The promise that was asked for, where the plan keeps a stronger one."""
    return {} if plan.asked is None else {"asked": plan.asked.to_dict()}


def measured(plan: CentralPlan) -> dict[str, object]:
    """What is drawn and measured; a person moves it by so many times what a row does."""
    return _of_rows(plan.mechanism.record(), plan.contribution)


def _of_rows(
    record: dict[str, object], contribution: Contribution
) -> dict[str, object]:
    """What a mechanism says of itself, with the sensitivity of all rows of a person."""
    if contribution.rows == 1:
        return record

    told = dict(record)
    if "sensitivity" in told:
        of_row = Fraction(cast("float", told["sensitivity"]))
        told["sensitivity"] = float_above(of_row * contribution.multiple)

    if "parts" in told:
        parts = cast("Sequence[dict[str, object]]", told["parts"])
        told["parts"] = [_of_rows(part, contribution) for part in parts]

    return told


def strategy_hash(mechanism: Mechanism) -> str:
    """A digest of exactly what is measured."""
    stored = mechanism.packed()
    # As a file gives it back: where a fraction is meant, 1024 and 1024.0 are the same number.
    return value_digest(rebuilt(*flattened(stored), type(stored)))


def _notes(plan: CentralPlan) -> dict[str, str]:
    """What must be known to read some of the answers."""
    return {s.name: s.note for s in plan.workload.statistics if s.note is not None}
