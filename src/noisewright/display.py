"""Objects as people see them: one line in a console, a table in a notebook, rooms to call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import ModuleType

from noisewright.errors import shortened_text

_MOST_TEXT = 100
"""Characters of one fact: a line of a console holds one and its name."""

_MOST_LISTED = 6
"""Values of a list that a line tells."""


def short_count(number: int) -> str:
    """A whole number of any size, short."""
    return f"{number:,}" if number < 10**15 else f"10^{len(str(number)) - 1}"


def short_number(value: float) -> str:
    """A number with the digits that a glance takes in; nothing for what is not known."""
    if value != value:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def html_table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], note: str = ""
) -> str:
    """A small table for a notebook: names to the left, everything else to the right of a column."""
    side = "left" if not heads else "right"
    top = "".join(
        f"<th style='text-align:{side}'>{escape(name)}</th>" for name in heads
    )
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(first)}</th>"
        + "".join(f"<td style='text-align:{side}'>{escape(text)}</td>" for text in rest)
        + "</tr>"
        for first, *rest in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    head = f"<tr>{top}</tr>" if heads else ""

    return f"<table><caption>{escape(caption)}</caption>{head}{body}</table>{below}"


@dataclass(frozen=True)
class Fact:
    """One thing that is known: scripts have its name and value, people its words, text and unit."""

    name: str
    value: object
    words: str
    unit: str = ""
    said: object = None
    """The value as people say it, where that is another."""

    @property
    def text(self) -> str:
        """The value on one line; empty for what is not known."""
        text = value_text(self.value if self.said is None else self.said)
        return f"{text} {self.unit}" if text and self.unit else text


def value_text(value: object) -> str:
    """A value of any form on one line; empty for what is not known."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, Mapping):
        pairs = [(name, value_text(part)) for name, part in value.items()]
        return ", ".join(f"{name}: {text}" for name, text in pairs if text)
    if isinstance(value, list | tuple):
        first = ", ".join(map(value_text, value[:_MOST_LISTED]))
        return first + " …" * (len(value) > _MOST_LISTED)

    return f"{value:,}" if type(value) is int else str(value)


class Shown:
    """Shows what identifies an object in place of everything that it holds."""

    def __init_subclass__(cls) -> None:
        # Before `dataclass` looks: it writes a repr of all fields where a class has none itself.
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def _facts(self) -> list[tuple[str, str]]:
        """Names and texts of what identifies the object, none of it costly to find."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(
            f"{name}={shortened_text(text, _MOST_TEXT)}" for name, text in self._facts()
        )
        return f"<{type(self).__name__}: {facts}>"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, (), self._facts())


def make_callable(name: str, function: Callable[..., object]) -> None:
    """Let the room of that name be called like `function`: `nw.workload("prefix:64")`.

    Importing a room binds its module to the package's attribute of the same name, where people
    expect the function.
    """

    class CallableModule(ModuleType):
        def __call__(self, *args: object, **options: object) -> object:
            return function(*args, **options)

    sys.modules[name].__class__ = CallableModule
