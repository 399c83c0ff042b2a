"""`python -m reproductions`: figures of the papers, made anew."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from noisewright.cli.failures import one_style
from noisewright.cli.options import json_option
from noisewright.cli.output import (
    print_json,
    print_table,
    progress,
    told_warnings,
)
from reproductions.run import FIGURES, reproduce
from reproductions.study import Settings

_FOLDER = click.Path(file_okay=False, path_type=Path)


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
def main(
    figure: str | None,
    output: Path,
    quick: bool,
    paper: bool,
    data: Path | None,
    as_json: bool,
) -> None:
    """Make FIGURE of a paper anew: rows as CSV, a chart, and what agrees with the paper.

    Without FIGURE, list them. A run that was cut short goes on where it was: rows that are in the
    folder are kept.

    \b
    Examples:
      python -m reproductions fig1 --quick
      python -m reproductions fig3a --data dpbench1d --paper
    """
    with one_style(sys.argv[1:]), told_warnings():
        if figure is None:
            _list_figures(as_json)
        else:
            _make(figure, Settings(output, quick, paper, data), as_json)


def _list_figures(as_json: bool) -> None:
    rows = [[each.name, each.summary] for each in FIGURES.values()]
    if as_json:
        print_json([{"figure": name, "summary": summary} for name, summary in rows])
    else:
        print_table("Figures", ["figure", "what it shows"], rows)


def _make(figure: str, settings: Settings, as_json: bool) -> None:
    with progress("computing"):
        result = reproduce(figure, settings)

    if as_json:
        print_json(result)
        return

    for remark in result["remarks"]:
        click.echo(f"- {remark}")

    files = result["files"]
    click.echo(f"{result['rows']} rows: {files['csv']}; chart: {files['svg']}")


if __name__ == "__main__":
    main(prog_name="python -m reproductions")
