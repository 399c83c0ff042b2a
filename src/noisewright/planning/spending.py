"""How a plan asks for its budget: a ledger is handed in, and a plan never imports one.

A release takes place between two entries of a ledger: *reserved*, before any noise is drawn, and
*committed*, after it is finished. Whatever happens in between, the budget is spent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, cast, get_args

import msgspec

from noisewright.domain import Unit
from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend

_Result = TypeVar("_Result")

Again = Literal["refuse", "stored", "spend"]
"""What to do where the same plan was released from the same declared dataset before."""

UNRECORDED = {
    "recorded": False,
    "note": "released without a ledger: what else was spent on these people is not known here",
}


class LedgerNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a ledger keeps the spending of a release; `hash` covers all of its entries up to it."""

    ledger: str
    dataset: str
    version: str
    entry: int
    hash: str
    rule: str

    def to_dict(self) -> dict[str, object]:
        """The note ready for JSON."""
        return {"recorded": True, **msgspec.structs.asdict(self)}


@dataclass(frozen=True)
class Cost:
    """What a release is about to spend, and on what: all that a ledger is told of it.

    `plan` is a digest of what decides the measurement; `noise` the laws drawn, ready for JSON;
    `unit` says whose loss `spend` is: that of whoever has all rows of one name, or of one row.
    """

    spend: Spend
    privacy: Privacy
    plan: str
    title: str
    noise: Sequence[dict[str, object]] = field(default_factory=tuple)
    unit: Unit | None = None


class Reservation(Protocol):
    """Budget that is spent, for a release that is not finished yet."""

    @property
    def identity(self) -> str:
        """The name of this spending."""

    @property
    def note(self) -> LedgerNote:
        """Where it is recorded."""

    def commit(self, content: bytes | None = None) -> None:
        """Say that the release is finished, and keep it, so that it need never be bought again."""


class LedgerLike(Protocol):
    """Keeps budgets of datasets; `dataset` is a name, or NAME@VERSION."""

    def check(self, dataset: str, cost: Cost, again: Again = "refuse") -> None:
        """Refuse what could not be reserved now; nothing is spent."""

    def reserve(self, dataset: str, cost: Cost, again: Again = "refuse") -> Reservation:
        """Spend the cost, for good, before any noise is drawn; refused where it does not fit."""

    def stored(self, dataset: str, plan: str) -> bytes | None:
        """The latest finished release of a plan from a dataset, as it was kept; None for none."""


@dataclass(frozen=True)
class Spending:
    """One spending of a budget: the name that tells it from others, and where it is recorded."""

    identity: str = field(default_factory=lambda: secrets.token_hex(8))
    note: LedgerNote | None = None

    @classmethod
    def reserved(cls, reservation: Reservation) -> Spending:
        """The spending that a ledger has reserved."""
        return cls(reservation.identity, reservation.note)


@dataclass(frozen=True)
class Purse:
    """A ledger, the dataset whose budget is taken, and what to do about a release made before."""

    ledger: LedgerLike
    dataset: str
    again: Again

    def stored(self, plan: str) -> bytes | None:
        """A release that was bought before and is to be returned, if any."""
        return (
            self.ledger.stored(self.dataset, plan) if self.again == "stored" else None
        )

    def check(self, cost: Cost) -> None:
        """Refuse what could not be reserved now, before a table is read for it."""
        self.ledger.check(self.dataset, cost, self.again)

    def spend(
        self,
        cost: Cost,
        make: Callable[[Spending], _Result],
        keep: Callable[[_Result], bytes | None] | None = None,
    ) -> _Result:
        """Reserve, make the release, commit, and keep of it what `keep` says."""
        reservation = self.ledger.reserve(self.dataset, cost, self.again)
        with _spent_if_it_fails(reservation):
            result = make(Spending.reserved(reservation))
            reservation.commit(None if keep is None else keep(result))

        return result


def purse_of(
    ledger: LedgerLike | None, dataset: str | None, again: Again
) -> Purse | None:
    """A ledger and a dataset go together; None where neither is given."""
    if again not in get_args(Again):
        raise InvalidParameter(
            "again", again, f"must be one of {', '.join(get_args(Again))}"
        )
    if ledger is not None and dataset is not None:
        return Purse(ledger, dataset, again)

    if ledger is None and dataset is None:
        if again != "refuse":
            rule = "needs a ledger, which knows what was released"
            raise InvalidParameter("again", again, rule, "give a ledger, or none")
        return None

    missing, given = ("ledger", "dataset") if ledger is None else ("dataset", "ledger")
    raise InvalidParameter(
        missing, None, f"must be given with a {given}", "give both, or none"
    )


@contextmanager
def _spent_if_it_fails(reservation: Reservation) -> Iterator[None]:
    """Let whatever ends a release early, an interruption too, say that its budget is spent."""
    try:
        yield
    except BaseException as error:
        note = reservation.note
        error.add_note(
            f"the budget of this release counts as spent: entry {note.entry} of dataset"
            f" {note.dataset!r} was reserved, and no answers were given"
        )
        raise


def noise_of(record: dict[str, object]) -> list[dict[str, object]]:
    """Every law drawn with its scale and sensitivity, from what a mechanism says of itself."""
    if "parts" in record:
        parts = cast("Sequence[dict[str, object]]", record["parts"])
        return [noise for part in parts for noise in noise_of(part)]

    law = cast("dict[str, object] | None", record.get("noise"))
    sensitivity = cast("float | None", record.get("sensitivity"))
    if not law or not sensitivity:
        return []

    drawn = {
        "law": law["law"],
        "scale": law.get("scale"),
        "sensitivity": float(sensitivity),
    }
    return [{name: value for name, value in drawn.items() if value is not None}]
