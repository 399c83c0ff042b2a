"""Many processes at one budget, and processes killed at any moment."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import noisewright as nw
from ledger.ledgers import cost, rho
from ledger.server import postgres
from noisewright.errors import BudgetExceeded
from noisewright.ledger.book import Ledger

COUNTS = np.array([40, 0, 7, 1000])
# Children only write to the ledger and are gone.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
FORK = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "budget.db")
        return
    with postgres() as address:
        yield address


def racer(location: str, number: int, start: object, outcomes: object) -> None:
    start.wait()
    try:
        Ledger(location).reserve("people", cost(rho(0.1), plan=str(number))).commit(
            b"done"
        )
        outcomes.put("spent")
    except BudgetExceeded:
        outcomes.put("refused")
    except BaseException as error:
        outcomes.put(repr(error))


def test_fifty_processes_spend_the_last_ten_units_exactly(location: str) -> None:
    book = Ledger(location)
    book.create("people", nw.Privacy(rho=1.0))
    start, outcomes = FORK.Event(), FORK.Queue()
    racers = [
        FORK.Process(target=racer, args=(location, n, start, outcomes))
        for n in range(50)
    ]
    for process in racers:
        process.start()
    start.set()
    found = [outcomes.get(timeout=120) for _ in racers]
    for process in racers:
        process.join()
    assert (found.count("spent"), found.count("refused")) == (10, 40), found
    account = book.verify().account("people")
    assert len(account.releases) == 10
    assert all(spent.committed for spent in account.releases)


def test_a_ledger_in_postgres_does_all_that_a_file_does(tmp_path: Path) -> None:
    with postgres() as address:
        book = Ledger(address.replace("postgres@", "postgres:secret@"))
        assert "secret" not in book.where
        with pytest.raises(nw.NoisewrightError, match="is no ledger"):
            book.history()
        book.create("people", nw.Privacy(rho=0.1))
        first = nw.plan("prefix:4", nw.Privacy(rho=0.06))
        release = first.release(COUNTS, ledger=book, dataset="people")
        stored = first.release(COUNTS, ledger=book, dataset="people", again="stored")
        np.testing.assert_array_equal(stored.answers, release.answers)
        with pytest.raises(BudgetExceeded):
            first.release(COUNTS, ledger=book, dataset="people", again="spend")
        book.export(tmp_path / "c.json")
        book.verify(tmp_path / "c.json")
        import psycopg

        with psycopg.connect(address) as connection:
            connection.execute(
                "UPDATE noisewright_entries SET content = content || ' ' WHERE number = 2"
            )
        with pytest.raises(nw.NoisewrightError, match="entry 2 was changed"):
            book.reserve("people", cost(rho(0.01)))


def releasing(location: str, folder: Path, plan: nw.Plan, started: object) -> None:
    """Release and write, again and again, until killed."""
    book = Ledger(location)
    started.set()
    while True:
        release = plan.release(COUNTS, ledger=book, dataset="people", again="spend")
        (folder / f"{release.identity}.answers").write_text(
            str(release.answers.tolist())
        )


def killed_releases(tmp_path: Path, times: int, seed: int) -> tuple[int, int]:
    """Kill a releasing process at random moments; all that it gave out is in the ledger."""
    location = str(tmp_path / "budget.db")
    book = Ledger(location)
    book.create("people", nw.Privacy(rho=1.0))
    plan = nw.plan("prefix:4", nw.Privacy(rho=1e-6))
    plan.release(COUNTS, ledger=book, dataset="people")  # all that is worked out once
    before = time.perf_counter()
    plan.release(COUNTS, ledger=book, dataset="people", again="spend")
    # kills are to fall anywhere in the first two releases
    usual = time.perf_counter() - before
    rng, shown = random.Random(seed), 2
    for _ in range(times):
        started = FORK.Event()
        process = FORK.Process(
            target=releasing, args=(location, tmp_path, plan, started)
        )
        process.start()
        started.wait()
        time.sleep(rng.uniform(0.0, 2 * usual))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        known = {
            spent.reserved.release
            for spent in book.history().account("people").releases
        }
        assert {file.stem for file in tmp_path.glob("*.answers")} <= known
        # A busy machine takes longer than it did once: kills follow what it reaches now.
        usual *= 1.2 if len(known) == shown else 1 / 1.2
        shown = len(known)
    account = book.verify().account("people")
    unfinished = sum(spent.committed is None for spent in account.releases)
    assert account.used.most > 0
    plan.release(COUNTS, ledger=book, dataset="people@after")
    return len(account.releases), unfinished


def test_killed_processes_leave_a_readable_ledger_that_shows_every_release(
    tmp_path: Path,
) -> None:
    releases, _ = killed_releases(tmp_path, 15, 1)
    assert releases > 2


@pytest.mark.slow
def test_two_hundred_kills_leave_a_readable_ledger(tmp_path: Path) -> None:
    releases, unfinished = killed_releases(tmp_path, 200, 2)
    assert releases > 40
    assert unfinished > 5  # killed between reserving and committing: spent all the same
