"""Reports of many people where their rows are: randomised and added up, none of them kept.

What travels between machines is a plan one way and aggregates the other, both as files hold them
and checked like any file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from noisewright.errors import InvalidParameter
from noisewright.local.reports.aggregate import Aggregate
from noisewright.planning.counting import Counter, Integers, Source
from noisewright.stages import stage

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.planning.local import LocalPlan


@dataclass(frozen=True)
class Tallying:
    """Draws the reports of rows by their cells and adds them up, wherever it is called."""

    plan: bytes

    def __call__(self, batches: Iterable[Integers]) -> bytes:
        """The aggregate of one part of the rows."""
        from noisewright.planning.local import LocalPlan
        from noisewright.planning.plan_files import from_bytes

        plan = from_bytes(self.plan)
        assert isinstance(plan, LocalPlan)
        aggregate = plan.aggregate()
        for cells in batches:
            aggregate.add(plan.randomize(cells))
        return aggregate.to_bytes()


def tally_table(
    plan: LocalPlan, table: Source, domain: Domain, counter: Counter | None
) -> Aggregate:
    """The aggregate of one report for every row of a table."""
    from noisewright.planning.plan_files import to_bytes

    domain.require_reviewed()
    if counter is None:
        raise InvalidParameter(
            "counter", None, "must be given to read a table", "pass a counting engine"
        )
    stage("drawing and adding up reports")
    parts = counter.tallies(table, domain, Tallying(to_bytes(plan)))
    aggregates = (Aggregate.from_bytes(part, plan.format) for part in parts)
    return reduce(Aggregate.merge, aggregates, plan.aggregate())
