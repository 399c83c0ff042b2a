"""`noisewright randomize`: simulate the clients of a local plan over a table of people."""

from __future__ import annotations

import click

from noisewright.cli.output import json_option, print_json, print_table, progress


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("table", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), required=True,
    help="Reports: Parquet, or CSV by suffix.",
)  # fmt: skip
@json_option
def randomize(plan_file: str, table: str, output: str, as_json: bool) -> None:
    """Write one report per row of TABLE (CSV or Parquet), as each person's own device would.

    Where the plan knows no schema, the column `cell` holds the number of each person's cell.
    Every run draws fresh randomness from the operating system. Reports are private one by one;
    the order of the rows is kept, so shuffle or separate them from the table before sharing.
    """
    import noisewright as nw
    from noisewright.cli.estimate import local_plan
    from noisewright.files import check_writable

    check_writable(output)
    made = local_plan(nw.load(plan_file), plan_file)
    with progress("randomising"):
        count = made.randomize_table(table, output)
    document = {
        "reports": count,
        "plan": made.format.name,
        "mechanism": made.mechanism,
        "epsilon": made.epsilon,
        "report_bytes": made.format.length,
        "output": output,
    }
    if as_json:
        print_json(document)
        return
    rows = [
        ("reports", f"{count:,}"),
        ("privacy of every report", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("plan", made.format.name),
        ("written to", output),
    ]
    print_table("Reports", ["", ""], rows)
