"""What commands print: JSON for scripts, tables for people, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.text import Text

    from noisewright.planning.release import Release
    from noisewright.solution import BoundClass

SHOWN = 20
ERRORS_BY_TABLE = ["table", "queries", "rmse", "largest", "95 % within ±", "all at once ±"]
_FILE_WIDTH = 160


def tell_earlier(spent: int, beside: object) -> None:
    """Say on standard error that the budget of this run adds to others."""
    if spent:
        times = "once" if spent == 1 else f"{spent} times"
        note = f"note: a budget was spent on this output {times} before; {beside} keeps them all"
        click.echo(note, err=True)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Say on standard error, as one line each, what Python would print with lines of code."""
    import warnings

    from noisewright.errors import DeclarationWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeclarationWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, DeclarationWarning):
            click.echo(f"warning: {warning.message}", err=True)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def print_json(document: object) -> None:
    """Print plain values, dataclasses and numpy values as indented JSON."""
    import msgspec

    encoded = msgspec.json.encode(document, enc_hook=_plain)
    click.echo(msgspec.json.format(encoded, indent=2).decode())


def _plain(value: object) -> object:
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = ""
) -> None:
    """Print a table for people; columns of numbers are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    table = Table(
        title=Text(title, style="bold"),
        caption=Text(caption) if caption else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE,
        show_header=any(columns),
    )
    for position, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[position], int | float) for row in listed)
        table.add_column(Text(column), justify="right" if numeric else "left")
    for row in listed:
        table.add_row(*(_cell(value) for value in row))
    # Into a file or a pipe, lines stay whole: only a terminal has a width to fold at.
    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)


def _cell(value: object) -> Text:
    """Return a cell as plain text: labels such as [0, 18) are not markup, and NaN is no figure."""
    from rich.text import Text

    if isinstance(value, float):
        return Text("–" if value != value else f"{value:.6g}")
    return Text(str(value))


def print_answers(title: str, release: Release, caption: str) -> None:
    """The first answers with their intervals, as they are written."""
    rows = []
    for i, label in enumerate(release.labels[:SHOWN]):
        answer = release.answers[i]
        ends = [(low[i], high[i]) for low, high in (release.intervals.each, release.intervals.all)]
        intervals = [f"{low:,.1f} … {high:,.1f}" if low == low else "" for low, high in ends]
        rows.append((label, f"{answer:,.1f}" if answer == answer else "left out", *intervals))
    print_table(title, ["query", "answer", "95 %", "all at once"], rows, caption)


def bound_note(bound_class: BoundClass | None) -> str:
    """What a lower bound is about, for the foot of a table; empty where there is no bound."""
    return "" if bound_class is None else bound_class.statement


@contextmanager
def progress(description: str) -> Iterator[Callable[..., None]]:
    """Show long work on standard error; yields a function of the fraction done and a text."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as p:
        task = p.add_task(description, total=None)

        def update(fraction: float, text: str = description) -> None:
            p.update(task, total=1.0, completed=fraction, description=text)

        yield update
