"""`noisewright estimate`: answers from the reports that a local plan's clients sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisewright.cli.output import (
    check_output,
    check_recorded,
    json_option,
    print_json,
    print_table,
    progress,
)
from noisewright.cli.randomize import local_plan


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("reports", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False),
    help="Answers: CSV, or Parquet by suffix. What they rest on goes beside it in .meta.json.",
)  # fmt: skip
@click.option(
    "--aggregate", type=click.Path(dir_okay=False),
    help="Write the merged statistics here (.agg); such files can be given as REPORTS again.",
)  # fmt: skip
@click.option(
    "--distribution", type=click.Path(dir_okay=False),
    help="Write the share of people in every cell here (CSV): none negative, summing to one.",
)  # fmt: skip
@click.option(
    "--non-negative", "--nonnegative", "non_negative", is_flag=True,
    help="Answers of the best fitting table of people.",
)  # fmt: skip
@click.option("--population", is_flag=True, help="Errors for the population people come from.")
@click.option("--worst-case", is_flag=True, help="Errors on the worst data, not the estimated.")
@click.option(
    "--robust", multiple=True,
    help="Against poisoned reports: median:20 (medians over 20 groups), cap:6 (set aside reports "
    "more than 6 standard deviations out); may be repeated.",
)  # fmt: skip
@json_option
def estimate(
    plan_file: str,
    reports: tuple[str, ...],
    output: str | None,
    aggregate: str | None,
    distribution: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Estimate the answers of PLAN from REPORTS (Parquet, CSV or .agg files).

    Reports that are malformed, impossible or of another plan are counted and set aside.

    \b
    Examples:
      noisewright estimate people.nw reports.parquet -o answers.csv
      noisewright estimate people.nw monday.agg tuesday.agg --non-negative
    """
    import noisewright as nw

    if output is not None:
        check_recorded(output, plan_file, *reports)
    for path in (aggregate, distribution):
        if path is not None:
            check_output(path, plan_file, *reports)
    made = local_plan(nw.load(plan_file), plan_file)
    robust = _robust(choices["robust"])
    with progress("adding up reports"):
        merged = _merged(made, reports, robust)
        found = made.estimate(
            merged,
            errors="worst" if choices["worst_case"] else "plug-in",
            population=choices["population"],
            non_negative=choices["non_negative"],
        )
    if aggregate is not None:
        merged.save(aggregate)
    if distribution is not None:
        _write_shares(made, merged, distribution)
    if output is not None:
        found.write(output)
    if as_json:
        print_json(_document(found, output))
    else:
        _show(found, output)


def _robust(options: tuple[str, ...]) -> dict[str, Any]:
    """`median:20` and `cap:6` as settings of an aggregate."""
    from noisewright.errors import InvalidParameter

    settings: dict[str, Any] = {}
    for option in options:
        name, _, number = option.partition(":")
        try:
            if name == "median":
                settings["groups"] = int(number)
            elif name == "cap":
                settings["cap"] = float(number)
            else:
                raise ValueError
        except ValueError:
            raise InvalidParameter(
                "robust", option, "must be median:GROUPS or cap:DEVIATIONS", "try median:20"
            ) from None
    return settings


def _merged(made: Any, paths: tuple[str, ...], robust: dict[str, Any]) -> Any:
    from noisewright.errors import InvalidParameter
    from noisewright.local.reports.aggregate import Aggregate

    total = None
    for path in paths:
        if path.endswith(".agg"):
            if not Path(path).is_file():
                raise InvalidParameter("reports", path, "is not a file", "check the path")
            part = Aggregate.from_bytes(Path(path).read_bytes(), made.format)
        else:
            part = made.aggregate(path, **robust)
        total = part if total is None else total.merge(part)
    return total


def _write_shares(made: Any, merged: Any, path: str) -> None:
    import pyarrow as pa

    from noisewright.files import write_table

    shares = {"cell": list(made.cell_labels()), "share": made.distribution(merged)}
    write_table(path, pa.table(shares))


def _document(found: Any, output: str | None) -> dict[str, Any]:
    lower, upper = found.intervals.each
    return {
        **found.metadata,
        "answers": found.answers,
        "std_error": found.std,
        "lower": lower,
        "upper": upper,
        "output": output,
    }


def _show(found: Any, output: str | None) -> None:
    from noisewright.cli.release import SHOWN, show_answers

    aside = {reason: n for reason, n in found.metadata["set_aside"].items() if n}
    told = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in aside.items())
    rows = [
        ("reports that count", f"{found.metadata['people']:,}"),
        ("set aside", told or "none"),
        ("mechanism", found.metadata["mechanism"]),
        ("standard errors", found.metadata["standard_errors"]),
    ]
    print_table("Estimates", ["", ""], rows)
    more = len(found) - SHOWN
    caption = f"{more:,} more answers" if more > 0 else ""
    where = f"written to {output}" if output else "use -o to write them"
    show_answers("Answers, in people", found, "; ".join(t for t in (caption, where) if t))
