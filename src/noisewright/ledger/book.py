"""The ledger as people use it: datasets with budgets, releases that reserve and commit."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from noisewright import __version__
from noisewright.display import Shown
from noisewright.domain.unit import read_unit
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    require,
)
from noisewright.ledger.entries import (
    FORMAT_VERSION,
    Committed,
    Created,
    Line,
    Noise,
    Opened,
    Person,
    Reserved,
    check_noise,
    next_line,
)
from noisewright.ledger.history import (
    Account,
    History,
    checkpoints_in,
    may_share_budget,
)
from noisewright.ledger.standing import (
    Standing,
    does_not_fit,
    other_unit,
    released_before,
)
from noisewright.ledger.stores import Store, Transaction, store_at
from noisewright.planning.spending import Again, Cost, LedgerNote
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import STATEMENTS, Limits, limits_of

_LARGEST_KEPT = 2**28  # bytes of a release that a ledger keeps
_CLOCKS_DIFFER = timedelta(seconds=60)


class Ledger(Shown):
    """Budgets of datasets, and every release that took from them.

    `location` is a file (SQLite) or an address `postgresql://…`. A dataset stands for people: all
    files and versions with the same people in them share its one budget. NAME@VERSION declares
    which version a release reads.
    """

    def __init__(self, location: str | Path) -> None:
        self._store: Store = store_at(str(location))

    @property
    def where(self) -> str:
        """The location, without a password."""
        return self._store.where

    # --- datasets -------------------------------------------------------------------------------

    def create(
        self,
        dataset: str,
        budget: Privacy,
        *,
        limits: Limits | None = None,
        unit: str | None = None,
        groups: Sequence[str] = (),
    ) -> Account:
        """Add a dataset with its budget; the ledger itself is made where there is none.

        `unit` is the column that names the people whose budget it is; without it a row is a person.
        `groups` declares parts that share nobody (regions, or months where a person in a month is
        the unit): a release from NAME/GROUP takes from that group's budget alone, one from NAME
        from everybody's. `limits` say how spends add up (`noisewright.ledger.limits_of`), by the
        rule that suits the budget unless given. All of it is fixed for good: limits that follow
        answers would be no limits.
        """
        name, version = _split_dataset(dataset)
        require(
            not version,
            "dataset",
            dataset,
            "has a version",
            "versions share one budget",
        )

        limits = limits_of(budget) if limits is None else limits
        require(
            limits.keep(budget),
            "limits",
            limits.rule,
            "allow more than the budget, or belong to another",
        )
        if unit is not None:
            read_unit(unit)  # refuses what names no column

        parts = tuple(_split_dataset(group)[0] for group in groups)
        if not may_share_budget(parts, budget):
            words = "must be different names without a slash, for neighbours add-remove"
            raise InvalidParameter("groups", list(groups), words)

        with self._store.writing(new=True) as writer:
            history = History(_opened(writer), self.where)
            if name in history.accounts:
                raise InvalidParameter(
                    "dataset", name, "is in this ledger already",
                    "one name is one budget, for good; nothing was changed",
                )  # fmt: skip

            time = self._time_after(history)
            entry = Created(
                time=time, dataset=name, budget=dict(budget.to_dict()), limits=limits, unit=unit,
                groups=parts,
            )  # fmt: skip
            writer.append(next_line(history.last, entry))

        return Account(entry)

    def history(self) -> History:
        """All entries, checked and added up."""
        return History(self._store.lines(), self.where)

    def account(self, dataset: str) -> Account:
        """The account of a dataset: budget, releases, what is used."""
        return self.history().part(_split_dataset(dataset)[0])[0]

    # --- releases -------------------------------------------------------------------------------

    def check(self, dataset: str, cost: Cost, again: Again = "refuse") -> None:
        """Refuse what could not be reserved now; nothing is spent."""
        history = self.history()
        self._admitted(history, dataset, cost, again)
        self._time_after(history)

    def reserve(self, dataset: str, cost: Cost, again: Again = "refuse") -> Reservation:
        """Spend the cost, for good, before any noise is drawn; refused where it does not fit."""
        with self._store.writing() as writer:
            history = History(writer.lines(), self.where)
            entry = self._admitted(history, dataset, cost, again)
            line = next_line(history.last, entry)
            writer.append(line)

        account = history.account(entry.dataset)
        rule = account.created.limits.rule
        note = LedgerNote(
            history.identity,
            entry.dataset,
            entry.version,
            line.number,
            line.hash,
            STATEMENTS[rule],
        )

        return Reservation(self, entry.release, note)

    def stored(self, dataset: str, plan: str) -> bytes | None:
        """The latest finished release of a plan from a dataset, as it was kept; None for none."""
        name, version = _split_dataset(dataset)
        account, group = self.history().part(name)
        for spent in reversed(account.releases):
            done = spent.committed
            own = spent.reserved
            same = (own.plan, own.version, own.group) == (plan, version, group)
            if same and done is not None and done.content is not None:
                return self._kept(done.content)

        return None

    def check_store(self) -> None:
        """Refuse a ledger whose kept releases or pages are damaged; `history` checks entries."""
        fault = self._store.faults()
        if fault is not None:
            raise FileFormatError(f"{self.where}: the store is damaged ({fault})")
        for _, entry in self.history().entries:
            if isinstance(entry, Committed) and entry.content is not None:
                self._kept(entry.content)

    def verify(self, *checkpoints: str | Path) -> History:
        """The history, if all of it is sound and goes on from every checkpoint given.

        Whatever is wrong raises, in words: chain, rules, kept releases, a checkpoint.

        `checkpoints` are exports, or records beside answers, which name entries too.
        """
        points = [
            (file, point) for file in checkpoints for point in checkpoints_in(file)
        ]
        history = self.history()
        self.check_store()
        for file, point in points:
            history.check_goes_on_from(point, file)
        return history

    def export(self, path: str | Path) -> dict[str, object]:
        """Write a checkpoint: kept elsewhere, it shows a lost tail or an old copy put back."""
        from noisewright.files import write_text

        document = self.history().checkpoint()
        encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
        write_text(path, encoded.decode() + "\n")

        return document

    def show(self, dataset: str, delta: float | None = None) -> Standing:
        """How a dataset stands: budget, spent, left, entries."""
        from noisewright.ledger.standing import standing

        return standing(self.account(dataset), delta)

    def _kept(self, digest: str) -> bytes:
        content = self._store.content(digest)
        if content is None or _digest(content) != digest:
            raise FileFormatError(
                f"{self.where}: a release that it keeps is missing or was changed;"
                " put back a copy that `ledger verify` accepts"
            )
        return content

    def _admitted(
        self, history: History, dataset: str, cost: Cost, again: Again
    ) -> Reserved:
        """The entry of a reservation that keeps all rules."""
        name, version = _split_dataset(dataset)
        account, group = history.part(name)
        relation = account.created.privacy.neighbours
        if cost.spend.neighbours != relation:
            raise InvalidParameter(
                "neighbours", cost.spend.neighbours, f"is not the dataset's relation, {relation}",
                f"plan for {relation}; nothing was spent",
            )  # fmt: skip

        person = Person.of(cost.unit)
        if not account.created.covers(person):
            raise other_unit(account, cost)

        before = account.earlier(cost.plan, version, group)
        if before is not None and again != "spend":
            raise released_before(account, before, again)

        noise = tuple(msgspec.convert(drawn, Noise) for drawn in cost.noise)
        require(
            check_noise(cost.spend, noise),
            "noise",
            len(noise),
            "is not what the plan spends",
            "plan again",
        )

        entry = Reserved(
            time=self._time_after(history), dataset=account.name, version=version, group=group,
            release=secrets.token_hex(8), spend=cost.spend, noise=noise,
            plan=cost.plan, title=cost.title[:500], unit=person,
        )  # fmt: skip
        if (short := account.refusing(cost.spend, group)) is not None:
            raise does_not_fit(account, cost, short)

        return entry

    def _commit(self, identity: str, content: bytes | None) -> None:
        kept = content is not None and len(content) <= _LARGEST_KEPT
        digest = _digest(content) if content is not None and kept else None
        with self._store.writing() as writer:
            history = History(writer.lines(), self.where)
            spent = history.release(identity)
            if spent is None or spent.committed is not None:
                raise NoisewrightError(
                    f"{self.where}: the reservation {identity} is not there or is over; an older"
                    " copy of the ledger was put back, perhaps: do not publish these answers"
                )

            entry = Committed(
                time=self._time_after(history), release=identity, content=digest
            )
            line = next_line(history.last, entry)
            writer.append(line, content=content if kept else None, digest=digest or "")

    def _time_after(self, history: History) -> str:
        """The time now, which must not lie before what the ledger has seen."""
        now = _now()
        if now >= history.time:
            return now
        if (
            datetime.fromisoformat(history.time) - datetime.fromisoformat(now)
            <= _CLOCKS_DIFFER
        ):
            return history.time

        raise NoisewrightError(
            f"{self.where}: the clock says {now}, before the last entry at {history.time};"
            " set the clock; nothing was spent"
        )

    def _facts(self) -> list[tuple[str, str]]:
        return [("at", self.where)]


@dataclass(frozen=True)
class Reservation:
    """Budget that is spent, for a release that is not finished yet."""

    ledger: Ledger
    identity: str
    note: LedgerNote

    def commit(self, content: bytes | None = None) -> None:
        """Say that the release is finished, and keep it, so that it need never be bought again."""
        self.ledger._commit(self.identity, content)


def _opened(writer: Transaction) -> Sequence[Line]:
    """The lines of a ledger, which starts with the one that names it."""
    lines = writer.lines()
    if lines:
        return lines

    first = Opened(
        time=_now(),
        ledger=secrets.token_hex(16),
        format_version=FORMAT_VERSION,
        version=__version__,
    )
    line = next_line(None, first)
    writer.append(line)
    return [line]


def _split_dataset(dataset: str) -> tuple[str, str]:
    """NAME or NAME@VERSION."""
    name, _, version = dataset.partition("@")
    for text in (name, version):
        require(
            len(text) <= 100 and text.isprintable() and text == text.strip(),
            "dataset",
            dataset,
            "must be printable text of 100 characters",
        )

    require(name, "dataset", dataset, "must have a name", "NAME or NAME@VERSION")

    return name, version


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
