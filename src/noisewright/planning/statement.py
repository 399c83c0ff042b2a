"""The statement that travels with answers: who is protected and how, and what was done since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from noisewright import __version__
from noisewright.planning.spending import UNRECORDED, LedgerNote, noise_of

if TYPE_CHECKING:
    from noisewright.planning.release import Release


_UNIT = {
    "central": "one row of the table, taken to be one person",
    "local": "one report, sent by one person",
}

_FIXED_BEFORE = (
    "what is measured and how was fixed by the plan, before any of these data were read"
)
_OVER_FOUND_VALUES = (
    "; tables are over the values that the first part of the plan told, as it says"
)
_WITHOUT_LEDGER = (
    f"{_FIXED_BEFORE}; what other releases about these people cost is not known here"
)


def statement(release: Release) -> dict[str, object]:
    """Unit, neighbours, law, scale, sensitivity, adaptivity, steps, versions: ready for JSON.

    Everything is derived from the plan that draws the noise and from the steps of the release.
    """
    plan = release.plan
    record = plan.record()
    model = str(record.get("model", "central"))
    steps = [msgspec.structs.asdict(step) for step in release.steps]
    changed_by_plan = plan.changes(())  # a projection, whatever is done after the noise
    changed_by_steps = any(
        step.get("non_negative") or step.get("integer") for step in steps
    )
    before_data = adaptivity(release.ledger)
    if "open" in record:
        before_data += _OVER_FOUND_VALUES

    return {
        "unit": record.get("person", _UNIT[model]),
        "neighbours": plan.privacy.neighbours,
        "promise": plan.privacy.text(),
        "spend": plan.spend.to_dict(),
        "noise": noise_of(record),
        "noise_unit": "grid steps of the integers that are measured",
        "adaptivity": before_data,
        "post_processing": steps,
        "unbiased": not changed_by_plan and not changed_by_steps,
        "ledger": UNRECORDED if release.ledger is None else release.ledger.to_dict(),
        "versions": {"noisewright": __version__, "numpy": np.__version__},
    }


def adaptivity(ledger: LedgerNote | None) -> str:
    """What was fixed before the data were read, and what may have followed answers."""
    if ledger is None:
        return _WITHOUT_LEDGER
    return (
        f"{_FIXED_BEFORE}; other releases from dataset {ledger.dataset!r} may have been chosen"
        f" after seeing answers, and its budget holds for that ({ledger.rule})"
    )
