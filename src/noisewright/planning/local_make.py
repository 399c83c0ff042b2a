"""Planning without a curator: the mechanism that needs the fewest people, as a plan."""

from __future__ import annotations

import time

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.analysis.analysis import check_alpha
from noisewright.local.choose.candidates import candidates, checked_domain, narrowed
from noisewright.local.choose.cost import ALPHA, check_people
from noisewright.local.mechanism import LocalProblem, Search
from noisewright.planning.counting import Counter
from noisewright.planning.local import LocalPlan
from noisewright.privacy.budget import Privacy
from noisewright.workload.base import Workload


def plan_local(
    workload: Workload,
    privacy: Privacy,
    mechanism: str = "auto",
    domain: Domain | None = None,
    *,
    people: int | None = None,
    alpha: float | None = None,
    counter: Counter | None = None,
    **search: object,
) -> LocalPlan:
    """The plan of the named mechanism, or of the one with the smallest worst-case variance.

    `people` and `alpha` are what the plan's summary and forecasts are then about.
    `effort` ("low", "normal", "high"), `time_limit` in seconds, `seed` and `progress` steer the
    search for an optimised strategy, which is public and the same for the same seed. With
    `objective="average"`, a `prior` over cells or a `norm` of the queries' errors other than 2 that
    error is made small instead.
    """
    began = time.perf_counter()
    settings = Search.of(search)
    if people is not None:
        check_people(people)
    if alpha is not None:
        check_alpha(alpha)
    workload = workload if settings.prior is not None else narrowed(workload)
    domain = checked_domain(workload, domain)
    problem = LocalProblem.of(workload, privacy, settings)
    best, *others = candidates(problem, mechanism)
    if best.analysis is None:
        reasons = "; ".join(f"{c.mechanism}: {c.refusal}" for c in (best, *others))
        raise InvalidParameter("mechanism", mechanism, f"cannot plan this: {reasons}")
    plan = LocalPlan(
        workload=workload,
        domain=domain,
        mechanism=best.mechanism,
        strategy=best.analysis.strategy,
        seconds=time.perf_counter() - began,
        runners_up=tuple(
            {"mechanism": c.mechanism, "sample_complexity": c.analysis.sample_complexity(ALPHA)}
            for c in others
            if c.analysis is not None
        ),
        people=people,
        alpha=alpha,
        counter=counter,
    )
    if plan.epsilon > problem.epsilon or (plan.privacy.delta or 0.0) > (problem.delta or 0.0):
        raise NoisewrightError(f"the plan promises {plan.privacy.text()}, not {privacy.text()}")
    return plan
