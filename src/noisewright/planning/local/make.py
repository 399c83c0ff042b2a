"""Planning without a curator: the mechanism that needs the fewest people, as a plan."""

from __future__ import annotations

from dataclasses import replace

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.choose.candidates import (
    candidates,
    checked_domain,
    narrowed_workload,
)
from noisewright.local.choose.cost import ALPHA
from noisewright.local.choose.options import Local
from noisewright.local.listed import own_mechanism
from noisewright.local.mechanism import LocalProblem, Progress, Search
from noisewright.local.time_limit import TimeLimit, keeping_the_best
from noisewright.planning.counting import Counter
from noisewright.planning.local.plan import LocalPlan, NamedStrategy, runner_up
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.base import Workload


@keeping_the_best()
def plan_local(
    workload: Workload,
    privacy: Privacy,
    local: Local | None = None,
    domain: Domain | None = None,
    *,
    counter: Counter | None = None,
) -> LocalPlan:
    """The plan of the named mechanism, or of the one with the smallest worst-case variance.

    With a `max_error` the plan is the one that needs the fewest people for it. A `strategy` is
    one's own matrix of chances, a row per report and a column per value.
    `effort` ("low", "normal", "high"), `time_limit` in seconds, `seed` and `progress` steer the
    search for an optimised strategy, which is public and the same for the same seed: efforts count
    work, and a plan that a time limit cut short says so (`cut_short`). With
    `objective="average"`, a `prior` over cells or a `norm` of the queries' errors other than 2 that
    error is made small instead. Ctrl-C ends the search with the best plan and proof so far.
    """
    settings = Local() if local is None else local
    limit = TimeLimit(settings.time_limit)
    mechanism = settings.mechanism
    if settings.strategy is not None:
        mechanism = own_mechanism(settings.strategy)

    workload = workload if settings.prior is not None else narrowed_workload(workload)
    domain = _of_rows(checked_domain(workload, domain))
    goal = settings.goal
    # The largest error is that of the answers themselves, whatever weights their tables have.
    asked = workload if goal is None else workload.plain()
    problem = LocalProblem.of(asked, privacy, settings, goal, limit)
    best, *others = candidates(problem, mechanism)
    if best.analysis is None:
        reasons = "; ".join(f"{c.mechanism}: {c.refusal}" for c in (best, *others))
        name = getattr(mechanism, "name", mechanism)
        raise InvalidParameter("mechanism", name, f"cannot plan this: {reasons}")

    plan = LocalPlan(
        workload=workload,
        domain=domain,
        mechanism=NamedStrategy(best.mechanism, best.analysis.strategy),
        seconds=limit.seconds,
        runners_up=tuple(
            runner_up(c.mechanism, c.analysis.sample_complexity(ALPHA), c.people)
            for c in others
            if c.analysis is not None
        ),
        people=settings.people,
        alpha=settings.alpha,
        counter=counter,
        goal=goal,
        targets=best.targets,
        cut_short=limit.cut_short,
    )
    if mechanism in ("auto", "optimised") and not settings.own_error:
        plan = _with_proof(plan, settings, limit)
        plan = replace(plan, seconds=limit.seconds, cut_short=limit.cut_short)

    delta = plan.privacy.delta or 0.0
    if plan.epsilon > problem.epsilon or delta > (problem.delta or 0.0):
        promised = plan.privacy.text()
        raise NoisewrightError(f"the plan promises {promised}, not {privacy.text()}")

    return plan


def _of_rows(domain: Domain | None) -> Domain | None:
    """The domain, which must not say that one person has several rows."""
    if domain is None or domain.unit is None:
        return domain
    raise InvalidParameter(
        "unit",
        domain.unit.column,
        "cannot be kept without a curator: every report is about one row",
        "let every person report once, about one row of theirs",
    )


def _with_proof(plan: LocalPlan, settings: Search, limit: TimeLimit) -> LocalPlan:
    """The plan, with the best proof found that it is near the least number of people.

    The strategy may get better by it. What an earlier search kept is as good as new: it counts for
    what it proves, and for the error that it has.
    """
    from noisewright.local.optimise.proving import Kept, proven

    def told(ratio: float) -> None:
        if settings.progress is not None:
            settings.progress(Progress("proof", 0, ratio, limit.seconds))

    known = plan.certificate
    floor = 0.0 if known is None else known.variance
    kept = Kept.of(plan.workload, plan.epsilon, settings)
    strategy, proof = kept.load(plan.strategy, floor)
    if proof is None:
        effort = settings.effort
        target = settings.target_ratio
        strategy, proof = proven(
            plan.workload, strategy, floor, effort, target, limit, told
        )
        if not limit.cut_short:
            kept.save(strategy if strategy is not plan.strategy else None, proof)

    if strategy is not plan.strategy:
        plan = _fewer(
            plan,
            replace(plan, mechanism=NamedStrategy("optimised", strategy), targets=None),
        )

    return replace(plan, proof=proof)


def _fewer(plan: LocalPlan, other: LocalPlan) -> LocalPlan:
    """The other plan, unless it takes more people for a largest error that is the goal."""
    if plan.goal is None:
        return other
    return min(other, plan, key=LocalPlan.people_for_max_error)
