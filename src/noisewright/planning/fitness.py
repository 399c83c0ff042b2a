"""Plans fit for use: the strategy and the smallest budget that keep every table's error in bounds.

A strategy with the least mean error spends budget on tables that are good enough already. Where
targets limit the largest errors, a second strategy is planned for the largest error of all tables,
each in units of its own limit, and the one that meets the targets with less budget is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from noisewright.domain import Domain
from noisewright.planning.central import CentralPlan
from noisewright.planning.make import plan_central
from noisewright.planning.targets import (
    BudgetName,
    Fit,
    Target,
    fit_budget,
    table_limits,
    with_budget,
)
from noisewright.privacy.budget import Privacy
from noisewright.workload import Stack, Weighted, Workload
from noisewright.workload.spec import Questions

_GRIDS = 6
_COARSER = 1e-3  # of the budget: noise thirty times as large (for ε, a thousand times)
_UNLIMITED = 0.3  # what a table without a target weighs, beside one of the widest limit


def plan_for_targets(
    asked: Workload,
    targets: Sequence[Target],
    privacy: Privacy,
    norm: float,
    mechanism: str,
    domain: Domain | None,
) -> Fit:
    """The plan that meets all targets with the smallest budget of the kind of `privacy`."""

    def plain(budget: Privacy) -> CentralPlan:
        return plan_central(asked, budget, norm, mechanism, domain)

    found = _fit(plain, targets, privacy)
    if norm != 2 or mechanism != "auto" or all(t.measure == "rmse" for t in targets):
        return found
    other = _fit(lambda budget: _weighed(plain(budget), targets), targets, found.plan.privacy)
    return other if _spent(other) < _spent(found) else found


def _fit(
    planned: Callable[[Privacy], CentralPlan], targets: Sequence[Target], privacy: Privacy
) -> Fit:
    """The smallest budget, planned again on a coarser grid where the first is too fine for it."""
    for _ in range(_GRIDS):
        plan = planned(privacy)
        found = fit_budget(plan, targets)
        if not found.limited:
            break
        name: BudgetName = "rho" if privacy.rho is not None else "epsilon"
        privacy = with_budget(plan, name, _spent(found) * _COARSER).privacy
    return found


def _spent(fit: Fit) -> float:
    privacy = fit.plan.privacy
    return float(privacy.rho if privacy.rho is not None else privacy.epsilon or 0.0)


def _weighed(plan: CentralPlan, targets: Sequence[Target]) -> CentralPlan:
    """The same questions answered by a strategy for the largest error in units of the limits."""
    weighed = plan_central(
        _in_units_of_limits(plan, targets), plan.privacy, float("inf"), "auto", plan.domain
    )
    made = replace(plan, mechanism=weighed.mechanism, planned=weighed.planned)
    planned = replace(
        weighed.planned,
        value=made.unit_error,
        bound=plan.planned.bound,
        certificate=plan.planned.certificate,
        status="tables weighed by their targets",
    )
    return replace(made, planned=planned)


def _in_units_of_limits(plan: CentralPlan, targets: Sequence[Target]) -> Workload:
    asked = plan.workload
    if not isinstance(asked, Questions):
        return asked
    limits = table_limits(plan, targets)
    widest = max(limit for limit in limits if limit is not None)
    weights = [_UNLIMITED / widest if limit is None else 1 / limit for limit in limits]
    parts = zip(weights, asked.plain_parts(), strict=True)
    return Stack(tuple(Weighted(weight * widest, part) for weight, part in parts))
