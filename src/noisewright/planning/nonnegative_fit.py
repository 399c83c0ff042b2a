"""Answers of a non-negative table of people: one for all of them, or table by table.

One histogram over the whole domain keeps all answers consistent. Domains too large to enumerate
have no such histogram: there tables of counts are fitted so that they agree where they overlap, all
other tables by themselves, and whole numbers keep every table's total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisewright.errors import TooLarge
from noisewright.estimate.agreeing_tables import agreeing_tables
from noisewright.estimate.nonnegative import (
    LARGEST_HISTOGRAM,
    Facts,
    fixes_total,
    nonnegative_histogram,
    whole_numbers,
)
from noisewright.workload import Workload
from noisewright.workload.base import FloatArray

if TYPE_CHECKING:
    from noisewright.planning.central import CentralPlan

Declared = tuple[FloatArray, FloatArray]
"""Sums over cells, one per row, and their declared values."""

_STEPS = 200
_SCAN_ENTRIES = 2**24


def by_tables(plan: CentralPlan) -> bool:
    """Whether the domain is too large for one histogram, so that tables are fitted one by one."""
    return plan.workload.size > LARGEST_HISTOGRAM


def check_fit(plan: CentralPlan) -> None:
    """Refuse plans whose tables are too large to fit even one by one."""
    largest = max((term.inner.size for term in plan.terms), default=0)
    if by_tables(plan) and largest > LARGEST_HISTOGRAM:
        raise TooLarge(
            f"a table of {largest} cells is too large to fit a non-negative histogram to (limit "
            f"{LARGEST_HISTOGRAM}); ask for smaller tables, or leave the answers as they are"
        )


def fitted(
    plan: CentralPlan, answers: FloatArray, std: FloatArray, declared: Declared, integer: bool
) -> FloatArray:
    """The answers of the non-negative histogram (of whole numbers) that agrees best with them.

    `declared` holds sums over cells and their values. Under replace-one neighbours the number of
    people is public, so that it is kept as well.
    """
    total = _public_total(plan, answers, declared)
    if by_tables(plan):
        return _tables(plan, answers, std, total, integer)
    domain, workload = plan.domain, plan.plain_workload
    possible = domain.possible(domain.names) if domain is not None and domain.boxes else None
    rows, values = declared
    if len(rows) and total is not None and not fixes_total(rows):
        rows, values = np.vstack([rows, np.ones(rows.shape[1])]), np.append(values, total)
    facts = Facts(possible, rows, values) if len(rows) else Facts(possible)
    histogram = nonnegative_histogram(workload, answers, std, total, facts=facts).histogram
    if integer:
        histogram = facts.whole_numbers(histogram, total)
    return np.asarray(workload.matvec(histogram), dtype=np.float64)


def _public_total(plan: CentralPlan, answers: FloatArray, declared: Declared) -> float | None:
    """The number of people, declared or public under the plan's promise; None where private."""
    rows, values = declared
    for row, value in zip(rows, values, strict=True):
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
    plan: CentralPlan, answers: FloatArray, std: FloatArray, total: float | None, integer: bool
) -> FloatArray:
    """Tables of counts that agree; all others by themselves; whole numbers table by table."""
    ends = np.cumsum([term.queries for term in plan.terms])[:-1]
    estimates = [
        part / t.weight for t, part in zip(plan.terms, np.split(answers, ends), strict=True)
    ]
    errors = [part / t.weight for t, part in zip(plan.terms, np.split(std, ends), strict=True)]
    counts = {t.attributes: k for k, t in enumerate(plan.terms) if t.is_counts}
    if total is None:
        total = next((float(estimates[k].sum()) for k in counts.values()), None)
    people = None if total is None else max(0.0, float(round(total) if integer else total))
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
            histogram = nonnegative_histogram(term.inner, plain, error, people).histogram
        if integer:
            whole = None if people is None else round(people)
            histogram = whole_numbers(histogram, whole).astype(np.float64)
        pieces.append(term.answers(histogram))
    return np.concatenate(pieces)


def only_sums(plan: CentralPlan) -> bool:
    """Whether every query adds up people, so that no true answer is negative."""
    return all(term.weight >= 0 and _adds_up(term.inner) for term in plan.terms)


def _adds_up(workload: Workload) -> bool:
    step = max(1, _SCAN_ENTRIES // max(1, workload.size))
    starts = range(0, workload.queries, step)
    return all(float(workload.rows(s, s + step).min(initial=0.0)) >= 0 for s in starts)
