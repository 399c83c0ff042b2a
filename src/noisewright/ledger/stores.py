"""Where a ledger's lines are kept: what a store must do, and which one a location names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from noisewright.ledger.entries import Line


class Writer(Protocol):
    """A ledger held by one process alone, until the block ends and its changes are on the disk."""

    def lines(self) -> Sequence[Line]:
        """All lines, in order."""

    def append(
        self, line: Line, *, content: bytes | None = None, digest: str = ""
    ) -> None:
        """Add a line, and what it names by a digest."""


class Store(Protocol):
    """Lines that are only ever added, by one process at a time."""

    @property
    def where(self) -> str:
        """The location as people may see it: no password in it."""

    def lines(self) -> Sequence[Line]:
        """All lines, in order; none where nothing was kept yet."""

    def writing(self, *, new: bool = False) -> AbstractContextManager[Writer]:
        """Hold the ledger alone; with `new`, make the place for it where there is none.

        What was added is on the disk when the block has ended, all of it or nothing.
        """

    def content(self, digest: str) -> bytes | None:
        """What was kept under a digest."""

    def faults(self) -> str | None:
        """What the store itself says is broken, if anything."""


def store_at(location: str) -> Store:
    """The store that a location names: a PostgreSQL address, or a file."""
    if location.startswith(("postgresql://", "postgres://")):
        from noisewright.ledger.postgres_store import PostgresStore

        return PostgresStore(location)

    from noisewright.ledger.sqlite_store import SQLiteStore

    return SQLiteStore(location)
