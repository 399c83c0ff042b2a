"""A ledger in one SQLite file: the standard library, one process at a time.

The file is held by its inode, for SQLite's journals go by names: through two names, two processes
would each spend what is left. Between transactions there is no journal, so that the file alone is
the ledger, and a copy of it a whole one.

`synchronous = EXTRA` makes a transaction reach the disk, the end of its journal included, before it
is said to be over, so that no noise is drawn for a reservation that a loss of power could undo. A
connection lives for one transaction: nothing is shared with forked processes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    require,
)
from noisewright.ledger.entries import Line, no_ledger
from noisewright.ledger.inode_lock import held_alone

_Result = TypeVar("_Result")

_WAIT = 60.0  # seconds for others to finish; a transaction takes milliseconds
_TABLES = """
CREATE TABLE IF NOT EXISTS entries
  (number INTEGER PRIMARY KEY, content BLOB NOT NULL, hash TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER IF NOT EXISTS entries_remain BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END;
"""


class SQLiteStore:
    """Lines in a file."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    @property
    def where(self) -> str:
        return str(self._path)

    @property
    def _has_journal(self) -> bool:
        name = self._path.name
        return any(
            self._path.with_name(name + end).exists() for end in ("-journal", "-wal")
        )

    def lines(self) -> Sequence[Line]:
        return self._read(_lines)

    def content(self, digest: str) -> bytes | None:
        def found(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT content FROM contents WHERE digest = ?"
            row = connection.execute(query, (digest,)).fetchone()
            return None if row is None else bytes(row[0])

        return self._read(found)

    def faults(self) -> str | None:
        def checked(connection: sqlite3.Connection) -> str | None:
            (told,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return None if told == "ok" else str(told)

        return self._read(checked)

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[SQLiteWriter]:
        with self._alone(new), closing(self._connect()) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                raise sqlite3.OperationalError(
                    "an older version of this program has it open"
                )

            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            if new:
                for statement in _statements(_TABLES):
                    connection.execute(statement)

            yield SQLiteWriter(connection)
            connection.execute("COMMIT")  # else closing rolls it back

    def _read(self, call: Callable[[sqlite3.Connection], _Result]) -> _Result:
        with self._alone():
            try:
                # Writable where it can be: what a killed process left half done is undone first.
                with closing(self._connect()) as connection:
                    connection.execute("PRAGMA query_only = ON")
                    return call(connection)
            except sqlite3.OperationalError:
                # On a disk that cannot be written, a file without a journal is read as it stands.
                if self._has_journal:
                    raise
                with closing(self._connect("ro&immutable=1")) as connection:
                    return call(connection)

    @contextmanager
    def _alone(self, new: bool = False) -> Iterator[None]:
        with self._translated():
            require(
                new or self._path.is_file(),
                "ledger",
                self.where,
                "does not exist",
                "make it with `noisewright ledger create`",
            )
            with held_alone(self._path, _WAIT, new=new):
                yield

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        address = f"file:{quote(str(self._path))}?mode={mode}"
        return sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the engine as ours; whatever was begun is undone."""
        try:
            yield
        except NoisewrightError:
            raise
        except (sqlite3.OperationalError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if "no such table" in reason:
                raise no_ledger(self.where) from None
            raise InvalidParameter(
                "ledger", self.where, f"cannot be used ({reason})",
                "check the path, the disk and its permissions; nothing was spent",
            ) from None  # fmt: skip
        except (sqlite3.DatabaseError, OverflowError):
            raise FileFormatError(
                f"{self.where}: is damaged or no ledger; nothing was spent: put back a copy that"
                " `ledger verify` accepts"
            ) from None


class SQLiteWriter:
    """A transaction that holds the file alone."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def lines(self) -> Sequence[Line]:
        return _lines(self._connection)

    def append(
        self, line: Line, *, content: bytes | None = None, digest: str = ""
    ) -> None:
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", line)
        if content is not None:
            insert = "INSERT OR IGNORE INTO contents VALUES (?, ?)"
            self._connection.execute(insert, (digest, content))


def _lines(connection: sqlite3.Connection) -> list[Line]:
    rows = connection.execute(
        "SELECT number, content, hash FROM entries ORDER BY number"
    )
    return [
        Line(int(number), bytes(content), str(hash_)) for number, content, hash_ in rows
    ]


def _statements(script: str) -> list[str]:
    """Statements one by one: `executescript` would end the transaction."""
    statements = []
    current = ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""

    return statements
