"""Errors people meet: one base class, messages that say what, why and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from math import isfinite
from typing import Any, TypeGuard, TypeVar

_Result = TypeVar("_Result")

_MOST_SHOWN = 80
"""Characters of a value in a message: a line of a terminal."""

_MOST_MESSAGE = 2000
"""Characters of a message: a screen; it only bounds what hostile files make people read."""

_MOST_BITS = 1024
"""Of a whole number that is written out: more are more digits than a message shows."""

_MOST_COMPARED = 2000
"""Names that a misspelt one is compared with: it only bounds time, a tenth of a second."""

_UNFORESEEN = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    MemoryError,
)
"""What code raises that was handed plain values of another type or shape than it expects."""

_BRACKETS: dict[type[Any], tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def shown_value(value: object, most: int = _MOST_SHOWN) -> str:
    """Return `repr(value)`, cut to `most` characters without ever writing much more than is shown.

    Values may be as large as a hostile file makes them: lists inside lists, each named many times.
    """
    return shortened_text("".join(islice(_written(value, most), most + 1)), most)


def shortened_text(text: str, most: int = _MOST_SHOWN) -> str:
    """Return text cut to `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _written(value: Any, most: int) -> Iterator[str]:
    """Write character by character: each level writes one, so that few are ever entered."""
    kind = type(value)
    if kind in (str, bytes):
        yield from repr(value[: most + 1])
    elif kind is int and value.bit_length() > _MOST_BITS:
        yield from f"<integer of {value.bit_length()} bits>"
    elif kind in _BRACKETS and value:
        opening, closing = _BRACKETS[kind]
        yield from opening
        for number, item in enumerate(value):
            yield from ", " if number else ""
            yield from _written(item, most)
            if kind is dict:
                yield from ": "
                yield from _written(value[item], most)
        yield from "," if kind is tuple and len(value) == 1 else ""
        yield from closing
    else:
        yield from repr(value)


class NoisewrightError(ValueError):
    """Base of every error raised on purpose by noisewright."""


class InvalidParameter(NoisewrightError):
    """A parameter breaks its rule.

    The message holds the parameter's name, its value, the rule and the remedy. `value` is always
    something the caller typed, never a value from a person's record.
    """

    def __init__(self, name: str, value: object, rule: str, remedy: str = "") -> None:
        self.name = name
        self.value = value
        self.rule = rule
        self.remedy = remedy
        what = name if value is None else f"{name}={shown_value(value)}"
        message = f"{what} {rule}" + (f"; {remedy}" if remedy else "")
        super().__init__(shortened_text(message, _MOST_MESSAGE))


def require(
    holds: object, name: str, value: object, rule: str, remedy: str = ""
) -> None:
    """Refuse a parameter whose rule does not hold; what follows may rely on it."""
    if not holds:
        raise InvalidParameter(name, value, rule, remedy)


def require_one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a word that is none of those there are."""
    known = tuple(choices)
    require(value in known, name, value, f"must be one of {', '.join(known)}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; a truth value is none."""
    return is_whole(value) or (isinstance(value, float) and isfinite(value))


def is_name(value: object) -> TypeGuard[str]:
    """Whether a value is text that is not empty."""
    return isinstance(value, str) and value != ""


def is_listed(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value lists others; text does not."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def refuse_options(question: object, options: object) -> None:
    """Refuse options of a question that has none."""
    if options is not None:
        rule = f"does not go with {type(question).__name__}, which has no options"
        raise InvalidParameter("options", type(options).__name__, rule, "leave it out")


def refuse_given(
    options: Mapping[str, object], rule: str, remedy: str = "leave it out"
) -> None:
    """Refuse the first of these options that was given: one that changes nothing is no option.

    None, False and what is empty are as good as not given; zero is a value.
    """
    for name, value in options.items():
        empty = isinstance(value, Sequence) and len(value) == 0
        if not (value is None or value is False or empty):
            raise InvalidParameter(name, value, rule, remedy)


def unknown_name(
    name: str,
    value: object,
    rule: str,
    known: Iterable[str],
    listed: str = "choose from",
) -> InvalidParameter:
    """The refusal of a name that nothing has, with the nearest that something has."""
    names = list(known)
    return InvalidParameter(
        name,
        value,
        rule,
        f"{did_you_mean(str(value), names)}{listed} {', '.join(names)}",
    )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'prefix'? `, or nothing where no known name is like the word."""
    guess = nearest_name(word, known)
    return f"did you mean {guess!r}? " if guess else ""


def nearest_name(word: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one most likely means, if any."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in islice(known, _MOST_COMPARED)}
    close = get_close_matches(word[:_MOST_SHOWN].lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


class NoisewrightWarning(UserWarning):
    """Base of every warning: what was done holds, and people should know this about it."""


class BudgetExceeded(NoisewrightError):
    """A release would take more than is left of a dataset's budget; nothing was spent.

    `fits` is the largest budget of the same kind that would be admitted, as a `Privacy`, or None.
    """

    def __init__(self, message: str, fits: object = None) -> None:
        self.fits = fits
        super().__init__(message)


class ReleasedBefore(NoisewrightError):
    """The same plan was released from the same declared dataset; nothing was spent again."""


class DeclarationWarning(NoisewrightWarning):
    """Noisy measurements contradict what was declared as public knowledge."""


class WeakPrivacyWarning(NoisewrightWarning):
    """A promise so weak that few would call it one."""


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


@contextmanager
def refusing_unforeseen(message: str) -> Iterator[None]:
    """Refuse a file whose contents fail in a way that nobody foresaw, in place of a crash."""
    try:
        yield
    except NoisewrightError:
        raise
    except _UNFORESEEN as error:
        kind = type(error).__name__
    else:
        return

    raise FileFormatError(f"{message} ({kind})")


def withholding_causes(
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


def read_plain_values(
    call: Callable[[], _Result], error: Callable[[], NoisewrightError]
) -> _Result:
    """Return what `call` makes of plain values from a file; raise an error where they are no such.

    For values that somebody wrote into a file, of any type and shape: errors of ours that say more
    pass through.
    """
    try:
        return call()
    except NoisewrightError:
        raise
    except _UNFORESEEN:
        raise error() from None
