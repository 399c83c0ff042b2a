"""What the entries of a ledger say: accounts of datasets, worked out anew from all of them.

A *checkpoint* names an entry and the hash of everything up to it. A ledger that lost its tail, was
put back from an older copy or was written anew does not hold that entry, or holds another there.
Kept elsewhere, a checkpoint shows what the ledger alone cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.ledger.entries import (
    Committed,
    Created,
    LedgerEntry,
    Line,
    Opened,
    Reserved,
    check_noise,
    checked_entries,
    no_ledger,
)
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import Amounts
from noisewright.privacy.promise.spend import Spend


@dataclass
class Spent:
    """A release and what it cost."""

    number: int
    reserved: Reserved
    used: Amounts
    committed: Committed | None = None


@dataclass
class Account:
    """A dataset: its budget, and every release that took from it."""

    created: Created
    releases: list[Spent] = field(default_factory=list)
    used_by_group: dict[str, Amounts] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.created.dataset

    @cached_property
    def privacy(self) -> Privacy:
        """The budget as a promise."""
        return self.created.privacy

    def touched(self, group: str) -> tuple[str, ...]:
        """The groups that a release reads: its own, or all, and "" for people in none."""
        return (group,) if group else (*self.created.groups, "")

    def used_of(self, group: str) -> Amounts:
        """What those in a group have spent: on it, and on the whole dataset."""
        return self.used_by_group.get(group, Amounts())

    @property
    def most_used(self) -> str:
        """The group whose people have the least left: nobody is in two."""
        limits = self.created.limits
        return max(
            self.touched(""), key=lambda group: limits.share(self.used_of(group))
        )

    @property
    def used(self) -> Amounts:
        """What is used of the budget of whoever has the least left."""
        return self.used_of(self.most_used)

    @property
    def spend(self) -> Spend:
        """All losses so far of whoever has the least left."""
        reservations = [
            s.reserved
            for s in self.releases
            if s.reserved.group in ("", self.most_used)
        ]
        losses = [loss for reserved in reservations for loss in reserved.spend.losses]
        return Spend(self.privacy.neighbours, tuple(losses))

    def earlier(self, plan: str, version: str, group: str) -> Spent | None:
        """The latest release of the same plan from the same declared version and group."""
        for spent in reversed(self.releases):
            reserved = spent.reserved
            if (reserved.plan, reserved.version, reserved.group) == (
                plan,
                version,
                group,
            ):
                return spent
        return None

    def refusing(self, spend: Spend, group: str) -> str | None:
        """The group whose people have too little left for a release; None where it fits."""
        limits = self.created.limits
        for touched in self.touched(group):
            if limits.used_by(spend, self.used_of(touched)) is None:
                return touched
        return None

    def add(self, number: int, entry: Reserved) -> bool:
        """Take a release from the budget of all whom it reads; False where it does not fit."""
        if (
            entry.group not in self.touched("")
            or self.refusing(entry.spend, entry.group) is not None
        ):
            return False

        taken = Amounts()
        for group in self.touched(entry.group):
            before = self.used_of(group)
            after = self.created.limits.used_by(entry.spend, before)
            assert after is not None
            self.used_by_group[group] = after
            group_amounts = Amounts(
                *(a - b for a, b in zip(after, before, strict=True))
            )
            taken = max(taken, group_amounts, key=self.created.limits.share)

        self.releases.append(Spent(number, entry, taken))
        return True


def may_share_budget(groups: tuple[str, ...], budget: Privacy) -> bool:
    """Whether groups may share one budget: different names, and no neighbour is in two of them.

    A person who is replaced by another could leave one group for another.
    """
    sound = len(set(groups)) == len(groups) and not any("/" in name for name in groups)
    return not groups or (sound and budget.neighbours == "add-remove")


class History:
    """The entries of a ledger, checked and added up."""

    def __init__(self, lines: Iterable[Line], where: str) -> None:
        self.where = where
        self.last: Line | None = None
        self.time = ""
        self.opened: Opened | None = None
        self.accounts: dict[str, Account] = {}
        self.entries: list[tuple[Line, LedgerEntry]] = []
        self._releases: dict[str, Spent] = {}

        for line, entry in checked_entries(lines, where):
            self._add(line, entry)

        if self.opened is None:
            raise no_ledger(where)

    @property
    def identity(self) -> str:
        """Which ledger this is."""
        assert self.opened is not None
        return self.opened.ledger

    def account(self, dataset: str) -> Account:
        """The account of a dataset, or an error that names those there are."""
        if dataset not in self.accounts:
            known = ", ".join(sorted(self.accounts)) or "none yet"
            raise InvalidParameter(
                "dataset",
                dataset,
                "is not in this ledger",
                f"it holds: {known}; nothing was spent",
            )
        return self.accounts[dataset]

    def part(self, dataset: str) -> tuple[Account, str]:
        """The account and the group that NAME or NAME/GROUP means; "" is all of the dataset."""
        name, slash, group = dataset.rpartition("/")
        if dataset in self.accounts or not slash or name not in self.accounts:
            return self.account(dataset), ""

        account = self.accounts[name]
        if group not in account.created.groups:
            known = ", ".join(account.created.groups) or "it was created without any"
            raise InvalidParameter("dataset", dataset, "has no such group", f"{known}")

        return account, group

    def release(self, identity: str) -> Spent | None:
        """A release by the name of its spending."""
        return self._releases.get(identity)

    def checkpoint(self) -> dict[str, object]:
        """The latest entry, to be kept elsewhere."""
        assert self.last is not None
        return {
            "format": CHECKPOINT,
            "ledger": self.identity,
            "entry": self.last.number,
            "hash": self.last.hash,
            "time": self.time,
            "datasets": {
                name: len(account.releases) for name, account in self.accounts.items()
            },
        }

    def check_goes_on_from(self, point: Checkpoint, file: str | Path) -> None:
        """Refuse a ledger that does not hold the entry that a file knows."""
        if point.ledger != self.identity:
            raise FileFormatError(f"{file}: is of another ledger ({point.ledger[:16]})")

        if not 0 < point.entry <= len(self.entries):
            raise FileFormatError(
                f"{self.where}: ends at entry {len(self.entries)}, and {file} knows entry"
                f" {point.entry}: its tail was lost or an older copy was put back; do not spend"
                " from it: put back the latest copy"
            )
        if self.entries[point.entry - 1][0].hash != point.hash:
            raise FileFormatError(
                f"{self.where}: entry {point.entry} is not the one that {file} knows: the ledger"
                " was written anew after an older copy was put back; do not spend from it"
            )

    def _add(self, line: Line, entry: LedgerEntry) -> None:
        if isinstance(entry, Opened):
            self.opened = entry
        elif isinstance(entry, Created):
            kept = entry.limits.keep(entry.privacy) and may_share_budget(
                entry.groups, entry.privacy
            )
            self._require(kept and entry.dataset not in self.accounts, line)
            self.accounts[entry.dataset] = Account(entry)
        elif isinstance(entry, Reserved):
            self._require(entry.dataset in self.accounts, line)
            account = self.accounts[entry.dataset]
            sound = entry.spend.neighbours == account.privacy.neighbours
            sound = sound and account.created.covers(entry.unit)
            sound = sound and entry.release not in self._releases
            self._require(sound and check_noise(entry.spend, entry.noise), line)
            self._require(account.add(line.number, entry), line)
            self._releases[entry.release] = account.releases[-1]
        else:
            spent = self._releases.get(entry.release)
            self._require(spent is not None and spent.committed is None, line)
            assert spent is not None
            spent.committed = entry

        self._require(entry.time >= self.time, line)
        self.last, self.time = line, entry.time
        self.entries.append((line, entry))

    def _require(self, sound: bool, line: Line) -> None:
        if not sound:
            raise FileFormatError(
                f"{self.where}: entry {line.number} breaks the rules of the ledger, so it was not"
                " written by this program; nothing was spent"
            )


CHECKPOINT = "noisewright-checkpoint"


class Checkpoint(msgspec.Struct, frozen=True):
    """An entry of a ledger, with the hash of all up to it."""

    ledger: str
    entry: int
    hash: str


def checkpoints_in(path: str | Path) -> list[Checkpoint]:
    """Every checkpoint in a file: an export, or the record beside answers (`.meta.json`)."""
    try:
        document = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise FileFormatError(
            f"{path}: cannot be read ({error.strerror}); check it"
        ) from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        document = None

    found = list(_found(document))
    if not found:
        raise FileFormatError(
            f"{path}: names no entry of a ledger; give an export, or the .meta.json of a release"
        )

    return found


def _found(document: object) -> list[Checkpoint]:
    if not isinstance(document, dict):
        return []
    if document.get("format") == CHECKPOINT:
        return _read(document)

    history = document.get("history")
    entries = [*(history if isinstance(history, list) else []), document]
    notes = [entry.get("ledger") for entry in entries if isinstance(entry, dict)]

    return [point for note in notes if isinstance(note, dict) for point in _read(note)]


def _read(document: dict[str, object]) -> list[Checkpoint]:
    try:
        return [msgspec.convert(document, Checkpoint)]
    except msgspec.ValidationError:
        return []
