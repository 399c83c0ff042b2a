"""How a plan gets its counts: from a histogram, or from a table through a counting engine.

Engines live in a higher room and are handed in; a plan never imports one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.mechanism import Counts, Table
from noisewright.domain import Domain, Unit
from noisewright.errors import InvalidParameter
from noisewright.stages import stage
from noisewright.workload.linear.tensor import sum_out
from noisewright.workload.questions.measures import COUNT, Measure

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pyarrow as pa
    from narwhals.typing import IntoFrame

    from noisewright.planning.central.plan import CentralPlan


Source: TypeAlias = (
    "str | Path | Sequence[str | Path] | pa.Table | pa.RecordBatch | pa.RecordBatchReader"
    " | duckdb.DuckDBPyRelation | IntoFrame | Mapping[str, object]"
)
"""A path or glob, a list of paths, an Arrow table or stream, a frame or a DuckDB relation; where a
schema derives people's rows, a mapping of the names of tables to such."""
Data: TypeAlias = "Source | npt.ArrayLike"
"""A table of people, or a histogram: counts of cells."""


CellsToBytes: TypeAlias = "Callable[[Iterable[IntArray]], bytes]"
"""Turns batches of cells into bytes, such as a file of added-up reports."""
Wanted: TypeAlias = "Sequence[tuple[tuple[str, ...], Measure]]"
"""Tables that are asked of an engine: a measure over the cells of some attributes each."""


class Counter(Protocol):
    """Reads a table of people: counts of marginal tables, or the cell of every row."""

    def tables(self, source: Source, domain: Domain, wanted: Wanted) -> list[IntArray]:
        """Exact tables, each a measure over cells of some attributes in C order; one pass."""

    def explain(self, source: Source, domain: Domain, wanted: Wanted) -> str:
        """What the engine would run to fill these tables."""

    def cells(self, source: Source, domain: Domain) -> Iterator[IntArray]:
        """The cell of every row, in batches and in the table's order."""

    def tallies(
        self, source: Source, domain: Domain, tally: CellsToBytes
    ) -> list[bytes]:
        """What `tally` makes of the cells of the rows, part by part, wherever the parts are."""

    def values(self, source: Source, column: str, unit: Unit | None) -> dict[str, int]:
        """Every text in a column and how many people hold it: as private as the table."""

    def explain_values(self, source: Source, column: str, unit: Unit | None) -> str:
        """What the engine would run to count who holds which text."""

    def rows_held(self, source: Source, unit: Unit) -> dict[int, int]:
        """How many people have so many rows: as private as the table."""

    def rows(self, source: Source, columns: Sequence[str]) -> Iterator[FloatArray]:
        """Batches of rows of the named columns, as numbers; what is no number is NaN."""


def is_histogram(data: Data) -> bool:
    """Whether `data` is counts of cells rather than a table of people."""
    return isinstance(data, np.ndarray) or (
        isinstance(data, list | tuple)
        and all(isinstance(value, int | np.integer) for value in data)
    )


def _checked_histogram(data: Data, sizes: tuple[int, ...]) -> IntArray:
    """Counts as a tensor over attributes, whole numbers of people; a refusal shows no count."""
    counts = np.asarray(data)
    if counts.shape not in ((prod(sizes),), sizes):
        raise InvalidParameter(
            "histogram",
            f"array of shape {counts.shape}",
            f"must have {prod(sizes)} cells, flat or with one axis per attribute {sizes}",
            "give one count per cell of the workload",
        )

    whole = np.issubdtype(counts.dtype, np.integer) or (
        np.issubdtype(counts.dtype, np.floating)
        and bool((counts == np.rint(counts)).all())
    )
    # Together, not only each: sums over cells must be exact as well.
    people = float(counts.sum(dtype=np.float64)) if whole else 0.0
    if not whole or (counts < 0).any() or not people < 2**53:
        rule = "must hold whole, non-negative numbers, fewer than 2^53 people in all"
        raise InvalidParameter("histogram", "array", rule, "count people per cell")

    return counts.astype(np.int64).reshape(sizes)


def _histogram_marginal(counts: IntArray, table: tuple[int, ...]) -> IntArray:
    """One marginal table of a histogram."""
    return np.asarray(sum_out(counts, counts.shape, table), dtype=np.int64)


def exact_counts(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> Counts:
    """The exact tables, as private as the data: from a histogram, or by the counting engine."""
    if plan.domain is not None:
        # its labels are published, whatever the data's form
        plan.domain.require_reviewed()

    stage("counting")
    if is_histogram(data):
        return _from_histogram(plan, data, tables)

    engine, domain, wanted = _counting_task(plan, data, counter, tables)
    filled = engine.tables(data, domain, wanted)
    return dict(zip(tables, filled, strict=True))


def counting_sql(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> str:
    """What the counting engine would run: nothing is counted or spent."""
    engine, domain, wanted = _counting_task(plan, data, counter, tables)
    return engine.explain(data, domain, wanted)


def _counting_task(
    plan: CentralPlan, data: Data, counter: Counter | None, tables: Sequence[Table]
) -> tuple[Counter, Domain, Wanted]:
    """The engine that counts for a plan, the plan's domain, and the tables by attributes' names."""
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
    """Marginal tables of a histogram, which knows neither sums nor whose rows it counts."""
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

    counts = _checked_histogram(data, plan.sizes)
    return {table: _histogram_marginal(counts, table.attributes) for table in tables}
