"""What a collector keeps of reports: whole-number statistics that add, and what was set aside.

Nothing about a single report survives, sums are exact, and merging is addition: in any order and
any grouping, parts give what the whole would have given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from noisewright.arrays import Array, BoolArray, ByteArray, IntArray
from noisewright.container import Header, decode, encode, write
from noisewright.display import Shown
from noisewright.errors import FileFormatError, require
from noisewright.local.reports.exchange import as_arrow, report_batches, rows_of_length
from noisewright.local.reports.format import HEADER, VERSION, ReportFormat
from noisewright.local.reports.tally import exact_sum
from noisewright.local.storage import whole_number
from noisewright.privacy.noise.source import ByteSource, uniform_integers

if TYPE_CHECKING:
    import pyarrow as pa

REASONS = ("malformed", "foreign", "out_of_range", "outlier")
"""Why a report is set aside: no report at all, another plan's, not possible, hardly possible."""

_REMEDY = "collect the reports again"
# closer in, honest reports would be set aside often enough to bias answers
_LEAST_CAP = 4


class AggregateHeader(Header, frozen=True, tag="aggregate"):
    """A file of statistics."""

    plan: str
    cap: float | None
    set_aside: dict[str, Annotated[int, Meta(ge=0, le=1 << 62)]]
    round: Annotated[str, Meta(min_length=1, max_length=100)] | None
    people: IntArray
    tally: IntArray


def _sum_of(first: IntArray, second: IntArray) -> IntArray:
    """Statistics of both; sums that 64 bits do not hold are refused."""
    return exact_sum(np.stack([first, second]))


@dataclass(eq=False)
class Aggregate(Shown):
    """Statistics of the reports of one plan.

    With `groups` above one, each report goes to a group drawn at random, for estimates that a few
    poisoned reports cannot move. With `cap`, reports further than so many standard deviations from
    what honest clients send are set aside, where the strategy's reports have such a scale. Both
    must be the same in aggregates that are merged. `round` names the round of a campaign that asks
    the same people again: aggregates of different rounds are not of different people.
    """

    format: ReportFormat
    groups: int = 1
    cap: float | None = None
    round: str | None = None
    tally: IntArray = field(init=False)
    group_people: IntArray = field(init=False)
    set_aside: dict[str, int] = field(
        init=False, default_factory=lambda: dict.fromkeys(REASONS, 0)
    )

    def __post_init__(self) -> None:
        groups = whole_number("groups", self.groups, 1)
        if self.cap is not None:
            self._check_cap(self.cap)

        counters = self.format.collector.counters
        self.tally = np.zeros((groups, counters), dtype=np.int64)
        self.group_people = np.zeros(groups, dtype=np.int64)

    def _check_cap(self, cap: float) -> None:
        """Refuse caps that set honest reports aside, or none at all."""
        require(
            cap >= _LEAST_CAP,
            "cap",
            cap,
            f"must be >= {_LEAST_CAP} standard deviations",
            "try 6",
        )

        kind = self.format.strategy.kind
        require(
            self.format.collector.can_set_aside(cap),
            "cap",
            cap,
            f"can do nothing: no report of {kind} can lie so far out",
            "leave it out; a liar's report counts no more than an honest one here",
        )

    def copy(self) -> Aggregate:
        """The same statistics, which later reports do not change."""
        return self._with(self.round, self.tally, self.group_people, self.set_aside)

    def _with(
        self,
        round: str | None,
        tally: IntArray,
        group_people: IntArray,
        set_aside: Mapping[str, int],
    ) -> Aggregate:
        """Other statistics, collected in the same way."""
        result = Aggregate(self.format, self.groups, self.cap, round)
        result.tally = tally.copy()
        result.group_people = group_people.copy()
        result.set_aside = dict(set_aside)
        return result

    def _facts(self) -> list[tuple[str, str]]:
        aside = sum(self.set_aside.values())
        return [
            ("plan", self.format.name),
            ("people", f"{self.people:,}"),
            ("set aside", f"{aside:,}"),
        ]

    @property
    def people(self) -> int:
        """Number of reports that count."""
        return int(exact_sum(self.group_people))

    @property
    def total(self) -> IntArray:
        """Statistics of all reports that count."""
        return exact_sum(self.tally)

    # --- reports in ---------------------------------------------------------------------------

    def add(self, reports: object, source: ByteSource | None = None) -> Aggregate:
        """Add reports: an array as `randomize` or a client gives it, bytes, a file, a column, …

        What is malformed, of another plan or not possible is counted in `set_aside`.
        """
        length = self.format.length
        match reports:
            case np.ndarray(dtype=np.uint8) if reports.shape[1:] == (length,):
                self._add_bytes(as_arrow(reports), source)
                return self
            case np.ndarray(dtype=np.dtype(kind="i" | "u")):
                self._add_numbers(reports, source)
                return self
            case np.ndarray():
                reports = reports.tolist()

        for batch in report_batches(reports, length):
            self._add_bytes(batch, source)

        return self

    def _add(self, group: int, tally: IntArray, people: int) -> None:
        """Add statistics to those of a group, all or nothing."""
        total = _sum_of(self.tally[group], tally)
        count = exact_sum(np.array([self.group_people[group], people]))
        self.tally[group] = total
        self.group_people[group] = count

    def _add_bytes(self, batch: pa.Array, source: ByteSource | None) -> None:
        rows = rows_of_length(batch, self.format.length)
        known, foreign = self._told_apart(rows)
        if len(rows) < len(batch):
            foreign += self._foreign_of_other_length(batch)
        if not known.all():
            rows = rows[known]

        self.set_aside["foreign"] += foreign
        self.set_aside["malformed"] += len(batch) - foreign - len(rows)
        self._count(self.format.decode(rows), source)

    def _told_apart(self, rows: ByteArray) -> tuple[BoolArray, int]:
        """Which rows begin with the plan's header, and how many with another plan's."""
        header = np.frombuffer(self.format.header, dtype=np.uint8)
        known = (rows[:, :HEADER] == header).all(axis=1)
        marked = rows[:, 0] == VERSION
        return known, int((marked & ~known).sum())

    def _foreign_of_other_length(self, batch: pa.Array) -> int:
        """Reports of other plans among entries that cannot be reports of this one."""
        import pyarrow.compute as pc

        lengths = pc.binary_length(batch)
        others = batch.filter(pc.not_equal(lengths, self.format.length))
        headers = rows_of_length(pc.binary_slice(others, 0, HEADER), HEADER)
        _, foreign = self._told_apart(headers)

        return foreign

    def _add_numbers(self, reports: Array, source: ByteSource | None) -> None:
        layout = self.format.layout
        count = len(reports) if reports.ndim else 0
        require(
            reports.shape == layout.shape(count),
            "reports",
            f"array of shape {reports.shape}",
            f"must have shape {('N', *layout.shape(1)[1:])}",
            "give the array that randomize returned",
        )

        info = np.iinfo(layout.dtype)
        within = np.asarray((reports >= info.min) & (reports <= info.max))
        fits = np.asarray(within.reshape(count, layout.width).all(axis=1))
        kept = self._kept(reports, fits, "out_of_range")
        self._count(kept.astype(layout.dtype), source)

    def _kept(self, reports: Array, fits: BoolArray, reason: str) -> Array:
        """The reports that fit; the others are set aside."""
        self.set_aside[reason] += int((~fits).sum())
        return reports[fits]

    def _count(self, reports: Array, source: ByteSource | None) -> None:
        collector = self.format.collector
        reports = self._kept(reports, collector.valid(reports), "out_of_range")
        if self.cap is not None:
            plausible = collector.plausible(reports, self.cap)
            reports = self._kept(reports, plausible, "outlier")

        if not len(reports):
            return

        parts = [reports]
        if self.groups > 1:
            groups = uniform_integers(self.groups, len(reports), source)
            parts = [reports[groups == group] for group in range(self.groups)]

        for group, part in enumerate(parts):
            if len(part):
                self._add(group, collector.tally(part), len(part))

    # --- together -----------------------------------------------------------------------------

    def merge(self, other: Aggregate, *, different_people: bool = False) -> Aggregate:
        """The aggregate of both sets of reports, as a new one.

        Rounds of a campaign ask the same people again, who would be counted twice: they are merged
        only where the caller knows that these are `different_people`.
        """
        self.format.check_same(other.format.name)
        require(
            (other.groups, other.cap) == (self.groups, self.cap),
            "aggregate",
            other.groups,
            "was made with other robust options",
        )
        require(
            other.round == self.round or different_people,
            "round",
            other.round,
            f"is not {self.round}: the same people may be in both, and would be counted twice",
            "estimate each round, or say that they are different people",
        )

        both = self.round if other.round == self.round else None
        tally = _sum_of(self.tally, other.tally)
        people = _sum_of(self.group_people, other.group_people)
        aside = Counter(self.set_aside)
        aside.update(other.set_aside)

        return self._with(both, tally, people, aside)

    @property
    def _header(self) -> AggregateHeader:
        return AggregateHeader(
            plan=self.format.name,
            cap=self.cap,
            set_aside=dict(self.set_aside),
            round=self.round,
            people=self.group_people,
            tally=self.tally,
        )

    def to_bytes(self) -> bytes:
        """The aggregate as the content of a file."""
        return encode(self._header)

    @classmethod
    def from_bytes(cls, content: bytes, format: ReportFormat) -> Aggregate:
        """Read an aggregate of the plan that `format` belongs to."""
        header = decode(content, AggregateHeader, "the aggregate", _REMEDY)
        format.check_same(header.plan)
        people = header.people
        tally = header.tally
        fits = (
            people.ndim == 1
            and tally.shape == (len(people), format.collector.counters)
            and set(header.set_aside) == set(REASONS)
            and people.min(initial=0) >= 0
        )
        if not fits:
            raise FileFormatError(f"the aggregate does not fit its plan; {_REMEDY}")

        counts = zip(tally, people.tolist(), strict=True)
        if not all(format.collector.possible(*group) for group in counts):
            raise FileFormatError(f"the aggregate does not fit its plan; {_REMEDY}")

        plain = cls(format, len(people), header.cap)
        return plain._with(header.round, tally, people, header.set_aside)

    def save(self, path: str | Path) -> None:
        """Write the aggregate, whole or not at all."""
        write(path, self._header)
