"""The one clock of planning: for people who wait, and for a limit that they ask for.

Without a limit nothing that is found depends on it: searches count work (`work`).

Ctrl-C as a wish to see the best so far: the first ends a search early, the second at once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from types import FrameType


@dataclass(eq=False)
class TimeLimit:
    """How long something has taken, and whether it must end with what it has."""

    limit: float | None = None
    """Seconds it may take, or None for as many as its work does."""
    began: float = field(default_factory=time.perf_counter)
    cut_short: bool = False
    """Whether a search ended early because the time was over, or somebody pressed Ctrl-C."""

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds left; infinite without a limit, whatever the time."""
        return inf if self.limit is None else self.limit - self.seconds

    def over(self, needed: float = 0.0) -> bool:
        """Whether to end now: less time than needed is left, or somebody wants to see the best."""
        if self.left <= needed or interrupted():
            self.cut_short = True
        return self.cut_short


# --- interruption ---------------------------------------------------------------------------------


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
