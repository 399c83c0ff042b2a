"""What long work is doing, told to whoever listens: a command's progress, or nobody.

Texts name steps and mechanisms, never anything of a person's record (not even how many there are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LISTENER: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


def stage(text: str) -> None:
    """Say which step begins."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(text)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Hear the steps of the work inside."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
