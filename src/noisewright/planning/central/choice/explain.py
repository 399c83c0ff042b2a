"""Why a plan is by its mechanism: what the others would reach, or why they were not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from noisewright.central.mechanism import Given
from noisewright.central.problem import CentralMechanism
from noisewright.domain import Domain
from noisewright.planning.central.choice.choose import Ranking, planned
from noisewright.planning.central.choice.problems import Composition, central_problems
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.counting import Counter
from noisewright.privacy.promise.budget import Privacy
from noisewright.solution import quotient
from noisewright.workload import Workload
from noisewright.workload.questions.measures import COUNT

if TYPE_CHECKING:
    from noisewright.planning.budgets.targets import Target


@dataclass(frozen=True)
class Reason:
    """One mechanism: the error it would reach and how often that is the plan's, or why neither.

    `spends` is what it would cost in each currency, as `CentralPlan.spends`.
    """

    mechanism: str
    achieved: float | None
    times: float | None
    reason: str
    spends: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return {**vars(self), "spends": dict(self.spends)}


@dataclass(frozen=True, eq=False)
class Explanation:
    """A plan, why it is by its mechanism in a sentence, and what became of the others."""

    plan: CentralPlan
    why: str
    others: tuple[Reason, ...]
    binding: Target | None = None
    """The target that decides the budget, where targets were given in its place."""

    limited: bool = False
    """Whether the plan's own grid is too fine for the noise of a still smaller budget."""


def explain_central(
    workload: Workload,
    privacy: Privacy,
    norm: float,
    mechanism: str | CentralMechanism = "auto",
    domain: Domain | None = None,
    counter: Counter | None = None,
    strategy: npt.ArrayLike | None = None,
    given: Given | None = None,
    composition: Composition = "one",
) -> Explanation:
    """The plan that the same arguments give, with its reasons; nothing is planned twice."""
    problems = central_problems(workload, privacy, norm, domain, given, composition)
    plan, ranking = planned(problems, mechanism, strategy, counter)
    if workload.measures != (COUNT,):
        return Explanation(
            plan, "counts and sums are each planned by their best mechanism", ()
        )

    return Explanation(
        plan, _why(ranking, mechanism, strategy is not None), _others(ranking)
    )


def _why(ranking: Ranking, mechanism: str | CentralMechanism, own: bool) -> str:
    best = ranking.best
    if own:
        return "its matrix was given; ours are planned for the lower bound"
    if mechanism != "auto":
        return "it was asked for by name"

    proposal = best.proposal
    tried = len(ranking.contenders)
    least = (
        "the first that was asked"
        if tried == 1
        else f"the least error of {tried} planned"
    )
    if proposal.value is not None and proposal.bound:
        least += f", {_above(proposal.value / proposal.bound)}"

    return least + _currencies(ranking)


def _above(ratio: float) -> str:
    """How far above the lower bound: in percent where that is less than as much again."""
    if ratio < 2:
        return f"{100 * (ratio - 1):.2g} % above the lower bound"
    return f"{ratio:.4g} times the lower bound"


def _currencies(ranking: Ranking) -> str:
    """What the plan costs where ρ adds up, beside the best that costs less there."""
    best = ranking.best
    if best.problem.asked is None:
        return ""

    own = best.plan(0.0).spends.get("rho")
    others = [c for c in ranking.contenders if c.problem.asked is None]
    if own is None or not others:
        return ""

    other = min(others, key=lambda contender: contender.cost)
    rho = other.plan(0.0).spends["rho"]
    return f"; where ρ adds up it costs {own:.4g}, {other.name} {rho:.4g} (composition: many)"


def _others(ranking: Ranking) -> tuple[Reason, ...]:
    """Runners-up by their errors, then those that were not planned."""
    best = ranking.best
    least = best.achieved
    reached = []

    for contender in sorted(ranking.contenders, key=lambda c: c.achieved):
        if contender.name == best.name:
            continue

        error = contender.achieved
        apart = (
            "" if contender.proposal.mechanism.agrees else "; its tables need not agree"
        )
        than = "more" if error > least else "less"
        told = f"{than} error{apart}"
        spends = contender.plan(0.0).spends
        reached.append(
            Reason(contender.name, error, quotient(error, least), told, spends)
        )

    left = [
        Reason(name, None, None, reason) for name, reason in ranking.left_out.items()
    ]
    return (*reached, *left)
