"""`noisewright reproduce`: figures of the papers, made anew."""

from __future__ import annotations

from pathlib import Path

import click

from noisewright.cli.shared.options import json_option
from noisewright.cli.shared.output import print_json, print_table, progress

_FOLDER = click.Path(file_okay=False)


@click.command()
@click.argument("figure", required=False)
@click.option("-o", "--output", type=_FOLDER, default="reproduced", show_default=True,
              help="Folder for the rows, the chart and the remarks.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Small sizes: minutes in place of hours.")
@click.option(
    "--paper", is_flag=True, help="The paper's own variants of its competitors too."
)
@click.option("--data", type=_FOLDER, help="Folder of the DPBench histograms (fig3a).")
@json_option
def reproduce(
    figure: str | None,
    output: str,
    quick: bool,
    paper: bool,
    data: str | None,
    as_json: bool,
) -> None:
    """Make FIGURE of a paper anew: rows as CSV, a chart, and what agrees with the paper.

    Without FIGURE, list them. A run that was cut short goes on where it was: rows that are in the
    folder are kept.

    \b
    Examples:
      noisewright reproduce fig1 --quick
      noisewright reproduce fig3a --data dpbench1d --paper
    """
    from noisewright.reproduce.figure import Settings
    from noisewright.reproduce.figures import FIGURES
    from noisewright.reproduce.run import reproduce as make

    if figure is None:
        rows = [[each.name, each.summary] for each in FIGURES.values()]
        if as_json:
            print_json([{"figure": name, "summary": summary} for name, summary in rows])
        else:
            print_table("Figures", ["figure", "what it shows"], rows)
        return

    place = None if data is None else Path(data)
    with progress("computing"):
        result = make(figure, Settings(Path(output), quick, paper, place))

    if as_json:
        print_json(result)
        return

    for remark in result["remarks"]:
        click.echo(f"- {remark}")

    click.echo(
        f"{result['rows']} rows: {result['files']['csv']}; chart: {result['files']['svg']}"
    )
