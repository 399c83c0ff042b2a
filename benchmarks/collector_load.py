"""How many durable reports a second the collector takes, and how long each waits.

The sender is a process of its own on loopback. Every report is sent twice now and then, as browsers
do when an answer is lost; at the end the collector must hold each exactly once.

    python benchmarks/collector_load.py --seconds 60 --workers 1
    python benchmarks/collector_load.py --database postgresql://… --workers 2
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from urllib.request import urlopen

import numpy as np

import noisewright as nw
from noisewright.collect.campaign import Terms
from noisewright.collect.serve import prepare
from noisewright.collect.service import Settings

RETRIED = 0.02


def bodies(plan_file: str, count: int) -> list[bytes]:
    """Requests, ready to be written to a socket."""
    plan = nw.load(plan_file)
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


class Connection(asyncio.Protocol):
    """One browser after another on one connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""
        self.answer: asyncio.Future[int] | None = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if end:
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if len(rest) >= length:
                self.buffer = rest[length:]
                self.answer.set_result(int(head[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError())

    async def send(self, request: bytes) -> int:
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.answer


async def sending(port: int, requests: list[bytes], seconds: float, connections: int, rate: float):
    """Status codes and waiting times; with a rate, requests are due at their time."""
    loop = asyncio.get_running_loop()
    lines = [
        (await loop.create_connection(Connection, "127.0.0.1", port))[1] for _ in range(connections)
    ]
    statuses: dict[int, int] = {}
    waits: list[float] = []
    begun, place = time.perf_counter(), 0

    async def one(line: Connection) -> None:
        nonlocal place
        while place < len(requests):
            mine, place = place, place + 1
            due = begun + mine / rate if rate else time.perf_counter()
            if due - begun > seconds:
                return
            if due > time.perf_counter():
                await asyncio.sleep(due - time.perf_counter())
            again = mine % int(1 / RETRIED) == 0
            for _ in range(1 + again):
                status = await line.send(requests[mine])
                statuses[status] = statuses.get(status, 0) + 1
            waits.append(time.perf_counter() - due)

    await asyncio.gather(*(one(line) for line in lines))
    return statuses, waits, time.perf_counter() - begun


def send_all(
    queue, plan_file: str, port: int, seconds: float, connections: int, rate: float, most: int
) -> None:
    requests = bodies(plan_file, most)
    queue.put("ready")
    queue.put(asyncio.run(sending(port, requests, seconds, connections, rate)))


def measured(plan_file: str, port: int, seconds: float, connections: int, rate: float, most: int):
    context = get_context("spawn")
    queue = context.Queue()
    process = context.Process(
        target=send_all, args=(queue, plan_file, port, seconds, connections, rate, most)
    )
    process.start()
    assert queue.get() == "ready"
    result = queue.get()
    process.join()
    return result


def serve(folder: Path, database: str, workers: int) -> tuple[subprocess.Popen, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "noisewright", "serve", "--port", str(port), "--rate", "0"]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rate", type=float, default=750, help="of the second run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan_file = str(folder / "load.nw")
        nw.plan("identity:64", nw.Privacy(epsilon=1), model="local", mechanism="hadamard").save(
            plan_file
        )
        settings = Settings(database=options.database or str(folder / "load.db"))
        prepared = prepare(settings, plan_file, Terms(name="load", title="Load"))
        store = settings.open_store()
        before = store.aggregate(prepared.campaign).people
        process, port = serve(folder, settings.database, options.workers)
        accepted = 0
        print(
            f"cores {os.cpu_count()}, load average {os.getloadavg()[0]:.1f}, "
            f"workers {options.workers}"
        )
        try:
            for title, rate in (
                ("as fast as it goes", 0.0),
                (f"{options.rate:g} a second", options.rate),
            ):
                computed = processor_seconds(process.pid)
                most = int(options.seconds * (rate or 6000)) + 1
                statuses, waits, took = measured(
                    plan_file, port, options.seconds, options.connections, rate, most
                )
                accepted += statuses.get(201, 0)
                each = 1e6 * (processor_seconds(process.pid) - computed) / sum(statuses.values())
                ms = 1000 * np.quantile(waits, [0.5, 0.99, 0.999])
                print(
                    f"{title:>20}: {statuses.get(201, 0) / took:7,.0f} durable reports a second "
                    f"for {took:.0f} s; waited {ms[0]:.1f} ms (median), {ms[1]:.1f} (99 %), "
                    f"{ms[2]:.1f} (99.9 %); {statuses}; collector's processor time "
                    f"{each:.0f} µs each"
                )
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        kept = store.aggregate(prepared.campaign).people - before
        rows = sum(1 for _ in store.reports(prepared.campaign)) - before
        print(f"acknowledged {accepted:,}, counted {kept:,}, kept {rows:,}")
        assert accepted == kept == rows
        store.close()


if __name__ == "__main__":
    main()
