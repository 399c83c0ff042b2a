"""What the entries of a ledger say: accounts of datasets, worked out anew from all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from noisewright.errors import FileFormatError, InvalidParameter
from noisewright.ledger.entries import (
    AnyEntry,
    Committed,
    Created,
    Line,
    Opened,
    Reserved,
    check_noise,
    decoded,
    no_ledger,
)
from noisewright.privacy.budget import Privacy
from noisewright.privacy.filters import Amounts
from noisewright.privacy.spend import Spend


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
    used: Amounts = field(default_factory=Amounts)

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.created.dataset

    @cached_property
    def privacy(self) -> Privacy:
        """The budget as a promise."""
        return self.created.privacy

    @property
    def spend(self) -> Spend:
        """All losses so far."""
        losses = [loss for spent in self.releases for loss in spent.reserved.spend.losses]
        return Spend(self.privacy.neighbours, tuple(losses))

    def earlier(self, plan: str, version: str) -> Spent | None:
        """The latest release of the same plan from the same declared version."""
        for spent in reversed(self.releases):
            if (spent.reserved.plan, spent.reserved.version) == (plan, version):
                return spent
        return None

    def add(self, number: int, entry: Reserved) -> bool:
        """Take a release from the budget; False where it does not fit."""
        used = self.created.limits.used_by(entry.spend, self.used)
        if used is None:
            return False
        taken = Amounts(*(a - b for a, b in zip(used, self.used, strict=True)))
        self.releases.append(Spent(number, entry, taken))
        self.used = used
        return True


class History:
    """The entries of a ledger, checked and added up."""

    def __init__(self, lines: Iterable[Line], where: str) -> None:
        self.where = where
        self.last: Line | None = None
        self.time = ""
        self.opened: Opened | None = None
        self.accounts: dict[str, Account] = {}
        self.entries: list[tuple[Line, AnyEntry]] = []
        self._releases: dict[str, Spent] = {}
        for line, entry in decoded(lines, where):
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
                "dataset", dataset, "is not in this ledger", f"it holds: {known}; nothing was spent"
            )
        return self.accounts[dataset]

    def release(self, identity: str) -> Spent | None:
        """A release by the name of its spending."""
        return self._releases.get(identity)

    def _add(self, line: Line, entry: AnyEntry) -> None:
        if isinstance(entry, Opened):
            self.opened = entry
        elif isinstance(entry, Created):
            kept = entry.limits.keep(entry.privacy)
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
