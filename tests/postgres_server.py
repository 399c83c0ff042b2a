"""A PostgreSQL server that lives as long as its user, on a free port of loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ports import free_port

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PATH = os.pathsep.join([*map(str, _PLACES), os.environ.get("PATH", "")])
INITDB, PG_CTL = (shutil.which(name, path=PATH) for name in ("initdb", "pg_ctl"))


def _owner() -> str | None:
    """PostgreSQL refuses to run as root: it then runs as its own user, if there is one."""
    if os.getuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


AVAILABLE = INITDB is not None and PG_CTL is not None


class PostgresServer:
    """The server's data, where it listens, and how it is stopped and started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.owner = folder, _owner()
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            user=self.owner,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def create(self) -> None:
        data = str(self.folder / "data")
        self._run(
            INITDB, "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"
        )

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
            "-c logging_collector=off"
        )
        data, log = str(self.folder / "data"), str(self.folder / "log")
        # Output goes to the log alone, or whoever waits for this command waits for the server.
        subprocess.run(
            [PG_CTL, "-D", data, "-l", log, "-o", options, "-w", "start"],
            user=self.owner, cwd="/", check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def stop(self, how: str = "fast") -> None:
        self._run(PG_CTL, "-D", str(self.folder / "data"), "-m", how, "-w", "stop")


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server with an empty database, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="noisewright-postgres-"))
    server = PostgresServer(folder)
    if server.owner:
        shutil.chown(folder, server.owner)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
