"""The collector as a process of its own, as people start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import yaml

from collect.collector import plan_bytes
from ports import free_port

PATIENCE = 300.0
"""Seconds after which a test gives up: no figure, only an end."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that comes sooner or later, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Served:
    """A process, where it listens, and its admin key."""

    def __init__(self, process: subprocess.Popen, address: str, folder: Path) -> None:
        self.process, self.address, self.folder = process, address, folder
        self.log = folder / "served.log"

    @property
    def key(self) -> str:
        return (self.folder / "collector.admin-key").read_text().strip()

    @property
    def workers(self) -> list[int]:
        """Processes that the first one started."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [int(pid) for pid in Path(path).read_text().split()]


def started(
    folder: Path,
    plan: Path,
    *options: str,
    port: int | None = None,
    files: int | None = None,
) -> Served:
    """A collector that answers requests, with so many descriptors where told."""
    port, log = port or free_port(), folder / "served.log"
    command = [
        sys.executable,
        "-m",
        "noisewright",
        "serve",
        str(plan),
        "--port",
        str(port),
    ]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    with log.open("a") as output:
        process = subprocess.Popen(
            [*command, *options],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "NOISEWRIGHT_LOG": "INFO"},
            start_new_session=True,
        )
    served = Served(process, f"http://127.0.0.1:{port}", folder)
    try:
        wait_until(
            lambda: process.poll() is not None or _answers(served),
            "the collector starts",
        )
        assert process.poll() is None, log.read_text()
    except BaseException:
        stop(served, signal.SIGKILL)
        raise
    return served


def _answers(served: Served) -> bool:
    try:
        with urlopen(f"{served.address}/health", timeout=10) as answer:
            return answer.status == 200
    except OSError:
        return False


def stop(served: Served, how: signal.Signals = signal.SIGTERM) -> None:
    """End the process and all its workers."""
    if served.process.poll() is None:
        os.killpg(served.process.pid, how)
        served.process.wait(timeout=PATIENCE)


@contextmanager
def serving(
    folder: Path,
    *options: str,
    mechanism: str = "randomized-response",
    files: int | None = None,
    **terms: object,
) -> Iterator[Served]:
    """A collector over a small campaign."""
    plan, campaign = folder / "travel.nw", folder / "travel.yaml"
    plan.write_bytes(plan_bytes(mechanism))
    campaign.write_text(yaml.safe_dump({"title": "How do you travel?", **terms}))
    options = ("--campaign", str(campaign), "--rate", "0", *options)
    served = started(folder, plan, *options, files=files)
    try:
        yield served
    finally:
        stop(served)
