"""Two databases behind one way to speak to them: SQLite in one file, and PostgreSQL.

Both hold a transaction on the disk before they say that it is done. One thread uses a connection.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.files import PRIVATE, check_only_name

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]

_SHARD_CLASS = 0x6E77  # the class of our advisory locks
_MOST_SHARDS = 256
"""Connections that write at once, each to tallies of its own; reading adds up all of them."""
_WAIT_SECONDS = 5
"""For a server that answers no more, or for a lock that another program holds."""

TABLES = """
CREATE TABLE IF NOT EXISTS campaigns (
  number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, terms BYTES NOT NULL, plan BYTES NOT NULL,
  salt BYTES NOT NULL, closed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS reports (
  campaign INTEGER NOT NULL, round TEXT NOT NULL, name BYTES NOT NULL, report BYTES,
  PRIMARY KEY (campaign, round, name)) NO_ORDER;
CREATE TABLE IF NOT EXISTS tallies (
  campaign INTEGER NOT NULL, round TEXT NOT NULL, shard INTEGER NOT NULL, chunk INTEGER NOT NULL,
  counts BYTES NOT NULL, PRIMARY KEY (campaign, round, shard, chunk)) NO_ORDER;
CREATE TABLE IF NOT EXISTS tokens (
  campaign INTEGER NOT NULL, hash BYTES NOT NULL, burnt INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (campaign, hash)) NO_ORDER;
CREATE TABLE IF NOT EXISTS admin_keys (hash BYTES PRIMARY KEY) NO_ORDER;
CREATE TABLE IF NOT EXISTS passes (
  hash BYTES PRIMARY KEY, level TEXT NOT NULL, expires BIGINT) NO_ORDER;
"""
"""What is kept. No table of people knows a time, an order of arrival or who sent anything; `passes`
are keys that may only look, and sessions of analysts, which end."""


# Parts of two texts of bytes, numbered from one; SQLite writes alone, PostgreSQL beside others.
_SQLITE_PARTS = """
WITH RECURSIVE parts(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM parts WHERE i + 1 < ?1)
"""
_SQLITE_KNOWN = (
    _SQLITE_PARTS
    + """
SELECT name FROM parts JOIN reports ON campaign = ?4 AND round = ?5
AND name = substr(?3, i * ?2 + 1, ?2)
"""
)
_SQLITE_KEEP = (
    _SQLITE_PARTS
    + """
INSERT INTO reports (campaign, round, name, report)
SELECT ?6, ?7, substr(?3, i * ?2 + 1, ?2), substr(?5, i * ?4 + 1, ?4) FROM parts
"""
)
_POSTGRES_KEEP = """
INSERT INTO reports (campaign, round, name, report)
SELECT %s::integer, %s::text,
  substr(names, 1 + i * width, width), substr(reports, 1 + i * length, length)
FROM (SELECT %s::bytea AS names, %s::integer AS width, %s::bytea AS reports, %s::integer AS length)
AS texts, generate_series(0, %s::integer - 1) AS i
ON CONFLICT DO NOTHING RETURNING name
"""


class Unavailable(NoisewrightError):
    """The database cannot be reached or written to just now; nothing of the transaction is kept."""


@dataclass(frozen=True)
class Named:
    """Reports of one round and one length, by names of one length.

    `keeps` is whether the reports themselves are kept, or that there was one of the name.
    """

    campaign: int
    round: str
    by_name: Mapping[bytes, bytes]
    keeps: bool

    @property
    def place(self) -> tuple[object, ...]:
        """Where they belong."""
        return self.campaign, self.round

    @property
    def names_told(self) -> tuple[int, int, bytes]:
        """How many names there are, how long each is, and all of them as one text."""
        return len(self.by_name), len(next(iter(self.by_name))), b"".join(self.by_name)

    @property
    def contents_told(self) -> tuple[int, bytes | None]:
        """How long each report is, and all of them as one text, where they are kept."""
        if not self.keeps:
            return 0, None
        contents = self.by_name.values()
        return len(next(iter(contents))), b"".join(contents)

    def without(self, known: set[bytes]) -> Named:
        """Those of other names."""
        new = {name: own for name, own in self.by_name.items() if name not in known}
        return replace(self, by_name=new)


class Database(ABC):
    """One connection, opened when it is first needed and again after a failure."""

    shard: int = 0
    """Which part of the tallies this connection adds to: no other connection writes to it."""

    @abstractmethod
    def run(self, text: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement with `?` for its values, inside a transaction; the rows it gives."""

    @abstractmethod
    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        """All or nothing, and on the disk when the block is left; `Unavailable` otherwise."""

    @abstractmethod
    def keep(self, reports: Named) -> set[bytes]:
        """Keep reports under their names; the names that are new.

        One statement, whose text is the same for any number of reports, takes all of them as two
        texts of bytes. Row by row, the thread that answers would get in between every two rows.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class Sqlite(Database):
    """A file in write-ahead mode. Writers of all processes wait for one lock, none polls."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._lock = -1

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                if not self.path.exists():
                    os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, PRIVATE))
                check_only_name(self.path, "database")
                lock = self.path.with_name(self.path.name + ".lock")
                self._lock = os.open(lock, os.O_CREAT | os.O_RDWR, PRIVATE)
                connection = sqlite3.connect(
                    self.path,
                    timeout=_WAIT_SECONDS,
                    isolation_level=None,
                    check_same_thread=False,
                )
                with self._alone():
                    connection.executescript(
                        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=ON;"
                        "PRAGMA trusted_schema=OFF; PRAGMA wal_autocheckpoint=2000;"
                        + TABLES.replace("BYTES", "BLOB").replace(
                            "NO_ORDER", "WITHOUT ROWID"
                        )
                    )
            except (sqlite3.Error, OSError) as error:
                self.close()
                raise Unavailable(
                    f"the database cannot be opened ({_kind(error)})"
                ) from None
            self._connection = connection
        return self._connection

    def run(self, text: str, values: Sequence[object] = ()) -> list[Row]:
        return self._open().execute(text, tuple(values)).fetchall()

    def keep(self, reports: Named) -> set[bytes]:
        found = self.run(_SQLITE_KNOWN, (*reports.names_told, *reports.place))
        known = {bytes(row[0]) for row in found}
        new = reports.without(known)
        if new.by_name:
            told = (*new.names_told, *new.contents_told, *new.place)
            self.run(_SQLITE_KEEP, told)

        return set(new.by_name)

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        connection = self._open()
        try:
            with self._alone(writes):
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                yield
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            _quietly_rolled_back(connection)
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(
                error, sqlite3.IntegrityError
            ):
                self.close()  # a full disk may have closed the transaction by itself
            raise Unavailable(
                f"the database cannot be written ({_kind(error)})"
            ) from None
        except BaseException:
            _quietly_rolled_back(connection)
            raise

    @contextmanager
    def _alone(self, writes: bool = True) -> Iterator[None]:
        if not writes:
            yield
            return

        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if self._lock >= 0:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(sqlite3.Error):
                # Pages of the log hold reports in the order in which they came.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Postgres(Database):
    """A server that many workers share, on one machine or several."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection: psycopg.Connection[Row] | None = None

    def _open(self) -> psycopg.Connection[Row]:
        import psycopg

        if self._connection is None or self._connection.closed:
            try:
                connection = psycopg.connect(
                    self.address, autocommit=True, connect_timeout=_WAIT_SECONDS
                )
                # A server may be set to acknowledge before the disk does; we never do.
                connection.execute("SET synchronous_commit = on")
                with connection.transaction():
                    connection.execute(
                        "SELECT pg_advisory_xact_lock(%s, -1)", (_SHARD_CLASS,)
                    )
                    connection.execute(
                        TABLES.replace("BYTES", "BYTEA").replace("NO_ORDER", "")
                    )
                self.shard = _own_shard(connection)
            except psycopg.Error as error:
                raise Unavailable(
                    f"the database cannot be reached ({_kind(error)})"
                ) from None
            self._connection = connection

        return self._connection

    def run(self, text: str, values: Sequence[object] = ()) -> list[Row]:
        cursor = self._open().execute(text.replace("?", "%s"), tuple(values))
        return cursor.fetchall() if cursor.description else []

    def keep(self, reports: Named) -> set[bytes]:
        count, width, names = reports.names_told
        length, contents = reports.contents_told
        values = (*reports.place, names, width, contents, length, count)
        rows = self._open().execute(_POSTGRES_KEEP, values).fetchall()

        return {bytes(row[0]) for row in rows}

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        import psycopg

        connection = self._open()
        try:
            with connection.transaction():
                yield
        except psycopg.Error as error:
            self.close()
            raise Unavailable(
                f"the database cannot be written ({_kind(error)})"
            ) from None

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def _own_shard(connection: psycopg.Connection[Row]) -> int:
    """A part of the tallies that no other session holds, for as long as this session lives."""
    for shard in range(_MOST_SHARDS):
        row = connection.execute(
            "SELECT pg_try_advisory_lock(%s, %s)", (_SHARD_CLASS, shard)
        )
        if (row.fetchone() or (False,))[0]:
            return shard
    raise Unavailable(f"more than {_MOST_SHARDS} workers write to the database at once")


def open_database(address: str) -> Database:
    """The database at an address: `postgresql://…`, or the path of a file."""
    if address.startswith(("postgresql://", "postgres://")):
        return Postgres(address)
    if "://" in address:
        raise InvalidParameter(
            "database", address.split("://")[0] + "://…", "is of no kind that is known",
            "give the path of a file, or postgresql://…",
        )  # fmt: skip

    return Sqlite(address)


def _kind(error: BaseException) -> str:
    """What kind of failure it was; messages of engines quote values."""
    return type(error).__name__


def _quietly_rolled_back(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
