"""Several plans about the same people: one budget split among them, or their spends added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import inf
from operator import add
from typing import Literal, Self

import numpy as np

from noisewright.central.mechanism import Counts
from noisewright.container import digest
from noisewright.domain import Domain, Unit
from noisewright.errors import (
    InvalidParameter,
    OutOfReach,
    TooLarge,
    refuse_given,
    require,
)
from noisewright.planning.central.choose import plan_central
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.central.problems import check_composition
from noisewright.planning.counting import Counter, Data, is_histogram
from noisewright.planning.plan import CuratorPlan, Forecast, Plan
from noisewright.planning.release import Release
from noisewright.planning.spending import (
    Spending,
)
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy, pure_promise
from noisewright.privacy.promise.calibration import (
    least_error_shares,
    split,
    splittable,
)
from noisewright.privacy.promise.composition import composed_epsilon
from noisewright.privacy.promise.spend import Spend
from noisewright.workload import Queries, workload


@dataclass(frozen=True, eq=False, repr=False)
class Together(CuratorPlan[list[Counts], tuple[Release, ...]]):
    """Plans that may all be released, each once, under `privacy` in total."""

    privacy: Privacy
    plans: tuple[CentralPlan, ...]
    shares: tuple[float, ...]

    kind = "plans"

    @cached_property
    def spend(self) -> Spend:
        """What releasing every plan once costs, from the noise that is drawn."""
        return _total_spend(self.plans)

    @property
    def keeps_budget(self) -> bool:
        """Whether the noise of all plans together keeps the promise."""
        budget = splittable(self.privacy)
        promise = self.spend.promise()

        if promise.neighbours != self.privacy.neighbours:
            return False
        if budget.rho is not None:
            return promise.rho is not None and promise.rho <= budget.rho

        return promise.kind == "pure" and (promise.epsilon or inf) <= (
            budget.epsilon or 0.0
        )

    def forecast(self) -> Forecast:
        """Errors of all answers of all plans, one after the other; each plan has its own bound."""
        forecasts = [plan.forecast() for plan in self.plans]
        return Forecast(
            np.concatenate([forecast.std for forecast in forecasts]),
            np.concatenate([forecast.halfwidth for forecast in forecasts]),
            np.concatenate([forecast.simultaneous_halfwidth for forecast in forecasts]),
            forecasts[0].error,
        )

    def check_usable(self) -> None:
        """Refuse where one of the plans is not what it says."""
        for plan in self.plans:
            plan.check_usable()

    @property
    def title(self) -> str:
        """What every plan asks."""
        return "; ".join(plan.title for plan in self.plans)

    @property
    def laws(self) -> list[dict[str, object]]:
        """What every plan draws."""
        return [drawn for plan in self.plans for drawn in plan.laws]

    @property
    def unit(self) -> Unit | None:
        """Whose loss it is altogether: plans must be about the same persons."""
        units = [plan.unit for plan in self.plans]
        if len({unit and unit.name for unit in units}) > 1:
            raise InvalidParameter(
                "unit", [unit and unit.name for unit in units], "differ between the plans",
                "what is spent on different units does not add up",
            )  # fmt: skip

        return max(units, key=lambda unit: 0 if unit is None else unit.rows)

    @cached_property
    def digest(self) -> str:
        """A name for all that decides what releases of every plan measure and answer."""
        return digest(*(plan.digest for plan in self.plans))

    def exact(self, data: Data, counter: Counter | None = None) -> list[Counts]:
        """The exact tables of every plan.

        A table is read once for all of them: a stream is gone after it, and a file may change.
        """
        if is_histogram(data):
            return [plan.exact(data) for plan in self.plans]

        domains = {plan.domain and plan.domain.fingerprint for plan in self.plans}
        require(
            len(domains) <= 1,
            "plans",
            len(domains),
            "must share one schema to be released from one table",
        )

        tables = dict.fromkeys(
            table for plan in self.plans for table in plan.mechanism.tables
        )
        return [self.plans[0].exact(data, counter, list(tables))] * len(self.plans)

    def noisy(
        self,
        exact: list[Counts],
        spending: Spending | None = None,
        source: ByteSource | None = None,
    ) -> tuple[Release, ...]:
        """A release of every plan; with a ledger all are one entry, and no answers are kept."""
        return tuple(
            plan.noisy(counts, spending, source)
            for plan, counts in zip(self.plans, exact, strict=True)
        )

    def equipped(self, counter: Counter | None) -> Self:
        """With the engine that counts the tables of every plan."""
        return replace(self, plans=tuple(plan.equipped(counter) for plan in self.plans))

    def summary(self) -> dict[str, object]:
        """The figures scripts rely on."""
        return {
            "privacy": self.privacy.to_dict(),
            "spend": self.spend.to_dict(),
            "shares": list(self.shares),
            "plans": [plan.summary() for plan in self.plans],
        }

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("privacy", self.privacy.text()),
            *((plan.workload.brief(), plan.mechanism.name) for plan in self.plans),
        ]


def plan_together(
    queries: Sequence[Queries],
    privacy: Privacy,
    options: Central,
    *,
    shares: Sequence[float] | None = None,
    importance: Sequence[float] | None = None,
    domain: Domain | None = None,
    counter: Counter | None = None,
) -> Together:
    """Plan several releases about the same people, each with its share of one budget.

    Without `shares`, they are chosen to make the total squared error least, each release's errors
    counting `importance` times (once, by default). Under (ε, δ) all have Gaussian noise, whose ρ
    adds up, or all share pure ε, whichever errs less; with `composition="many"` the former.
    """
    check_composition(options.composition, privacy)
    if not queries:
        raise InvalidParameter("queries", [], "must not be empty", "ask something")

    if shares is not None:
        given = {"importance": importance is not None and list(importance)}
        refuse_given(
            given, "does not go with shares, which say who gets how much", "give one"
        )

    asked = [workload(query) for query in queries]
    one_alone = Central(options.error)
    weights = _positive("importance", importance or [1.0] * len(asked), len(asked))

    def made(budget: Privacy) -> tuple[float, Together]:
        whole = splittable(budget)
        alone = [plan_central(one, whole, one_alone, domain, counter) for one in asked]

        portions = (
            _portions(alone, weights, budget)
            if shares is None
            else _given(shares, alone)
        )

        left = max(0.0, 1.0 - sum(portions))
        budgets = split(whole, [*portions, *([left] if left > 1e-9 else [])])
        plans = tuple(plan.at(own) for plan, own in zip(alone, budgets, strict=False))

        return sum(_costs(plans, weights)), Together(budget, plans, portions)

    cost, best = made(privacy)

    pure = None if options.composition == "many" else pure_promise(privacy)
    # ε is dearer to share than ρ: where it pays for no plan alone, it does not for all together.
    alone = (plan_central(one, privacy, one_alone, domain) for one in asked)

    if pure is None or all(plan.asked is None for plan in alone):
        return best

    try:
        other_cost, other = made(pure)
    # of a plan that has Gaussian noise alone
    except (InvalidParameter, OutOfReach, TooLarge):
        return best

    return other if other_cost < cost else best


def _portions(
    alone: Sequence[CentralPlan], weights: Sequence[float], privacy: Privacy
) -> tuple[float, ...]:
    """The shares that make the total squared error least."""
    return least_error_shares(_costs(alone, weights), privacy)


def _costs(plans: Sequence[CentralPlan], weights: Sequence[float]) -> list[float]:
    """The squared errors of every plan, in units of the largest weight."""
    top = max(weights)
    return [
        float((weight / top) ** 2 * plan.accuracy.variance.sum())
        for weight, plan in zip(weights, plans, strict=True)
    ]


def _given(shares: Sequence[float], alone: Sequence[CentralPlan]) -> tuple[float, ...]:
    portions = tuple(_positive("shares", shares, len(alone)))
    require(
        sum(portions) <= 1 + 1e-9,
        "shares",
        list(shares),
        "must not add up to more than one",
    )
    return portions


def _total_spend(plans: Sequence[Plan]) -> Spend:
    """What executing every one of these plans once costs, about the same people."""
    for plan in plans:
        if not isinstance(getattr(plan, "spend", None), Spend):
            rule = "must be plans or what else says what it spends"
            raise InvalidParameter("plans", type(plan).__name__, rule)

    relations = sorted({plan.privacy.neighbours for plan in plans})
    require(
        len(relations) == 1,
        "plans",
        relations,
        "must be for one relation of neighbours",
        "give at least one plan",
    )

    return reduce(add, (plan.spend for plan in plans))


def epsilon_of(
    plans: Sequence[Plan], delta: float, accounting: Literal["loss", "zcdp"] = "loss"
) -> float:
    """The ε at `delta` of executing every one of these plans once, about the same people.

    Counts, sums, streams and reports without a curator add up. The least of all bounds that hold is
    returned, rounded up: exact for Gaussian releases alone, zCDP, and ε added up. Mixtures are also
    read by the distribution of their privacy loss, unless "zcdp" asks for proven rounding alone.
    """
    probability("delta", delta)
    require(
        accounting in ("loss", "zcdp"), "accounting", accounting, "must be loss or zcdp"
    )

    spend = _total_spend(plans)
    epsilon = spend.promise(delta).epsilon
    assert epsilon is not None

    return epsilon if accounting == "zcdp" else composed_epsilon(spend, delta)


def _positive(name: str, values: Sequence[float], count: int) -> list[float]:
    numbers = [float(value) for value in values]
    require(
        len(numbers) == count and all(np.isfinite(v) and v > 0 for v in numbers),
        name,
        list(values),
        f"must be {count} positive numbers",
        "one per release",
    )
    return numbers
