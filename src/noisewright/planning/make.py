"""`nw.plan`: choose a mechanism for a workload and a budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from noisewright.central.problem import CentralProblem, Proposal
from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan, check_answerable
from noisewright.privacy.budget import Privacy
from noisewright.workload import (
    Workload,
    workload,
)
from noisewright.workload.spec import Questions
from noisewright.workload.structure import check_magnitudes

_SETTLED = 1.001  # no other mechanism could do visibly better: the search for one can stop
_CLOSE = 1.25
_DISAGREEMENT = 1.05  # the error that tables which agree with each other are worth


def plan(
    queries: Workload | str | Any,
    privacy: Privacy,
    *,
    model: str = "central",
    error: str | float = "rmse",
    mechanism: str = "auto",
    domain: Domain | None = None,
    **local: Any,
) -> Any:
    """Plan answers to `queries` under `privacy`; nothing touches data until the plan is released.

    `error` is what to make small: "rmse", "max" or an exponent between 2 and infinity. With a
    `domain`, a plan can be released from a table of people; without one, from a histogram.
    With `model="local"` further settings go to `plan_local`.
    """
    asked = workload(queries)
    check_model(model)
    if model == "local":
        from noisewright.planning.local_make import plan_local

        return plan_local(asked, privacy, mechanism, domain, **local)
    if local:
        raise InvalidParameter(sorted(local)[0], "", "is for the local model", "set model='local'")
    return plan_central(asked, privacy, error_norm(error), mechanism, domain)


def check_model(model: str) -> None:
    """Refuse a model that is neither of the two."""
    if model not in ("central", "local"):
        raise InvalidParameter(
            "model", model, "must be 'central' or 'local'", "local needs no trusted curator"
        )


def plan_central(
    asked: Workload, privacy: Privacy, norm: float, mechanism: str, domain: Domain | None
) -> CentralPlan:
    """The plan of the named mechanism, or of the best that applies."""
    began = time.perf_counter()
    problem = central_problem(asked, privacy, norm, domain)
    if mechanism == "auto":
        # What takes minutes comes last, and only where the others leave much to gain.
        entries = [entry for entry in CENTRAL.values() if not entry.baseline]
        entries.sort(key=lambda entry: entry.slow(problem))
    else:
        entries = [CENTRAL[_known(mechanism)]]
    plans: list[CentralPlan] = []
    reasons = []
    for entry in entries:
        reason = entry.refuses(problem)
        if reason is None and plans and entry.slow(problem) and _certified(plans) <= _CLOSE:
            continue
        if reason is None:
            plans.append(problem_plan(problem, entry.name, entry.plan(problem)))
            if _certified(plans) <= _SETTLED:
                break
        else:
            reasons.append(f"{entry.name}: {reason}")
    if not plans:
        raise InvalidParameter("mechanism", mechanism, "cannot plan this: " + "; ".join(reasons))
    best = with_best_bound(_preferred(plans), plans)
    return check_answerable(replace(best, seconds=time.perf_counter() - began))


def _certified(plans: Sequence[CentralPlan]) -> float:
    """The smallest error of these plans over the highest bound that any of them proved."""
    bound = max(made.planned.bound or 0.0 for made in plans)
    values = [made.planned.value for made in plans if made.planned.value is not None]
    return min(values, default=inf) / bound if bound else inf


def _preferred(plans: Sequence[CentralPlan]) -> CentralPlan:
    """The least error, parts that need not agree with each other only where they clearly win."""
    if len(plans) == 1:
        return plans[0]

    def cost(made: CentralPlan) -> float:
        # Impossible cells help all of them alike and take long to account for.
        error = replace(made, domain=None).achieved
        return error * _DISAGREEMENT if made.strategy.separate else error

    return min(plans, key=cost)


def with_best_bound(made: CentralPlan, plans: Sequence[CentralPlan]) -> CentralPlan:
    """The plan with the highest bound that any of these plans for the same workload proved."""
    known = [p.planned for p in plans if p.planned.bound is not None]
    same = [p for p in known if p.neighbours == made.planned.neighbours]
    if not same:
        return made
    tightest = max(same, key=lambda p: p.bound or 0.0)
    bound, certificate = tightest.bound, tightest.certificate
    return replace(made, planned=replace(made.planned, bound=bound, certificate=certificate))


def central_problem(
    asked: Workload, privacy: Privacy, norm: float, domain: Domain | None
) -> CentralProblem:
    """The workload with its attributes, as mechanisms see it."""
    domain = asked.domain if isinstance(asked, Questions) else domain
    problem = CentralProblem(asked, _sizes(asked, domain), privacy, norm, domain)
    check_magnitudes(asked)
    if problem.structure.zero:
        raise InvalidParameter("workload", asked.brief(), "is zero everywhere", "ask for something")
    if privacy.neighbours == "replace-one" and problem.structure.only_totals:
        raise InvalidParameter(
            "workload",
            asked.brief(),
            "asks only for the number of people, which replace-one neighbours make public",
            "publish it as it is, or plan with neighbours='add-remove' to protect it",
        )
    return problem


def problem_plan(problem: CentralProblem, mechanism: str, planned: Proposal) -> CentralPlan:
    """The plan that a mechanism's strategy makes."""
    return CentralPlan(
        problem.workload,
        problem.domain,
        problem.sizes,
        problem.privacy,
        mechanism,
        problem.norm,
        planned,
    )


def _known(mechanism: str) -> str:
    if mechanism not in CENTRAL:
        raise InvalidParameter(
            "mechanism",
            mechanism,
            "is not a central mechanism",
            f"choose auto, {', '.join(CENTRAL)}",
        )
    return mechanism


def _sizes(asked: Workload, domain: Domain | None) -> tuple[int, ...]:
    if domain is not None:
        domain.require_reviewed()
        if asked.size != domain.size:
            raise InvalidParameter(
                "workload",
                asked.brief(),
                f"has {asked.size} cells where the domain has {domain.size}",
                "match the workload's size to the domain",
            )
        return domain.shape
    return asked.structure.sizes


def error_norm(error: str | float) -> float:
    """The exponent of an error's name."""
    if isinstance(error, str):
        named = {"rmse": 2.0, "max": float("inf")}
        if error not in named:
            raise InvalidParameter(
                "error", error, "must be 'rmse', 'max' or a number >= 2", "choose"
            )
        return named[error]
    if not float(error) >= 2:
        raise InvalidParameter("error", error, "must be >= 2", "use 'rmse', which is 2")
    return float(error)
