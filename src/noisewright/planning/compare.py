"""Every mechanism that applies, side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.central.registry import CENTRAL
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.forecast import central_class, certified_ratio
from noisewright.planning.make import central_problem, error_norm, problem_plan
from noisewright.privacy.budget import Privacy
from noisewright.solution import BoundClass
from noisewright.workload import Workload, workload
from noisewright.workload.tensor import mean_error


@dataclass(frozen=True)
class Comparison:
    """One mechanism's errors in counts of people, noise included.

    `achieved` is the error compared, weights of questions included, and `lower_bound` the highest
    bound on it that any of the mechanisms proved for all methods in `bound_class`, under the noise
    of this one (a coarser grid has a little less); `refusal` says why a mechanism does not apply.
    """

    mechanism: str
    rmse: float | None
    max: float | None
    lower_bound: float | None
    ratio: float | None
    seconds: float
    refusal: str | None = None
    achieved: float | None = None

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that `lower_bound` limits."""
        return central_class(self.lower_bound)

    def to_dict(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        names = ("mechanism", "rmse", "max", "lower_bound", "ratio", "bound_class", "seconds")
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
    known = [p.planned.bound or 0.0 for p, _ in plans if p.lower_bound is not None]
    plans.sort(key=lambda pair: pair[0].achieved)
    return [_row(plan, max(known, default=None), seconds) for plan, seconds in plans] + refused


def _row(plan: CentralPlan, unit_bound: float | None, seconds: float) -> Comparison:
    """A plan against the highest bound that any of them proved, for the noise of this one."""
    bound = None if unit_bound is None else unit_bound * plan.noise_deviation
    std = np.sqrt(plan.variances)
    return Comparison(
        plan.mechanism,
        rmse=mean_error(std, 2),
        max=float(std.max()),
        lower_bound=bound,
        ratio=certified_ratio(plan.achieved, bound),
        seconds=seconds,
        achieved=plan.achieved,
    )
