"""What a measurement says: linear answers to the terms, and the columns that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.mechanism import Measurement
from noisewright.planning.after.postprocess import Steps, held, processed
from noisewright.planning.central.interval_widths import (
    interval_widths,
    statistic_widths,
    term_parts,
)
from noisewright.workload.questions.statistics import Column, Widths

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan


def linear_answers(plan: CentralPlan, measurement: Measurement) -> FloatArray:
    """Linear answers to the terms: unbiased, or within the bias that their accuracy tells."""
    known = plan.impossible
    if known is None:
        inner = isinstance(plan.mechanism, FittedMechanism)
        own = measurement.parts[0] if inner else measurement
        return plan.measures_only.answer(own, plan.terms)

    answers = plan.mechanism.answer(measurement, [*plan.terms, *known.terms])
    return known.accuracy.correct(answers, np.zeros_like(answers[known.accuracy.known]))


def outcome(
    plan: CentralPlan, measurement: Measurement, steps: Sequence[Steps]
) -> Column:
    """What a measurement says, after the steps of post-processing taken."""
    column = derived(plan, linear_answers(plan, measurement), plan.widths)
    if isinstance(plan.mechanism, FittedMechanism):
        column = held(column, plan.mechanism.answer(measurement, plan.terms))
    return processed(plan, column, steps) if steps else column


def standard_errors(plan: CentralPlan) -> FloatArray:
    """Standard errors of all answers; NaN for those that depend on how many people there are.

    Intervals are left out: how wide they are is simulated, and no standard error depends on it.
    """
    if plan.counts_only:
        return plan.accuracy.error
    nothing = np.zeros(sum(term.queries for term in plan.terms))
    return derived(plan, nothing, Widths.of_one()).std


def derived(plan: CentralPlan, answers: FloatArray, widths: Widths) -> Column:
    """What linear answers to the terms say of all that is asked."""
    accuracy = plan.interval_accuracy
    if plan.counts_only:
        column = Column.around(answers, accuracy.std, widths.each, widths.all)
        return column if accuracy.bias is None else column.widened(accuracy.bias)

    parts = term_parts(accuracy, plan.terms, answers)
    return Column.joined(
        [
            statistic.derive([parts[need.key] for need in statistic.needs], widths)
            for statistic in plan.workload.statistics
        ]
    )


def planned_widths(plan: CentralPlan) -> Widths:
    """How many standard errors hold the answers of a plan; simulated laws are drawn once."""
    accuracy = plan.interval_accuracy
    if plan.counts_only:
        return interval_widths(accuracy)
    return statistic_widths(accuracy, plan.terms, plan.workload.statistics)
