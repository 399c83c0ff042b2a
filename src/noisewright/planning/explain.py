"""Why a plan is by its mechanism: what the others would reach, or why they were not asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from noisewright.central.mechanism import Given
from noisewright.central.problem import CentralMechanism
from noisewright.domain import Domain
from noisewright.planning.central import CentralPlan, check_answerable
from noisewright.planning.choice import (
    Ranking,
    central_problem,
    own_ranking,
    plan_central,
    ranked,
)
from noisewright.planning.counting import Counter
from noisewright.privacy.budget import Privacy
from noisewright.solution import quotient
from noisewright.workload import Workload
from noisewright.workload.measures import COUNT
from noisewright.workload.spec import Questions


@dataclass(frozen=True)
class Reason:
    """One mechanism: the error it would reach and how often that is the plan's, or why neither."""

    mechanism: str
    achieved: float | None
    times: float | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return vars(self).copy()


@dataclass(frozen=True, eq=False)
class Explanation:
    """A plan, why it is by its mechanism in a sentence, and what became of the others."""

    plan: CentralPlan
    why: str
    others: tuple[Reason, ...]


def explain_central(
    workload: Workload,
    privacy: Privacy,
    norm: float,
    mechanism: str | CentralMechanism = "auto",
    domain: Domain | None = None,
    counter: Counter | None = None,
    strategy: npt.ArrayLike | None = None,
    given: Given | None = None,
) -> Explanation:
    """The plan that the same arguments give, with its reasons; nothing is planned twice."""
    if isinstance(workload, Questions) and workload.measures != (COUNT,):
        plan = plan_central(workload, privacy, norm, mechanism, domain, counter, strategy, given)
        return Explanation(plan, "counts and sums are each planned by their best mechanism", ())
    began = time.perf_counter()
    problem = central_problem(workload, privacy, norm, domain, given)
    ranking = ranked(problem, mechanism) if strategy is None else own_ranking(problem, strategy)
    plan = check_answerable(ranking.best.plan(time.perf_counter() - began, counter))
    return Explanation(plan, _why(ranking, mechanism, strategy is not None), _others(ranking))


def _why(ranking: Ranking, mechanism: str | CentralMechanism, own: bool) -> str:
    best = ranking.best
    if own:
        return "its matrix was given; ours are planned for the lower bound"
    if mechanism != "auto":
        return "it was asked for by name"
    proposal = best.proposal
    tried = len(ranking.contenders)
    least = "the first that was asked" if tried == 1 else f"the least error of {tried} planned"
    if proposal.value is not None and proposal.bound:
        least += f", {100 * (proposal.value / proposal.bound - 1):.2g} % above the lower bound"
    return least


def _others(ranking: Ranking) -> tuple[Reason, ...]:
    """Runners-up by their errors, then those that were not planned."""
    best = ranking.best
    least = best.achieved
    planned = []
    for contender in sorted(ranking.contenders, key=lambda c: c.achieved):
        if contender.name == best.name:
            continue
        error = contender.achieved
        apart = "" if contender.proposal.mechanism.agrees else "; its tables need not agree"
        than = "more" if error > least else "less"
        ratio = quotient(error, least)
        planned.append(Reason(contender.name, error, ratio, f"{than} error{apart}"))
    left = [Reason(name, None, None, reason) for name, reason in ranking.left_out.items()]
    return (*planned, *left)
