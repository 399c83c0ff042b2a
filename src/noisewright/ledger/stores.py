"""Where a ledger's lines are kept: what a store must do, and which one a location names.

Two tables hold all of it: entries in order, and content that they name by a digest, which is a
release as its file has it. Databases differ in how these are written down (`Statements`) and in how
they are held by one process alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from noisewright.ledger.entries import Line


@dataclass(frozen=True)
class Statements:
    """The SQL of a store; values are given in order, by the placeholders of its engine."""

    entries: str
    """Gives number, bytes and hash of every entry, in order of numbers."""
    add_entry: str
    """Takes number, bytes and hash."""
    content: str
    """Takes a digest, and gives what was kept under it."""
    add_content: str
    """Takes a digest and what is kept under it; what is there already stays."""


@dataclass(frozen=True)
class Transaction:
    """An open connection to the ledger; one that writes holds it alone."""

    connection: Any
    statements: Statements

    def lines(self) -> list[Line]:
        """All lines, in order."""
        rows = self.connection.execute(self.statements.entries)
        return [
            Line(int(number), bytes(encoded), str(chained))
            for number, encoded, chained in rows
        ]

    def append(
        self, line: Line, *, content: bytes | None = None, digest: str = ""
    ) -> None:
        """Add a line, and the content that it names by a digest."""
        self.connection.execute(self.statements.add_entry, line)
        if content is not None:
            self.connection.execute(self.statements.add_content, (digest, content))

    def content(self, digest: str) -> bytes | None:
        """The release kept under a digest, as its file has it."""
        row = self.connection.execute(self.statements.content, (digest,)).fetchone()
        return None if row is None else bytes(row[0])


class Store(Protocol):
    """Lines that are only ever added, by one process at a time."""

    @property
    def where(self) -> str:
        """The location as people may see it: no password in it."""

    def lines(self) -> Sequence[Line]:
        """All lines, in order; none where nothing was kept yet."""

    def writing(self, *, new: bool = False) -> AbstractContextManager[Transaction]:
        """Hold the ledger alone; with `new`, make the place for it where there is none.

        What was added is on the disk when the block has ended, all of it or nothing.
        """

    def content(self, digest: str) -> bytes | None:
        """The release kept under a digest, as its file has it."""

    def faults(self) -> str | None:
        """What the store itself says is broken, if anything."""


def store_at(location: str) -> Store:
    """The store that a location names: a PostgreSQL address, or a file."""
    if location.startswith(("postgresql://", "postgres://")):
        from noisewright.ledger.postgres_store import PostgresStore

        return PostgresStore(location)

    from noisewright.ledger.sqlite_store import SQLiteStore

    return SQLiteStore(location)
