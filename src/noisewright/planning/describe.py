"""What the answers of a plan stand for, whoever adds the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noisewright.domain import Domain
from noisewright.planning.release import ReleasedTable, term_axes
from noisewright.workload import Workload, stack
from noisewright.workload.base import FloatArray
from noisewright.workload.spec import Questions, query_labels
from noisewright.workload.structure import terms
from noisewright.workload.tensor import mean_error


def plain_workload(workload: Workload) -> Workload:
    """The queries as they are answered, without the weights of named questions."""
    if isinstance(workload, Questions):
        return stack(workload.plain_parts())
    return workload


def labels(workload: Workload, domain: Domain | None) -> list[str]:
    """Every query in words."""
    if domain is None or isinstance(workload, Questions):
        return workload.labels()
    asked = terms(workload, domain.shape)
    return [label for t in asked for label in query_labels(domain, t)]


def answer_tables(workload: Workload) -> tuple[ReleasedTable, ...]:
    """The named parts of the answers, with what their queries stand for."""
    if not isinstance(workload, Questions):
        return (ReleasedTable(workload.brief(), workload.queries),)
    pairs = zip(workload.names, workload.plain_terms(), strict=True)
    return tuple(ReleasedTable(name, t.queries, term_axes(workload.domain, t)) for name, t in pairs)


def table_errors(
    tables: Sequence[ReleasedTable], std: FloatArray, each: FloatArray, together: FloatArray
) -> list[tuple[Any, ...]]:
    """Per table: name, queries, rmse, largest standard error, and largest half-widths."""
    rows, start = [], 0
    for table in tables:
        part = slice(start, start + table.queries)
        widths = float(each[part].max()), float(together[part].max())
        errors = mean_error(std[part], 2), float(std[part].max())
        rows.append((table.name, table.queries, *errors, *widths))
        start += table.queries
    return rows
