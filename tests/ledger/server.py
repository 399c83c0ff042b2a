"""A throwaway PostgreSQL server on a socket of its own, where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest


def _programs() -> Path:
    found = shutil.which("initdb")
    folders = (
        [Path(found).parent]
        if found
        else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    )
    if not folders:
        pytest.skip("no PostgreSQL server is installed")
    return folders[-1]


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a fresh database; the server is gone afterwards."""
    pytest.importorskip("psycopg")
    programs = _programs()
    folder = Path(mkdtemp(prefix="nw-pg-"))  # short: a socket's path has little room
    prefix: list[str] = []
    user = "postgres"
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip(
                "running as root, and there is no user postgres to run a server as"
            )
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        prefix = ["runuser", "-u", "postgres", "--"]
    data = folder / "data"

    def call(*command: str) -> None:
        subprocess.run(
            [*prefix, *command], check=True, capture_output=True, cwd=folder, timeout=60
        )

    call(
        str(programs / "initdb"),
        "-D",
        str(data),
        "-U",
        user,
        "-A",
        "trust",
        "--no-sync",
    )
    options = f"-c listen_addresses='' -k {folder} -c max_connections=80"
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    call(*control, "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://{user}@/postgres?host={folder}"
    finally:
        call(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
