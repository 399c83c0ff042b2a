"""A ledger in one SQLite file: the standard library, write-ahead logging, one writer at a time.

`synchronous = FULL` makes a transaction reach the disk before it is said to be over, so that no
noise is drawn for a reservation that a loss of power could undo. A connection lives for one
transaction: nothing is shared with forked processes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from noisewright.errors import FileFormatError, InvalidParameter, NoisewrightError
from noisewright.ledger.entries import Line, no_ledger

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
    def _log(self) -> Path:
        return self._path.with_name(f"{self._path.name}-wal")

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
        with self._translated(), closing(self._connect("rwc" if new else "rw")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            if new:
                for statement in _statements(_TABLES):
                    connection.execute(statement)
            yield SQLiteWriter(connection)
            connection.execute("COMMIT")  # else closing rolls it back

    def _read(self, call: Callable[[sqlite3.Connection], _Result]) -> _Result:
        with self._translated():
            try:
                with closing(self._connect("ro")) as connection:
                    return call(connection)
            except sqlite3.OperationalError:
                # On a disk that cannot be written, a file without a log is read as it stands.
                if not self._path.is_file() or self._log.exists():
                    raise
                with closing(self._connect("ro&immutable=1")) as connection:
                    return call(connection)

    def _connect(self, mode: str) -> sqlite3.Connection:
        if mode != "rwc" and not self._path.is_file():
            raise InvalidParameter(
                "ledger", self.where, "does not exist", "make it with `noisewright ledger create`"
            )
        address = f"file:{quote(str(self._path))}?mode={mode}"
        return sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the engine as ours; whatever was begun is undone."""
        try:
            yield
        except NoisewrightError:
            raise
        except (sqlite3.OperationalError, PermissionError) as error:
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

    def append(self, line: Line, *, content: bytes | None = None, digest: str = "") -> None:
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", line)
        if content is not None:
            insert = "INSERT OR IGNORE INTO contents VALUES (?, ?)"
            self._connection.execute(insert, (digest, content))


def _lines(connection: sqlite3.Connection) -> list[Line]:
    rows = connection.execute("SELECT number, content, hash FROM entries ORDER BY number")
    return [Line(int(number), bytes(content), str(hash_)) for number, content, hash_ in rows]


def _statements(script: str) -> list[str]:
    """Statements one by one: `executescript` would end the transaction."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
