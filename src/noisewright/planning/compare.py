"""Every mechanism that applies, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.central.variance import mean_error
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.forecast import certified_ratio
from noisewright.planning.make import central_problem, error_norm, problem_plan
from noisewright.planning.registry import CENTRAL
from noisewright.privacy.budget import Privacy
from noisewright.workload import Workload, workload


@dataclass(frozen=True)
class Comparison:
    """One mechanism's errors in counts of people, noise included.

    `lower_bound` is the best bound known for this workload and this noise, in the error compared;
    `refusal` says in words why a mechanism does not apply.
    """

    mechanism: str
    rmse: float | None
    max: float | None
    lower_bound: float | None
    ratio: float | None
    seconds: float
    refusal: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        names = ("mechanism", "rmse", "max", "lower_bound", "ratio", "seconds")
        return {name: getattr(self, name) for name in names}


def compare_central(
    queries: Workload | str | Any,
    privacy: Privacy,
    error: str | float = "rmse",
    domain: Domain | None = None,
) -> list[Comparison]:
    """All central mechanisms for `queries`, best first; those that refuse come last."""
    asked = workload(queries)
    norm = error_norm(error)
    problem = central_problem(asked, privacy, norm, domain)
    plans: list[tuple[CentralPlan, float]] = []
    refused = []
    for name, mechanism in CENTRAL.items():
        reason = mechanism.refuses(problem)
        if reason is not None:
            refused.append(Comparison(name, None, None, None, None, 0.0, reason))
            continue
        began = time.perf_counter()
        planned = mechanism.plan(problem)
        plans.append((problem_plan(problem, name, planned), time.perf_counter() - began))
    if not plans:
        reasons = "; ".join(f"{row.mechanism}: {row.refusal}" for row in refused)
        raise InvalidParameter("workload", asked.brief(), f"is planned by no mechanism: {reasons}")
    known = [plan.planned.unit_bound or 0.0 for plan, _ in plans if plan.lower_bound is not None]
    # One bound for all of them holds on the grid where noise varies least.
    least = min(plan.least_deviation for plan, _ in plans)
    bound = max(known) * least if known else None
    plans.sort(key=lambda pair: pair[0].achieved)
    return [_row(plan, bound, seconds) for plan, seconds in plans] + refused


def _row(plan: CentralPlan, bound: float | None, seconds: float) -> Comparison:
    ratio = certified_ratio(plan.achieved, bound)
    std = np.sqrt(plan.variances)
    return Comparison(plan.mechanism, mean_error(std, 2), float(std.max()), bound, ratio, seconds)
