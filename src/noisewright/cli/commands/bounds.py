"""`noisewright bounds`: bounds of numeric columns without looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.shared.options import (
    FILE,
    Budget,
    budget_options,
    check_recorded,
    json_option,
)
from noisewright.cli.shared.output import print_json, print_table, progress
from noisewright.cli.shared.spending import Spending, noise_text, spending_options
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.planning.budgets.spending import Cost
    from noisewright.planning.found.bounds import BoundsSearch


@click.command()
@click.argument("table", type=FILE)
@click.option(
    "--column", "columns", multiple=True, help="A numeric column; may be repeated."
)
@click.option(
    "--all-columns", is_flag=True, help="A first private summary of every column."
)
@click.option("--schema", type=FILE, help="A schema to put the bounds into.")
@click.option(
    "--unit", metavar="COLUMN",
    help="Who names people with several rows: one row of each counts, and rows per person are"
    " bounded too. The schema's own, unless told.",
)  # fmt: skip
@budget_options
@spending_options
@click.option("-o", "--output", type=FILE, help="Write a schema with the bounds here.")
@json_option
def bounds(
    budget: Budget,
    spending: Spending,
    table: str,
    columns: tuple[str, ...],
    all_columns: bool,
    schema: str | None,
    unit: str | None,
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

    require(
        bool(columns) != all_columns,
        "column",
        list(columns),
        "or else --all-columns must be given",
        "name the columns",
    )

    if output is not None:
        check_recorded(output, table, *([] if schema is None else [schema]))
        spending.check_free(output)

    known = _declared(schema)
    own = known.unit if unit is None and known is not None else read_unit(unit)
    privacy = budget.privacy
    names = [
        name
        for name in columns or _names(table)
        if own is None or name not in own.columns
    ]
    if spending.dry_run:
        _show_dry_run(bounds_cost(names, privacy, own), spending, as_json)
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
        told = {"columns": search.columns, "rows_per_person": rows, "schema": output}
        print_json({**search.record(), **told})
        return

    _show(search, output)
    spending.tell_left()


def _declared(schema: str | None) -> Domain | None:
    from noisewright.domain import Domain

    return None if schema is None else Domain.from_yaml(schema)


def _names(table: str) -> tuple[str, ...]:
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


def _show_dry_run(cost: Cost, spending: Spending, as_json: bool) -> None:
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


def _show(search: BoundsSearch, output: str | None) -> None:
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
