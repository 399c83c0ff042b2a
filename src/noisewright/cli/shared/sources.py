"""Tables on the command line: one file or several, a folder of files, or standard input."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.shared.options import Option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from noisewright.domain import Domain

    Opened = str | list[str] | dict[str, object] | npt.NDArray[np.generic]

STANDARD_INPUT = "-"


def table_argument(required: bool = True) -> Option:
    """The argument TABLE, which may be repeated."""
    return click.argument(
        "tables",
        metavar="TABLE...",
        nargs=-1,
        required=required,
        type=click.Path(allow_dash=True),
    )


def plain_paths(tables: Sequence[str], domain: Domain | None) -> list[str]:
    """The paths alone, where a schema that derives people's rows has them as NAME=TABLE."""
    named = domain is not None and bool(domain.derived)
    return (
        [table.partition("=")[2] or table for table in tables]
        if named
        else list(tables)
    )


@contextmanager
def opened(tables: Sequence[str], domain: Domain | None = None) -> Iterator[Opened]:
    """The tables as the library takes them; standard input is held in memory under a name.

    A plan of queries in text knows no columns: its table may be the counts of its cells.
    """
    if domain is not None and domain.derived:
        yield _by_name(tables)
        return

    if list(tables).count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input (-) can be read once")

    if domain is None and len(tables) == 1 and tables[0].endswith(".npy"):
        yield _counts(tables[0])
        return

    if STANDARD_INPUT not in tables:
        yield tables[0] if len(tables) == 1 else list(tables)
        return

    with _named_input() as name:
        paths = [name if table == STANDARD_INPUT else table for table in tables]
        yield paths[0] if len(paths) == 1 else paths


def _counts(path: str) -> npt.NDArray[np.generic]:
    """The array of a file; neither its numbers nor what it is instead come to be in an error."""
    import numpy as np

    from noisewright.errors import FileFormatError

    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except FileNotFoundError:
        raise FileFormatError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError):
        raise FileFormatError(f"{path}: is no .npy file of counts") from None


def _by_name(tables: Sequence[str]) -> dict[str, object]:
    """NAME=TABLE by name; of a name that stands several times, the list of its files."""
    named: dict[str, list[str]] = {}
    for table in tables:
        name, _, path = table.partition("=")
        if not name or not path or path == STANDARD_INPUT:
            raise click.UsageError(
                "the schema derives from several tables: write NAME=TABLE"
            )
        named.setdefault(name, []).append(path)

    return {
        name: paths[0] if len(paths) == 1 else paths for name, paths in named.items()
    }


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
