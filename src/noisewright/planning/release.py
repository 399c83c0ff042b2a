"""Private answers with their errors, and the record of what was spent on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from noisewright.arrays import FloatArray
from noisewright.display import html_table, short_number
from noisewright.errors import InvalidParameter
from noisewright.files import (
    alone_in,
    check_table,
    check_writable,
    write_tables,
    write_text,
)
from noisewright.planning.files import Keepable
from noisewright.planning.plan import ReleasedTable, table_number
from noisewright.planning.spending import UNRECORDED, LedgerNote
from noisewright.planning.tidy import AnswerTable, TidyAnswers
from noisewright.workload.questions.statistics import Column

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from noisewright.planning.after.further import Further
    from noisewright.planning.after.synthetic import Synthetic
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.counting import Counter
    from noisewright.planning.local.plan import LocalPlan

KEPT = ".nwr"
_GLANCE = 20  # answers in a notebook
FORM = ("format", "version")
"""What a record says of its own form."""

FORMATS = ("noisewright-release", "noisewright-estimate", "noisewright-stream")


class Answers(Keepable):
    """What is kept and written of every release: its figures, and the record of what they cost."""

    if TYPE_CHECKING:

        @property
        def metadata(self) -> Mapping[str, object]:
            """What was spent and how: ready for JSON, nothing private in it."""

        @property
        def ledger(self) -> LedgerNote | None:
            """Where a ledger keeps what was spent; None without one."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The figures as an Arrow table."""

    def to_batches(self) -> Iterable[pa.Table]:
        """The same rows in parts."""
        return [self.to_arrow()]

    def to_pandas(self) -> pd.DataFrame:
        """The figures as a pandas frame."""
        return AnswerTable("answers", self.to_arrow()).to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The figures as a polars frame."""
        return AnswerTable("answers", self.to_arrow()).to_polars()

    def write(self, path: str | Path, *, excel: bool = False) -> Path:
        """Write the figures and the record of what they cost, `<path>.meta.json`, beside them.

        By suffix: Parquet, `.nwr` (the release itself, which `nw.load` gives back), or else CSV;
        with `excel`, a CSV file says that it is UTF-8 the way spreadsheets look for it.
        """
        target = Path(path)
        if _is_kept(target):
            return recorded(target, self.metadata, self.save)

        parts = self.to_batches()
        return recorded(
            target, self.metadata, lambda file: write_tables(file, parts, excel=excel)
        )

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, ready for JSON."""
        return dict(self.metadata)


@dataclass(frozen=True, eq=False)
class Release(Answers):
    """Private answers: a plan, what was measured once, and the steps taken after the noise.

    Everything else follows and is worked out once. `lower` and `upper` cover each true answer with
    95 % probability; `lower_all` and `upper_all` cover all of them at once. `metadata` says what
    was spent, by which law and from which plan. `identity` tells one spending of a budget from
    another; reports that people made private themselves have none. `time` is when the noise was
    drawn, or such reports were read. `ledger` says where that spending is recorded, if anywhere.
    """

    plan: CentralPlan | LocalPlan
    measurement: Any
    steps: tuple[Any, ...] = ()
    identity: str | None = None
    time: str | None = None
    ledger: LedgerNote | None = None

    @property
    def kind(self) -> str:
        """The kind of file that keeps releases of the plan."""
        return self.plan.release_kind or ""

    def equipped(self, counter: Counter | None) -> Self:
        """With a plan that counts tables by this engine."""
        return replace(self, plan=self.plan.equipped(counter))

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
        return list(self.plan.each_label())

    @cached_property
    def metadata(self) -> Mapping[str, object]:
        """What was spent and how, and what was done afterwards: ready for JSON."""
        named = {"release": self.identity, "time": self.time}
        recorded = UNRECORDED if self.ledger is None else self.ledger.to_dict()
        return {
            **self.plan.record(),
            **self.plan.outcome_record(self.measurement),
            **{name: text for name, text in named.items() if text is not None},
            **({} if self.identity is None else {"ledger": recorded}),
            "statement": self.statement(),
            **reduce(lambda before, step: step.told(self.plan, before), self.steps, {}),
        }

    def statement(self) -> dict[str, object]:
        """What is promised to whom, by which noise, and what was done since: ready for JSON.

        It is in the record beside answers as well, so that it travels with them.
        """
        from noisewright.planning.statement import statement

        return statement(self)

    def to_dp_accounting(self) -> Any:
        """What was spent as an event of dp-accounting, from which that library recovers ε."""
        return self.plan.spend.to_dp_accounting()

    def answer(self, queries: Further) -> Release:
        """Answers to further questions from the same measurement, at no cost.

        `queries` is a workload, or questions by name: `{"cdf": "age"}`, a list of such, YAML text
        or a path to it. Errors are as exact as those of the release; what the measurement does not
        determine is refused. Answers are unbiased: steps taken after the noise are not repeated.
        """
        from noisewright.planning.after.further import further_answers

        return further_answers(self, queries)

    @property
    def is_changed(self) -> bool:
        """Whether answers were changed after the noise, so that they need not be unbiased."""
        return self.plan.changes(self.steps)

    @cached_property
    def unbiased(self) -> Column:
        """The answers as they were measured, whatever was done to them since."""
        return (
            self.plan.unbiased(self.measurement, self.steps)
            if self.is_changed
            else self.intervals
        )

    @property
    def beside(self) -> Column | None:
        """Unbiased answers, where the release's own are others and such were measured."""
        return self.unbiased if self.is_changed and self.plan.tells_unbiased else None

    def to_arrow(self) -> pa.Table:
        """The answers as an Arrow table: one row per answer, one typed column per attribute.

        Where answers were changed after the noise, the unbiased ones stand beside them.
        """
        return self._tidy.whole(iter(self.labels))

    @property
    def _tidy(self) -> TidyAnswers:
        return TidyAnswers(self.tables, self.plan.domain, self.intervals, self.beside)

    def description(self) -> dict[str, object]:
        """What `noisewright show` says of it, with its tables."""
        record = dict(self.metadata)
        facts = {name: record.pop(name, None) for name in ("privacy", "spend")}
        facts["answers"] = len(self)

        tables = [
            {"name": t.name, "queries": t.queries, "unit": t.unit} for t in self.tables
        ]
        told = {n: value for n, value in record.items() if n not in FORM}

        return {**facts, **told, "tables": tables}

    def to_batches(self, rows: int = 2**16) -> Iterator[pa.Table]:
        """The same rows in parts, so that no more text than that of one part is ever held."""
        return self._tidy.parts(self.plan.each_label(), rows)

    def table(self, name: str) -> AnswerTable:
        """One table of the release by its name: `age × sex`, also as `sex*age`."""
        number = table_number(self.tables, name)
        start = sum(table.queries for table in self.tables[:number])

        chosen = self.tables[number]
        rows = slice(start, start + chosen.queries)
        unbiased = None if self.beside is None else self.beside.part(rows)
        column = self.intervals.part(rows)

        labels = self.labels[rows]
        answers = TidyAnswers((chosen,), self.plan.domain, column, unbiased)
        arrow = answers.whole(iter(labels))

        return AnswerTable(chosen.name, arrow, chosen.axes)

    def synthesise(self, count: int) -> Synthetic:
        """So many made-up people whose tables agree with this release: no further cost."""
        from noisewright.planning.after.synthetic import synthesise

        return synthesise(self, count)

    def to_mbi(self) -> list[Any]:
        """The noisy tables of counts as linear measurements of private-pgm (`mbi`)."""
        from noisewright.planning.after.synthetic import to_mbi

        return to_mbi(self)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return f"<Release: {len(self):,} answers in {len(self.tables):,} tables from {self.plan!r}>"

    def _repr_html_(self) -> str:
        """The first answers with their intervals, for a notebook."""
        first = self.intervals.part(slice(_GLANCE))
        values = zip(first.answers, first.std, *first.each, strict=True)
        rows = [
            (label, short_number(answer) or "left out", short_number(std),
             f"{short_number(low)} … {short_number(high)}")
            for label, (answer, std, low, high) in zip(self.labels[:_GLANCE], values, strict=True)
        ]  # fmt: skip

        heads = ("query", "answer", "std. error", "95 % interval")
        caption = (
            f"{len(self):,} answers in {len(self.tables):,} tables, "
            f"{self.plan.privacy.text()}"
        )
        more = len(self) - len(rows)

        return html_table(
            caption, heads, rows, f"and {more:,} more" if more > 0 else ""
        )


def metadata_path(path: str | Path) -> Path:
    """Where the record of what was spent on the answers at `path` is written."""
    target = Path(path)
    return target.with_name(target.name + ".meta.json")


def release_time() -> str:
    """The moment of a release, as records state it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_record(path: str | Path) -> list[dict[str, object]]:
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
    if not all(
        isinstance(entry, dict) and entry.get("format") in FORMATS for entry in entries
    ):
        raise InvalidParameter(
            "output",
            str(path),
            "is no record of releases",
            "move it away, or choose another path",
        )

    return entries


def count_spendings(entries: Sequence[Mapping[str, object]]) -> int:
    """How many times a budget was spent: entries of one release are one spending."""
    names = (str(entry["release"]) for entry in entries if "release" in entry)
    # combined releases have several
    named = {part for name in names for part in name.split("+")}
    return len(named) + sum("release" not in entry for entry in entries)


def _is_kept(path: str | Path) -> bool:
    """Whether a path is one of a release itself rather than of its answers."""
    return Path(path).suffix.lower() == KEPT


def kept_path(path: str | Path) -> Path:
    """Where the release behind the answers at `path` is kept."""
    return Path(path).with_suffix(KEPT)


def recorded(
    target: Path, metadata: Mapping[str, object], write: Callable[[Path], None]
) -> Path:
    """Write a file and the record of what it cost beside it.

    The record only grows, and is on the disk before a single answer is: whenever this is cut short,
    the record covers whatever answers are found, the old ones or the new.
    """
    beside = metadata_path(target)
    if not _is_kept(target):
        check_table(target)

    check_writable(target)
    check_writable(beside)

    with alone_in(beside.resolve().parent):
        _add_to_record(beside, metadata)
        write(target)

    return beside


def _add_to_record(path: Path, metadata: Mapping[str, object]) -> None:
    """Write the record with this entry as its latest; the earlier ones are its history."""
    import msgspec

    latest = msgspec.json.decode(msgspec.json.encode(dict(metadata)))
    # The same answers written again are no news.
    history = [entry for entry in read_record(path) if _news(entry) != _news(latest)]

    document = {**latest, "history": history} if history else latest
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_text(path, encoded.decode() + "\n")


def _news(entry: Mapping[str, object]) -> Mapping[str, object]:
    """What tells two entries apart: reports read again are the same ones, whenever that is."""
    return entry if "release" in entry else {**entry, "time": None}
