"""Engines that the tests start for themselves, each with a way to put an Arrow table into it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from noisewright.tables.backends.postgres import PostgresCounter, quoted
from noisewright.tables.backends.spark import SparkCounter
from noisewright.tables.counter import DuckDBCounter

KINDS = {
    pa.int8(): ("smallint", "tinyint"), pa.int64(): ("bigint", "bigint"),
    pa.float32(): ("real", "float"), pa.float64(): ("double precision", "double"),
    pa.decimal128(20, 3): ("numeric", "decimal(20,3)"), pa.string(): ("text", "string"),
    pa.bool_(): ("boolean", "boolean"), pa.date32(): ("date", "date"),
    pa.timestamp("us"): ("timestamp", "timestamp_ntz"),
    pa.timestamp("us", "UTC"): ("timestamptz", "timestamp"),
}  # fmt: skip
"""Types of PostgreSQL and of Spark."""


class DuckDBEngine:
    """The embedded engine: tables are handed over as they are."""

    counter: Any = DuckDBCounter()

    def put(self, table: pa.Table) -> Any:
        return table


class PostgresEngine:
    """A server of its own, in a folder of its own."""

    counter: Any = PostgresCounter()

    def __init__(self, address: str, log: Path) -> None:
        self.address, self.log, self.tables = address, log, 0

    def put(self, table: pa.Table) -> str:
        import psycopg

        self.tables += 1
        name = f"people {self.tables}"
        columns = [f"{quoted(f.name)} {KINDS[f.type][0]}" for f in table.schema]
        with psycopg.connect(self.address) as connection:
            connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(columns)})")
            with connection.cursor().copy(f"COPY {quoted(name)} FROM STDIN") as copy:
                for row in zip(
                    *(column.to_pylist() for column in table.columns), strict=True
                ):
                    copy.write_row(row)
        return f"{self.address}#{name}"


class SparkEngine:
    """A session in local mode."""

    counter: Any = SparkCounter()

    def __init__(self, session: Any) -> None:
        self.session = session

    def put(self, table: pa.Table) -> Any:
        kinds = ", ".join(f"`{f.name}` {KINDS[f.type][1]}" for f in table.schema)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return self.session.createDataFrame(rows, kinds)


def postgres_programs() -> Path:
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if not folders:
        pytest.skip(
            "no PostgreSQL server here: initdb is neither on the path nor in /usr/lib"
        )
    return folders[0]


def _as_whom() -> dict[str, Any]:
    """A server refuses to run as root: take a user that owns nothing else."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in names else "nobody"
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@contextmanager
def postgres() -> Iterator[PostgresEngine]:
    """A server that listens on a socket in its own folder alone; gone with the block."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs, whom = postgres_programs(), _as_whom()
    folder = Path(tempfile.mkdtemp(prefix="nwpg"))
    if whom:
        os.chown(folder, pwd.getpwnam(whom["user"]).pw_uid, whom["group"])
    data, log = folder / "data", folder / "log"
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "check": True,
        "cwd": folder,
        **whom,
    }
    subprocess.run([programs / "initdb", "-D", data, "-U", "tester", "-E", "UTF8",
                    "--locale=C.UTF-8", "-A", "trust", "-N"], **quiet)  # fmt: skip
    settings = (
        f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    )
    settings += " -c log_statement=all"
    control = [programs / "pg_ctl", "-D", data, "-w", "-l", log]
    subprocess.run([*control, "-o", settings, "start"], **quiet)
    try:
        yield PostgresEngine(f"postgresql://tester@/postgres?host={folder}", log)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder, ignore_errors=True)


_INTERPRETED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""For small tables: what is compiled for large ones takes longer than it saves."""


@contextmanager
def spark(compiled: bool = True) -> Iterator[SparkEngine]:
    """A session with one thread and one partition; gone with the block."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java here, which Spark needs")
    from pyspark.sql import SparkSession

    # executors run the same packages
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("noisewright")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "600m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # instants are read in UTC all the same
        "spark.sql.session.timeZone": "America/New_York",
        "spark.log.level": "OFF",
        **({} if compiled else _INTERPRETED),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield SparkEngine(session)
    finally:
        session.stop()
