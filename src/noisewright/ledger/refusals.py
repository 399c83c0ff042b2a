"""What a ledger says when it refuses: what is left, and what would be admitted instead."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor, log10

from noisewright.errors import BudgetExceeded, InvalidParameter, ReleasedBefore
from noisewright.ledger.history import Account, Spent
from noisewright.planning.budgets.spending import Again, Cost
from noisewright.privacy.exact.rounding import float_below, root_below
from noisewright.privacy.noise.gaussian import gaussian_epsilon, gaussian_ratio
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import Amounts, Limits

_DIGITS = 4  # a budget that people type again
_CRUMBS = 10**6  # what is left counts as nothing below this part of the whole
_DELTA = 1e-9  # where neither a plan nor a dataset names one


def largest_fitting(limits: Limits, used: Amounts, like: Privacy) -> Privacy | None:
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

    delta = like.delta or _DELTA
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


def amount(privacy: Privacy) -> str:
    """A budget without its neighbours, as people write it."""
    if privacy.rho is not None:
        return f"ρ = {privacy.rho:.4g}"
    text = f"ε = {privacy.epsilon:.4g}"
    return text if privacy.delta is None else f"{text} at δ = {privacy.delta:g}"


def options(privacy: Privacy) -> str:
    """A budget as a command takes it."""
    names = ("epsilon", "delta", "rho")
    given = [(name, getattr(privacy, name)) for name in names]
    told = " ".join(f"--{name} {value:g}" for name, value in given if value is not None)
    return f"{told} --composition many" if privacy.kind == "approximate" else told


def does_not_fit(account: Account, cost: Cost, group: str) -> BudgetExceeded:
    """A release that would take too much from the people of a group."""
    limits = account.created.limits
    used = account.used_of(group)
    fits = largest_fitting(limits, used, cost.privacy)
    start = (
        f"the release ({amount(cost.privacy)}) does not fit what is left of dataset"
        f" {full_name(account, group)!r} ({amount(account.created.privacy)} in all)"
    )
    if fits is not None:
        rest = f"a plan with {options(fits)} would fit"
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
    asked = Privacy(epsilon=1.0, delta=_DELTA, neighbours=like.neighbours)
    fits = largest_fitting(limits, used, asked)
    return "" if fits is None else f", or one of Gaussian noise with {options(fits)}"


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


def full_name(account: Account, group: str) -> str:
    """A dataset, or a group of it, as commands name it."""
    return f"{account.name}/{group}" if group else account.name


def released_before(account: Account, before: Spent, again: Again) -> ReleasedBefore:
    """A plan that was released before."""
    name = full_name(account, before.reserved.group)
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
