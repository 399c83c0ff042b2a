"""Reports of all people of a table: written, or added up where the rows are and none kept.

What travels between machines is a plan one way and aggregates the other, both as files hold them
and checked like any file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast

from noisewright.arrays import IntArray
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.files import check_apart
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.exchange import write_reports
from noisewright.local.strategy import LARGEST_VECTOR
from noisewright.planning.counting import Counter, Source
from noisewright.stages import stage

if TYPE_CHECKING:
    from noisewright.planning.local.plan import LocalPlan


@dataclass(frozen=True)
class Tallying:
    """Draws the reports of rows by their cells and adds them up, wherever it is called."""

    plan: bytes

    def __call__(self, batches: Iterable[IntArray]) -> bytes:
        """The aggregate of one part of the rows."""
        from noisewright.planning.files import from_bytes

        plan = cast("LocalPlan", from_bytes(self.plan, kind="local-plan"))
        aggregate = plan.aggregate()

        for cells in batches:
            aggregate.add(plan.randomize(cells))

        return aggregate.to_bytes()


def randomize_table(
    plan: LocalPlan, table: Source, output: str | Path, counter: Counter | None
) -> int:
    """Write one report for every row of a table, and return how many there are."""
    if isinstance(table, str | Path):
        check_apart(output, table)

    engine, domain = _reading(plan, counter)
    batches = engine.cells(table, domain)
    return write_reports(
        output, (plan.client.randomize_many(cells) for cells in batches)
    )


def tally_table(plan: LocalPlan, table: Source, counter: Counter | None) -> Aggregate:
    """The aggregate of one report for every row of a table."""
    engine, domain = _reading(plan, counter)
    stage("drawing and adding up reports")
    parts = engine.tallies(table, domain, Tallying(plan.to_bytes()))
    aggregates = (Aggregate.from_bytes(part, plan.format) for part in parts)

    return reduce(Aggregate.merge, aggregates, plan.aggregate())


def _reading(plan: LocalPlan, counter: Counter | None) -> tuple[Counter, Domain]:
    """The engine that reads a table, and what its columns mean."""
    domain = plan.domain or _numbered(plan.strategy.size)
    domain.require_reviewed()
    if counter is None:
        raise InvalidParameter(
            "counter", None, "must be given to read a table", "pass a counting engine"
        )
    return counter, domain


def _numbered(size: int) -> Domain:
    """Cells by their number, where a plan knows nothing else about them."""
    if size > LARGEST_VECTOR:
        raise TooLarge(f"{size:.3g} cells by number are too many; plan with a domain")
    return Domain([Numeric.integers("cell", 0, size - 1)])
