"""Errors people meet: one base class, messages that say what, why and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


class NoisewrightError(ValueError):
    """Base of every error raised on purpose by noisewright."""


class InvalidParameter(NoisewrightError):
    """A parameter breaks its rule.

    The message holds the parameter's name, its value, the rule and the remedy. `value` is always
    something the caller typed, never a value from a person's record.
    """

    def __init__(self, name: str, value: object, rule: str, remedy: str = "") -> None:
        self.name, self.value, self.rule, self.remedy = name, value, rule, remedy
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{name}={shown} {rule}" + (f"; {remedy}" if remedy else ""))


class DomainError(NoisewrightError):
    """A schema or domain is malformed, or a table does not fit it (told by attribute and rule)."""


class TooLarge(NoisewrightError):
    """Something would need more memory than is sensible; the message names the structured way."""


class OutOfReach(NoisewrightError):
    """A strategy cannot answer a query: the query lies outside the strategy's row space."""


class FileFormatError(NoisewrightError):
    """A file is truncated, corrupt, foreign or of a version this release cannot read."""


class Contradiction(NoisewrightError):
    """A result contradicts its own proof: a fault of this program, and no result at all."""


def withheld(
    call: Callable[[], _Result],
    failures: type[Exception] | tuple[type[Exception], ...],
    error: NoisewrightError,
) -> _Result:
    """Return what `call` gives; where it fails, raise `error` without a trace of the failure.

    Engines quote cells in their messages, and an error raised while such a failure is handled
    carries it along as its context, even `from None`.
    """
    try:
        return call()
    except failures:
        pass
    raise error
