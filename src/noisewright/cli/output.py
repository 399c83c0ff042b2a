"""What commands print: JSON for scripts, tables for people, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE_WIDTH = 160


def check_output(output: str, *inputs: str) -> None:
    """Refuse, before any work is done, an output that cannot be written or is an input."""
    from noisewright.files import check_apart, check_writable

    check_apart(output, *inputs)
    check_writable(output)


def check_recorded(output: str, *inputs: str) -> int:
    """Refuse, before any budget is spent, answers whose record could not be kept beside them.

    Returns how many times a budget was spent on this output before.
    """
    from noisewright.planning.release import metadata_path, read_record, spendings

    check_output(output, *inputs)
    check_output(str(metadata_path(output)), *inputs)
    return spendings(read_record(metadata_path(output)))


def tell_earlier(spent: int, beside: object) -> None:
    """Say on standard error that the budget of this run adds to others."""
    if spent:
        times = "once" if spent == 1 else f"{spent} times"
        told = f"note: a budget was spent on this output {times} before; {beside} keeps them all"
        click.echo(told, err=True)


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


def json_option(command: _Command) -> _Command:
    """Add `--json`, received as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")(
        command
    )


def print_json(document: Any) -> None:
    """Print plain values, dataclasses and numpy values as indented JSON."""
    import msgspec

    encoded = msgspec.json.encode(document, enc_hook=_plain)
    click.echo(msgspec.json.format(encoded, indent=2).decode())


def _plain(value: Any) -> Any:
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
        table.add_row(*(_shown(value) for value in row))
    # Into a file or a pipe, lines stay whole: only a terminal has a width to fold at.
    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)


def bound_note(bound_class: Any) -> str:
    """What a lower bound is about, for the foot of a table; empty where there is no bound."""
    return "" if bound_class is None else str(bound_class.statement)


def _shown(value: object) -> Text:
    """Return a cell as plain text: labels such as [0, 18) are not markup."""
    from rich.text import Text

    return Text(f"{value:.6g}" if isinstance(value, float) else str(value))


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
