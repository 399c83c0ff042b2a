"""Facts of a record as a reader meets them: tiles, names with values, what was asked and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from noisewright import __version__
from noisewright.planning.facts import facts as known_facts
from noisewright.planning.plan import ReleasedTable
from noisewright.report.words.numbers import moment_in_words
from noisewright.report.words.queries import workload_in_words
from noisewright.workload import Workload
from noisewright.workload.questions.statistics import PEOPLE

Record: TypeAlias = Mapping[str, Any]
"""What a plan, a release or a ledger says of itself: plain values by name, ready for JSON."""


@dataclass(frozen=True)
class Tile:
    """A name, a figure and a note."""

    name: str
    value: str
    note: str


def asked_for(names: Sequence[str], most: int = 6) -> str:
    """What was asked, by name."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def tables_in_words(
    tables: Sequence[ReleasedTable], workload: Workload | None = None
) -> str:
    """How many tables there are, and what was asked: names where few, how many of a kind else."""
    count = len(tables)
    if workload is not None and not workload.statistics:
        return f"{tables[0].name}, {workload_in_words(workload)}"
    told = [table.name for table in tables]
    if count > _MOST_NAMES:
        kinds = Counter(map(_kind, tables))
        told = [number_with_noun(each, *kind) for kind, each in kinds.items()]

    return f"{number_with_noun(count, 'table')}: {', '.join(told)}"


def number_with_noun(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun, as it reads: 1 table, 2 tables."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def _kind(table: ReleasedTable) -> tuple[str, str]:
    """What a table is, alone and where there are several."""
    kinds = {axis.kind for axis in table.axes}
    if table.unit != PEOPLE:
        name = f"of {table.says.split(' of ')[0]}s"
        return f"table {name}", f"tables {name}"

    if "cumulative" in kinds:
        return "CDF", "CDFs"
    if "range" in kinds:
        return "table of ranges", "tables of ranges"
    if not table.axes:
        return "table of counts", "tables of counts"

    name = _WAYS.get(len(table.axes), f"{len(table.axes)}-way")
    return f"{name} table", f"{name} tables"


_WAYS = {1: "one-way", 2: "two-way", 3: "three-way"}
_MOST_NAMES = 8
"""Of tables in a sentence: more are told by how many there are of a kind."""


def facts(known: Record, names: Iterable[str]) -> list[tuple[str, str]]:
    """Those of a record's entries that are named, in their words; a mapping gives other words."""
    own = names if isinstance(names, Mapping) else {}
    told = {fact.name: fact for fact in known_facts(known)}
    shown = [told[name] for name in names if name in told]
    return [(own.get(each.name, each.words), each.text) for each in shown if each.text]


def provenance(known: Record, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where figures come from: times, names, hashes and the entry of the ledger."""
    time = known.get("time")
    told = {**known, "time": moment_in_words(str(time)) if time else time}
    return [*facts(told, names), *_ledger_facts(known.get("ledger"))]


def _ledger_facts(ledger: Record | str | None) -> list[tuple[str, str]]:
    if ledger is None:
        return []
    if isinstance(ledger, str):
        return [("ledger", ledger)]
    if not ledger.get("recorded"):
        return [("ledger", str(ledger.get("note", "not recorded")))]

    return [
        ("dataset", _dataset_of(ledger)),
        ("entry of the ledger", f"{ledger['entry']} of {ledger['ledger']}"),
        ("hash of all entries up to it", str(ledger["hash"])),
        ("how spends add up", str(ledger["rule"])),
    ]


def _dataset_of(ledger: Record | str | None) -> str:
    """The dataset that a ledger's note names, with its version; empty without one."""
    if not isinstance(ledger, Mapping) or not ledger.get("dataset"):
        return ""
    version = ledger.get("version")
    return f"{ledger['dataset']}, version {version}" if version else ledger["dataset"]


def byline(known: Record, made: str = "released on") -> str:
    """Of what, when and by which version, on one line; plans have no time but that of the page."""
    dataset = _dataset_of(known.get("ledger"))
    version = known.get("version", __version__)
    now = datetime.now(UTC).isoformat()
    drawn = f"page drawn on {moment_in_words(now)}"
    if time := known.get("time"):
        drawn = f"{made} {moment_in_words(str(time))}"

    told = [dataset, drawn, f"noisewright\u00a0{version}"]
    return " · ".join(filter(None, told))
