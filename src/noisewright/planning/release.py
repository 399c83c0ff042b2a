"""Private answers with their errors, and the record of what was spent on them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.files import alone_in, check_writable, write_table, write_text
from noisewright.workload import Identity, Prefix, Ranges, Workload
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

COLUMNS = ("table", "query", "answer", "std_error", "lower", "upper", "lower_all", "upper_all")
FORMATS = ("noisewright-release", "noisewright-estimate")


@dataclass(frozen=True)
class Axis:
    """One attribute of a released table: what its queries are, in the order of the answers."""

    name: str
    kind: Literal["value", "cumulative", "range", "query"]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ReleasedTable:
    """A named part of a release; its answers form a tensor over its axes, in C order."""

    name: str
    queries: int
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower and upper ends of intervals: for each answer by itself, and for all at once."""

    each: tuple[FloatArray, FloatArray]
    all: tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Release:
    """Answers in the order of the workload's queries.

    `lower` and `upper` cover each true answer with 95 % probability; `lower_all` and `upper_all`
    cover all of them at once. `metadata` says what was spent, by which law and from which plan.
    """

    answers: FloatArray
    std: FloatArray
    halfwidth: FloatArray
    simultaneous_halfwidth: FloatArray
    tables: tuple[ReleasedTable, ...]
    metadata: Mapping[str, Any]
    _labels: Any
    bounds: Bounds | None = None

    @cached_property
    def intervals(self) -> Bounds:
        """Ends of all intervals: around the answers, or as post-processing left them."""
        if self.bounds is not None:
            return self.bounds
        each, everywhere = self.halfwidth, self.simultaneous_halfwidth
        return Bounds(
            (self.answers - each, self.answers + each),
            (self.answers - everywhere, self.answers + everywhere),
        )

    @cached_property
    def labels(self) -> list[str]:
        """Every query in words."""
        return list(self._labels())

    def to_arrow(self) -> pa.Table:
        """The answers as an Arrow table."""
        import pyarrow as pa

        bounds = self.intervals
        names = np.repeat([t.name for t in self.tables], [t.queries for t in self.tables])
        columns = [
            pa.array(names, type=pa.string()).dictionary_encode(),
            pa.array(self.labels, type=pa.string()),
            *(_with_gaps(values) for values in (self.answers, self.std)),
            *(_with_gaps(end) for ends in (bounds.each, bounds.all) for end in ends),
        ]
        return pa.table(dict(zip(COLUMNS, columns, strict=True)))

    def to_pandas(self) -> pd.DataFrame:
        """The answers as a pandas frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The answers as a polars frame."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def write(self, path: str | Path) -> Path:
        """Write the answers (CSV, or Parquet by suffix) and `<path>.meta.json` beside them."""
        return write_answers(self.to_arrow(), self.metadata, Path(path))

    def __len__(self) -> int:
        return len(self.answers)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().head(20).to_html(index=False))


def metadata_path(path: str | Path) -> Path:
    """Where the record of what was spent on the answers at `path` is written."""
    target = Path(path)
    return target.with_name(target.name + ".meta.json")


def fresh_name() -> str:
    """A name for one spending of a budget, by which records tell it from a second one."""
    return secrets.token_hex(8)


def read_record(path: str | Path) -> list[dict[str, Any]]:
    """Every entry of the record at `path`, oldest first; none where there is no record yet.

    A file that is no record is refused: whatever it says would be lost by writing over it.
    """
    import msgspec

    target = Path(path)
    if not target.exists():
        return []
    try:
        latest = msgspec.json.decode(target.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        latest = None
    earlier = latest.pop("history", []) if isinstance(latest, dict) else None
    entries: list[Any] = [*earlier, latest] if isinstance(earlier, list) else [None]
    if not all(isinstance(entry, dict) and entry.get("format") in FORMATS for entry in entries):
        raise InvalidParameter(
            "output", str(path), "is no record of releases", "move it away, or choose another path"
        )
    return entries


def spendings(entries: Sequence[Mapping[str, Any]]) -> int:
    """How many times a budget was spent: entries of one release are one spending."""
    named = {entry["release"] for entry in entries if "release" in entry}
    return len(named) + sum("release" not in entry for entry in entries)


def term_axes(domain: Domain, term: Term) -> tuple[Axis, ...]:
    """The axes of a term that is a product of one workload per attribute; none otherwise."""
    kinds: dict[type[Workload], Literal["value", "cumulative", "range"]] = {
        Identity: "value",
        Prefix: "cumulative",
        Ranges: "range",
    }
    if term.factors is None or any(type(factor) not in kinds for factor in term.factors):
        return ()
    return tuple(
        Axis(domain.names[i], kinds[type(factor)], domain.attributes[i].labels)
        for i, factor in zip(term.attributes, term.factors, strict=True)
    )


def _with_gaps(values: FloatArray) -> Any:
    """Suppressed answers as missing values."""
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def write_answers(table: pa.Table, metadata: Mapping[str, Any], target: Path) -> Path:
    """Write a table (CSV, or Parquet by suffix) and the record of what it cost beside it.

    The record only grows, and is on the disk before a single answer is: whenever this is cut short,
    the record covers whatever answers are found, the old ones or the new.
    """
    beside = metadata_path(target)
    check_writable(target)
    check_writable(beside)
    with alone_in(beside.resolve().parent):
        _add_to_record(beside, metadata)
        write_table(target, table)
    return beside


def _add_to_record(path: Path, metadata: Mapping[str, Any]) -> None:
    """Write the record with this entry as its latest; the earlier ones are its history."""
    import msgspec

    latest = msgspec.json.decode(msgspec.json.encode(dict(metadata)))
    # The same answers written again are no news.
    history = [entry for entry in read_record(path) if entry != latest]
    document = {**latest, "history": history} if history else latest
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_text(path, encoded.decode() + "\n")
