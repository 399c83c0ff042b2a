"""`noisewright bounds`: bounds of numeric columns without looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import FILE, Budget, budget_options, check_recorded, json_option
from noisewright.cli.output import print_json, print_table, progress

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.planning.found_bounds import BoundsSearch


@click.command()
@click.argument("table", type=FILE)
@click.option("--column", "columns", multiple=True, help="A numeric column; may be repeated.")
@click.option("--all-columns", is_flag=True, help="A first private summary of every column.")
@click.option("--schema", type=FILE, help="A schema to put the bounds into.")
@budget_options
@click.option("-o", "--output", type=FILE, help="Write a schema with the bounds here.")
@json_option
def bounds(
    budget: Budget,
    table: str,
    columns: tuple[str, ...],
    all_columns: bool,
    schema: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Find lower and upper bounds of numeric columns of TABLE privately, under their own budget.

    Two noisy cumulative counts per column tell its scale and its ends; the budget is shared evenly
    by the columns and is spent once per run. What is found may be public, so the schema that is
    written needs no review; better bounds from public knowledge cost nothing.

    \b
    Examples:
      noisewright bounds people.csv --column income --epsilon 0.1 -o schema.yaml
      noisewright bounds people.csv --all-columns --epsilon 0.5
    """
    from noisewright import api
    from noisewright.errors import InvalidParameter

    if bool(columns) == all_columns:
        raise InvalidParameter(
            "column", list(columns), "or else --all-columns must be given", "name the columns"
        )
    if output is not None:
        check_recorded(output, table, *([] if schema is None else [schema]))
    known = _declared(schema)
    privacy = budget.privacy
    names = columns or _names(table)
    with progress("measuring"):
        search = api.find_bounds(table, names, privacy)
    if output is not None:
        _write(search, known, Path(output))
    if as_json:
        print_json({**search.record(), "columns": search.columns, "schema": output})
        return
    _show(search, output)


def _declared(schema: str | None) -> Domain | None:
    from noisewright.domain import Domain

    return None if schema is None else Domain.from_yaml(schema)


def _names(table: str) -> tuple[str, ...]:
    """Names of columns: the header alone is read."""
    from contextlib import closing

    from noisewright.tables.duckdb import connect, open_table

    with closing(connect()) as connection:
        return open_table(connection, table).names


def _write(search: BoundsSearch, known: Domain | None, output: Path) -> None:
    from noisewright.domain import Domain
    from noisewright.files import write_text
    from noisewright.planning.release import recorded

    found = {attribute.name: attribute for attribute in search.domain()}
    if known is not None:
        kept = {attribute.name: attribute for attribute in known}
        boxes = [box.to_dict(known) for box in known.boxes if not set(box.names) & set(found)]
        domain = Domain(list((kept | found).values()), known.reviewed, boxes)
    else:
        domain = Domain(list(found.values()))
    recorded(output, search.record(), lambda path: write_text(path, domain.to_yaml()))


def _show(search: BoundsSearch, output: str | None) -> None:
    rows = []
    for column in search.columns:
        bound = ("–", "–") if column.lower is None else (column.lower, column.upper)
        quartiles = column.quartiles or ("–", "–", "–")
        share = column.people / max(column.everybody, 1.0)
        rows.append((column.name, *bound, *quartiles, f"{min(max(share, 0), 1):.0%}"))
    spent = f"spent: {search.privacy.text()}"
    note = spent if output is None else f"{spent}; written to {output}"
    names = ["column", "lower", "upper", "25 %", "median", "75 %", "with a number"]
    print_table("Bounds found privately", names, rows, note)
