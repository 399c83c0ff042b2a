"""How a dataset stands: what was spent, what is left, and what may be said of it at any time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec

from noisewright.ledger.entries import (
    AnyEntry,
    Committed,
    Created,
    Line,
    Opened,
    Reserved,
)
from noisewright.ledger.history import Account, History, Spent
from noisewright.ledger.refusals import largest_fitting
from noisewright.privacy.exact.rounding import float_above, root_above
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import STATEMENTS, Amounts, Limits, odometer

DELTA = 1e-9  # where neither the dataset nor the caller names one


def standing(account: Account, delta: float | None = None) -> dict[str, Any]:
    """Budget, what was spent and what is left, ready for JSON.

    `odometer` holds whenever one stops, for plans that followed earlier answers; `composed` is what
    holds for the same spends fixed in advance.
    """
    created = account.created
    budget = created.privacy
    return {
        "dataset": account.name,
        "unit": created.unit,
        "person": created.person,
        "budget": {
            **budget.to_dict(),
            "rule": created.limits.rule,
            "statement": STATEMENTS[created.limits.rule],
            "limits": _named(created.limits, created.limits.amounts),
        },
        "spent": _spent(account, delta or budget.delta),
        "left": _left(account, delta or budget.delta or DELTA),
        "groups": {
            group: created.limits.share(account.used_of(group))
            for group in created.groups
        },
        "entries": len(account.releases),
    }


def _spent(account: Account, delta: float | None) -> dict[str, Any]:
    limits = account.created.limits
    used = account.used
    spent: dict[str, Any] = {
        "share": limits.share(used),
        **_named(limits, used),
        "unfinished": sum(spent.committed is None for spent in account.releases),
    }
    if not account.releases or not account.spend.losses:
        return spent

    spent["odometer"] = _plain(odometer(limits, used, account.created.privacy, delta))
    if delta is not None:
        from noisewright.privacy.promise.composition import composed_epsilon

        spent["composed"] = {
            "epsilon": composed_epsilon(account.spend, delta),
            "delta": delta,
        }

    return spent


def _left(account: Account, delta: float) -> dict[str, Any]:
    """The largest plans that are still admitted, one of each kind; 0 for none."""
    limits = account.created.limits
    used = account.used
    kinds = {
        "epsilon": Privacy(epsilon=1.0, delta=delta),
        "rho": Privacy(rho=1.0),
        "pure_epsilon": Privacy(epsilon=1.0),
    }
    fits = {name: largest_fitting(limits, used, kind) for name, kind in kinds.items()}
    left = {
        name: (fit.rho or fit.epsilon) if fit else 0.0 for name, fit in fits.items()
    }

    return {**left, "delta": delta}


def _named(limits: Limits, amounts: Amounts) -> dict[str, float]:
    """Amounts under the names that people know, rounded up."""
    named: dict[str, Fraction] = {}
    if limits.rule == "zcdp":
        named["rho"] = amounts.most

    plain = {name: float_above(value) for name, value in named.items()}
    if limits.rule == "gaussian":
        plain["mu"] = root_above(amounts.most) if amounts.most else 0.0

    if limits.pure:
        plain["epsilon"] = float_above(amounts.pure)

    if limits.delta:
        plain["delta"] = float_above(amounts.delta)

    return plain


def _plain(privacy: Privacy) -> dict[str, float]:
    stated = {"epsilon": privacy.epsilon, "delta": privacy.delta, "rho": privacy.rho}
    return {name: value for name, value in stated.items() if value is not None}


def told_entries(
    history: History, dataset: str | None = None
) -> Iterator[dict[str, Any]]:
    """Every entry ready for JSON, each with the rule by which it was admitted."""
    for line, entry in history.entries:
        told = _told(history, line, entry)
        if dataset is None or told.get("dataset") == dataset:
            yield told


def _told(history: History, line: Line, entry: AnyEntry) -> dict[str, Any]:
    told: dict[str, Any] = {
        "number": line.number,
        "time": entry.time,
        "hash": line.hash,
    }
    if isinstance(entry, Opened):
        return {
            **told,
            "entry": "opened",
            "ledger": entry.ledger,
            "version": entry.version,
        }

    if isinstance(entry, Created):
        rule = STATEMENTS[entry.limits.rule]
        return {**told, "entry": "created", "dataset": entry.dataset, "budget": entry.budget,
                "groups": list(entry.groups), "unit": entry.unit, "rule": rule}  # fmt: skip

    spent = history.release(entry.release)
    assert spent is not None
    told |= {"dataset": spent.reserved.dataset, "release": entry.release}
    if isinstance(entry, Committed):
        return {**told, "entry": "committed", "kept": entry.content is not None}

    return {**told, "entry": "reserved", **_release(history, spent, entry)}


def _release(history: History, spent: Spent, entry: Reserved) -> dict[str, Any]:
    limits = history.accounts[entry.dataset].created.limits
    return {
        "version": entry.version,
        "group": entry.group,
        "title": entry.title,
        "unit": None if entry.unit is None else msgspec.structs.asdict(entry.unit),
        "plan": entry.plan,
        "spend": entry.spend.to_dict(),
        "noise": [
            {"law": n.law, "scale": n.scale, "sensitivity": n.sensitivity}
            for n in entry.noise
        ],
        "rule": STATEMENTS[limits.rule],
        "charged": {**_named(limits, spent.used), "share": limits.share(spent.used)},
        "finished": spent.committed is not None,
    }


def so_far(facts: dict[str, Any]) -> tuple[dict[str, float], str]:
    """What all that was spent promises together, and what there is to say of it.

    The odometer shares δ among the stops at which it may be read, so that towards the end of a
    budget it says more than the budget, which holds for everything at any time.
    """
    told = facts["spent"]["odometer"]
    budget = facts["budget"]
    same = (told.get("delta") or 0.0) >= (budget.get("delta") or 0.0)
    epsilon = told.get("epsilon")
    most = budget.get("epsilon")
    if epsilon is None or most is None or epsilon <= most or not same:
        return told, "whenever you stop"

    promise = {name: budget[name] for name in ("epsilon", "delta") if budget.get(name)}
    note = f"the budget, which holds at any time: read at every stop alone it were {epsilon:.4g}"
    return promise, note


def left_text(left: dict[str, float]) -> str:
    """The largest plans that fit, for people."""
    names = {
        "epsilon": f"ε = {left['epsilon']:.4g} at δ = {left['delta']:g}",
        "rho": f"ρ = {left['rho']:.4g}",
        "pure_epsilon": f"pure ε = {left['pure_epsilon']:.4g}",
    }
    fits = [text for name, text in names.items() if left[name]]
    return f"{' · '.join(fits)} (one plan)" if fits else "nothing"
