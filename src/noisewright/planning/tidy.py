"""Answers as tidy tables: one row per answer, one typed column per attribute.

Numbers and dates are given by the bounds of their cells (`age_from`, `age_to`), categories by their
values, truths as truths. A missing value in such a column means that the answer is not about the
attribute, or about people outside its declared cells; the text of the query tells which.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.display import short_number
from noisewright.domain import Boolean, Categorical, Domain
from noisewright.domain.attribute import Attribute
from noisewright.domain.ordered import Ordered
from noisewright.errors import InvalidParameter, require
from noisewright.files import write_table
from noisewright.planning.plan import ReleasedTable
from noisewright.workload.kinds.atoms import Ranges
from noisewright.workload.questions.statistics import Column
from noisewright.workload.questions.table_axes import Axis

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

FIGURES = ("answer", "std_error", "lower", "upper", "lower_all", "upper_all")
UNBIASED = ("unbiased", "unbiased_std_error")
_OWN = ("table", "statistic", "quantile", "query", *FIGURES, *UNBIASED)
_MOST_ENTRIES = 2**26
"""Rows × columns of attributes that are spelt out in one table; parts have them all."""


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers as a frame of any library; `pivot` spreads one attribute over the columns."""

    name: str
    arrow: pa.Table
    axes: tuple[Axis, ...] = ()

    def to_arrow(self) -> pa.Table:
        """The answers as an Arrow table."""
        return self.arrow

    def to_pandas(self) -> pd.DataFrame:
        """The answers as a pandas frame."""
        frame: pd.DataFrame = self.arrow.to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The answers as a polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.arrow)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def write(self, path: str | Path, *, excel: bool = False) -> None:
        """Write the table alone: CSV, or Parquet by suffix. Releases keep their own record."""
        write_table(path, self.arrow, excel=excel)

    def pivot(self, across: str | None = None, values: str = "answer") -> AnswerTable:
        """One column per value of `across` (by default the last attribute), filled with `values`.

        `values` is any column of figures: answer, std_error, lower, upper, …
        """
        import pyarrow as pa

        if len(self.axes) < 1 or values not in (*FIGURES, *UNBIASED):
            rule = "must be a column of figures in a table over attributes"
            raise InvalidParameter(
                "values", values, rule, f"choose one of {', '.join(FIGURES)}"
            )

        names = [axis.name for axis in self.axes]
        require(
            across is None or across in names,
            "across",
            across,
            "is no attribute of the table",
            f"choose one of {names}",
        )

        place = len(names) - 1 if across is None else names.index(across)

        lengths = [_axis_length(axis) for axis in self.axes]
        rows = np.moveaxis(np.arange(prod(lengths)).reshape(lengths), place, -1)
        rows = rows.reshape(-1, lengths[place])

        kept = [
            n for n in self.arrow.column_names if n not in (*_OWN, *self._spread(place))
        ]
        columns = {name: self.arrow[name].take(pa.array(rows[:, 0])) for name in kept}

        for label, chosen in zip(_axis_labels(self.axes[place]), rows.T, strict=True):
            columns[label if label not in columns else f"{names[place]} {label}"] = (
                self.arrow[values].take(pa.array(chosen))
            )

        return AnswerTable(self.name, pa.table(columns))

    def _spread(self, place: int) -> tuple[str, ...]:
        name = _free(self.axes[place].name)
        return name, f"{name}_from", f"{name}_to"

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __repr__(self) -> str:
        return f"<AnswerTable {self.name!r}: {len(self):,} rows>"

    def _repr_html_(self) -> str:
        kept = [
            name
            for name in self.arrow.column_names
            if name not in ("table", "statistic")
        ]
        frame = self.to_pandas()[kept].head(40)
        return str(frame.to_html(index=False, float_format=short_number, na_rep=""))


def _axis_labels(axis: Axis) -> list[str]:
    """What every answer along an axis is about, short."""
    if axis.kind == "cumulative":
        return [f"up to {label}" for label in axis.labels]
    if axis.kind == "range":
        return [f"{axis.labels[a]} to {axis.labels[b]}" for a, b in _spans(axis)]
    return list(axis.labels)


def _axis_length(axis: Axis) -> int:
    """How many answers there are along an axis."""
    count = len(axis.labels)
    return count * (count + 1) // 2 if axis.kind == "range" else count


@dataclass(frozen=True, eq=False)
class TidyAnswers:
    """All answers as one table, or as parts of it; `unbiased` where `column` was changed since."""

    tables: Sequence[ReleasedTable]
    domain: Domain | None
    column: Column
    unbiased: Column | None = None

    def whole(self, labels: Iterator[str]) -> pa.Table:
        """One table; attributes are spelt out where that is not too much to hold."""
        small = len(self._kinds) * self._ends[-1] <= _MOST_ENTRIES
        return self._part(0, self._ends[-1], labels, self._kinds if small else {})

    def parts(self, labels: Iterator[str], rows: int) -> Iterator[pa.Table]:
        """So many rows at a time, in order, all with the same columns."""
        for start in range(0, self._ends[-1], rows):
            yield self._part(
                start, min(start + rows, self._ends[-1]), labels, self._kinds
            )

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *accumulate(table.queries for table in self.tables)]

    @cached_property
    def _typed(self) -> list[list[dict[str, pa.Array]]]:
        """The columns of every axis of every table."""
        domain = self.domain
        if domain is None:
            return [[] for _ in self.tables]
        return [[_typed(domain, axis) for axis in table.axes] for table in self.tables]

    @cached_property
    def _kinds(self) -> dict[str, pa.DataType]:
        """The columns of attributes, in order, and their types."""
        kinds = {
            n: a.type
            for table in self._typed
            for axis in table
            for n, a in axis.items()
        }
        if self.domain is None:
            return kinds

        return {name: kinds[name] for name in _in_order(kinds, self.domain)}

    def _part(
        self,
        start: int,
        stop: int,
        labels: Iterator[str],
        kinds: Mapping[str, pa.DataType],
    ) -> pa.Table:
        import pyarrow as pa

        rows = slice(start, stop)
        column = self.column.part(rows)
        unbiased = None if self.unbiased is None else self.unbiased.part(rows)

        figures = (column.answers, column.std, *column.each, *column.all)
        beside = () if unbiased is None else (unbiased.answers, unbiased.std)
        spans = self._spans(start, stop)

        return pa.table(
            {
                "table": _repeated(spans, [table.name for table in self.tables]),
                "statistic": _repeated(spans, [table.says for table in self.tables]),
                **self._attributes(spans, kinds),
                "query": pa.array(
                    islice(labels, stop - start), pa.string(), size=stop - start
                ),
                **{n: _with_gaps(v) for n, v in zip(FIGURES, figures, strict=True)},
                **{n: _with_gaps(v) for n, v in zip(UNBIASED, beside, strict=False)},
            }
        )

    def _spans(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Which rows of which tables lie between two rows of all."""
        first = bisect_right(self._ends, start) - 1
        last = bisect_left(self._ends, stop)
        numbers = range(first, min(last, len(self.tables)))

        return [
            (
                k,
                max(start, self._ends[k]) - self._ends[k],
                min(stop, self._ends[k + 1]) - self._ends[k],
            )
            for k in numbers
        ]

    def _attributes(
        self, spans: Sequence[tuple[int, int, int]], kinds: Mapping[str, pa.DataType]
    ) -> dict[str, pa.ChunkedArray]:
        """One typed column (two for ordered attributes) per attribute that a table is over."""
        import pyarrow as pa

        chunks: dict[str, list[pa.Array]] = {name: [] for name in kinds}
        for number, first, last in spans:
            own: dict[str, pa.Array] = {}
            shape = [_axis_length(axis) for axis in self.tables[number].axes]
            places = np.unravel_index(np.arange(first, last), shape) if shape else ()
            for place, axis in zip(places, self._typed[number], strict=False):
                own |= {
                    n: a.take(pa.array(place)) for n, a in axis.items() if n in kinds
                }
            for name, parts in chunks.items():
                parts.append(
                    own[name] if name in own else pa.nulls(last - first, kinds[name])
                )

        return {
            name: pa.chunked_array(parts, kinds[name]) for name, parts in chunks.items()
        }


def _repeated(spans: Sequence[tuple[int, int, int]], names: Sequence[str]) -> pa.Array:
    """A name for every row of its table; all parts have the same dictionary."""
    import pyarrow as pa

    words = list(dict.fromkeys(names))
    codes = [words.index(names[number]) for number, _, _ in spans]
    indices = np.repeat(
        np.array(codes, dtype=np.int32), [last - first for _, first, last in spans]
    )

    return pa.DictionaryArray.from_arrays(
        pa.array(indices), pa.array(words, pa.string())
    )


def _with_gaps(values: FloatArray) -> pa.Array:
    """What is left out or unknown as missing values."""
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def _in_order(names: Mapping[str, object], domain: Domain) -> list[str]:
    """Columns in the order of the schema, levels behind their attribute, quantiles last."""
    order: list[str] = []
    for attribute in domain:
        for name in (attribute.name, *(level.name for level in attribute.coarser)):
            free = _free(name)
            order += [n for n in (free, f"{free}_from", f"{free}_to") if n in names]
    return list(dict.fromkeys([*order, *names]))


def _free(name: str) -> str:
    return f"{name}_" if name in _OWN else name


def _typed(domain: Domain, axis: Axis) -> dict[str, pa.Array]:
    """The columns of one axis, with one value per answer along it."""
    import pyarrow as pa

    if axis.kind == "query":
        return {"quantile": pa.array([float(label) for label in axis.labels])}

    position, level = domain.find(axis.name)
    attribute: Attribute = domain.attributes[position]
    name = _free(axis.name)

    if level is not None:
        return {name: pa.array(level.labels, pa.string())}
    if isinstance(attribute, Ordered):
        return _bounds(name, attribute, axis)

    if isinstance(attribute, Boolean):
        values: Sequence[object] = [
            attribute.representative(k) for k in range(attribute.size)
        ]
        return {name: pa.array(values, pa.bool_())}

    assert isinstance(attribute, Categorical)
    whole = attribute.storage == "number" and not attribute.has_other
    return {name: pa.array(attribute.values if whole else attribute.labels)}


def _bounds(name: str, attribute: Ordered, axis: Axis) -> dict[str, pa.Array]:
    """The first and last value of every cell, or of every run of cells, along an axis."""
    import pyarrow as pa

    cells: list[tuple[Any, Any]] = [*attribute.spans]
    # people without a declared cell
    cells += [(None, None)] * (attribute.size - len(cells))
    if axis.kind == "cumulative":
        ends = [(cells[0][0] if last is not None else None, last) for _, last in cells]
    elif axis.kind == "range":
        runs = [(cells[a], cells[b]) for a, b in _spans(axis)]
        ends = [(a[0] if b[1] is not None else None, b[1]) for a, b in runs]
    else:
        ends = cells

    first, last = zip(*ends, strict=True)
    return {f"{name}_from": pa.array(first), f"{name}_to": pa.array(last)}


def _spans(axis: Axis) -> list[tuple[int, int]]:
    ranges = Ranges(len(axis.labels))
    return [ranges.span(row) for row in range(ranges.queries)]
