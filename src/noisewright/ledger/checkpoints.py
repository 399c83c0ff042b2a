"""Proofs that a ledger goes on from where it was: exported checkpoints, and notes in releases.

A checkpoint names an entry and the hash of everything up to it. A ledger that lost its tail, was
put back from an older copy or was written anew does not hold that entry, or holds another there.
Kept elsewhere, a checkpoint shows what the ledger alone cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from noisewright.errors import FileFormatError
from noisewright.ledger.book import Ledger
from noisewright.ledger.history import History

FORMAT = "noisewright-checkpoint"


class Checkpoint(msgspec.Struct, frozen=True):
    """An entry of a ledger, with the hash of all up to it."""

    ledger: str
    entry: int
    hash: str


def checkpoint(history: History) -> dict[str, Any]:
    """The latest entry of a ledger, to be kept elsewhere."""
    assert history.last is not None
    return {
        "format": FORMAT,
        "ledger": history.identity,
        "entry": history.last.number,
        "hash": history.last.hash,
        "time": history.time,
        "datasets": {
            name: len(account.releases) for name, account in history.accounts.items()
        },
    }


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


def _found(document: Any) -> list[Checkpoint]:
    if not isinstance(document, dict):
        return []
    if document.get("format") == FORMAT:
        return _read(document)

    history = document.get("history")
    entries = [*(history if isinstance(history, list) else []), document]
    notes = [entry.get("ledger") for entry in entries if isinstance(entry, dict)]

    return [point for note in notes if isinstance(note, dict) for point in _read(note)]


def _read(document: dict[str, Any]) -> list[Checkpoint]:
    try:
        return [msgspec.convert(document, Checkpoint)]
    except msgspec.ValidationError:
        return []


def verify(ledger: Ledger, *files: str | Path) -> History:
    """The history of a ledger that is sound: chain, rules, kept releases, every checkpoint given.

    Whatever is wrong raises, in words.
    """
    points = [(file, point) for file in files for point in checkpoints_in(file)]
    history = ledger.history()
    ledger.check_store()

    for file, point in points:
        if point.ledger != history.identity:
            raise FileFormatError(f"{file}: is of another ledger ({point.ledger[:16]})")

        held = (
            history.entries[point.entry - 1][0]
            if 0 < point.entry <= len(history.entries)
            else None
        )
        if held is None:
            raise FileFormatError(
                f"{ledger.where}: ends at entry {len(history.entries)}, and {file} knows entry"
                f" {point.entry}: its tail was lost or an older copy was put back; do not spend"
                " from it: put back the latest copy"
            )
        if held.hash != point.hash:
            raise FileFormatError(
                f"{ledger.where}: entry {point.entry} is not the one that {file} knows: the ledger"
                " was written anew after an older copy was put back; do not spend from it"
            )

    return history
