"""Files are written whole or not at all."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisewright.errors import InvalidParameter


def check_apart(output: str | Path, *inputs: str | Path) -> None:
    """Refuse to write over what is read."""
    if Path(output).resolve() in {Path(file).resolve() for file in inputs}:
        raise InvalidParameter("output", str(output), "is read from", "choose another path")


def check_writable(path: str | Path, name: str = "output") -> Path:
    """Refuse a path that cannot be written, before any work (or budget) is spent on it."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if target.exists():
            with target.open("ab"):
                pass
        if _is_replaceable(target):
            with tempfile.TemporaryFile(dir=target.parent):
                pass
    except OSError as error:
        rule = f"cannot be written ({error.strerror or type(error).__name__})"
        raise InvalidParameter(name, str(path), rule, "choose another path") from None
    return target


@contextmanager
def replacing(path: str | Path, name: str = "output") -> Iterator[Path]:
    """Yield a temporary path that takes the place of `path` once the block ends well.

    If the block fails, the temporary file is removed and `path` is as it was.
    """
    target = check_writable(path, name)
    if not _is_replaceable(target):
        yield target
        return
    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, name: str = "output") -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path, name) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _is_replaceable(target: Path) -> bool:
    """Devices and pipes are written to, never replaced by a file."""
    return not target.exists() or target.is_file()
