"""Planning and comparing without a curator: the mechanism that needs the fewest people."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import numpy as np

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.analysis.analysis import check_alpha
from noisewright.local.choose.by_parts import with_parts
from noisewright.local.choose.cost import ALPHA, LocalComparison, check_people, known_bound
from noisewright.local.choose.optimised import OPTIMISED, Search, optimised
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.histogram.centred import check_cells
from noisewright.local.registry import MECHANISMS, Candidate, candidates
from noisewright.planning.local import LocalPlan
from noisewright.privacy.budget import Privacy
from noisewright.workload.base import Workload
from noisewright.workload.spec import Questions


def plan_local(
    asked: Workload,
    privacy: Privacy,
    mechanism: str = "auto",
    domain: Domain | None = None,
    *,
    people: int | None = None,
    alpha: float | None = None,
    **search: Any,
) -> LocalPlan:
    """The plan of the named mechanism, or of the one with the smallest worst-case variance.

    `people` and `alpha` are what the plan's summary and forecasts are then about.
    `effort` ("low", "normal", "high"), `time_limit` in seconds, `seed` and `progress` steer the
    search for an optimised strategy, which is public and the same for the same seed. With
    `objective="average"`, a `prior` over cells or a `norm` of the queries' errors other than 2 that
    error is made small instead.
    """
    began = time.perf_counter()
    settings = _search(search)
    if people is not None:
        check_people(people)
    if alpha is not None:
        check_alpha(alpha)
    asked = asked if settings.prior is not None else narrowed(asked)
    domain = _checked_domain(asked, domain)
    promise = local_privacy(privacy)
    ranked = _ranked(asked, promise, mechanism, settings)
    best = ranked[0]
    if best.analysis is None:
        reasons = "; ".join(f"{c.mechanism}: {c.refusal}" for c in ranked)
        raise InvalidParameter("mechanism", mechanism, f"cannot plan this: {reasons}")
    made = LocalPlan(
        workload=asked,
        domain=domain,
        mechanism=best.mechanism,
        strategy=best.analysis.strategy,
        seconds=time.perf_counter() - began,
        runners_up=tuple(_runner_up(c) for c in ranked[1:] if c.analysis is not None),
        people=people,
        alpha=alpha,
    )
    if made.epsilon > _epsilon(promise) or (made.privacy.delta or 0.0) > (promise.delta or 0.0):
        raise NoisewrightError(f"the plan promises {made.privacy.text()}, not {promise.text()}")
    return made


def local_privacy(privacy: Privacy) -> Privacy:
    """The same numbers as a promise about reports: one person's value is replaced by another.

    Nobody can be absent from their own report, so the relation that `privacy` names is not used.
    """
    if privacy.epsilon is None:
        raise InvalidParameter("rho", privacy.rho, "is not offered in the local model", "give ε")
    check_epsilon(privacy.epsilon)
    return replace(privacy, neighbours="replace-one")


def narrowed(asked: Workload) -> Workload:
    """Questions over the attributes they ask about: what nobody asks, no report needs to hold."""
    return asked.narrowed() if isinstance(asked, Questions) else asked


def compare_local(
    asked: Workload,
    privacy: Privacy,
    domain: Domain | None = None,
    alpha: float = ALPHA,
    **search: Any,
) -> list[LocalComparison]:
    """All local mechanisms, fewest people first; those that do not apply come last."""
    asked = narrowed(asked)
    _checked_domain(asked, domain)
    promise = local_privacy(privacy)
    epsilon = _epsilon(promise)
    bound = known_bound(asked, epsilon)
    rows = []
    for found in _ranked(asked, promise, "auto", _search(search)):
        if found.analysis is None:
            row = LocalComparison(
                found.mechanism, epsilon, seconds=found.seconds, refusal=found.refusal
            )
        else:
            row = LocalComparison.of(
                found.mechanism, epsilon, found.analysis, bound, found.seconds, alpha
            )
        rows.append(row)
    return rows


_KNOWN = tuple(field.name for field in fields(Search))


def _search(settings: dict[str, Any]) -> Search:
    try:
        return Search(**settings)
    except TypeError:
        raise InvalidParameter(
            "settings",
            sorted(settings),
            "hold unknown names",
            "known: effort, time_limit, seed, target_ratio, checkpoint, cache, progress, "
            "objective, prior, norm",
        ) from None


def _ranked(asked: Workload, promise: Privacy, mechanism: str, settings: Search) -> list[Candidate]:
    """Candidates, the smallest worst-case variance first and those that refuse last."""
    epsilon = _epsilon(promise)
    bound = known_bound(asked, epsilon)
    if mechanism == OPTIMISED or (mechanism == "auto" and settings.own_error):
        return [optimised(asked, epsilon, settings)]
    if mechanism != "auto":
        named = candidates(asked, epsilon, promise.delta, [_known(mechanism)])
        return with_parts(asked, named, lambda part: _ranked(part, promise, "auto", settings))
    found = candidates(asked, epsilon, promise.delta)
    found = with_parts(asked, found, lambda part: _ranked(part, promise, "auto", settings))
    best = found[0].analysis
    settled = best is not None and bound is not None and best.worst_case <= 1.001 * bound.variance
    if not settled:  # otherwise no strategy of ε alone does visibly better by a linear estimate
        found.append(optimised(asked, epsilon, settings))
    return sorted(found, key=lambda c: np.inf if c.analysis is None else c.analysis.worst_case)


def _epsilon(promise: Privacy) -> float:
    assert promise.epsilon is not None
    return promise.epsilon


def _runner_up(found: Candidate) -> dict[str, Any]:
    assert found.analysis is not None
    needed = found.analysis.sample_complexity(ALPHA)
    return {"mechanism": found.mechanism, "sample_complexity": needed}


def _known(mechanism: str) -> str:
    if mechanism not in MECHANISMS:
        raise InvalidParameter(
            "mechanism",
            mechanism,
            "is not a local mechanism",
            f"choose auto, {OPTIMISED}, {', '.join(MECHANISMS)}",
        )
    return mechanism


def _checked_domain(asked: Workload, domain: Domain | None) -> Domain | None:
    check_cells(asked.size)
    domain = asked.domain if isinstance(asked, Questions) else domain
    if domain is None:
        return None
    domain.require_reviewed()
    if asked.size != domain.size:
        raise InvalidParameter(
            "workload",
            asked.brief(),
            f"has {asked.size} cells where the domain has {domain.size}",
            "match the workload's size to the domain",
        )
    return domain
