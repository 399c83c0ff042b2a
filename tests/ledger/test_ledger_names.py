"""One ledger under several names: links, mounts, copies, and what a killed process leaves."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import noisewright as nw
from ledger.ledgers import cost, ledger, rho
from noisewright.errors import BudgetExceeded, InvalidParameter, NoisewrightError
from noisewright.files import check_only_name
from noisewright.ledger import sqlite_store
from noisewright.ledger.book import Ledger

# Children only write to the ledger and are gone.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
FORK = multiprocessing.get_context("fork")


def outcomes(*locations: Path) -> list[str]:
    """What eight processes, in turns over the locations, are told when each asks for a quarter."""
    start, told = FORK.Event(), FORK.Queue()

    def asking(number: int) -> None:
        start.wait()
        try:
            book = Ledger(locations[number % len(locations)])
            book.reserve("people", cost(rho(0.25), plan=str(number))).commit(b"done")
            told.put("spent")
        except BudgetExceeded:
            told.put("exceeded")
        except NoisewrightError as error:
            told.put(str(error))

    processes = [FORK.Process(target=asking, args=(number,)) for number in range(8)]
    for process in processes:
        process.start()
    start.set()
    found = [told.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    return found


@contextmanager
def bound(source: Path, target: Path) -> Iterator[None]:
    """The source mounted over the target, where that may be done."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root mounts, where there is `mount`")
    done = subprocess.run(
        [mount, "--bind", source, target], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield
    finally:
        subprocess.run(["umount", target], check=True)


def calls(book: Ledger) -> list[Callable[[], object]]:
    return [
        book.history,
        book.verify,
        lambda: book.show("people"),
        lambda: book.reserve("people", cost(rho(0.1))),
        lambda: book.create("others", nw.Privacy(rho=1.0)),
    ]


def test_a_ledger_with_two_hard_links_is_refused_by_both(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    link = tmp_path / "link.db"
    os.link(book.where, link)
    for name in (book, Ledger(link)):
        for call in calls(name):
            with pytest.raises(InvalidParameter, match=r"other names \(hard links\)"):
                call()
    refused = outcomes(Path(book.where), link)
    assert all("hard links" in told for told in refused)
    link.unlink()
    assert sorted(outcomes(Path(book.where))) == ["exceeded"] * 4 + ["spent"] * 4
    assert len(book.verify().account("people").releases) == 4


def test_a_link_made_during_a_transaction_waits_for_it(
    tmp_path: Path, monkeypatch
) -> None:
    """The lock is the file's: who comes by the new name is held up, then refused."""
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    store, link = sqlite_store.SQLiteStore(book.where), tmp_path / "link.db"
    told: list[str] = []

    def other() -> None:
        try:
            Ledger(link).history()
        except NoisewrightError as error:
            told.append(str(error))

    with store.writing():
        os.link(book.where, link)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(60)
    assert "hard links" in told[0]

    link.unlink()
    monkeypatch.setattr(sqlite_store, "_WAIT", 0.05)
    with (
        store.writing(),
        pytest.raises(InvalidParameter, match=r"held by another .* was spent"),
    ):
        book.reserve("people", cost(rho(0.1)))
    book.reserve("people", cost(rho(0.1)))


def test_a_file_mounted_alone_is_refused_where_it_is_mounted(tmp_path: Path) -> None:
    inside = tmp_path / "in a container"
    inside.mkdir()
    book, mounted = ledger(tmp_path, nw.Privacy(rho=1.0)), inside / "budget.db"
    mounted.touch()
    with bound(Path(book.where), mounted):
        for call in calls(Ledger(mounted)):
            with pytest.raises(InvalidParameter, match="is mounted alone"):
                call()
        found = outcomes(Path(book.where), mounted)
        assert found.count("spent") == 4
        assert sum("mounted alone" in told for told in found) == 4
    assert len(book.verify().account("people").releases) == 4


def test_a_mounted_folder_and_a_symbolic_link_are_the_same_ledger(
    tmp_path: Path,
) -> None:
    book, folder, other = Path("budget.db"), tmp_path / "data", tmp_path / "elsewhere"
    folder.mkdir()
    other.mkdir()
    made = ledger(folder, nw.Privacy(rho=1.0))
    (tmp_path / "symbolic.db").symlink_to(folder / book)
    names = [folder / book, tmp_path / "symbolic.db"]
    with ExitStack() as stack:
        if os.geteuid() == 0:
            stack.enter_context(bound(folder, other))
            names.append(other / book)
        found = outcomes(*names)
    assert sorted(found) == ["exceeded"] * 4 + ["spent"] * 4
    assert len(made.verify().account("people").releases) == 4


def test_names_of_mounts_are_read_as_they_are_written(tmp_path: Path) -> None:
    source, target = tmp_path / "a b\\c é.db", tmp_path / "d e\\f é.db"
    source.touch()
    target.touch()
    check_only_name(target, "ledger")
    with bound(source, target), pytest.raises(InvalidParameter, match="mounted alone"):
        check_only_name(target, "ledger")


def test_a_file_alone_is_the_whole_ledger_and_its_copy_another(tmp_path: Path) -> None:
    """What a reservation wrote is in the file itself, even while somebody reads it."""
    book, copy = ledger(tmp_path, nw.Privacy(rho=1.0)), tmp_path / "copy.db"
    book.reserve("people", cost(rho(0.5)))
    reader = sqlite3.connect(book.where)
    reader.execute("SELECT count(*) FROM entries").fetchall()
    book.reserve("people", cost(rho(0.25), plan="another"))
    shutil.copy(book.where, copy)
    reader.close()
    assert len(Ledger(copy).verify().account("people").releases) == 2
    assert {file.name for file in tmp_path.iterdir()} == {"budget.db", "copy.db"}

    book.export(tmp_path / "checkpoint.json")
    Ledger(copy).reserve("people", cost(rho(0.25), plan="elsewhere"))
    book.reserve("people", cost(rho(0.25), plan="here"))
    book.export(tmp_path / "later.json")
    Ledger(copy).verify(tmp_path / "checkpoint.json")
    with pytest.raises(NoisewrightError, match="older copy"):
        Ledger(copy).verify(tmp_path / "later.json")


def killed_in_the_middle(location: str) -> None:
    """Write a part of a transaction into the file itself, and die."""
    with sqlite_store.SQLiteStore(location).writing() as writer:
        writer.connection.execute("PRAGMA cache_size = 1")
        content = writer.lines()[-1].encoded
        for number in range(100, 200):
            writer.connection.execute(
                "INSERT INTO entries VALUES (?, ?, '')", (number, content)
            )
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_half_done_is_undone_by_whoever_reads_next(
    tmp_path: Path,
) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    before = book.history().last
    process = FORK.Process(target=killed_in_the_middle, args=(book.where,))
    process.start()
    process.join()
    assert (tmp_path / "budget.db-journal").stat().st_size > 0
    assert book.history().last == before
    assert not (tmp_path / "budget.db-journal").exists()


def test_a_ledger_that_older_versions_wrote_goes_on(tmp_path: Path) -> None:
    """Their journal is folded into the file; while they have it open, nothing is spent."""
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    older = sqlite3.connect(book.where, isolation_level=None)
    assert older.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    older.execute("CREATE TABLE something (x)")
    assert (tmp_path / "budget.db-wal").stat().st_size > 0
    assert len(book.history().entries) == 2
    with pytest.raises(NoisewrightError, match=r"cannot be used .* nothing was spent"):
        book.reserve("people", cost(rho(0.1)))
    older.close()
    book.reserve("people", cost(rho(0.1)))
    assert len(book.verify().account("people").releases) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"budget.db"}


def open_files() -> int:
    """How many this process holds."""
    return len(list(Path("/dev/fd").iterdir()))


def test_where_no_lock_is_known_that_is_said_and_the_file_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some network disks, which refuse to unlock as well."""
    book = ledger(tmp_path, nw.Privacy(rho=1))

    def unsupported(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    before = open_files()
    with pytest.raises(
        InvalidParameter, match=r"cannot be locked .*keep it on a local disk"
    ):
        book.account("people")
    assert open_files() == before
