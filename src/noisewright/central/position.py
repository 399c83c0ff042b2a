"""How far a stream has come, kept where a copy of the stream cannot turn it back.

A folder holds one empty file, whose name is the number of the steps answered. A step begins by
renaming it, which of several copies only one can do, and waits until the disk holds the new name.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from noisewright.errors import InvalidParameter, NoisewrightError


class Position:
    """The one count of a stream's steps that all its copies share."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.name = secrets.token_hex(8)  # another stream in the same place is another stream
        try:
            self.folder.mkdir(mode=0o700)
            self._file(0).touch(exist_ok=False)
            _sync(self.folder)
            _sync(self.folder.parent)
        except OSError as error:
            rule = f"cannot be made a new folder ({error.strerror or type(error).__name__})"
            raise InvalidParameter("position", str(folder), rule, "name one that is free") from None

    def claim(self, step: int) -> None:
        """Take the next step, for good; refused where it has been taken."""
        try:
            self._file(step).rename(self._file(step + 1))
            _sync(self.folder)
        except FileNotFoundError:
            raise NoisewrightError(
                f"step {step + 1} of this stream was taken before, by another copy or before a"
                " restart; answering it again would spend its budget again: restore the latest"
                " state, or start a new stream with a budget of its own"
            ) from None
        except OSError as error:
            raise NoisewrightError(
                f"the stream's position cannot be written ({error.strerror}); no answer was given"
            ) from None

    def _file(self, step: int) -> Path:
        return self.folder / f"{self.name}-{step}"


def _sync(folder: Path) -> None:
    """Wait until the disk holds the names in a folder, where the system can tell."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
