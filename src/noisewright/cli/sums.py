"""`noisewright sums`: counts, sums and means of a bounded number by group."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.output import (
    check_recorded,
    json_option,
    print_json,
    print_table,
    progress,
    tell_earlier,
    told_warnings,
)


@click.command()
@click.argument("table", type=click.Path(dir_okay=False), required=False)
@click.option("--schema", type=click.Path(dir_okay=False), required=True, help="Schema in YAML.")
@click.option("--value", required=True, help="The numeric attribute to sum.")
@click.option("--by", multiple=True, help="A table of groups, as in region,sex; may be repeated.")
@click.option("--unit", type=float, default=1.0, show_default=True, help="Values are multiples.")
@click.option("--epsilon", type=float, help="Privacy budget ε.")
@click.option("--delta", type=float, help="Probability δ for approximate privacy (try 1e-9).")
@click.option("--rho", type=float, help="Budget ρ of zero-concentrated privacy, instead of ε.")
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="What one person can change.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Answers (with TABLE).")
@json_option
def sums(
    table: str | None,
    schema: str,
    value: str,
    by: tuple[str, ...],
    unit: float,
    output: str | None,
    as_json: bool,
    **budget: Any,
) -> None:
    """Counts, sums and means of VALUE by group, from TABLE; without it, their expected errors.

    \b
    Examples:
      noisewright sums --schema s.yaml --value income --by region --rho 0.1
      noisewright sums people.csv --schema s.yaml --value income --by region --rho 0.1 -o sums.csv
    """
    import noisewright as nw
    from noisewright.errors import InvalidParameter

    if (table is None) != (output is None):
        raise InvalidParameter("output", output, "goes with a table", "give both, or neither")
    spent = 0
    if table is not None and output is not None:
        spent = check_recorded(output, table, schema)
    privacy = nw.Privacy(budget["epsilon"], budget["delta"], budget["rho"], budget["neighbours"])
    groups = [[name.strip() for name in names.split(",") if name.strip()] for names in by] or [[]]
    with progress("planning"):
        made = nw.plan_sums(value, groups, privacy, nw.Domain.from_yaml(schema), unit=unit)
    if table is None or output is None:
        _forecast(made, as_json)
        return
    with told_warnings(), progress("counting and adding noise"):
        released = made.release(table)
        beside = released.write(output)
    tell_earlier(spent, beside)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
    else:
        click.echo(f"written to {output}; what was spent: {beside}")


def _forecast(made: Any, as_json: bool) -> None:
    counts, totals = made.errors
    rows = [
        {"group": label, "count_std": float(c), "sum_std": float(s)}
        for label, c, s in zip(made.groups.labels(), counts, totals, strict=True)
    ]
    if as_json:
        print_json(rows)
    else:
        shown = [
            [row["group"], round(row["count_std"], 2), round(row["sum_std"], 2)] for row in rows
        ]
        print_table("Expected standard errors", ["group", "count", "sum"], shown)
