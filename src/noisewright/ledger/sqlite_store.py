"""A ledger in one SQLite file: the standard library, one process at a time.

The file is held by its inode: whoever comes by another name waits at the same lock. SQLite locks
the inode too, but names its journal after the name it was given, so that through two names two
processes would each spend what is left, and a lock of its kind is lost when the process closes
the file anywhere else. `flock` is neither. Between transactions there is no journal, so that the
file alone is the ledger, and a copy of it a whole one.

`synchronous = EXTRA` makes a transaction reach the disk, the end of its journal included, before it
is said to be over, so that no noise is drawn for a reservation that a loss of power could undo. A
connection lives for one transaction: nothing is shared with forked processes.
"""

from __future__ import annotations

import os
import sqlite3
import time
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
from noisewright.files import check_only_name
from noisewright.ledger.entries import Line, no_ledger
from noisewright.ledger.stores import Statements, Transaction

_Result = TypeVar("_Result")

try:
    import fcntl
# not a POSIX system: SQLite's own locks, and the refusal of other names
except ImportError:
    fcntl = None  # type: ignore[assignment]

_WAIT = 60.0  # seconds for others to finish; a transaction takes milliseconds
_PAUSE = 0.003  # seconds between two attempts: a transaction takes about as long
_MODE = 0o644  # of a new file, as SQLite makes it
_STATEMENTS = Statements(
    entries="SELECT number, content, hash FROM entries ORDER BY number",
    add_entry="INSERT INTO entries VALUES (?, ?, ?)",
    content="SELECT content FROM contents WHERE digest = ?",
    add_content="INSERT OR IGNORE INTO contents VALUES (?, ?)",
)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS entries"
    " (number INTEGER PRIMARY KEY, content BLOB NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS contents"
    " (digest TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT",
    "CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END",
    "CREATE TRIGGER IF NOT EXISTS entries_remain BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
)


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
        return self._read(Transaction.lines)

    def content(self, digest: str) -> bytes | None:
        return self._read(lambda held: held.content(digest))

    def faults(self) -> str | None:
        def checked(held: Transaction) -> str | None:
            (told,) = held.connection.execute("PRAGMA integrity_check(1)").fetchone()
            return None if told == "ok" else str(told)

        return self._read(checked)

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[Transaction]:
        with self._alone(new), closing(self._connect()) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                raise sqlite3.OperationalError(
                    "an older version of this program has it open"
                )

            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            if new:
                for statement in _TABLES:
                    connection.execute(statement)

            yield Transaction(connection, _STATEMENTS)
            connection.execute("COMMIT")  # else closing rolls it back

    def _read(self, call: Callable[[Transaction], _Result]) -> _Result:
        with self._alone():
            try:
                # Writable where it can be: what a killed process left half done is undone first.
                with closing(self._connect()) as connection:
                    connection.execute("PRAGMA query_only = ON")
                    return call(Transaction(connection, _STATEMENTS))
            except sqlite3.OperationalError:
                # On a disk that cannot be written, a file without a journal is read as it stands.
                if self._has_journal:
                    raise
                with closing(self._connect("ro&immutable=1")) as connection:
                    return call(Transaction(connection, _STATEMENTS))

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
            with _held_alone(self._path, _WAIT, new=new):
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


@contextmanager
def _held_alone(path: Path, patience: float, *, new: bool = False) -> Iterator[None]:
    """Hold a database for one process alone; with `new`, make an empty file where there is none.

    Held or refused within `patience` seconds, and refused where the file has other names.
    """
    deadline = time.monotonic() + patience
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT if new else os.O_RDONLY, _MODE)
        try:
            _wait(handle, path, deadline)
            try:
                # Another file may have taken the name while this one was waited for.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    check_only_name(path, "ledger")
                    yield
                    return
            finally:
                _unlock(handle)  # a forked child that lives on has the handle too
        finally:
            os.close(handle)


def _wait(handle: int, path: Path, deadline: float) -> None:
    while fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InvalidParameter(
                    "ledger", str(path), "is held by another process",
                    "wait for it, or end it; nothing was spent",
                ) from None  # fmt: skip
            time.sleep(_PAUSE)
        except OSError as error:
            raise InvalidParameter(
                "ledger", str(path), f"cannot be locked ({error.strerror})",
                "keep it on a local disk, or in PostgreSQL; nothing was spent",
            ) from None  # fmt: skip


def _unlock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)
