"""Private answers with their errors, and the record of what was spent on them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.files import alone_in, check_writable, write_table, write_text
from noisewright.planning.plan import ReleasedTable
from noisewright.workload.base import FloatArray
from noisewright.workload.statistics import Column

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

COLUMNS = ("table", "query", "answer", "std_error", "lower", "upper", "lower_all", "upper_all")
FORMATS = ("noisewright-release", "noisewright-estimate")


class Releasing(Protocol):
    """What a release needs of the plan that it was made by."""

    def labels(self) -> list[str]:
        """Every answer in words."""

    def tables(self) -> tuple[ReleasedTable, ...]:
        """The named parts of the answers."""

    def outcome(self, measurement: Any, steps: Any) -> Column:
        """What a measurement says, after the steps taken."""

    def record(self) -> dict[str, Any]:
        """What an execution of the plan spends and how, ready for JSON."""

    def outcome_record(self, measurement: Any) -> dict[str, Any]:
        """What a measurement adds to that."""


@dataclass(frozen=True, eq=False)
class Release:
    """Private answers: a plan, what was measured once, and the steps taken after the noise.

    Everything else follows and is worked out once. `lower` and `upper` cover each true answer with
    95 % probability; `lower_all` and `upper_all` cover all of them at once. `metadata` says what
    was spent, by which law and from which plan. `identity` tells one spending of a budget from
    another; reports that people made private themselves have none.
    """

    plan: Releasing
    measurement: Any
    steps: tuple[Any, ...] = ()
    identity: str | None = None
    time: str | None = None

    @cached_property
    def intervals(self) -> Column:
        """Answers, standard errors and the ends of all intervals."""
        return self.plan.outcome(self.measurement, self.steps)

    @property
    def answers(self) -> FloatArray:
        """Answers in the order of the labels; NaN where left out."""
        return self.intervals.answers

    @property
    def std(self) -> FloatArray:
        """Standard errors; NaN where there is none to state."""
        return self.intervals.std

    @property
    def halfwidth(self) -> FloatArray:
        """Half the length of the interval of each answer."""
        lower, upper = self.intervals.each
        return (upper - lower) / 2

    @property
    def simultaneous_halfwidth(self) -> FloatArray:
        """Half the length of the intervals that hold all at once."""
        lower, upper = self.intervals.all
        return (upper - lower) / 2

    @cached_property
    def tables(self) -> tuple[ReleasedTable, ...]:
        """The named parts of the answers."""
        return self.plan.tables()

    @cached_property
    def labels(self) -> list[str]:
        """Every answer in words."""
        return self.plan.labels()

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """What was spent and how, and what was done afterwards: ready for JSON."""
        named = {"release": self.identity, "time": self.time}
        return {
            **self.plan.record(),
            **self.plan.outcome_record(self.measurement),
            **{name: text for name, text in named.items() if text is not None},
            **reduce(lambda before, step: step.told(self.plan, before), self.steps, {}),
        }

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

    def save(self, path: str | Path) -> None:
        """Write the release, whole or not at all; `nw.load` gives it back."""
        from noisewright.planning.plan_files import save

        save(self, path)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return f"<Release: {len(self):,} answers in {len(self.tables):,} tables from {self.plan!r}>"

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


def spendings(entries: Sequence[Mapping[str, object]]) -> int:
    """How many times a budget was spent: entries of one release are one spending."""
    named = {entry["release"] for entry in entries if "release" in entry}
    return len(named) + sum("release" not in entry for entry in entries)


def _with_gaps(values: FloatArray) -> pa.Array:
    """Suppressed answers as missing values."""
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def write_answers(table: pa.Table, metadata: Mapping[str, object], target: Path) -> Path:
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


def _add_to_record(path: Path, metadata: Mapping[str, object]) -> None:
    """Write the record with this entry as its latest; the earlier ones are its history."""
    import msgspec

    latest = msgspec.json.decode(msgspec.json.encode(dict(metadata)))
    # The same answers written again are no news.
    history = [entry for entry in read_record(path) if entry != latest]
    document = {**latest, "history": history} if history else latest
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_text(path, encoded.decode() + "\n")
