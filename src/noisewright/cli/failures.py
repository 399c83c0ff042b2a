"""How a command fails: one line on standard error, and the same as JSON where JSON was asked for.

Exit code 2 is a mistake that the caller can mend, 1 a failure that is ours. No message of an engine
gets out, since it may quote a record. A log for machines has one line of JSON for every step, with
nothing of anybody's record in it.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from noisewright.errors import InvalidParameter, NoisewrightError, nearest_name
from noisewright.stages import LOGGER


class Failure(click.ClickException):
    """What a command says before it ends; `details` are the parts of the message, for scripts."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        kind: str,
        as_json: bool,
        details: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.as_json = as_json
        self.document = {"error": {"kind": kind, "message": message, **(details or {})}}

    def show(self, file: object = None) -> None:
        click.echo(f"error: {self.message}", err=True)
        if self.as_json:
            from noisewright.cli.output import print_json

            print_json(self.document)


class Breakdown(Failure):
    """A failure that is ours to mend."""

    exit_code = 1


class Interruption(Failure):
    """The person at the keyboard ended it."""

    exit_code = 130


def _noted(error: BaseException, message: str | None = None) -> str:
    """A message with what was noted on the way up: whether budget was spent."""
    return "; ".join([message or str(error), *getattr(error, "__notes__", [])])


@contextmanager
def one_style(arguments: Sequence[str]) -> Iterator[None]:
    """Turn every failure of a command with these arguments into a `Failure`."""
    as_json = "--json" in arguments
    try:
        yield
    except (click.exceptions.Exit, click.Abort, BrokenPipeError, Failure):
        raise
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.ClickException as error:
        raise Failure(_usage(error), "Usage", as_json) from None
    except InvalidParameter as error:
        parts = {"name": error.name, "rule": error.rule, "remedy": error.remedy}
        raise Failure(_noted(error), "InvalidParameter", as_json, parts) from None
    except NoisewrightError as error:
        raise Failure(_noted(error), type(error).__name__, as_json) from None
    except KeyboardInterrupt as error:
        raise Interruption(
            _noted(error, "interrupted"), "Interrupted", as_json
        ) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        message = _noted(error, f"{error.strerror or type(error).__name__}{where}")
        raise Failure(message, "System", as_json) from None
    except MemoryError:
        raise Failure(
            "out of memory; ask for less at once", "Memory", as_json
        ) from None
    except Exception as error:
        raise Breakdown(
            _noted(error, _without_values(error)), "Unexpected", as_json
        ) from None


def _usage(error: click.ClickException) -> str:
    """A mistake on the command line in the style of all others: what, what was meant, where to."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.NoSuchOption):
        known = (
            []
            if context is None
            else [o for p in context.command.params for o in p.opts]
        )
        message = f"no such option {error.option_name}" + _guess(
            error.option_name, known
        )
    elif isinstance(error, click.exceptions.NoSuchCommand):
        group = None if context is None else context.command
        known = (
            group.list_commands(context)
            if context and isinstance(group, click.Group)
            else []
        )
        message = f"no such command {error.command_name}" + _guess(
            error.command_name, known
        )
    else:
        text = " ".join(error.format_message().split()).rstrip(".")
        message = text[:1].lower() + text[1:]

    return (
        message
        if context is None
        else f"{message} (see `{context.command_path} --help`)"
    )


def _guess(word: str, known: Sequence[str]) -> str:
    guess = nearest_name(word, known)
    return f"; did you mean {guess}?" if guess else ""


def _without_values(error: Exception) -> str:
    """Say where it failed from code lines alone: messages of engines quote cells."""
    lines = "".join(
        traceback.format_list(traceback.extract_tb(error.__traceback__)[-4:])
    )
    return (
        f"unexpected {type(error).__name__} (its message is withheld, since it may quote records); "
        f"please report these lines:\n{lines.rstrip()}"
    )


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
