"""Ctrl-C as a wish to see the best so far: the first ends a search early, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_watching = threading.Event()
_asked = threading.Event()


def interrupted() -> bool:
    """Whether somebody wants the search at hand to end with what it has."""
    return _asked.is_set()


@contextmanager
def keeping_the_best() -> Iterator[None]:
    """While this runs, the first Ctrl-C is noted (`interrupted`) and the next one raises.

    Only the main thread is ever interrupted, a handler that somebody else set is left alone, and
    of searches within searches the outermost one counts.
    """
    own = (
        threading.current_thread() is threading.main_thread() and not _watching.is_set()
    )
    if not own or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(_signal: int, _frame: FrameType | None) -> None:
        _asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    _watching.set()
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _asked.clear()
        _watching.clear()
