"""Releases made fit for print: declared values, non-negative, whole numbers, suppression.

Everything here is post-processing of answers that already are private; no data is read. What each
step does to intervals is recorded in the release's metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.conditions import Conditioned, check_agreement, condition, tells_total
from noisewright.planning.central import LEVEL, CentralPlan
from noisewright.planning.nonnegative_fit import Declared, by_tables, check_fit, fitted, only_sums
from noisewright.planning.release import Bounds, Release
from noisewright.privacy.rules import number
from noisewright.workload.base import FloatArray

_CROSS_LIMIT = 2**26
_CONDITION_CELLS = 2**20
_LARGEST_COUNT = 2.0**53
_REMEDY = "declare numbers that are known from elsewhere"

EFFECTS = {
    "invariants": "declared values are exact; other intervals are narrowed by conditioning on them",
    "non_negative": "intervals before the fit, cut at zero and widened to hold the answer",
    "integer": "intervals before rounding, widened to hold the answer",
    "suppress": "answers with too large a relative standard error are left out; whether an answer "
    "is kept depends on its noise, so intervals for each answer by itself no longer hold: both "
    "pairs of columns give those for all answers at once, of which all kept ones hold together "
    "with the stated probability, whatever is left out (not for one answer given that it is kept)",
}


TABLE_BY_TABLE = (
    "; the domain is too large for one histogram: tables of counts were fitted to agree where they "
    "overlap, others and whole numbers one by one to the same total"
)


def post_process(
    plan: CentralPlan,
    release: Release,
    *,
    invariants: Mapping[str, float] | None = None,
    non_negative: bool = False,
    integer: bool = False,
    suppress: float | None = None,
) -> Release:
    """Apply the chosen steps, in this order.

    `invariants` maps queries (by label) to values that are public knowledge, never read from the
    data; those that fix the number of people need replace-one neighbours. `non_negative` fits one
    non-negative histogram, so all answers stay consistent (in domains of more than 2^20
    cells: tables of counts that agree); `integer` makes it one of whole numbers with the
    same total. `suppress` leaves out answers whose standard error exceeds that share; the
    intervals of the others are then those that hold for all answers at once.
    """
    check_steps(
        plan, invariants=invariants, non_negative=non_negative or integer, suppress=suppress
    )
    _check_order(release, invariants)
    answers, std = release.answers.copy(), release.std.copy()
    declared: Declared = np.zeros((0, 0)), np.zeros(0)
    half, wide = release.halfwidth, release.simultaneous_halfwidth
    if invariants:
        better, declared = _condition(plan, release, invariants)
        answers, std = better.answers, better.std
        half = plan.halfwidth_multiplier(LEVEL) * std
        wide = plan.joint_multiplier(std, better.errors) * std  # of the errors that are left
    ends = _intervals(release, answers, half, wide)
    if non_negative or integer:
        answers = fitted(plan, answers, std, declared, integer)
    floor = 0.0 if (non_negative or integer) and only_sums(plan) else -np.inf
    bounds = Bounds(*(_holding(low, high, answers, floor) for low, high in ends))
    chosen = {"invariants": dict(invariants or {}), "non_negative": non_negative or integer}
    chosen |= {"integer": integer, "suppress": suppress}
    if suppress is not None:
        answers, std, bounds = _suppressed(answers, std, bounds, suppress)
        half = wide
    steps = {name: value for name, value in chosen.items() if value not in (False, None, {})}
    effects = {name: EFFECTS[name] for name in steps}
    if (non_negative or integer) and by_tables(plan):
        effects["non_negative"] += TABLE_BY_TABLE
    record = {"steps": steps, "effects": effects, **_earlier(release)}
    return replace(
        release,
        answers=answers,
        std=std,
        halfwidth=half,
        simultaneous_halfwidth=wide,
        bounds=bounds,
        metadata={**release.metadata, "post_processing": record},
    )


def _earlier(release: Release) -> dict[str, Any]:
    """What was done to the release before, oldest first; nothing where nothing was."""
    before = dict(release.metadata.get("post_processing", {}))
    if not before:
        return {}
    return {"history": [*before.pop("history", []), before]}


def check_steps(
    plan: CentralPlan,
    *,
    invariants: Mapping[str, float] | None = None,
    non_negative: bool = False,
    suppress: float | None = None,
) -> None:
    """Refuse steps that cannot be taken; ask this before a release spends its budget."""
    if suppress is not None and not (np.isfinite(suppress) and suppress > 0):
        raise InvalidParameter("suppress", suppress, "must be a positive share", "0.3 means 30 %")
    if non_negative:
        check_fit(plan)
    if not invariants:
        return
    _, rows, declared = _declared(plan, invariants)
    possible = _possible(plan)
    check_agreement(rows, declared, possible)
    if tells_total(rows, declared, possible) and plan.privacy.neighbours != "replace-one":
        raise InvalidParameter(
            "invariants",
            list(invariants),
            "fix the number of people, which add-remove neighbours keep private",
            "plan with neighbours='replace-one'",
        )
    _check_cross(plan)


def _declared(
    plan: CentralPlan, invariants: Mapping[str, float]
) -> tuple[list[int], FloatArray, FloatArray]:
    """Numbers of the declared queries, their rows over cells, and their values."""
    if plan.workload.size > _CONDITION_CELLS:
        raise TooLarge(
            f"declared values are checked over at most {_CONDITION_CELLS} cells; "
            f"plan tables of fewer attributes"
        )
    labels = {label: k for k, label in enumerate(plan.labels())}
    unknown = [label for label in invariants if label not in labels]
    if unknown:
        raise InvalidParameter(
            "invariants", unknown[0], "is no query of the release", "use a label as it is released"
        )
    values = [float(number("invariants", v, _REMEDY)) for v in invariants.values()]
    if max(map(abs, values)) > _LARGEST_COUNT:
        raise InvalidParameter("invariants", values, "must lie within ±2^53", _REMEDY)
    numbers = [labels[label] for label in invariants]
    rows = np.concatenate([plan.plain_workload.rows(k, k + 1) for k in numbers])
    return numbers, rows, np.array(values)


def _possible(plan: CentralPlan) -> npt.NDArray[np.bool_] | None:
    domain = plan.domain
    return domain.possible(domain.names) if domain is not None and domain.boxes else None


def _condition(
    plan: CentralPlan, release: Release, invariants: Mapping[str, float]
) -> tuple[Conditioned, Declared]:
    numbers, rows, declared = _declared(plan, invariants)
    cross = covariance_with(plan, numbers)
    better = condition(release.answers, release.std**2, cross, numbers, rows, declared)
    return better, (rows, declared)


def _check_cross(plan: CentralPlan) -> None:
    largest = max(block.rows for block in plan.strategy.blocks)
    if plan.workload.queries * largest > _CROSS_LIMIT:
        raise TooLarge("covariances of so many answers are too large; declare fewer tables at once")


def covariance_with(plan: CentralPlan, numbers: list[int]) -> FloatArray:
    """Covariance of all answers with some of them, block by block."""
    _check_cross(plan)
    strategy = plan.strategy
    result = np.zeros((plan.workload.queries, len(numbers)))
    for place, (block, law) in enumerate(
        zip(strategy.blocks, strategy.laws(plan.law), strict=True)
    ):
        units = [np.zeros((b.rows, block.rows)) for b in strategy.blocks]
        units[place] = np.eye(block.rows)
        part = plan.answer(units)
        result += law.variance * (part @ part[numbers].T)
    return result


def _intervals(
    release: Release, answers: FloatArray, half: FloatArray, wide: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Intervals before a fit: about unbiased answers, or as an earlier step has left them."""
    if release.bounds is not None:
        return [release.bounds.each, release.bounds.all]
    return [(answers - width, answers + width) for width in (half, wide)]


def _holding(
    low: FloatArray, high: FloatArray, answers: FloatArray, floor: float
) -> tuple[FloatArray, FloatArray]:
    """An interval that still covers the truth as before, and holds the answer given."""
    lower, upper = np.maximum(low, floor), np.maximum(high, floor)
    return np.minimum(lower, answers), np.maximum(upper, answers)


def _check_order(release: Release, invariants: Mapping[str, float] | None) -> None:
    """Steps after steps: fitted answers are no longer unbiased, and those left out are gone."""
    if np.isnan(release.answers).any():
        raise InvalidParameter(
            "release", "suppressed", "has answers left out", "take other steps before suppressing"
        )
    if invariants and release.bounds is not None:
        raise InvalidParameter(
            "invariants",
            list(invariants),
            "must be declared before other steps",
            "give them in the first call",
        )


def _suppressed(
    answers: FloatArray, std: FloatArray, bounds: Bounds, share: float
) -> tuple[FloatArray, FloatArray, Bounds]:
    """Only what holds for all answers at once holds for those that their own noise picked out."""
    hidden = std > share * np.abs(answers)

    def masked(values: FloatArray) -> FloatArray:
        return np.where(hidden, np.nan, values)

    kept = masked(bounds.all[0]), masked(bounds.all[1])
    return masked(answers), masked(std), Bounds(kept, kept)
