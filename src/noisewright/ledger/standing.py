"""How a dataset stands: what was spent, what is left, what may be said of it, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import floor, log10
from typing import TypedDict, cast

import msgspec

from noisewright.errors import BudgetExceeded, InvalidParameter, ReleasedBefore
from noisewright.ledger.entries import (
    Committed,
    Created,
    LedgerEntry,
    Line,
    Opened,
    Reserved,
)
from noisewright.ledger.history import Account, History, Spent
from noisewright.planning.spending import Again, Cost
from noisewright.privacy.exact.rounding import (
    float_above,
    float_below,
    root_above,
    root_below,
)
from noisewright.privacy.noise.gaussian import gaussian_epsilon, gaussian_ratio
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import STATEMENTS, Amounts, Limits, odometer

DELTA = 1e-9  # where neither a plan, nor the dataset, nor the caller names one
_DIGITS = 4  # a budget that people type again
_CRUMBS = 10**6  # what is left counts as nothing below this part of the whole


class BudgetTold(TypedDict, total=False):
    """The budget of a dataset: a promise, and the rule by which releases are admitted."""

    kind: str
    epsilon: float
    delta: float
    rho: float
    neighbours: str
    rule: str
    statement: str
    limits: dict[str, float]


class SpentTold(TypedDict, total=False):
    """What was spent of a budget."""

    share: float
    unfinished: int
    rho: float
    mu: float
    epsilon: float
    delta: float
    odometer: dict[str, float]
    composed: dict[str, float]


class Standing(TypedDict):
    """How a dataset stands, ready for JSON."""

    dataset: str
    unit: str | None
    person: str
    budget: BudgetTold
    spent: SpentTold
    left: dict[str, float]
    groups: dict[str, float]
    entries: int


class EntryTold(TypedDict, total=False):
    """An entry of any kind, ready for JSON: all have the first four, a kind some of the others."""

    number: int
    time: str
    hash: str
    entry: str
    ledger: str
    dataset: str
    version: str
    budget: dict[str, object]
    groups: list[str]
    rule: str
    release: str
    kept: bool
    group: str
    title: str
    unit: object
    plan: str
    spend: dict[str, object]
    noise: list[dict[str, object]]
    charged: dict[str, float]
    finished: bool


def standing(account: Account, delta: float | None = None) -> Standing:
    """Budget, what was spent and what is left, ready for JSON.

    `odometer` holds whenever one stops, for plans that followed earlier answers; `composed` is what
    holds for the same spends fixed in advance.
    """
    created = account.created
    budget = created.privacy
    budget_facts = {
        **budget.to_dict(),
        "rule": created.limits.rule,
        "statement": STATEMENTS[created.limits.rule],
        "limits": _named(created.limits, created.limits.amounts),
    }

    return {
        "dataset": account.name,
        "unit": created.unit,
        "person": created.person,
        "budget": cast(BudgetTold, budget_facts),
        "spent": _spent(account, delta or budget.delta),
        "left": _left(account, delta or budget.delta or DELTA),
        "groups": {
            group: created.limits.share(account.used_of(group))
            for group in created.groups
        },
        "entries": len(account.releases),
    }


def _spent(account: Account, delta: float | None) -> SpentTold:
    limits = account.created.limits
    used = account.used
    spent_facts = {
        "share": limits.share(used),
        **_named(limits, used),
        "unfinished": sum(spent.committed is None for spent in account.releases),
    }
    spent = cast(SpentTold, spent_facts)
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


def _left(account: Account, delta: float) -> dict[str, float]:
    """The largest plans that are still admitted, one of each kind; 0 for none."""
    limits = account.created.limits
    used = account.used
    kinds = {
        "epsilon": Privacy(epsilon=1.0, delta=delta),
        "rho": Privacy(rho=1.0),
        "pure_epsilon": Privacy(epsilon=1.0),
    }
    fits = {name: _largest_fitting(limits, used, kind) for name, kind in kinds.items()}
    left = {
        name: (fit.rho or fit.epsilon or 0.0) if fit else 0.0
        for name, fit in fits.items()
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


def told_entries(history: History, dataset: str | None = None) -> Iterator[EntryTold]:
    """Every entry ready for JSON, each with the rule by which it was admitted."""
    for line, entry in history.entries:
        told = _told(history, line, entry)
        if dataset is None or told.get("dataset") == dataset:
            yield told


def _told(history: History, line: Line, entry: LedgerEntry) -> EntryTold:
    told: EntryTold = {
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
    told["dataset"] = spent.reserved.dataset
    told["release"] = entry.release
    if isinstance(entry, Committed):
        return {**told, "entry": "committed", "kept": entry.content is not None}

    return {**told, "entry": "reserved", **_release(history, spent, entry)}


def _release(history: History, spent: Spent, entry: Reserved) -> EntryTold:
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


def so_far(facts: Standing) -> tuple[dict[str, float], str]:
    """What all that was spent promises together, and what there is to say of it.

    The odometer shares δ among the stops at which it may be read, so that towards the end of a
    budget it says more than the budget, which holds for everything at any time.
    """
    odometer = facts["spent"]["odometer"]
    budget = facts["budget"]
    same = (odometer.get("delta") or 0.0) >= (budget.get("delta") or 0.0)
    epsilon = odometer.get("epsilon")
    most = budget.get("epsilon")
    if epsilon is None or most is None or epsilon <= most or not same:
        return odometer, "whenever you stop"

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


def _largest_fitting(limits: Limits, used: Amounts, like: Privacy) -> Privacy | None:
    """The largest budget of a plan of the same kind that is admitted, rounded down; None for none.

    Gaussian noise is meant for ρ and for (ε, δ), Laplace noise for pure ε: what plans draw.
    """
    left = limits.left(used)
    whole = limits.amounts
    if all(
        rest * _CRUMBS <= total for rest, total in zip(left[:2], whole[:2], strict=True)
    ):
        return None

    if like.kind == "pure":
        epsilon = rounded_down(limits.largest_pure(used))
        return Privacy(epsilon, neighbours=like.neighbours) if epsilon else None

    ratio = limits.largest_ratio(used)
    if not ratio:
        return None

    if like.rho is not None:
        rho = rounded_down(
            float_below(Fraction(ratio) ** 2 / 2),
            lambda rho: root_below(2 * Fraction(rho)) <= ratio,
        )
        return (
            Privacy(rho=rho, delta=like.delta, neighbours=like.neighbours)
            if rho
            else None
        )

    delta = like.delta or DELTA
    epsilon = rounded_down(
        gaussian_epsilon(delta, ratio),
        lambda epsilon: gaussian_ratio(epsilon, delta) <= ratio,
    )
    return Privacy(epsilon, delta, neighbours=like.neighbours) if epsilon else None


def rounded_down(
    value: float, fits: Callable[[float], bool] = lambda _: False
) -> float:
    """A number of few digits that is not above `value`, or fits though it is; 0 for a tiny one."""
    if value < 1e-12:
        return 0.0

    nearest = float(f"{value:.{_DIGITS - 1}e}")
    if fits(nearest):
        return nearest

    place = floor(log10(value)) - _DIGITS + 1
    digits = floor(value / 10.0**place)
    rounded = float(f"{digits}e{place}")

    return rounded if rounded <= value else float(f"{digits - 1}e{place}")


def budget_text(privacy: Privacy) -> str:
    """A budget without its neighbours, as people write it."""
    if privacy.rho is not None:
        return f"ρ = {privacy.rho:.4g}"
    text = f"ε = {privacy.epsilon:.4g}"
    return text if privacy.delta is None else f"{text} at δ = {privacy.delta:g}"


def budget_options(privacy: Privacy) -> str:
    """A budget as a command takes it."""
    names = ("epsilon", "delta", "rho")
    given = [(name, getattr(privacy, name)) for name in names]
    told = " ".join(f"--{name} {value:g}" for name, value in given if value is not None)
    return f"{told} --composition many" if privacy.kind == "approximate" else told


def does_not_fit(account: Account, cost: Cost, group: str) -> BudgetExceeded:
    """A release that would take too much from the people of a group."""
    limits = account.created.limits
    used = account.used_of(group)
    fits = _largest_fitting(limits, used, cost.privacy)
    start = (
        f"the release ({budget_text(cost.privacy)}) does not fit what is left of dataset"
        f" {_full_name(account, group)!r} ({budget_text(account.created.privacy)} in all)"
    )
    if fits is not None:
        rest = f"a plan with {budget_options(fits)} would fit"
        rest += _or_gaussian(limits, used, cost.privacy)
    elif limits.rule == "sum" and cost.privacy.kind != "pure":
        left = limits.left(used).pure
        rest = f"its rule adds up pure ε, of which {float(left):.4g} is left: plan with pure ε"
    else:
        rest = "nothing of this kind is left"

    return BudgetExceeded(f"{start}: {rest}; nothing was spent", fits)


def _or_gaussian(limits: Limits, used: Amounts, like: Privacy) -> str:
    """Beside a pure plan, the one of Gaussian noise that a rule for such noise admits."""
    if like.kind != "pure" or limits.rule == "sum":
        return ""
    asked = Privacy(epsilon=1.0, delta=DELTA, neighbours=like.neighbours)
    fits = _largest_fitting(limits, used, asked)
    return (
        ""
        if fits is None
        else f", or one of Gaussian noise with {budget_options(fits)}"
    )


def other_unit(account: Account, cost: Cost) -> InvalidParameter:
    """A release whose loss is not that of the people whose budget it is."""
    unit = cost.unit and cost.unit.name
    person = account.created.person
    column = account.created.unit
    remedy = (
        f"name it in the schema, `unit: {{column: {column}, rows: …}}`"
        if column
        else "a dataset made with --unit takes such plans"
    )
    rule = f"is not whose budget {account.name!r} is ({person}), and no loss converts"

    return InvalidParameter(
        "unit", unit or "one row", rule, f"{remedy}; nothing was spent"
    )


def _full_name(account: Account, group: str) -> str:
    """A dataset, or a group of it, as commands name it."""
    return f"{account.name}/{group}" if group else account.name


def released_before(account: Account, before: Spent, again: Again) -> ReleasedBefore:
    """A plan that was released before."""
    name = _full_name(account, before.reserved.group)
    version = f"@{before.reserved.version}" if before.reserved.version else ""
    start = (
        f"this plan was released from {name}{version} before"
        f" (entry {before.number}, {before.reserved.time[:19]} UTC)"
    )
    if again == "stored":
        lost = "never finished: its answers are lost and its budget is spent"
        rest = (
            lost
            if before.committed is None
            else "its answers are not kept by the ledger"
        )
        return ReleasedBefore(f"{start}, and {rest}; --again spend buys fresh noise")

    rest = (
        "--again stored gives those answers at no cost, --again spend buys fresh noise, and"
        f" {name}@VERSION declares that the data are others"
    )
    return ReleasedBefore(f"{start}; nothing was spent: {rest}")
