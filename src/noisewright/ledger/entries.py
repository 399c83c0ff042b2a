"""What a ledger is made of: entries that are only ever added, each with the hash of all before it.

Everything a ledger says follows from its entries (`ledger.history`); nothing is stored beside them.
An entry is kept as the bytes that were hashed, and decoded strictly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import inf
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from noisewright.domain import Unit
from noisewright.domain.unit import ROW_IS_PERSON
from noisewright.errors import FileFormatError
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import Limits
from noisewright.privacy.promise.spend import Gaussian, Laplace, Spend

FORMAT_VERSION = 2
"""Of the entries: a ledger of another is refused, for its rules may be others."""
_ROUNDING = Fraction(1, 10**12)  # of ratios that were multiplied by numbers of rows
_FIRST = "0" * 64
_LAWS: dict[str, type[Gaussian] | type[Laplace]] = {
    "rounded-gaussian": Gaussian,
    "discrete-laplace": Laplace,
    "carried-laplace": Laplace,
}

Text = Annotated[str, msgspec.Meta(max_length=500)]
Time = Annotated[
    str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$")
]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Noise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A law that noise was drawn from, its scale and how far a neighbour moves what it hides.

    Noise without a scale, such as that in the shape of a body, is named by its law alone.
    """

    law: Text
    scale: float | None = None
    sensitivity: float | None = None


class Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whoever has all rows with one value of `column`, of which at most `rows` count.

    Where the unit is a person in a period, that stands beside the column.
    """

    column: Name
    rows: Annotated[int, msgspec.Meta(ge=1)]

    @classmethod
    def of(cls, unit: Unit | None) -> Self | None:
        """The unit of a plan; None where one row is one person."""
        return None if unit is None else cls(unit.name, unit.rows)


class Entry(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="entry",
):
    """One line of a ledger; `time` is in UTC."""

    time: Time


class Opened(Entry, frozen=True, kw_only=True, tag="opened"):
    """The first line: which ledger this is, and in which format it is kept."""

    ledger: Name
    format_version: int
    version: Text


class Created(Entry, frozen=True, kw_only=True, tag="created"):
    """A dataset with a budget, for all its versions, and the limits that keep it.

    `unit` is the column that names the people whose budget it is, perhaps with the periods in
    which they are counted; without one, a row is a person. `groups` are parts that share nobody.
    """

    dataset: Name
    budget: dict[str, Any]
    limits: Limits
    unit: Name | None
    groups: tuple[Name, ...] = ()

    @property
    def privacy(self) -> Privacy:
        """The budget as a promise."""
        return Privacy.from_dict(self.budget)

    @property
    def person(self) -> str:
        """Whose budget it is, in words."""
        return (
            ROW_IS_PERSON
            if self.unit is None
            else f"a person is all rows with one {self.unit}"
        )

    def covers(self, person: Person | None) -> bool:
        """Whether a loss of this unit is one of those whose budget it is.

        How many rows count is in the loss already. A budget of rows covers no plan that keeps some
        rows of a name: another row may push one out, so that more changes than one row.
        """
        return self.unit == (None if person is None else person.column)


class Reserved(Entry, frozen=True, kw_only=True, tag="reserved"):
    """A release that is about to draw its noise: from here on its budget is spent.

    `plan` is a digest of all that decides what is measured, `version` which state of the dataset
    was declared to be read, `group` which of its groups (without one, all of it), `noise` what is
    drawn, from which `spend` follows, and `unit` whose loss that is.
    """

    dataset: Name
    version: Text
    release: Name
    spend: Spend
    noise: tuple[Noise, ...]
    plan: Text
    title: Text
    unit: Person | None
    group: Text = ""


class Committed(Entry, frozen=True, kw_only=True, tag="committed"):
    """A release that was finished; `content` is the digest of it, where the ledger keeps it."""

    release: Name
    content: Text | None


LedgerEntry = Opened | Created | Reserved | Committed


class Line(NamedTuple):
    """An entry as it is kept: its number from 1, its bytes, and the hash that chains it."""

    number: int
    encoded: bytes
    hash: str


def check_noise(spend: Spend, noise: tuple[Noise, ...]) -> bool:
    """Whether the noise named, if any, is what is spent: ratios follow from the laws known here."""
    if noise and len(noise) != len(spend.losses):
        return False

    for loss, drawn in zip(spend.losses, noise, strict=False):
        kind = _LAWS.get(drawn.law)
        if kind is None:
            continue

        scale = drawn.scale or 0.0
        sensitivity = drawn.sensitivity or 0.0
        if not (0 < scale < inf and 0 < sensitivity < inf):
            return False
        if not isinstance(loss, kind):
            return False

        charged = Fraction(loss.mu if isinstance(loss, Gaussian) else loss.ratio)
        drawn_ratio = Fraction(sensitivity) / Fraction(scale)
        if (
            not drawn_ratio
            <= charged * (1 + _ROUNDING)
            <= drawn_ratio * (1 + 3 * _ROUNDING)
        ):
            return False

    return True


def no_ledger(where: str) -> FileFormatError:
    """Something else, or nothing, lies where a ledger should."""
    return FileFormatError(
        f"{where}: is no ledger; make one with `noisewright ledger create`"
    )


def entry_hash(number: int, encoded: bytes, previous: str) -> str:
    """The hash of an entry, and through `previous` of all entries before it."""
    head = f"noisewright ledger entry {number} after {previous}\n"
    return hashlib.sha256(head.encode() + encoded).hexdigest()


def next_line(last: Line | None, entry: LedgerEntry) -> Line:
    """The line that keeps an entry after the last one."""
    number, previous = (1, _FIRST) if last is None else (last.number + 1, last.hash)
    encoded = msgspec.json.encode(entry, order="sorted")
    return Line(number, encoded, entry_hash(number, encoded, previous))


def checked_entries(
    lines: Iterable[Line], where: str
) -> Iterator[tuple[Line, LedgerEntry]]:
    """Entries in order, each checked against the chain."""
    previous = _FIRST
    expected = 1
    for line in lines:
        if (
            line.number != expected
            or entry_hash(expected, line.encoded, previous) != line.hash
        ):
            raise FileFormatError(
                f"{where}: entry {expected} was changed or is missing, so nothing after it can be"
                " trusted; nothing was spent: put back a copy that `ledger verify` accepts"
            )

        entry = _understood(line, where)
        if (expected == 1) != isinstance(entry, Opened):
            raise FileFormatError(
                f"{where}: entry {expected} is out of place; it was edited"
            )

        yield line, entry
        previous = line.hash
        expected = expected + 1


def _understood(line: Line, where: str) -> LedgerEntry:
    if line.number == 1:
        _check_format(line.encoded, where)

    try:
        entry: LedgerEntry = msgspec.json.decode(line.encoded, type=LedgerEntry)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise FileFormatError(
            f"{where}: entry {line.number} is not understood, though it was not changed; use the"
            " release of noisewright that wrote it"
        ) from None

    return entry


class _Format(msgspec.Struct):
    format_version: int = 0
    version: str = ""


def _check_format(encoded: bytes, where: str) -> None:
    try:
        found = msgspec.json.decode(encoded, type=_Format)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise FileFormatError(f"{where}: its first entry is not understood") from None
    if found.format_version != FORMAT_VERSION:
        raise FileFormatError(
            f"{where}: has ledger format {found.format_version}, this release reads"
            f" {FORMAT_VERSION}; use the release that wrote it ({found.version[:20]});"
            " nothing was spent"
        )
