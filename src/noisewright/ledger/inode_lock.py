"""A file held by its inode: whoever comes by another name waits at the same lock.

SQLite locks the inode too, but names its journal after the name it was given, and a lock of its
kind is lost when the process closes the file anywhere else. `flock` is neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisewright.errors import InvalidParameter
from noisewright.files import check_only_name

try:
    import fcntl
# not a POSIX system: SQLite's own locks, and the refusal of other names
except ImportError:
    fcntl = None  # type: ignore[assignment]

_MODE = 0o644  # of a new file, as SQLite makes it
_PAUSE = 0.003
"""Seconds between two attempts: a transaction takes about as long."""


@contextmanager
def held_alone(path: Path, patience: float, *, new: bool = False) -> Iterator[None]:
    """Hold a database for one process alone; with `new`, make an empty file where there is none.

    Held or refused within `patience` seconds, and refused where the file has other names.
    """
    deadline = time.monotonic() + patience
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT if new else os.O_RDONLY, _MODE)
        try:
            _wait(handle, path, deadline)
            try:
                # Another file may have taken the name while this one was waited for.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    check_only_name(path, "ledger")
                    yield
                    return
            finally:
                _unlock(handle)  # a forked child that lives on has the handle too
        finally:
            os.close(handle)


def _wait(handle: int, path: Path, deadline: float) -> None:
    while fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InvalidParameter(
                    "ledger", str(path), "is held by another process",
                    "wait for it, or end it; nothing was spent",
                ) from None  # fmt: skip
            time.sleep(_PAUSE)
        except OSError as error:
            raise InvalidParameter(
                "ledger", str(path), f"cannot be locked ({error.strerror})",
                "keep it on a local disk, or in PostgreSQL; nothing was spent",
            ) from None  # fmt: skip


def _unlock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)
