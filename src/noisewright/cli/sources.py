"""Tables on the command line: one file or several, a folder of files, or standard input."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from noisewright.cli.options import Option

STANDARD_INPUT = "-"


def table_argument(required: bool = True) -> Option:
    """The argument TABLE, which may be repeated."""
    return click.argument(
        "tables", metavar="TABLE...", nargs=-1, required=required, type=click.Path(allow_dash=True)
    )


@contextmanager
def opened(tables: Sequence[str]) -> Iterator[str | list[str]]:
    """The tables as the library takes them; standard input is held in memory under a name."""
    if list(tables).count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input (-) can be read once")
    if STANDARD_INPUT not in tables:
        yield tables[0] if len(tables) == 1 else list(tables)
        return
    with _named_input() as name:
        paths = [name if table == STANDARD_INPUT else table for table in tables]
        yield paths[0] if len(paths) == 1 else paths


@contextmanager
def _named_input() -> Iterator[str]:
    """A path that reads what standard input held.

    On Linux it leads to memory, so that nothing of the table comes to lie on a disk; elsewhere to a
    file of the caller's alone, which is gone afterwards.
    """
    content = sys.stdin.buffer.read()
    suffix = ".parquet" if content[:4] == b"PAR1" else ".csv"
    with tempfile.TemporaryDirectory(prefix="noisewright-") as folder:
        path = Path(folder) / f"standard-input{suffix}"
        if not hasattr(os, "memfd_create"):
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield str(path)
            return
        with os.fdopen(os.memfd_create("table"), "wb") as memory:
            memory.write(content)
            memory.flush()
            del content
            path.symlink_to(f"/proc/{os.getpid()}/fd/{memory.fileno()}")
            yield str(path)
