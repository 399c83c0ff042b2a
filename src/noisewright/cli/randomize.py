"""`noisewright randomize`: simulate the clients of a local plan over a table of people."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.output import check_output, json_option, print_json, print_table, progress


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("table", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), required=True,
    help="Reports: Parquet, or hexadecimal text in CSV by suffix.",
)  # fmt: skip
@json_option
def randomize(plan_file: str, table: str, output: str, as_json: bool) -> None:
    """Write one report per row of TABLE (CSV or Parquet), as each person's own device would.

    Every run draws fresh randomness from the operating system. Reports are private one by one, but
    they are in the order of the rows: keep them apart from the table. Where the plan knows no
    schema, the table's column `cell` holds cells by number.
    """
    import noisewright as nw

    check_output(output, plan_file, table)
    made = local_plan(nw.load(plan_file), plan_file)
    with progress("randomising"):
        count = made.randomize_table(table, output)
    if as_json:
        about = {"plan": made.format.name, "mechanism": made.mechanism, "epsilon": made.epsilon}
        length = made.format.length
        print_json({"reports": count, **about, "report_bytes": length, "output": output})
        return
    rows = [
        ("reports", f"{count:,}"),
        ("privacy of every report", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("plan", made.format.name),
        ("written to", output),
    ]
    print_table("Reports", ["", ""], rows)


def local_plan(loaded: Any, path: str) -> Any:
    """Refuse plans with a curator."""
    from noisewright.errors import InvalidParameter

    if loaded.model != "local":
        raise InvalidParameter(
            "plan", path, "has a curator", "use `release`, or plan with --model local"
        )
    return loaded
