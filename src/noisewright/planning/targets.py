"""From the error one can live with to the budget that buys it.

A plan's strategy does not depend on the size of the budget, so the smallest budget is found on one
plan: errors fall steadily as the budget grows, and the point where the last target is met is
bracketed and refined to far below anything one could notice.

A strategy with the least mean error spends budget on tables that are good enough already. Where
targets limit the largest errors, a second strategy is planned for the largest error of all tables,
each in units of its own limit, and the one that meets the targets with less budget is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from noisewright.central.problem import CentralMechanism
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, OutOfReach, TooLarge, require
from noisewright.planning.central.choose import (
    candidates,
    fitting,
    planned,
    too_far,
)
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.central.problems import central_problems
from noisewright.planning.counting import Counter
from noisewright.planning.plan import table_number
from noisewright.privacy.promise.budget import Neighbours, Privacy
from noisewright.workload import Stack, Weighted, Workload
from noisewright.workload.linear.tensor import mean_error

BudgetName = Literal["epsilon", "rho"]

_LARGEST, _SMALLEST = 1e6, 1e-30  # budgets that are looked at
_STEPS = 100  # of a root search that halves at worst: far more than digits
_GRIDS = 6  # coarser grids tried: each is for budgets a thousand times smaller
_COARSER = 1e-3  # of the budget: noise thirty times as large (for ε, a thousand times)
_ROUNDS = 4  # of weighing questions of several kinds by their targets
_UNLIMITED = 0.3  # what a table without a target weighs, beside one of the widest limit
_STRIDE = 1.5  # of the logarithm: a factor of 4.5 in the budget


@dataclass(frozen=True)
class Target:
    """A standard error, in people, not to be exceeded.

    `measure` is "rmse" (root mean square) or "max" (largest), over the table named, or over all
    answers where `table` is None.
    """

    measure: Literal["rmse", "max"]
    limit: float
    table: str | None = None

    def __post_init__(self) -> None:
        require(
            np.isfinite(self.limit) and self.limit > 0,
            "target",
            self.limit,
            "must be a positive number of people",
            "allow some error",
        )

    def text(self) -> str:
        """The target in words."""
        what = (
            "largest standard error"
            if self.measure == "max"
            else "root mean square error"
        )
        return f"{what} of {self.table or 'all answers'} ≤ {self.limit:g}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `TABLE: 50` or `TABLE: 5% of 1000`: the largest standard error in that table."""
        number = r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
        match = re.fullmatch(
            rf"\s*(.+?)\s*:\s*{number}\s*(?:%\s*of\s*{number})?\s*", text
        )
        if match is None:
            raise InvalidParameter(
                "target",
                text,
                "cannot be read",
                "write 'income*region: 5% of 1000' or 'age: 25'",
            )

        name, amount, whole = match.groups()
        limit = float(amount) * (float(whole) / 100 if whole is not None else 1.0)
        return cls("max", limit, name)


@dataclass(frozen=True)
class Accuracy:
    """Targets in place of a budget: the smallest budget that meets them all is found.

    The budget is ρ (zCDP); ε at `delta` where that is given, with whichever noise needs less of it;
    ε alone with `pure`.
    """

    targets: Target | Sequence[Target]
    pure: bool = False
    delta: float | None = None
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        require(
            not self.pure or self.delta is None,
            "delta",
            self.delta,
            "cannot be combined with pure privacy",
            "drop one",
        )
        _ = self.start

    @property
    def listed(self) -> Sequence[Target]:
        """The targets, one or several."""
        if isinstance(self.targets, Target):
            return (self.targets,)
        return self.targets

    @property
    def start(self) -> Privacy:
        """The budget from which the search begins: one, of the currency that is looked for."""
        if self.pure or self.delta is not None:
            return Privacy(1.0, self.delta, neighbours=self.neighbours)
        return Privacy(rho=1.0, neighbours=self.neighbours)


@dataclass(frozen=True)
class Fit:
    """A plan with the smallest budget that meets all targets, and the target that decides it."""

    plan: CentralPlan
    binding: Target
    limited: bool = False
    """Whether the plan's own grid is too fine for the noise of a still smaller budget."""


def fit_budget(plan: CentralPlan, targets: Sequence[Target]) -> Fit:
    """The smallest budget of the plan's own kind (its δ and neighbours kept) for all targets."""
    require(targets, "target", None, "must be given", "name an error to stay below")

    stated = plan.stated
    name: BudgetName = "rho" if stated.rho is not None else "epsilon"

    def excess(logarithm: float) -> tuple[float, Target]:
        """How far the worst target is missed, as a logarithm, and which it is."""
        candidate = with_budget(plan, name, float(np.exp(logarithm)))
        misses = [(np.log(_error(candidate, t) / t.limit), t) for t in targets]
        return max(misses, key=lambda pair: pair[0])

    def fit(point: float, limited: bool = False) -> Fit:
        best = with_budget(plan, name, float(np.exp(point)))
        return Fit(best, excess(point)[1], limited)

    start = stated.rho if name == "rho" else stated.epsilon
    assert start is not None
    low, high = _met(excess, float(np.log(start)), name)

    while True:
        try:
            if excess(low)[0] > 0:
                break
        # smaller budgets need noise that no grid holds; this is enough
        except InvalidParameter:
            return fit(high, limited=True)

        low, high = low - _STRIDE, low
        if low < np.log(_SMALLEST):  # beside a δ, ever less ε needs hardly more noise
            target = excess(high)[1].text()
            rule = f"is met by every {name} down to {_SMALLEST:g}"
            remedy = "ask for a smaller error, or a smaller δ"
            raise InvalidParameter("target", target, rule, remedy)

    return fit(_solve(lambda z: excess(z)[0], low, high))


def _met(
    excess: Callable[[float], tuple[float, Target]], start: float, name: BudgetName
) -> tuple[float, float]:
    """Logarithms of two budgets, of which the larger one meets all targets.

    Outwards from the plan's own budget: far ends of the scale need noise beyond any grid.
    """
    low = high = start
    while excess(high)[0] > 0:
        low = high
        high = high + _STRIDE
        if high > np.log(_LARGEST):
            target = excess(low)[1].text()
            rule = f"is met by no budget up to {name} = {_LARGEST:g}"
            remedy = "allow a larger error, or ask fewer queries"
            raise InvalidParameter("target", target, rule, remedy)

    return low, high


def with_budget(plan: CentralPlan, name: BudgetName, value: float) -> CentralPlan:
    """The same plan under another budget of the same kind."""
    old = plan.stated
    budget = {"epsilon": None, "rho": None, name: value}
    return plan.at(Privacy(delta=old.delta, neighbours=old.neighbours, **budget))


def _error(plan: CentralPlan, target: Target) -> float:
    std = plan.standard_errors
    part = std if target.table is None else std[_rows(plan, target.table)]
    part = part[np.isfinite(part)]

    require(
        len(part),
        "target",
        target.table,
        "has errors that depend on how many people there are",
        "give a target for its counts or sums",
    )

    return max(
        float(part.max()) if target.measure == "max" else mean_error(part, 2), 1e-300
    )


def _table_limits(plan: CentralPlan, targets: Sequence[Target]) -> list[float | None]:
    """The smallest limit on the largest error of each of the plan's tables, where there is one."""
    limits: list[float | None] = [None] * len(plan.tables())
    for target in targets:
        if target.measure == "max":
            named = (
                range(len(limits))
                if target.table is None
                else [_number(plan, target.table)]
            )
            for k in named:
                limits[k] = min(limits[k] or np.inf, target.limit)

    return limits


def _rows(plan: CentralPlan, table: str) -> slice:
    """The queries of a named table."""
    counts = [entry.queries for entry in plan.tables()]
    number = _number(plan, table)
    return slice(sum(counts[:number]), sum(counts[: number + 1]))


def _number(plan: CentralPlan, table: str) -> int:
    return table_number(plan.tables(), table, "target")


def _solve(function: Callable[[float], float], low: float, high: float) -> float:
    """The point where a falling function crosses zero, from the side where it is not above."""
    from scipy.optimize import brentq

    point = float(brentq(function, low, high, xtol=1e-12, rtol=1e-14, maxiter=_STEPS))
    step = 1e-12

    while function(point) > 0 and step < 1e-6:
        point = point + step
        step = 2 * step

    return point


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is to be kept, by plans of one kind of noise: that for the promise, or for pure ε."""

    targets: Sequence[Target]
    options: Central
    domain: Domain | None
    counter: Counter | None
    pure: bool

    def plan(
        self, workload: Workload, budget: Privacy, error: str | float | None = None
    ) -> CentralPlan:
        """The best plan under this noise."""
        error = self.options.error if error is None else error
        options = Central(error, self.options.mechanism)
        problems = central_problems(workload, budget, options, self.domain)
        own = problems[-1:] if self.pure else problems[:1]
        return planned(own, options, self.counter)[0]

    def fit(self, workload: Workload, privacy: Privacy) -> Fit:
        """The smallest budget of the kind of `privacy`."""

        def plain(budget: Privacy) -> CentralPlan:
            return self.plan(workload, budget)

        fit = _fit(plain, self.targets, privacy)
        largest = any(target.measure == "max" for target in self.targets)

        if self.options.norm != 2 or self.options.mechanism != "auto":
            return fit
        if not fit.plan.counts_only:
            return self._balanced(fit)
        if not largest:
            return fit

        other = _fit(lambda b: self._weighed(plain(b)), self.targets, fit.plan.stated)
        return other if _spent(other) < _spent(fit) else fit

    def _balanced(self, fit: Fit) -> Fit:
        """Questions of several kinds weighed anew: what is well within its limit matters less.

        Questions without a target keep their weight. The fit with the smallest budget is kept.
        """
        best = fit
        for _ in range(_ROUNDS if len(self.targets) > 1 else 0):
            weighed = best.plan.workload.weighed(_misses(best.plan, self.targets))

            def plain(budget: Privacy, weighed: Workload = weighed) -> CentralPlan:
                return self.plan(weighed, budget, "rmse")

            fit = _fit(plain, self.targets, best.plan.stated)
            if _spent(fit) >= _spent(best):
                break
            best = fit

        return best

    def _weighed(self, plan: CentralPlan) -> CentralPlan:
        """The same questions by a strategy for the largest error in units of the limits."""
        asked = _in_units_of_limits(plan, self.targets)
        weighed = self.plan(asked, plan.stated, "max")

        own = replace(
            weighed.proposal,
            value=None,
            bound=plan.proposal.bound,
            certificate=plan.proposal.certificate,
            status="tables weighed by their targets",
        )
        result = replace(plan, proposal=own, known_accuracy=None)

        return replace(result, proposal=replace(own, value=result.unit_error))


def plan_for_targets(
    workload: Workload,
    accuracy: Accuracy,
    options: Central,
    domain: Domain | None,
    counter: Counter | None = None,
) -> Fit:
    """The plan that meets all targets with the smallest budget of the kind that is looked for.

    Under (ε, δ) noise for pure ε, which keeps it, is fitted besides, and the smaller ε is taken.
    """
    targets = accuracy.listed
    privacy = accuracy.start
    mechanism = options.mechanism
    problems = central_problems(workload, privacy, options, domain)
    fits: list[Fit] = []

    for problem in fitting(problems, mechanism):
        pure = problem.asked is not None
        if fits and _beyond(workload, targets, fits[0].plan.stated, domain, mechanism):
            continue
        asked = _Asked(targets, options, domain, counter, pure)
        try:
            fits.append(asked.fit(workload, privacy))
        except (InvalidParameter, OutOfReach, TooLarge):
            if not fits:  # else other noise meets the targets
                raise

    return min(fits, key=_spent)


def _beyond(
    workload: Workload,
    targets: Sequence[Target],
    privacy: Privacy,
    domain: Domain | None,
    mechanism: str | CentralMechanism,
) -> bool:
    """Whether no plan for pure ε is known to meet the targets with this ε, at no search.

    The largest error of all answers is at least their root mean square.
    """
    limit = min(
        (target.limit for target in targets if target.table is None), default=np.inf
    )
    if any(statistic.weight != 1.0 for statistic in workload.statistics):
        return False

    pure = central_problems(workload, privacy, Central(), domain)[-1]
    return all(
        too_far(entry, pure, limit) is not None for entry in candidates(pure, mechanism)
    )


def _misses(plan: CentralPlan, targets: Sequence[Target]) -> list[float]:
    """The error of every table over its limit; one where there is none."""
    misses: dict[int, float] = {}
    for target in targets:
        if target.table is not None:
            number = _number(plan, target.table)
            error = _error(plan, target)
            misses[number] = max(misses.get(number, 0.0), error / target.limit)

    return [misses.get(number, 1.0) for number in range(len(plan.tables()))]


def _fit(
    planned: Callable[[Privacy], CentralPlan],
    targets: Sequence[Target],
    privacy: Privacy,
) -> Fit:
    """The smallest budget, planned again on a coarser grid where the first is too fine for it."""
    for _ in range(_GRIDS):
        plan = planned(privacy)
        fit = fit_budget(plan, targets)
        if not fit.limited:
            break
        name: BudgetName = "rho" if privacy.rho is not None else "epsilon"
        privacy = with_budget(plan, name, _spent(fit) * _COARSER).stated

    return fit


def _spent(fit: Fit) -> float:
    stated = fit.plan.stated
    return float(stated.rho if stated.rho is not None else stated.epsilon or 0.0)


def _in_units_of_limits(plan: CentralPlan, targets: Sequence[Target]) -> Workload:
    workload = plan.workload
    if not workload.statistics:
        return workload

    limits = _table_limits(plan, targets)
    widest = max(limit for limit in limits if limit is not None)
    weights = [_UNLIMITED / widest if limit is None else 1 / limit for limit in limits]
    parts = zip(weights, workload.plain_parts(), strict=True)

    return Stack(tuple(Weighted(weight * widest, part) for weight, part in parts))
