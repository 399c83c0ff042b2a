"""Processes that are killed, disks that are full: what was acknowledged is there, once."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from collect.collector import campaign, plan_bytes, running, submission
from collect.served import PATIENCE, started, stop, wait_until
from noisewright.collect.service import Settings
from noisewright.errors import InvalidParameter
from ports import free_port


class Sender(threading.Thread):
    """Sends reports without end, each until it is acknowledged, as a device does."""

    def __init__(self, port: int, report: bytes) -> None:
        super().__init__(daemon=True)
        self.port, self.report, self.ends = port, report, threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        while not self.ends.is_set():
            body = json.dumps(submission(self.report))
            while not self._sent(body):
                time.sleep(0.02)
            self.acknowledged += 1

    def _sent(self, body: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/api/campaigns/travel/reports", body)
            return connection.getresponse().status in (200, 201)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def kept(database: Path) -> tuple[int, int]:
    """How many reports are counted, and how many are kept."""
    store = Settings(database=str(database)).open_store()
    published = store.campaign("travel")
    counts = store.aggregate(published).people, sum(1 for _ in store.reports(published))
    store.close()
    return counts


def wait_for_more(senders: list[Sender]) -> None:
    """Wait until some more reports were acknowledged."""

    def acknowledged() -> int:
        return sum(sender.acknowledged for sender in senders)

    enough = acknowledged() + 10
    wait_until(lambda: acknowledged() >= enough, "reports are acknowledged")


def killed_under_load(folder: Path, times: int, workers: int) -> tuple[int, int, int]:
    """Acknowledged, counted and kept reports after so many kills of a worker or of everything."""
    plan, port, chance = folder / "travel.nw", free_port(), random.Random(0)
    plan.write_bytes(plan_bytes())
    options = ["--rate", "0", "--workers", str(workers)]
    served = started(folder, plan, *options, port=port)
    senders = [Sender(port, campaign().plan.client.randomize(i)) for i in range(6)]
    for sender in senders:
        sender.start()
    for turn in range(times):
        wait_for_more(senders)  # it works again
        time.sleep(chance.random() * 0.1)
        if workers > 1 and turn % 2:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(chance.choice(served.workers), signal.SIGKILL)
        else:
            stop(served, signal.SIGKILL)
            served = started(folder, plan, *options, port=port)
    for sender in senders:
        sender.ends.set()
    for sender in senders:
        sender.join(timeout=PATIENCE)
        assert not sender.is_alive()
    stop(served)
    return sum(sender.acknowledged for sender in senders), *kept(
        folder / "collector.db"
    )


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    acknowledged, counted, rows = killed_under_load(tmp_path, times=1, workers=1)
    assert acknowledged == counted == rows > 10


@pytest.mark.slow
def test_what_was_acknowledged_survives_fifty_kills(tmp_path):
    acknowledged, counted, rows = killed_under_load(tmp_path, times=50, workers=2)
    assert acknowledged == counted == rows > 500
    print(f"{acknowledged} acknowledged, counted and kept over 50 kills")


def test_a_full_disk_is_told_and_passes(tmp_path, monkeypatch):
    """The database may grow by some pages and no more; then it may again."""
    real = sqlite3.connect
    opened = []

    def connect(*args, **options):
        connection = real(*args, **options)
        opened.append(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    with running(str(tmp_path / "c.db"), campaign()) as collector:
        bodies = [submission(collector.report(i % 12)) for i in range(150)]
        assert collector.send(bodies[0]).status_code == 201
        limited = [c.execute("PRAGMA max_page_count = 1").fetchone()[0] for c in opened]
        assert max(limited) < 60  # pages that are there already: hardly any more fit
        answers = [collector.send(body) for body in bodies]
        refusals = [answer for answer in answers if answer.status_code == 503]
        assert {answer.status_code for answer in answers} == {200, 201, 503}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refusals)
        # After a failure the connection is opened anew, without the limit: the disk has room again.
        again = [collector.send(body).status_code for body in bodies]
        assert set(again) <= {200, 201}
        assert collector.store.aggregate(collector.campaign).people == 150
        assert sum(1 for _ in collector.store.reports(collector.campaign)) == 150


@pytest.fixture
def small_disk(tmp_path):
    """A disk of four megabytes, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(["mount", *options], check=False).returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_really_full_loses_nothing(small_disk):
    """Somebody else's file takes the room; when it goes, what was refused is taken."""
    database = small_disk / "c.db"
    with running(str(database), campaign()) as collector:
        first, *rest = [submission(collector.report(i % 12)) for i in range(60)]
        assert collector.send(first).status_code == 201
        room = os.statvfs(small_disk)
        (small_disk / "other").write_bytes(bytes(room.f_bavail * room.f_bsize))
        answers = [collector.send(body) for body in rest]
        codes = {answer.status_code for answer in answers}
        assert codes <= {201, 503}
        assert 503 in codes
        refused = [answer for answer in answers if answer.status_code == 503]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        acknowledged = 1 + len(answers) - len(refused)
        assert collector.store.aggregate(collector.campaign).people == acknowledged
        (small_disk / "other").unlink()
        assert {collector.send(body).status_code for body in rest} <= {200, 201}
        assert collector.store.aggregate(collector.campaign).people == 60
        assert sum(1 for _ in collector.store.reports(collector.campaign)) == 60


def test_what_was_taken_is_written_before_the_collector_ends(tmp_path):
    plan = tmp_path / "travel.nw"
    plan.write_bytes(plan_bytes())
    served = started(tmp_path, plan, "--rate", "0")
    port = int(served.address.rpartition(":")[2])
    senders = [Sender(port, campaign().plan.client.randomize(i)) for i in range(4)]
    for sender in senders:
        sender.start()
    wait_for_more(senders)
    stop(served)  # SIGTERM, as a service manager sends it
    assert served.process.returncode in (0, -signal.SIGTERM)
    for sender in senders:
        sender.ends.set()
    acknowledged = sum(sender.acknowledged for sender in senders)
    counted, rows = kept(tmp_path / "collector.db")
    assert counted == rows
    # one answer each may not have arrived
    assert acknowledged <= counted <= acknowledged + 4
    assert (
        not list(tmp_path.glob("*.db-wal"))
        or (tmp_path / "collector.db-wal").stat().st_size == 0
    )


def test_a_database_with_two_names_is_refused(tmp_path):
    """Each name would have a log of its own, and reports in one would be lost to the other."""
    path, link = tmp_path / "collector.db", tmp_path / "link.db"
    path.touch()
    link.hardlink_to(path)
    with pytest.raises(InvalidParameter, match="hard links"):
        Settings(database=str(path)).open_store().campaigns()
    link.unlink()
    store = Settings(database=str(path)).open_store()
    assert store.campaigns() == []
    store.close()
