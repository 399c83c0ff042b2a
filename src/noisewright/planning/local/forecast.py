"""What the answers of a local plan will be worth, before any report is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.shrinkage import Shrinkage, people_where_it_ends
from noisewright.planning.plan import LEVEL, Forecast

if TYPE_CHECKING:
    from noisewright.local.analysis.accuracy import LocalAccuracy
    from noisewright.planning.local.plan import LocalPlan

CUT_SHORT = "cut short before its work was done: more time might better the plan"


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalForecast(Forecast):
    """Errors in counts of people, for so many people spread evenly over the cells.

    `worst_rmse` is the root mean square error on the worst table of as many people.
    """

    people: int
    worst_rmse: float
    bias: FloatArray | None = None
    """The largest bias of every answer, which its intervals include; None where there is none."""
    max_error: float | None = None
    """What all answers together stay within, but with the plan's β; None without such a goal."""
    shrinkage: Shrinkage | None = None
    """The biased estimate with the least worst error, where it was asked for."""
    shrinking_ends: int | None = None
    """People from whom it errs no less than 0.99 times as much as the unbiased one."""
    cut_short: bool = False
    """Whether a time limit ended the search for the plan: more time might better it."""

    @property
    def shrunk_worst_rmse(self) -> float | None:
        """Root mean square error of the shrunk answers on the worst table of as many people."""
        if self.shrinkage is None:
            return None
        return float(np.sqrt(self.shrinkage.value / len(self.std)))

    def _facts(self) -> list[tuple[str, str]]:
        errors = {"rmse": self.rmse, "max": self.max, "worst rmse": self.worst_rmse}
        shown = [(name, f"{error:,.4g}") for name, error in errors.items()]
        if self.cut_short:
            shown.append(("search", CUT_SHORT))

        return [
            ("answers", f"{len(self.std):,}"),
            ("people", f"{self.people:,}"),
            *shown,
        ]

    def summary(self) -> dict[str, Any]:
        names = ("people", "rmse", "max", "worst_rmse")
        told = {name: getattr(self, name) for name in names}
        if self.max_error is not None:
            told["max_error_share"] = self.max_error / self.people

        if self.shrinkage is not None:
            told["shrunk_worst_rmse"] = self.shrunk_worst_rmse
            told["shrinking_ends"] = self.shrinking_ends

        if self.cut_short:
            told["cut_short"] = True

        return told


def local_forecast(
    plan: LocalPlan, accuracy: LocalAccuracy, shrink: bool
) -> LocalForecast:
    """The expected error of every answer from as many people as the accuracy is of."""
    std = accuracy.std
    count = accuracy.people
    worst = count * plan.analysis.worst_case
    bias = None if plan.bias is None else count * plan.bias
    beside = 0.0 if bias is None else bias
    ends = (
        people_where_it_ends(plan.strategy, table_gram(plan.plain_workload))
        if shrink
        else None
    )

    return LocalForecast(
        std=std,
        halfwidth=accuracy.multiplier(LEVEL) * std + beside,
        simultaneous_halfwidth=accuracy.joint_multiplier(LEVEL) * std + beside,
        people=count,
        worst_rmse=float(np.sqrt(worst / plan.workload.queries)),
        bias=bias,
        max_error=None if plan.goal is None else count * plan.max_error(count),
        shrinkage=plan.shrinkage(count) if shrink else None,
        shrinking_ends=ends,
        cut_short=plan.cut_short,
    )
