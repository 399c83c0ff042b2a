"""A ledger in two tables of a PostgreSQL database (extra `postgres`), for several machines.

An advisory lock lets one transaction write at a time, and a transaction is over when the server has
it on its disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.ledger.entries import Line, no_ledger
from noisewright.ledger.stores import Statements, Transaction

_LOCK = 0x6E6F697365  # any number that is ours alone in a database
_STATEMENTS = Statements(
    entries="SELECT number, content, hash FROM noisewright_entries ORDER BY number",
    add_entry="INSERT INTO noisewright_entries VALUES (%s, %s, %s)",
    content="SELECT content FROM noisewright_contents WHERE digest = %s",
    add_content="INSERT INTO noisewright_contents VALUES (%s, %s) ON CONFLICT DO NOTHING",
)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS noisewright_entries"
    " (number bigint PRIMARY KEY, content bytea NOT NULL, hash text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS noisewright_contents"
    " (digest text PRIMARY KEY, content bytea NOT NULL)",
)


class PostgresStore:
    """Lines in a database."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def where(self) -> str:
        parts = urlsplit(self._address)
        return f"postgresql://{parts.hostname or ''}{parts.path}"

    def lines(self) -> Sequence[Line]:
        with self._connected() as connection:
            return Transaction(connection, _STATEMENTS).lines()

    def content(self, digest: str) -> bytes | None:
        with self._connected() as connection:
            return Transaction(connection, _STATEMENTS).content(digest)

    def faults(self) -> str | None:
        return None  # the server checks its pages itself

    @contextmanager
    def writing(self, *, new: bool = False) -> Iterator[Transaction]:
        with self._connected() as connection:
            connection.execute("SET LOCAL synchronous_commit TO on")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if new:
                for statement in _TABLES:
                    connection.execute(statement)
            yield Transaction(connection, _STATEMENTS)
            self._commit(connection)

    def _commit(self, connection: Any) -> None:
        import psycopg

        try:
            connection.commit()
        except psycopg.Error:
            raise NoisewrightError(
                f"{self.where}: the connection broke while an entry was written; nothing was"
                " released, and `ledger history` says whether it counts as spent"
            ) from None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection for one transaction; errors of the engine as ours."""
        try:
            import psycopg
        except ImportError:
            raise NoisewrightError(
                "a ledger in PostgreSQL needs psycopg; install noisewright[postgres]"
            ) from None
        try:
            with psycopg.connect(self._address, connect_timeout=30) as connection:
                try:
                    yield connection
                except BaseException:
                    connection.rollback()
                    raise
        except psycopg.errors.UndefinedTable:
            raise no_ledger(self.where) from None
        except psycopg.Error as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InvalidParameter(
                "ledger", self.where, f"cannot be used ({reason})",
                "check the address and the server; nothing was spent",
            ) from None  # fmt: skip
