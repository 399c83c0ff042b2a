"""How many durable reports a second the collector takes, and how long each waits.

The sender is a process of its own on loopback. Every report is sent twice now and then, as browsers
do when an answer is lost; at the end the collector must hold each exactly once.

    python benchmarks/collector_load.py --seconds 60
    python benchmarks/collector_load.py --seconds 60 --postgres
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import numpy as np
import uvloop

import noisewright as nw
from noisewright.collect.campaign import Terms
from noisewright.collect.server.serve import prepare
from noisewright.collect.service import Settings
from noisewright.planning.local.plan import LocalPlan

EVERY = 50
"""One in so many report is sent twice."""

TICK = 0.002
MOST_A_SECOND = 6000
"""Requests that are made beforehand."""

LENGTH = re.compile(rb"(?i)content-length: (\d+)")


class Load(NamedTuple):
    """For how long, over how many connections, and how fast; zero is as fast as it goes."""

    seconds: float
    connections: int
    rate: float


def bodies(plan_file: str, count: int) -> list[bytes]:
    """Requests, ready to be written to a socket."""
    plan = nw.load(plan_file)
    assert isinstance(plan, LocalPlan)
    rows = plan.client.randomize_many(
        np.random.default_rng(0).integers(0, plan.strategy.size, count)
    )
    requests = []
    for row in rows:
        nonce = base64.b64encode(secrets.token_bytes(16)).decode()
        report = base64.b64encode(row.tobytes()).decode()
        text = json.dumps({"nonce": nonce, "report": report})
        lines = (
            "POST /api/campaigns/load/reports HTTP/1.1",
            "host: x",
            f"content-length: {len(text)}",
        )
        requests.append(("\r\n".join([*lines, "", ""]) + text).encode())
    return requests


class Sender:
    """Sends all requests over some connections, each of which waits for its answer.

    Without a rate a connection sends again as soon as it is answered. With one, every request has
    its time, and what it waits for a free connection or for this process counts as waiting.
    """

    def __init__(self, requests: list[bytes], seconds: float, rate: float) -> None:
        self.requests, self.seconds, self.rate = requests, seconds, rate
        self.statuses: Counter[int] = Counter()
        self.waits: list[float] = []
        self.sent = 0
        self.idle: deque[Connection] = deque()
        self.busy = 0

    async def run(self, port: int, connections: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
        self.begun = time.perf_counter()
        while not self.over or self.busy:
            self.send_due()
            await asyncio.sleep(TICK)
        self.took = time.perf_counter() - self.begun

    def due(self, place: int) -> float:
        return self.begun + place / self.rate if self.rate else time.perf_counter()

    @property
    def over(self) -> bool:
        spent = (
            (self.sent / self.rate) if self.rate else time.perf_counter() - self.begun
        )
        return self.sent == len(self.requests) or spent > self.seconds

    def send_due(self) -> None:
        while (
            self.idle and not self.over and self.due(self.sent) <= time.perf_counter()
        ):
            place, self.sent, self.busy = self.sent, self.sent + 1, self.busy + 1
            self.idle.popleft().send(
                self.requests[place], self.due(place), place % EVERY == 0
            )


class Connection(asyncio.Protocol):
    """One browser after another on one connection."""

    def __init__(self, sender: Sender) -> None:
        self.sender, self.buffer = sender, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.sender.idle.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.sender.idle:
            self.sender.idle.remove(self)
        else:
            self.sender.statuses[0] += 1
            self.sender.busy -= 1

    def send(self, request: bytes, due: float, again: bool) -> None:
        self.request, self.due, self.again = request, due, again
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end or len(rest) < int(LENGTH.search(head)[1]):
            return
        self.buffer = b""
        self.sender.statuses[int(head[9:12])] += 1
        if self.again:
            self.again = False
            self.transport.write(self.request)
            return
        self.sender.waits.append(time.perf_counter() - self.due)
        self.sender.busy -= 1
        self.sender.idle.append(self)
        self.sender.send_due()


class Measured(NamedTuple):
    """What one run of the sender saw."""

    statuses: dict[int, int]
    waits: list[float]
    seconds: float
    processor: float

    @property
    def answers(self) -> int:
        return sum(self.statuses.values())


def send_all(queue, plan_file: str, port: int, options: Load) -> None:
    requests = bodies(
        plan_file, int(options.seconds * (options.rate or MOST_A_SECOND)) + 1
    )
    sender = Sender(requests, options.seconds, options.rate)
    gc.freeze()  # or a search for garbage among all requests would count as waiting
    queue.put("ready")
    before = time.process_time()
    uvloop.run(sender.run(port, options.connections))
    spent = time.process_time() - before
    gc.unfreeze()  # what was imported is taken apart in order
    queue.put(Measured(dict(sender.statuses), sender.waits, sender.took, spent))


def measured(plan_file: str, port: int, options: Load) -> Measured:
    context = get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=send_all, args=(queue, plan_file, port, options))
    process.start()
    assert queue.get() == "ready"
    result = queue.get()
    process.join()
    return result


def serve(folder: Path, database: str, workers: int) -> tuple[subprocess.Popen, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "noisewright",
        "serve",
        "--port",
        str(port),
        "--rate",
        "0",
    ]
    command += ["--per-sender", "4096"]  # all of them are one sender here
    process = subprocess.Popen(
        [*command, "--database", database, "--workers", str(workers)],
        cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    while True:
        try:
            urlopen(f"http://127.0.0.1:{port}/health").close()
            urlopen(f"http://127.0.0.1:{port}/api/campaigns/load").close()
            return process, port
        except OSError:
            time.sleep(0.1)


def processor_seconds(group: int) -> float:
    """What all processes of the collector have computed for so far."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def told(load: Load, run: Measured, collector: float) -> str:
    ms = 1000 * np.quantile(run.waits, [0.5, 0.99, 0.999])
    title = f"{load.rate:g} a second" if load.rate else "as fast as it goes"
    return (
        f"{title:>20}: {run.statuses.get(201, 0) / run.seconds:7,.0f} durable reports a second for "
        f"{run.seconds:.0f} s; waited {ms[0]:.1f} ms (median), {ms[1]:.1f} (99 %), {ms[2]:.1f} "
        f"(99.9 %); statuses {run.statuses}; processor time of a report: collector "
        f"{1e6 * collector / run.answers:.0f} µs, sender {1e6 * run.processor / run.answers:.0f} µs"
    )


def benchmark(database: str, workers: int, loads: list[Load]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan_file = str(folder / "load.nw")
        nw.plan(
            "identity:64", nw.Privacy(epsilon=1), nw.Local(mechanism="hadamard")
        ).save(plan_file)
        settings = Settings(database=database or str(folder / "load.db"))
        campaign = prepare(
            settings, plan_file, Terms(name="load", title="Load"), folder=folder
        ).campaign
        store = settings.open_store()
        before = store.aggregate(campaign).people
        process, port = serve(folder, settings.database, workers)
        accepted = 0
        print(
            f"cores {os.cpu_count()}, load average {os.getloadavg()[0]:.1f}, workers {workers}"
        )
        try:
            for load in loads:
                computed = processor_seconds(process.pid)
                run = measured(plan_file, port, load)
                accepted += run.statuses.get(201, 0)
                print(
                    told(load, run, processor_seconds(process.pid) - computed),
                    flush=True,
                )
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        kept = store.aggregate(campaign).people - before
        rows = sum(1 for _ in store.reports(campaign)) - before
        print(f"acknowledged {accepted:,}, counted {kept:,}, kept {rows:,}")
        assert accepted == kept == rows
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="")
    parser.add_argument(
        "--postgres", action="store_true", help="on a server of its own"
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rate", type=float, default=750, help="of the second run")
    options = parser.parse_args()
    loads = [
        Load(options.seconds, options.connections, rate) for rate in (0.0, options.rate)
    ]
    if not options.postgres:
        benchmark(options.database, options.workers, loads)
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from postgres_server import postgres_server

    with postgres_server() as server:
        benchmark(server.address, options.workers, loads)


if __name__ == "__main__":
    main()
