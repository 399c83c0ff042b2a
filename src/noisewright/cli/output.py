"""What commands print: JSON for scripts, tables for people, progress on standard error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from math import floor, inf, isnan, log10
from typing import TYPE_CHECKING, Literal, Protocol

import click

from noisewright.stages import listening

if TYPE_CHECKING:
    from noisewright.planning.central.comparing import Explanation
    from noisewright.planning.local.plan import LocalPlan
    from noisewright.planning.plan import TableError
    from noisewright.planning.release import Release
    from noisewright.solution import BoundClass, ClassBound

SHOWN = 20
"""Rows that are printed: a screenful; files have all."""


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

    from noisewright.errors import NoisewrightWarning

    caught: list[warnings.WarningMessage] = []

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NoisewrightWarning)
            yield
    finally:
        for warning in caught:
            if issubclass(warning.category, NoisewrightWarning):
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
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str = "",
) -> None:
    """Print a table for people; columns of numbers are aligned to the right and never folded.

    As wide as the terminal, and 80 columns (or $COLUMNS) into a file or a pipe.
    """
    from rich import box
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    listed = [[_cell(value) for value in row] for row in rows]
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
        show_header=any(columns),
    )

    for position, column in enumerate(columns):
        numeric = any(columns) and _numeric([row[position] for row in listed])
        justify: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(
            Text(column), justify=justify, no_wrap=numeric, overflow="fold"
        )

    for row in listed:
        table.add_row(*map(Text, row))

    console = Console()
    console.print(Text(title, style="bold"))
    if listed:
        console.print(Padding(table, (0, 0, 0, 1), expand=False))

    if caption:
        console.print(Text(caption))

    console.print()


_UNKNOWN = ("", "–", "unknown")
_NUMBER = re.compile(r"[±≤-]? ?[0-9][0-9,.]*(e[-+][0-9]+)?|inf")


def _numeric(cells: Sequence[str]) -> bool:
    known = [cell for cell in cells if cell not in _UNKNOWN]
    return bool(known) and all(_NUMBER.fullmatch(cell) for cell in known)


def _cell(value: object) -> str:
    """Return a cell as plain text: NaN is no figure."""
    if isinstance(value, float):
        return "–" if value != value else f"{value:.6g}"
    return f"{value:,}" if type(value) is int else str(value)


def significant_digits(value: float, digits: int = 4) -> str:
    """A figure for people, of so many digits and with its thousands apart."""
    if (
        value != value
        or value in (inf, -inf)
        or value == 0
        or not 1e-6 < abs(value) < 1e15
    ):
        return _cell(float(value))

    decimals = max(0, digits - 1 - floor(log10(abs(value))))
    return f"{value:,.{decimals}f}"


def spend_in_currencies(spends: Mapping[str, float]) -> str:
    """What a release spends in every currency that budgets are counted in."""
    told = []
    if "epsilon" in spends:
        delta = spends["delta"]
        at = f" at δ = {delta:g}" if delta else ", pure"
        told.append(f"ε = {spends['epsilon']:.4g}{at}")

    if "rho" in spends:
        told.append(f"ρ = {spends['rho']:.4g}")

    return "; ".join(told)


def print_errors(title: str, errors: Iterable[TableError], caption: str = "") -> None:
    """Expected errors table by table."""
    rows = [
        (name, queries, *map(significant_digits, figures))
        for name, queries, *figures in errors
    ]
    columns = ["table", "queries", "rmse", "largest", "95 % ±", "all at once ±"]
    print_table(title, columns, rows, caption)


def print_answers(title: str, release: Release, caption: str) -> None:
    """The first answers with their intervals, with the digits that their errors allow."""
    from noisewright.report.words.numbers import answer_digits

    labels = list(islice(release.plan.each_label(), SHOWN))
    first = release.intervals.part(slice(SHOWN))
    low, high = first.each
    digits = answer_digits(first.answers, (high - low) / 2)
    rows = [
        (
            label,
            "left out" if isnan(answer) else f"{answer:,.{places}f}",
            *(
                "" if isnan(a) else f"{a:,.{places}f} … {b:,.{places}f}"
                for a, b in ends
            ),
        )
        for label, places, answer, *ends in zip(
            labels,
            digits,
            first.answers,
            zip(*first.each, strict=True),
            zip(*first.all, strict=True),
            strict=True,
        )
    ]
    print_table(title, ["query", "answer", "95 %", "all at once"], rows, caption)


def bound_note(bound_class: BoundClass | None) -> str:
    """What a lower bound is about, for the foot of a table; empty where there is no bound."""
    return "" if bound_class is None else bound_class.statement


class _Bounded(Protocol):
    """What has bounds: a forecast, or a row of a comparison."""

    @property
    def lower_bound(self) -> float | None:
        """The bound for linear strategies."""

    @property
    def ratio(self) -> float | None:
        """The error over it."""

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods it limits."""

    @property
    def bounds(self) -> tuple[ClassBound, ...]:
        """The bounds for wider classes."""


def print_bounds(title: str, bounded: _Bounded) -> None:
    """How close to the least error, class by class: the wider the class, the stronger the claim."""
    limits = [(b.bound_class, b.lower_bound, b.ratio) for b in bounded.bounds]
    if bounded.bound_class is not None and bounded.lower_bound is not None:
        limits.insert(0, (bounded.bound_class, bounded.lower_bound, bounded.ratio))

    rows = [
        (limited, f"{least:,.4g}", "–" if ratio is None else f"{ratio:.4f} × that")
        for limited, least, ratio in limits
    ]
    print_table(
        title,
        ["among", "no error below", "here"],
        rows or [("no bound known", "–", "–")],
        "\n".join(f"{limited.statement}." for limited, _, _ in limits),
    )


@contextmanager
def progress(description: str) -> Iterator[Callable[..., None]]:
    """Show long work on standard error, stage by stage as it names them.

    Yields a function of the fraction done and a text.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())

    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as p:
        task = p.add_task(description, total=None)

        def update(fraction: float, text: str = description) -> None:
            p.update(task, total=1.0, completed=fraction, description=text)

        def begin(text: str) -> None:
            p.update(task, description=text, total=None)

        with listening(begin, lambda done: p.update(task, total=1.0, completed=done)):
            yield update


def draw_page(subject: Explanation | LocalPlan, page: str | None) -> None:
    """Write the page that was asked for, where one was."""
    if page is None:
        return
    from noisewright.report import report

    report(subject, page)
    click.echo(f"report: {page}", err=True)
