"""What long work is doing, told to whoever listens: a command's progress, a log, or nobody.

Texts name steps and mechanisms, never anything of a person's record (not even how many there are).
Every step is also a record of the logger `noisewright`, at the level INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar(
    "listener", default=None
)
_WATCHER: ContextVar[Callable[[float], None] | None] = ContextVar(
    "watcher", default=None
)
LOGGER = logging.getLogger("noisewright")
LOGGER.addHandler(logging.NullHandler())  # silent unless somebody asks


def stage(text: str) -> None:
    """Say which step begins."""
    LOGGER.info(text)
    listener = _LISTENER.get()
    if listener is not None:
        listener(text)


def advance(fraction: float) -> None:
    """Say how much of the step is done, where that is known."""
    watcher = _WATCHER.get()
    if watcher is not None and 0 <= fraction <= 1:
        watcher(fraction)


@contextmanager
def listening(
    listener: Callable[[str], None], watcher: Callable[[float], None] | None = None
) -> Iterator[None]:
    """Hear the steps of the work inside, and how far they are."""
    token = _LISTENER.set(listener)
    watching = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _LISTENER.reset(token)
        _WATCHER.reset(watching)
