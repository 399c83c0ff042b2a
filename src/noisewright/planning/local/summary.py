"""The figures of a local plan that scripts and records rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisewright import __version__
from noisewright.errors import NoisewrightError
from noisewright.local.bounds.trace import prior_floor
from noisewright.local.choose.cost import ALPHA
from noisewright.planning.plan import LEVEL

if TYPE_CHECKING:
    from noisewright.planning.local.plan import LocalPlan

SHUFFLE_DELTA = 1e-9
"""The δ at which summaries state what shuffled reports promise together."""


def local_summary(plan: LocalPlan) -> dict[str, Any]:
    """The figures at α = 0.01, and those that the plan was made for."""
    best = plan.certificate
    prior = best and prior_floor(plan.workload, plan.epsilon)
    floor = 0.0 if best is None else best.sample_complexity(ALPHA)
    certified = None if best is None else best.ratio(plan.analysis.worst_case)
    asked: dict[str, Any] = {}
    if plan.alpha is not None:
        asked |= {"alpha": plan.alpha, "people_needed": plan.people_for()}

    if plan.people is not None:
        asked |= {**plan.forecast().summary(), "shuffled": _shuffled(plan, plan.people)}

    return {
        **plan.comparison.to_dict(),
        "sample_complexity_prior_bound": prior and prior.sample_complexity(ALPHA),
        "certified_lower_bound": floor or None,
        "certified_ratio": certified,
        "certificate": best and best.name,
        "cut_short": plan.cut_short,
        "privacy": plan.privacy.to_dict(),
        "queries": plan.workload.queries,
        "size": plan.workload.size,
        "report_bytes": plan.format.length,
        "plan": plan.format.name,
        "runners_up": [dict(row) for row in plan.runners_up],
        **asked,
        **_goal_figures(plan),
    }


def local_record(plan: LocalPlan) -> dict[str, Any]:
    """What reports promise and what they were made with: ready for JSON, nothing private."""
    return {
        "format": "noisewright-estimate",
        "version": __version__,
        "model": "local",
        "mechanism": plan.mechanism.name,
        "privacy": plan.privacy.to_dict(),
        "neighbours": plan.privacy.neighbours,
        "plan": plan.format.name,
        "workload": plan.workload.brief(),
        "domain": None if plan.domain is None else plan.domain.fingerprint,
        "queries": plan.workload.queries,
        "ratio": plan.comparison.ratio,
        "bound_class": plan.comparison.bound_class,
        "interval_level": LEVEL,
    }


def _goal_figures(plan: LocalPlan) -> dict[str, Any]:
    """The largest error that the plan is for, and the people that it needs."""
    if plan.goal is None:
        return {}

    hard = plan.hard_instance
    return {
        "any_protocol_lower_bound": None if hard is None else hard.people,
        "any_protocol_class": None if hard is None else hard.bound_class,
        "max_error": plan.goal.error,
        "beta": plan.goal.beta,
        "people_for_max_error": plan.people_for_max_error(),
        "largest_bias": 0.0 if plan.bias is None else float(plan.bias.max()),
    }


def _shuffled(plan: LocalPlan, people: int) -> dict[str, float | None] | None:
    """What shuffled reports promise together, where the bound says anything."""
    try:
        promise = plan.amplified(people, SHUFFLE_DELTA)
    except NoisewrightError:
        return None
    return {"epsilon": promise.epsilon, "delta": promise.delta}
