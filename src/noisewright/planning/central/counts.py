"""The exact tables that a central plan measures: from a histogram, or by a counting engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noisewright.central.mechanism import Counts, Table
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.counting import (
    Counter,
    Data,
    checked_histogram,
    histogram_marginal,
    is_histogram,
)
from noisewright.stages import stage
from noisewright.workload.questions.measures import COUNT, Measure

if TYPE_CHECKING:
    from noisewright.planning.central.plan import CentralPlan


def exact_counts(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> Counts:
    """The tables: as private as the data."""
    if plan.domain is not None:
        # its labels are published, whatever the data's form
        plan.domain.require_reviewed()

    stage("counting")
    if is_histogram(data):
        return _from_histogram(plan, data, tables)

    engine, domain, wanted = _counting(plan, data, counter, tables)
    return dict(zip(tables, engine.tables(data, domain, wanted), strict=True))


def counting_sql(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> str:
    """What the counting engine would run: nothing is counted or spent."""
    engine, domain, wanted = _counting(plan, data, counter, tables)
    return engine.explain(data, domain, wanted)


def _counting(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> tuple[Counter, Domain, list[tuple[tuple[str, ...], Measure]]]:
    """The engine, and what it is asked."""
    if plan.domain is None:
        raise InvalidParameter(
            "data",
            type(data).__name__,
            "is a table, and this plan knows no domain",
            "plan with domain=... (--schema), or give a histogram of integer counts (.npy)",
        )

    engine = counter or plan.counter
    if engine is None:
        raise InvalidParameter(
            "counter", None, "must be given to count a table", "pass a counting engine"
        )

    names = plan.domain.names
    wanted = [(tuple(names[i] for i in t.attributes), t.measure) for t in tables]
    return engine, plan.domain, wanted


def _from_histogram(plan: CentralPlan, data: Data, tables: Sequence[Table]) -> Counts:
    if any(table.measure != COUNT for table in tables):
        raise InvalidParameter(
            "data", "histogram", "tells no sums of a number", "give a table of people"
        )
    if plan.domain is not None and plan.domain.unit is not None:
        raise InvalidParameter(
            "data",
            "histogram",
            f"does not tell which rows share a {plan.domain.unit.column}",
            "give the table, or plan without a unit where one row is one person",
        )

    counts = checked_histogram(data, plan.sizes)
    return {table: histogram_marginal(counts, table.attributes) for table in tables}
