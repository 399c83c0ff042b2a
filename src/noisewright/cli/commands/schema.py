"""What is declared of a table: `schema`, and `bounds` of its numbers without looking at them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    Sectioned,
    check_recorded,
    json_option,
    option,
    option_group,
)
from noisewright.cli.output import print_json, print_table, progress
from noisewright.cli.spending import (
    Spending,
    noise_text,
    opened_tables,
    spending_options,
    table_argument,
)
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.planning.found.bounds import BoundsSearch
    from noisewright.planning.spending import Cost


@click.group()
def schema() -> None:
    """Draft, check and show the public schema of a table."""


@schema.command()
@table_argument()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the draft here."
)
@click.option(
    "--codes",
    multiple=True,
    help="A column of numbers that are codes; may be repeated.",
)
@click.option(
    "--numbers", multiple=True, help="A column of few numbers that are no codes."
)
@json_option
def suggest(
    tables: tuple[str, ...],
    output: Path | None,
    codes: tuple[str, ...],
    numbers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Draft a schema from TABLE, marked `reviewed: false`.

    TABLE is a CSV or Parquet file, several of them, a folder, or - for standard input.
    Whole numbers of at most twelve different values are taken for codes, which have no order: the
    draft says so beside each, and --codes and --numbers decide it.

    The draft is made by looking at the table, so it is as private as the table, and a file of it
    is readable by you alone. Replace every value and bound by one from public knowledge, then set
    `reviewed: true`.
    """
    from noisewright import files
    from noisewright.tables.suggest import suggest_schema

    if output is not None:
        files.check_writable(output)

    with opened_tables(tables) as table:
        draft = suggest_schema(table, codes=codes, numbers=numbers)

    if as_json:
        print_json(
            draft.domain.to_dict() | {"left_out": draft.left_out, "notes": draft.notes}
        )
    elif output is None:
        click.echo(draft.to_yaml(), nl=False)

    if output is not None:
        files.write_text(output, draft.to_yaml(), mode=files.PRIVATE)
        click.echo(f"draft written to {output}; review every value in it", err=True)


@schema.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Check that FILE is a schema that plans and releases may use."""
    from noisewright.domain import Domain

    domain = Domain.from_yaml(file)
    if as_json:
        print_json(_summary(domain))
    else:
        click.echo(f"{file}: {len(domain)} attributes, {domain.size:,} cells")

    domain.require_reviewed()


@schema.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show the attributes and cells that FILE declares."""
    from noisewright.domain import Domain

    domain = Domain.from_yaml(file)
    if as_json:
        names = ("name", "kind", "size", "outside", "missing", "labels")
        details = [
            {name: getattr(attribute, name) for name in names} for attribute in domain
        ]
        print_json(_summary(domain) | {"attributes": details})
        return

    state = (
        "reviewed" if domain.reviewed else "a draft: nothing plans or releases from it"
    )
    print_table(
        f"{file} ({state})",
        ["attribute", "kind", "cells", "outside", "missing", "labels"],
        [
            (a.name, a.kind, a.size, a.outside, str(a.missing), _some(a.labels))
            for a in domain.attributes
        ],
        caption=f"{domain.size:,} cells in all",
    )


def _summary(domain: Domain) -> dict[str, object]:
    return {
        "reviewed": domain.reviewed,
        "names": domain.names,
        "shape": domain.shape,
        # as text where 64-bit readers would misread it
        "size": domain.size if domain.size < 2**53 else str(domain.size),
        "fingerprint": domain.fingerprint,
    }


def _some(labels: tuple[str, ...]) -> str:
    shown = labels if len(labels) <= 6 else (*labels[:4], "…", labels[-1])
    return ", ".join(shown)


@dataclass(frozen=True)
class Bounded:
    """What is bounded, and whose rows are whose."""

    columns: tuple[str, ...] = option(
        "--column", multiple=True, help="A numeric column; may be repeated."
    )
    all_columns: bool = option(
        "--all-columns",
        is_flag=True,
        help="A first private summary of every column.",
    )
    schema: str | None = option(
        "--schema", type=FILE, help="A schema to put the bounds into."
    )
    unit: str | None = option(
        "--unit",
        metavar="COLUMN",
        help="Who names people with several rows: one row of each counts, and rows per person are"
        " bounded too. The schema's own, unless told.",
    )

    def __post_init__(self) -> None:
        require(
            bool(self.columns) != self.all_columns,
            "column",
            list(self.columns),
            "or else --all-columns must be given",
            "name the columns",
        )


@click.command(cls=Sectioned)
@click.argument("table", type=FILE)
@option_group("bounded", Bounded, "What is bounded")
@option_group("budget", Budget, "The budget")
@spending_options
@click.option("-o", "--output", type=FILE, help="Write a schema with the bounds here.")
@json_option
def bounds(
    budget: Budget,
    spending: Spending,
    table: str,
    bounded: Bounded,
    output: str | None,
    as_json: bool,
) -> None:
    """Find lower and upper bounds of numeric columns of TABLE privately, under their own budget.

    Three noisy cumulative counts per column tell its scale, its spread and its ends; the budget is
    shared evenly by the columns (and by rows per person) and is spent once per run.
    What is found may be public, so the schema that is written needs no review; better bounds from
    public knowledge cost nothing.

    \b
    Examples:
      noisewright bounds people.csv --column income --epsilon 0.1 -o schema.yaml
      noisewright bounds people.csv --all-columns --epsilon 0.5
      noisewright bounds visits.csv --column cost --unit person --epsilon 0.2 -o schema.yaml
    """
    from noisewright import api
    from noisewright.domain.unit import read_unit
    from noisewright.planning.found.bounds import bounds_cost

    if output is not None:
        schemas = [] if bounded.schema is None else [bounded.schema]
        check_recorded(output, table, *schemas)
        spending.check_free(output)

    known = _declared(bounded.schema)
    told = bounded.unit
    own = known.unit if told is None and known is not None else read_unit(told)
    privacy = budget.privacy
    names = [
        name
        for name in bounded.columns or _column_names(table)
        if own is None or name not in own.columns
    ]
    if spending.dry_run:
        _show_measuring(bounds_cost(names, privacy, own), spending, as_json)
        return

    with progress("measuring"):
        search = api.find_bounds(
            table, names, privacy, unit=own,
            ledger=spending.book, dataset=spending.dataset, again=spending.again,
        )  # fmt: skip

    spending.told = "the budget was spent"
    if output is not None:
        _write(search, known, Path(output))

    if as_json:
        rows = None if search.unit is None else search.unit.rows
        found = {"columns": search.columns, "rows_per_person": rows, "schema": output}
        print_json({**search.record(), **found})
        return

    _show_bounds(search, output)
    spending.tell_left()


def _declared(schema: str | None) -> Domain | None:
    from noisewright.domain import Domain

    return None if schema is None else Domain.from_yaml(schema)


def _column_names(table: str) -> tuple[str, ...]:
    """Names of columns: the header alone is read."""
    from contextlib import closing

    from noisewright.tables.backends.duckdb import connect, open_table

    with closing(connect()) as connection:
        return open_table(connection, table).names


def _write(search: BoundsSearch, known: Domain | None, output: Path) -> None:
    from noisewright.domain import Domain
    from noisewright.files import write_text
    from noisewright.planning.release import recorded

    found = {attribute.name: attribute for attribute in search.domain()}
    if known is not None:
        kept = {attribute.name: attribute for attribute in known}
        boxes = [
            box.to_dict(known) for box in known.boxes if not set(box.names) & set(found)
        ]
        unit = search.unit or known.unit
        domain = Domain(list((kept | found).values()), known.reviewed, boxes, unit)
    else:
        domain = search.domain()

    recorded(output, search.record(), lambda path: write_text(path, domain.to_yaml()))


def _show_measuring(cost: Cost, spending: Spending, as_json: bool) -> None:
    """What would be measured and spent; nothing is read or spent."""
    if spending.book is not None and spending.dataset is not None:
        spending.book.check(spending.dataset, cost, spending.again)

    if as_json:
        facts = {
            "privacy": cost.privacy.to_dict(),
            "spend": cost.spend,
            "noise": list(cost.noise),
        }
        print_json({"dry_run": True, "title": cost.title, **facts})
        return

    rows = [
        ("what", cost.title),
        *(("noise", noise_text(noise)) for noise in cost.noise),
    ]
    rows.append(("would spend", cost.privacy.text()))
    print_table("Dry run: nothing was read, nothing was spent", ["", ""], rows)


def _show_bounds(search: BoundsSearch, output: str | None) -> None:
    rows = []
    for column in search.columns:
        bound = ("–", "–") if column.lower is None else (column.lower, column.upper)
        quartiles = column.quartiles or ("–", "–", "–")
        share = column.people / max(column.everybody, 1.0)
        rows.append((column.name, *bound, *quartiles, f"{min(max(share, 0), 1):.0%}"))

    spent = f"spent: {search.privacy.text()}"
    note = spent if output is None else f"{spent}; written to {output}"
    if search.unit is not None:
        note = f"{search.unit.text()}; {note}"

    names = ["column", "lower", "upper", "25 %", "median", "75 %", "with a number"]
    print_table("Bounds found privately", names, rows, note)
