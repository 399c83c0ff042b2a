"""Where a stream is, on disk: what keeps every copy of it from answering a step again."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Self

from noisewright.errors import InvalidParameter, NoisewrightError


class Position:
    """The one count of a stream's steps that all its copies share, and none can turn back.

    A folder holds one empty file, whose name is the stream's, with its plan's mark at the end, and
    the number of the steps answered. A step begins by renaming it, which of several copies only one
    can do, and waits until the disk holds the name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    @classmethod
    def new(cls, folder: str | Path, mark: str) -> Self:
        """A position before the first step, in a folder that must not exist."""
        # Another stream in the same place is another stream.
        position = cls(Path(folder).absolute(), secrets.token_hex(8) + mark)
        try:
            position.folder.mkdir(mode=0o700)
            position._file(0).touch(exist_ok=False)
            _sync(position.folder)
            _sync(position.folder.parent)
        except OSError as error:
            rule = f"cannot be made a new folder ({error.strerror or type(error).__name__})"
            raise InvalidParameter(
                "position",
                str(folder),
                rule,
                "name one that is free",
            ) from None

        return position

    def is_of(self, mark: str) -> bool:
        """Whether it is a position of a stream of the plan with this mark."""
        return self.name.endswith(mark)

    def is_at(self, step: int) -> bool:
        """Whether so many steps were taken, neither more nor fewer."""
        try:
            return self._file(step).exists()
        except OSError:
            return False

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
