"""Slow and endless senders against the real server, on loopback: others are served all the same."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.request import Request, urlopen

import pytest
import uvicorn

from collect.collector import campaign, submission
from collect.served import PATIENCE, serving, wait_until
from noisewright.collect.server.application import application, held_by_files
from noisewright.collect.server.connections import LEAST_BYTES, MOST_HEAD, Connection
from noisewright.collect.service import Settings

FILES = 1024
"""The limit on descriptors that most systems start processes with."""

SLOW = 1000
ENDLESS = 2**26
"""Bytes: far more than a connection holds on its way."""

REPORTS = "/api/campaigns/travel/reports"
HALVES = {
    "bodies": f"POST {REPORTS} HTTP/1.1\r\nhost: x\r\ncontent-length: 200\r\n\r\n"
    + 50 * "{",
    "heads": f"POST {REPORTS} HTTP/1.1\r\nhost: x\r\nx-half: ",
}


def connected(address: str, first: str = "") -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    opened = socket.create_connection((host, int(port)), timeout=PATIENCE)
    opened.sendall(first.encode())
    return opened


def reply(opened: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    try:
        while part := opened.recv(2**16):
            parts.append(part)
    except ConnectionResetError:  # closed while it was still being sent to
        pass
    return b"".join(parts)


def sent(address: str, **headers: str) -> int:
    body = json.dumps(submission(campaign().plan.client.randomize(1))).encode()
    with urlopen(Request(address + REPORTS, body, headers), timeout=PATIENCE) as answer:
        return answer.status


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < SLOW + 500,
    reason="too few descriptors",
)
@pytest.mark.parametrize("kind", HALVES)
def test_a_thousand_half_sent_requests_shut_nobody_out(tmp_path, kind):
    """As many as the server has descriptors, from its own address; then honest people come."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SLOW + 500, hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        served = stack.enter_context(
            serving(tmp_path, "--per-sender", "4000", files=FILES)
        )
        slow = [
            stack.enter_context(connected(served.address, HALVES[kind]))
            for _ in range(SLOW)
        ]
        assert len(slow) == SLOW
        assert [sent(served.address) for _ in range(20)] == [201] * 20
        asked = Request(
            f"{served.address}/metrics",
            headers={"authorization": f"Bearer {served.key}"},
        )
        told = urlopen(asked, timeout=PATIENCE).read().decode()
        assert 'connections_total{cut="made_room"}' in told
        assert "Too many open files" not in served.log.read_text()


@contextmanager
def listening(tmp_path, **settings: object) -> Iterator[str]:
    """The server in a thread, with its own protocol and the patience that a test has."""
    configured = Settings(database=str(tmp_path / "c.db"), rate=0.0, **settings)
    store = configured.open_store()
    store.publish(campaign())
    app = application(configured)
    config = uvicorn.Config(
        app, port=0, http=Connection, log_level="error", proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server starts")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        store.close()


@pytest.mark.parametrize("kind", HALVES)
def test_half_sent_requests_are_ended(tmp_path, kind):
    with (
        listening(tmp_path, patience=0.2) as address,
        connected(address, HALVES[kind]) as slow,
    ):
        assert reply(slow).startswith(b"HTTP/1.1 408 ")


def test_connections_that_say_nothing_are_ended(tmp_path):
    with listening(tmp_path, patience=0.2) as address, connected(address) as silent:
        assert reply(silent) == b""


def test_a_head_that_trickles_gains_no_time(tmp_path):
    """Bytes now and then keep no connection open, not even empty lines before a head."""
    with listening(tmp_path, patience=0.2) as address, connected(address) as slow:
        slow.settimeout(0.02)
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline
            try:
                slow.sendall(b"\r\n")
                if not slow.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break


def test_heads_have_a_length(tmp_path):
    """One header, many headers, an address or trailers: none may grow without end."""
    post = f"POST {REPORTS} HTTP/1.1\r\nhost: x\r\n"
    endless = {
        "a header": (f"{post}x-long: ", "x"),
        "headers": (post, "x-many: 1\r\n"),
        "an address": (f"GET /{REPORTS}", "x"),
        "trailers": (
            f"{post}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\n",
            "x-many: 1\r\n",
        ),
    }
    with listening(tmp_path) as address:
        for name, (first, more) in endless.items():
            with connected(address, first) as greedy:
                written = 0
                try:
                    while written < ENDLESS:
                        written += greedy.send(more.encode() * 1000)
                except OSError:
                    pass
                assert reply(greedy)[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 422", b""), (
                    name
                )
                assert written < ENDLESS, name
        assert sent(address, **{"x-long": "x" * (MOST_HEAD // 2)}) == 201


def test_bodies_that_move_may_take_longer_than_patience(tmp_path):
    """Several spans of patience, each with what must move in one."""
    length = 6 * LEAST_BYTES
    head = (
        f"POST /api/campaigns HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"
    )
    with listening(tmp_path, patience=0.5) as address, connected(address, head) as slow:
        for _ in range(6):
            slow.sendall(b"x" * LEAST_BYTES)
            time.sleep(0.25)
        slow.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answers = reply(slow)
    # told at once, and read to its end all the same
    assert answers.startswith(b"HTTP/1.1 401")
    assert b"HTTP/1.1 200" in answers


def test_answers_that_nobody_reads_are_given_up(tmp_path):
    """A reader that stops holds a connection for a while, however much is left to be read."""
    ask = b"GET /assets/noisewright.js HTTP/1.1\r\nhost: x\r\n\r\n"
    with listening(tmp_path, patience=0.2) as address, connected(address) as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.settimeout(0.1)
        with pytest.raises(OSError, match=r"(?i)reset|pipe"):
            _keep_asking(idle, ask)


def _keep_asking(opened: socket.socket, ask: bytes) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(TimeoutError):
            opened.sendall(ask)


def test_requests_far_ahead_of_their_answers_are_refused(tmp_path):
    ask = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    with listening(tmp_path) as address, connected(address) as hasty:
        hasty.sendall(ask * 500)
        assert reply(hasty).count(b"HTTP/1.1 200") < 100


def test_senders_behind_a_proxy_are_told_apart_only_where_the_proxy_is_named(tmp_path):
    """The header of a stranger changes nothing; that of a proxy counts each sender for itself."""
    half = HALVES["bodies"]

    def named(sender: str) -> str:
        return half.replace("host: x", f"host: x\r\nx-forwarded-for: {sender}")

    for name, proxies, third in (
        ("believed", ("127.0.0.1",), "203.0.113.1"),  # its own first one makes room
        ("stranger", (), "203.0.113.9"),  # all three are one sender
    ):
        folder = tmp_path / name
        folder.mkdir()
        settings = {"connections_a_sender": 2 - len(proxies), "proxies": proxies}
        with (
            listening(folder, **settings) as address,
            connected(address, named("203.0.113.1")) as first,
            connected(address, named("203.0.113.2")) as second,
            connected(address, named(third)),
        ):
            assert reply(first).startswith(b"HTTP/1.1 408"), name
            second.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.recv(1)


def test_no_more_is_promised_than_there_are_descriptors():
    """Asked in a process of its own, since a limit that was lowered stays low."""
    code = (
        "import resource\n"
        "from noisewright.collect.server.application import held_by_files as held\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1024)); print(held(100), held(4096))\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    few, many, soft = (int(word) for word in done.stdout.split())
    assert few == 100
    assert few < many < soft == 1024
    assert held_by_files(1) == 1
