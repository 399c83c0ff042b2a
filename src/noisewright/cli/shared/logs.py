"""A log for machines: one line of JSON for every step, with nothing of anybody's record in it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from noisewright.cli.shared.failures import Failure
from noisewright.errors import InvalidParameter
from noisewright.stages import LOGGER


class _Lines(logging.Formatter):
    """Steps as JSON: when, seconds since the command began, which command, which step."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command, self._began = command, time.monotonic()

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
                "seconds": round(time.monotonic() - self._began, 3),
                "level": record.levelname,
                "command": self._command,
                "step": record.getMessage(),
            },
            ensure_ascii=False,
        )


@contextmanager
def logging_to(path: str, command: str) -> Iterator[None]:
    """Log the steps inside, and how they ended; of a failure its kind alone, never its words."""
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise InvalidParameter("log", path, f"cannot be written ({reason})") from None

    handler.setFormatter(_Lines(command))
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)

    try:
        LOGGER.info("begun")
        yield
        LOGGER.info("done")
    except BaseException as error:
        told = (
            error.document["error"]["kind"]
            if isinstance(error, Failure)
            else type(error).__name__
        )
        LOGGER.error("ended by %s", told)
        raise
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        handler.close()
