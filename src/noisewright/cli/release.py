"""`noisewright release`: spend the budget of a plan on a table."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.output import json_option, print_json, print_table, progress

_SHOWN = 20


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("table", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), required=True,
    help="Answers: CSV, or Parquet by suffix. What was spent goes beside it in .meta.json.",
)  # fmt: skip
@json_option
def release(plan_file: str, table: str, output: str, as_json: bool) -> None:
    """Answer the queries of PLAN from TABLE (CSV or Parquet, one row per person).

    Every run draws fresh noise and spends the plan's budget once more.
    """
    import noisewright as nw
    from noisewright.files import check_writable

    check_writable(output)
    loaded = nw.load(plan_file)
    with progress("counting and adding noise"):
        released = loaded.release(table)
        beside = released.write(output)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
    else:
        _show(released, output, str(beside))


def _show(released: Any, output: str, beside: str) -> None:
    rows = [
        (label, f"{answer:,.1f}", f"± {half:,.1f}", f"± {wide:,.1f}")
        for label, answer, half, wide in zip(
            released.labels[:_SHOWN],
            released.answers,
            released.halfwidth,
            released.simultaneous_halfwidth,
            strict=False,
        )
    ]
    more = len(released) - len(rows)
    caption = f"{more:,} more in {output}; " if more > 0 else f"written to {output}; "
    print_table(
        "Private answers",
        ["query", "answer", "95 %", "all at once"],
        rows,
        caption + f"what was spent: {beside}",
    )
