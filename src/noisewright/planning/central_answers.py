"""What a measurement says: linear answers to the terms, and the columns that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.mechanism import Measurement
from noisewright.estimate.accuracy import Accuracy
from noisewright.planning.plan import LEVEL
from noisewright.planning.postprocess import Steps, held, processed
from noisewright.workload.base import FloatArray
from noisewright.workload.spec import Questions
from noisewright.workload.statistics import Column, Noisy, Widths

if TYPE_CHECKING:
    from noisewright.planning.central import CentralPlan


def linear_answers(plan: CentralPlan, measurement: Measurement) -> FloatArray:
    """Linear answers to the terms: unbiased, or within the bias that their accuracy tells."""
    known = plan.impossible
    if known is None:
        inner = isinstance(plan.method, FittedMechanism)
        own = measurement.parts[0] if inner else measurement
        return plan.measures_only.answer(own, plan.terms)
    answers = plan.method.answer(measurement, [*plan.terms, *known.terms])
    return known.accuracy.correct(answers, np.zeros_like(answers[known.accuracy.known]))


def outcome(plan: CentralPlan, measurement: Measurement, steps: Sequence[Steps]) -> Column:
    """What a measurement says, after the steps of post-processing taken."""
    column = derived(plan, linear_answers(plan, measurement), plan.widths)
    if isinstance(plan.method, FittedMechanism):
        column = held(column, plan.method.answer(measurement, plan.terms))
    return processed(plan, column, steps) if steps else column


def standard_errors(plan: CentralPlan) -> FloatArray:
    """Standard errors of all answers; NaN for those that depend on how many people there are.

    Intervals are left out: how wide they are is simulated, and no standard error depends on it.
    """
    if plan.counts_only:
        return plan.accuracy.error
    nothing = np.zeros(sum(term.queries for term in plan.terms))
    return derived(plan, nothing, Widths(lambda _: 1.0, 1.0)).std


def derived(plan: CentralPlan, answers: FloatArray, widths: Widths) -> Column:
    """What linear answers to the terms say of all that is asked."""
    accuracy = plan.interval_accuracy
    std = accuracy.std
    if not isinstance(plan.workload, Questions) or plan.workload.counts_only:
        column = Column.around(answers, std, widths.each(1), widths.all)
        return column if accuracy.bias is None else column.widened(accuracy.bias)
    ends = np.cumsum([term.queries for term in plan.terms])[:-1]
    pairs = zip(np.split(answers, ends), np.split(std, ends), strict=True)
    parts = dict(zip((t.key for t in plan.terms), (Noisy(*p) for p in pairs), strict=True))
    return Column.joined(
        [
            statistic.derive([parts[need.key] for need in statistic.needs], widths)
            for statistic in plan.workload.statistics
        ]
    )


def interval_widths(accuracy: Accuracy) -> Widths:
    """How many standard errors hold an answer to a term; simulated laws are drawn once."""
    return Widths(
        cache(lambda count: accuracy.multiplier(1 - (1 - LEVEL) / count)),
        accuracy.joint_multiplier(LEVEL),
    )
