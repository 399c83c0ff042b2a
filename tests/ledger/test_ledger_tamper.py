"""A ledger that was changed: every byte of every entry, lost tails, old copies, read-only disks."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import noisewright as nw
from ledger.ledgers import cost, ledger, rho
from noisewright.errors import FileFormatError, NoisewrightError
from noisewright.ledger.book import Ledger
from noisewright.ledger.entries import (
    FORMAT_VERSION,
    Created,
    Line,
    Person,
    entry_hash,
    next_line,
)
from noisewright.privacy.promise.filters import Limits

COUNTS = np.array([40, 0, 7, 1000])


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    made = ledger(tmp_path, nw.Privacy(rho=1.0))
    for amount in (0.1, 0.2, 0.3):
        nw.plan("prefix:4", nw.Privacy(rho=amount)).release(
            COUNTS, ledger=made, dataset="people"
        )
    return made


def raw(book: Ledger, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Whoever can write the file can do anything to it."""
    connection = sqlite3.connect(book.where)
    connection.execute("DROP TRIGGER IF EXISTS entries_stay")
    connection.execute("DROP TRIGGER IF EXISTS entries_remain")
    for statement, values in statements:
        connection.execute(statement, values)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def lines(book: Ledger) -> list[Line]:
    return [line for line, _ in book.history().entries]


def test_a_flipped_byte_in_any_entry_is_found_and_nothing_is_spent(
    book: Ledger,
) -> None:
    rng = random.Random(0)
    whole = lines(book)
    assert len(whole) == 8
    for line in whole:
        positions = rng.sample(range(len(line.encoded)), 12)
        for position in positions:
            changed = bytearray(line.encoded)
            changed[position] ^= 1 << rng.randrange(8)
            update = "UPDATE entries SET content = ? WHERE number = ?"
            raw(book, (update, (bytes(changed), line.number)))
            for call in (book.history, lambda: book.reserve("people", cost(rho(0.01)))):
                with pytest.raises(
                    FileFormatError, match=f"entry {line.number} was changed"
                ):
                    call()
            raw(book, (update, (line.encoded, line.number)))
        other = line.hash[:-1] + ("0" if line.hash[-1] != "0" else "1")
        raw(
            book, ("UPDATE entries SET hash = ? WHERE number = ?", (other, line.number))
        )
        with pytest.raises(FileFormatError):
            book.verify()
        raw(
            book,
            ("UPDATE entries SET hash = ? WHERE number = ?", (line.hash, line.number)),
        )
    book.verify()


def test_flipped_bytes_of_the_file_never_go_unseen(
    book: Ledger, tmp_path: Path
) -> None:
    raw(book)  # all in the file itself
    content = Path(book.where).read_bytes()
    truth = lines(book)
    rng = random.Random(1)
    for number in range(150):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        path = tmp_path / f"copy-{number}.db"
        path.write_bytes(changed)
        copy = Ledger(path)
        try:
            copy.verify()
        except NoisewrightError:
            continue
        assert lines(copy) == truth  # a byte that holds nothing


def test_kept_releases_are_checked(book: Ledger) -> None:
    raw(book, ("UPDATE contents SET content = zeroblob(9) WHERE rowid = 2", ()))
    book.history()
    with pytest.raises(
        FileFormatError, match="a release that it keeps is missing or was changed"
    ):
        book.verify()


def test_a_dropped_entry_is_found_and_a_dropped_tail_by_a_checkpoint(
    book: Ledger, tmp_path: Path
) -> None:
    book.export(tmp_path / "c.json")
    book.verify(tmp_path / "c.json")
    raw(book, ("DELETE FROM entries WHERE number > 6", ()))
    book.verify()  # the chain alone cannot know what came after
    with pytest.raises(FileFormatError, match=r"ends at entry 6, and .* knows entry 8"):
        book.verify(tmp_path / "c.json")
    raw(book, ("DELETE FROM entries WHERE number = 4", ()))
    with pytest.raises(FileFormatError, match="entry 4 was changed or is missing"):
        book.history()


def test_an_old_copy_that_goes_on_by_itself_is_found(
    book: Ledger, tmp_path: Path
) -> None:
    raw(book)
    shutil.copy(book.where, tmp_path / "old.db")
    plan = nw.plan("prefix:4", nw.Privacy(rho=0.05))
    plan.release(COUNTS, ledger=book, dataset="people").write(tmp_path / "a.csv")
    old = Ledger(tmp_path / "old.db")
    with pytest.raises(FileFormatError, match="an older copy was put back"):
        old.verify(tmp_path / "a.csv.meta.json")
    plan.release(COUNTS, ledger=old, dataset="people")
    with pytest.raises(FileFormatError, match="written anew"):
        old.verify(tmp_path / "a.csv.meta.json")
    other = Ledger(tmp_path / "other.db")
    other.create("people", nw.Privacy(rho=1.0))
    with pytest.raises(FileFormatError, match="is of another ledger"):
        other.verify(tmp_path / "a.csv.meta.json")


def appended(book: Ledger, *entries: object) -> None:
    last = lines(book)[-1]
    for entry in entries:
        last = next_line(last, entry)
        raw(book, ("INSERT INTO entries VALUES (?, ?, ?)", tuple(last)))


def test_entries_that_break_the_rules_are_refused_though_their_hashes_fit(
    book: Ledger,
) -> None:
    time = book.history().time
    budget = nw.Privacy(epsilon=1, delta=1e-9).to_dict()
    forged = Created(
        time=time,
        dataset="rich",
        budget=dict(budget),
        limits=Limits("gaussian", 9.0),
        unit=None,
    )
    appended(book, forged)
    with pytest.raises(FileFormatError, match="entry 9 breaks the rules"):
        book.history()


def test_a_loss_of_another_unit_is_refused_though_its_hash_fits(book: Ledger) -> None:
    (spent,) = [
        e for _, e in book.history().entries if getattr(e, "version", None) == ""
    ][:1]
    time, unit = book.history().time, Person("household", 1)
    appended(book, msgspec.structs.replace(spent, release="x", time=time, unit=unit))
    with pytest.raises(FileFormatError, match="entry 9 breaks the rules"):
        book.history()


def test_overspending_that_was_written_by_hand_is_refused(book: Ledger) -> None:
    (spent,) = [
        e for _, e in book.history().entries if getattr(e, "version", None) == ""
    ][:1]
    again = msgspec.structs.replace(
        spent, release="x", time=book.history().time, noise=()
    )
    more = msgspec.structs.replace(again, spend=cost(rho(0.9)).spend)
    appended(book, more)
    with pytest.raises(FileFormatError, match="entry 9 breaks the rules"):
        book.history()


def test_a_newer_format_is_refused_in_words(tmp_path: Path) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))
    first = lines(book)[0]
    content = first.encoded.replace(
        f'"format_version":{FORMAT_VERSION}'.encode(), b'"format_version":7'
    )
    number, hash_ = 1, entry_hash(1, content, "0" * 64)
    raw(
        book,
        (
            "UPDATE entries SET content = ?, hash = ? WHERE number = ?",
            (content, hash_, number),
        ),
    )
    for call in (book.history, lambda: book.reserve("people", cost(rho(0.1)))):
        with pytest.raises(
            FileFormatError, match=r"has ledger format 7.*nothing was spent"
        ):
            call()


SCRIPT = """
import sys
from noisewright.ledger.book import Ledger
from noisewright.errors import NoisewrightError
from ledger.ledgers import cost, rho
book = Ledger(sys.argv[1])
print(len(book.history().entries))
try:
    book.reserve("people", cost(rho(0.1)))
except NoisewrightError as error:
    print(error)
"""


def test_a_read_only_disk_is_read_and_spends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    book = ledger(folder, nw.Privacy(rho=1.0))
    raw(book)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    prefix = []
    if os.geteuid() == 0:  # permissions do not hold root
        if shutil.which("setpriv") is None:
            pytest.skip(
                "root writes where it likes, and setpriv is not there to be somebody else"
            )
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for parent in [*tmp_path.parents][:-2]:
            if not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        tmp_path.chmod(0o755)
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [*prefix, sys.executable, "-c", SCRIPT, book.where],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    count, refusal = done.stdout.splitlines()
    assert count == "2"
    assert "cannot be used" in refusal
    assert "nothing was spent" in refusal
    assert len(book.history().entries) == 2


def test_a_folder_that_may_not_be_entered_is_refused_in_words(
    tmp_path: Path, monkeypatch
) -> None:
    book = ledger(tmp_path, nw.Privacy(rho=1.0))

    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", forbidden)
    with pytest.raises(NoisewrightError, match=r"cannot be used \(Permission denied\)"):
        book.history()
