"""Releases made fit for print: declared values, non-negative, whole numbers, suppression.

Everything here is post-processing of answers that already are private; no data is read. What each
step does to intervals is recorded in the release's metadata.

One histogram over the attributes asked keeps all answers consistent, and only what was asked is
rounded. Where their cells are too many there is no such histogram: there tables of counts are
fitted so that they agree where they overlap, all other tables by themselves, and whole numbers keep
every table's total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, did_you_mean, require
from noisewright.estimate.accuracy import Conditioned
from noisewright.estimate.agreeing_tables import agreeing_tables
from noisewright.estimate.nonnegative import (
    LARGEST_HISTOGRAM,
    Facts,
    check_agreement,
    fixes_total,
    independent,
    nonnegative_histogram,
    tells_total,
)
from noisewright.planning.after.asked_cells import AskedCells, asked_of
from noisewright.planning.after.whole_answers import Kept, whole_answers
from noisewright.planning.plan import LEVEL
from noisewright.planning.release import Release
from noisewright.privacy.exact.rounding import number
from noisewright.workload import Workload
from noisewright.workload.questions.statistics import Column

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan


@dataclass(frozen=True, eq=False)
class Declared:
    """Queries by their numbers, as sums over the cells asked, and their declared values."""

    numbers: tuple[int, ...] = ()
    rows: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    values: FloatArray = field(default_factory=lambda: np.zeros(0))


NOTHING_DECLARED = Declared()

# of fitting tables to each other: 50 did as well on all pairs of 16 attributes
_STEPS = 200
_SCAN_ENTRIES = 2**24  # of queries looked at together: 128 MB
_CONDITION_CELLS = 2**20  # whose histogram is fitted as a whole: 8 MB a vector
_LARGEST_COUNT = 2.0**53  # beyond, floats skip whole numbers
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
    "; the attributes asked have too many cells for one histogram: tables of counts were fitted to "
    "agree where they overlap, others and whole numbers one by one to the same total"
)


class Steps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done to answers after the noise, in this order."""

    invariants: dict[str, float] = {}
    non_negative: bool = False
    integer: bool = False
    suppress: float | None = None

    @property
    def fits(self) -> bool:
        """Whether one table of people is fitted to all answers."""
        return self.non_negative or self.integer

    def told(
        self, plan: CentralPlan, before: Mapping[str, object]
    ) -> dict[str, object]:
        """What the record says of these steps; `before` is what it said of earlier ones."""
        chosen = {
            "invariants": dict(self.invariants),
            "non_negative": self.fits,
            "integer": self.integer,
            "suppress": self.suppress,
        }
        steps = {
            name: value
            for name, value in chosen.items()
            if value not in (False, None, {})
        }
        effects = {name: EFFECTS[name] for name in steps}
        if self.fits and by_tables(plan):
            effects["non_negative"] += TABLE_BY_TABLE

        record = {"steps": steps, "effects": effects}
        if before:
            earlier = dict(cast("Mapping[str, object]", before["post_processing"]))
            history = cast("list[object]", earlier.pop("history", []))
            record["history"] = [*history, earlier]

        return {"post_processing": record}


def post_process(
    release: Release,
    *,
    invariants: Mapping[str, float] | None = None,
    non_negative: bool = False,
    integer: bool = False,
    suppress: float | None = None,
) -> Release:
    """The release with the chosen steps applied, in this order.

    `invariants` maps queries (by label) to values that are public knowledge, never read from the
    data; those that fix the number of people need replace-one neighbours. `non_negative` fits one
    non-negative histogram of the attributes asked, so all answers stay consistent (of more than
    2^20 cells: tables of counts that agree); `integer` gives those of one of whole numbers with
    the same total, chosen so that answers move least. `suppress` leaves out answers whose
    standard error exceeds that share; the intervals of the others are then those that hold for
    all answers at once.
    """
    steps = Steps(
        invariants=dict(invariants or {}),
        non_negative=non_negative,
        integer=integer,
        suppress=suppress,
    )
    return apply_steps(release, steps)


def apply_steps(release: Release, steps: Steps) -> Release:
    """The release after these steps, or a refusal in words."""
    from noisewright.planning.central.plan import CentralPlan

    if not isinstance(release.plan, CentralPlan):
        raise InvalidParameter(
            "release",
            type(release.plan).__name__,
            "is not made by a curator",
            "estimates take `non_negative` themselves",
        )

    check_steps(release.plan, steps)
    check_order(release.steps, steps)
    result = replace(release, steps=(*release.steps, steps))
    _ = result.intervals  # whatever cannot be done is refused here

    return result


def processed_answers(
    plan: CentralPlan, column: Column, steps: Sequence[Steps]
) -> Column:
    """Unbiased answers of a plan with their intervals, after these steps."""
    for step in steps:
        column = _applied(plan, column, step)
    return column


def _applied(plan: CentralPlan, column: Column, steps: Steps) -> Column:
    declared = NOTHING_DECLARED
    if steps.invariants:
        column, declared = _conditioned(plan, column, steps.invariants)

    answers = column.answers
    if steps.fits:
        answers = nonnegative_answers(
            plan, answers, column.std, declared, steps.integer
        )

    column = widened_intervals(
        column, answers, 0.0 if steps.fits and _only_sums(plan) else -np.inf
    )
    return column if steps.suppress is None else _suppressed(column, steps.suppress)


def check_steps(plan: CentralPlan, steps: Steps) -> None:
    """Refuse steps that cannot be taken; ask this before a release spends its budget."""
    require(
        plan.counts_only,
        "steps",
        "post-processing",
        "is for numbers of people",
        "plan sums and means apart",
    )

    share = steps.suppress
    require(
        share is None or (np.isfinite(share) and share > 0),
        "suppress",
        share,
        "must be a positive share",
        "0.3 means 30 %",
    )
    require(
        plan.measures_only is plan.mechanism
        or (not steps.fits and not steps.invariants),
        "steps",
        "fit",
        "answers are those of one histogram already",
        "plan without projection",
    )

    if steps.fits:
        _check_fit(plan)

    if not steps.invariants:
        return

    asked = AskedCells.of_plan(plan)
    declared = _declared(plan, asked, steps.invariants)
    check_agreement(declared.rows, declared.values, asked.possible)
    require(
        not tells_total(declared.rows, declared.values, asked.possible)
        or plan.privacy.neighbours == "replace-one",
        "invariants",
        list(steps.invariants),
        "fix the number of people, which add-remove neighbours keep private",
        "plan with neighbours='replace-one'",
    )

    plan.accuracy.covariance(np.array(declared.numbers))  # refuses what is too large


def _declared(
    plan: CentralPlan, asked: AskedCells, invariants: Mapping[str, float]
) -> Declared:
    """Numbers of the declared queries, their rows over the cells asked, and their values."""
    if asked.size > _CONDITION_CELLS:
        raise TooLarge(
            f"declared values are checked over at most {_CONDITION_CELLS} cells of the attributes "
            f"asked; plan tables of fewer attributes"
        )

    labels = {label: k for k, label in enumerate(plan.labels())}
    unknown = [label for label in invariants if label not in labels]
    if unknown:
        remedy = f"{did_you_mean(unknown[0], labels)}use a label as it is released"
        raise InvalidParameter(
            "invariants", unknown[0], "is no query of the release", remedy
        )

    values = [float(number("invariants", v, _REMEDY)) for v in invariants.values()]
    require(
        max(map(abs, values)) <= _LARGEST_COUNT,
        "invariants",
        values,
        "must lie within ±2^53",
        _REMEDY,
    )

    numbers = tuple(labels[label] for label in invariants)
    rows = np.concatenate([asked.workload.rows(k, k + 1) for k in numbers])
    return Declared(numbers, rows, np.array(values))


def _conditioned(
    plan: CentralPlan, column: Column, invariants: Mapping[str, float]
) -> tuple[Column, Declared]:
    """The best linear estimate given the declared values, and its intervals."""
    declared = _declared(plan, AskedCells.of_plan(plan), invariants)
    numbers = list(declared.numbers)
    variance = plan.accuracy.variance
    # An answer without error up to rounding (a public total) tells nothing new.
    noisy = variance > 1e-13 * variance.max(initial=0.0)
    selection = [k for k in independent(declared.rows) if noisy[numbers[k]]]
    places = np.array([numbers[k] for k in selection], dtype=np.int64)
    accuracy = Conditioned(plan.accuracy, places, len(variance), np.array(numbers))
    better = accuracy.correct(column.answers, declared.values[selection])
    better[numbers] = declared.values
    widths = accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL)

    return Column.around(better, accuracy.std, *widths), declared


def widened_intervals(
    column: Column, answers: FloatArray, floor: float = -np.inf
) -> Column:
    """Other answers within the intervals of unbiased ones, widened where they lie outside."""
    ends = [
        _holding(low, high, answers, floor) for low, high in (column.each, column.all)
    ]
    return Column(answers, column.std, *ends)


def _holding(
    low: FloatArray, high: FloatArray, answers: FloatArray, floor: float
) -> tuple[FloatArray, FloatArray]:
    """An interval that still covers the truth as before, and holds the answer given."""
    lower = np.maximum(low, floor)
    upper = np.maximum(high, floor)
    return np.minimum(lower, answers), np.maximum(upper, answers)


def check_order(earlier: Sequence[Steps], steps: Steps) -> None:
    """Steps after steps: fitted answers are no longer unbiased, and those left out are gone."""
    require(
        not any(step.suppress is not None for step in earlier),
        "release",
        "suppressed",
        "has answers left out",
        "take other steps before suppressing",
    )
    require(
        not steps.invariants or not earlier,
        "invariants",
        list(steps.invariants),
        "must be declared before other steps",
        "give them in the first call",
    )


def _suppressed(column: Column, share: float) -> Column:
    """Only what holds for all answers at once holds for those that their own noise picked out."""
    hidden = column.std > share * np.abs(column.answers)

    def masked(values: FloatArray) -> FloatArray:
        return np.where(hidden, np.nan, values)

    ends = masked(column.all[0]), masked(column.all[1])
    return Column(masked(column.answers), masked(column.std), ends, ends)


# --- a table of people that no answer contradicts -------------------------------------------------


def by_tables(plan: CentralPlan) -> bool:
    """Whether the cells asked are too many for one histogram, so that tables are fitted apart."""
    return asked_of(plan.terms, plan.sizes).size > LARGEST_HISTOGRAM


def _check_fit(plan: CentralPlan) -> None:
    """Refuse plans whose tables are too large to fit even one by one."""
    largest = max((term.inner.size for term in plan.terms), default=0)
    if by_tables(plan) and largest > LARGEST_HISTOGRAM:
        raise TooLarge(
            f"a table of {largest} cells is too large to fit a non-negative histogram to (limit "
            f"{LARGEST_HISTOGRAM}); ask for smaller tables, or leave the answers as they are"
        )


def nonnegative_answers(
    plan: CentralPlan,
    answers: FloatArray,
    std: FloatArray,
    declared: Declared,
    integer: bool,
) -> FloatArray:
    """The answers of the non-negative histogram (of whole numbers) that agrees best with them.

    Under replace-one neighbours the number of people is public, so that it is kept as well.
    """
    total = _public_total(plan, answers, declared)
    if by_tables(plan):
        return _tables(plan, answers, std, total, integer)

    asked = AskedCells.of_plan(plan)
    histogram = fitted_histogram(asked, answers, std, total, declared)
    if not integer:
        return np.asarray(asked.workload.matvec(histogram), dtype=np.float64)

    people = round(float(histogram.sum()) if total is None else total)
    return whole_answers(
        asked, histogram, Kept(people, declared.numbers, declared.values.tolist())
    )


def fitted_histogram(
    asked: AskedCells,
    answers: FloatArray,
    std: FloatArray,
    total: float | None = None,
    declared: Declared = NOTHING_DECLARED,
) -> FloatArray:
    """The non-negative histogram of the cells asked that agrees best with the answers."""
    rows = declared.rows
    values = declared.values
    if len(rows) and total is not None and not fixes_total(rows):
        rows = np.vstack([rows, np.ones(rows.shape[1])])
        values = np.append(values, total)

    facts = Facts(asked.possible, rows, values) if len(rows) else Facts(asked.possible)
    return nonnegative_histogram(
        asked.workload, answers, std, total, facts=facts
    ).histogram


def _public_total(
    plan: CentralPlan, answers: FloatArray, declared: Declared
) -> float | None:
    """The number of people, declared or public under the plan's promise; None where private."""
    for row, value in zip(declared.rows, declared.values, strict=True):
        if (row == 1).all():
            return float(value)

    if plan.privacy.neighbours != "replace-one":
        return None

    start = 0
    for term in plan.terms:
        if term.is_counts:
            people = answers[start : start + term.queries].sum() / term.weight
            return max(0.0, float(np.rint(people)))
        start += term.queries

    return None


def _tables(
    plan: CentralPlan,
    answers: FloatArray,
    std: FloatArray,
    total: float | None,
    integer: bool,
) -> FloatArray:
    """Tables of counts that agree; all others by themselves; whole numbers table by table."""
    ends = np.cumsum([term.queries for term in plan.terms])[:-1]
    estimates = [
        part / t.weight
        for t, part in zip(plan.terms, np.split(answers, ends), strict=True)
    ]
    errors = [
        part / t.weight for t, part in zip(plan.terms, np.split(std, ends), strict=True)
    ]
    counts = {t.attributes: k for k, t in enumerate(plan.terms) if t.is_counts}
    if total is None:
        total = next((float(estimates[k].sum()) for k in counts.values()), None)

    people = None if total is None else max(0.0, total)
    if people is not None and integer:
        people = float(round(people))

    together = {}
    if people is not None:
        tables = {block: estimates[k] for block, k in counts.items() if block}
        deviations = {block: float(errors[counts[block]].max()) for block in tables}
        together = agreeing_tables(plan.sizes, tables, deviations, people, steps=_STEPS)

    pieces = []
    for term, plain, error in zip(plan.terms, estimates, errors, strict=True):
        if term.is_counts and people is not None:
            histogram = together.get(term.attributes, np.array([people]))
        else:
            histogram = nonnegative_histogram(
                term.inner, plain, error, people
            ).histogram
        if integer:
            whole = round(float(histogram.sum()) if people is None else people)
            pieces.append(
                whole_answers(asked_of([term], plan.sizes), histogram, Kept(whole))
            )
        else:
            pieces.append(term.answers(histogram))

    return np.concatenate(pieces)


def _only_sums(plan: CentralPlan) -> bool:
    """Whether every query adds up people, so that no true answer is negative."""
    return all(term.weight >= 0 and _adds_up(term.inner) for term in plan.terms)


def _adds_up(workload: Workload) -> bool:
    step = max(1, _SCAN_ENTRIES // max(1, workload.size))
    starts = range(0, workload.queries, step)
    return all(float(workload.rows(s, s + step).min(initial=0.0)) >= 0 for s in starts)
