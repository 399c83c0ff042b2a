"""What a local plan is worth: forecasts, the figures that scripts rely on, and rehearsals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisewright import __version__
from noisewright.arrays import BoolArray, FloatArray
from noisewright.display import Shown
from noisewright.errors import InvalidParameter, NoisewrightError, require
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.shrinkage import Shrinkage, people_where_it_ends
from noisewright.local.bounds.floors import prior_floor
from noisewright.local.choose.cost import ALPHA
from noisewright.local.storage import whole_number
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

    def summary(self) -> dict[str, object]:
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


SHUFFLE_DELTA = 1e-9
"""The δ at which summaries state what shuffled reports promise together."""


def local_summary(plan: LocalPlan) -> dict[str, object]:
    """The figures at α = 0.01, and those that the plan was made for."""
    best = plan.certificate
    prior = best and prior_floor(plan.workload, plan.epsilon)
    floor = 0.0 if best is None else best.sample_complexity(ALPHA)
    certified = None if best is None else best.ratio(plan.analysis.worst_case)
    asked: dict[str, object] = {}
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


def local_record(plan: LocalPlan) -> dict[str, object]:
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


def _goal_figures(plan: LocalPlan) -> dict[str, object]:
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


KINDS = ("unbiased", "shrunk", "non_negative")


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Shown):
    """Means over `runs`, by kind of answer: `unbiased`, `shrunk` and `non_negative`.

    `rmse` is the root mean square error over all answers in people, `coverage` the share of answers
    inside their own 95 % intervals, `joint` the share of runs with all inside the joint ones.
    """

    people: int
    runs: int
    rmse: dict[str, float]
    coverage: dict[str, float]
    joint: dict[str, float]

    def _facts(self) -> list[tuple[str, str]]:
        told = [("people", f"{self.people:,}"), ("runs", f"{self.runs:,}")]
        return told + [
            (kind, f"rmse {error:,.4g}") for kind, error in self.rmse.items()
        ]


def rehearse(
    plan: LocalPlan, histogram: npt.ArrayLike, runs: int, rng: np.random.Generator
) -> Rehearsal:
    """Simulate reports of the people of a public table, cell by cell."""
    from noisewright.planning.local.reading import Reading

    people = np.asarray(histogram)
    if (
        people.shape != (plan.strategy.size,)
        or people.dtype.kind not in "iu"
        or people.min() < 0
    ):
        rule = f"must hold {plan.strategy.size} counts, the cells of the plan in their order"
        raise InvalidParameter("histogram", f"{people.dtype} {people.shape}", rule)

    require(people.any(), "histogram", 0, "must hold at least one person")

    whole_number("runs", runs, 1, 10**6)
    truth = np.asarray(
        plan.plain_workload.matvec(people.astype(float)), dtype=np.float64
    )
    cells = np.repeat(np.arange(len(people)), people)
    readings = [Reading(), Reading(shrink=True), Reading(non_negative=True)]
    squares, inside, together = (np.zeros(len(KINDS)) for _ in range(3))

    for _ in range(runs):
        collected = plan.aggregate(plan.strategy.randomize(cells, rng))
        for k, reading in enumerate(readings):
            column = plan.outcome(collected, (reading,))
            squares[k] += float(np.mean((column.answers - truth) ** 2))
            inside[k] += float(np.mean(_holds(column.each, truth)))
            together[k] += bool(_holds(column.all, truth).all())

    def means(totals: FloatArray) -> dict[str, float]:
        return dict(zip(KINDS, (totals / runs).tolist(), strict=True))

    roots = {kind: float(np.sqrt(square)) for kind, square in means(squares).items()}
    return Rehearsal(
        people=len(cells),
        runs=runs,
        rmse=roots,
        coverage=means(inside),
        joint=means(together),
    )


def _holds(limits: tuple[FloatArray, FloatArray], truth: FloatArray) -> BoolArray:
    low, high = limits
    rounding = 1e-9 * (1 + np.abs(truth))
    return np.asarray((low <= truth + rounding) & (truth <= high + rounding))
