"""What a plan with a curator says of itself: the record beside its answers, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from noisewright import __version__
from noisewright.central.mechanism import Mechanism
from noisewright.container import (
    from_json_and_tensors,
    to_json_and_tensors,
    value_digest,
)
from noisewright.planning.plan import LEVEL
from noisewright.privacy.exact.rounding import float_above
from noisewright.privacy.promise.budget import Contribution

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan


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
        **_asked_promise(plan),
        "strategy_hash": strategy_hash(plan.mechanism),
        "workload": plan.workload.brief(),
        "domain": None if plan.domain is None else plan.domain.fingerprint,
        "queries": plan.queries,
        "interval_level": LEVEL,
        "libraries": {"numpy": np.__version__},
        **measured_laws(plan),
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
        **_asked_promise(plan),
        "person": plan.person,
        **forecast.summary(),
        "error": forecast.error,
        "queries": plan.queries,
        "size": prod(plan.sizes),
        **measured_laws(plan),
        "status": plan.status,
        "seconds": plan.seconds,
    }


def _asked_promise(plan: CentralPlan) -> dict[str, object]:
    """The promise that was asked for, where the plan keeps a stronger one."""
    return {} if plan.asked is None else {"asked": plan.asked.to_dict()}


def measured_laws(plan: CentralPlan) -> dict[str, object]:
    """What is drawn and measured; a person moves it by so many times what a row does."""
    return _for_all_rows(plan.mechanism.record(), plan.contribution)


def _for_all_rows(
    record: dict[str, object], contribution: Contribution
) -> dict[str, object]:
    """What a mechanism says of itself, with the sensitivity of all rows of a person."""
    if contribution.rows == 1:
        return record

    result = dict(record)
    if "sensitivity" in result:
        of_row = Fraction(cast("float", result["sensitivity"]))
        result["sensitivity"] = float_above(of_row * contribution.multiple)

    if "parts" in result:
        parts = cast("Sequence[dict[str, object]]", result["parts"])
        result["parts"] = [_for_all_rows(part, contribution) for part in parts]

    return result


def strategy_hash(mechanism: Mechanism) -> str:
    """A digest of exactly what is measured."""
    stored = mechanism.packed()
    # As a file gives it back: where a fraction is meant, 1024 and 1024.0 are the same number.
    return value_digest(
        from_json_and_tensors(*to_json_and_tensors(stored), type(stored))
    )


def _notes(plan: CentralPlan) -> dict[str, str]:
    """What must be known to read some of the answers."""
    return {s.name: s.note for s in plan.workload.statistics if s.note is not None}
