"""`noisewright estimate`: answers from the reports that a local plan's clients sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from noisewright.cli.output import json_option, print_json, print_table, progress

_SHOWN = 20


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("reports", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False),
    help="Answers: CSV, or Parquet by suffix, with what was done beside them in .meta.json.",
)  # fmt: skip
@click.option(
    "--aggregate", type=click.Path(dir_okay=False),
    help="Write the merged statistics here (.agg); such a file can be given as REPORTS again.",
)  # fmt: skip
@click.option("--population", is_flag=True, help="Errors for the population people come from.")
@click.option(
    "--errors", type=click.Choice(["plug-in", "worst"]), default="plug-in", show_default=True,
    help="Standard errors at the estimated data, or at the worst data for each query.",
)  # fmt: skip
@click.option(
    "--nonnegative",
    "non_negative",
    is_flag=True,
    help="Fit one non-negative histogram to all answers.",
)
@click.option("--groups", type=int, default=1, show_default=True, help="Medians over groups.")
@click.option("--cap", type=float, help="Set aside reports this many deviations out (try 6).")
@json_option
def estimate(
    plan_file: str,
    reports: tuple[str, ...],
    output: str | None,
    aggregate: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Estimate the answers of PLAN from REPORTS (Parquet, CSV or .agg files).

    Reports that are malformed, impossible or of another plan are counted and set aside.
    """
    import noisewright as nw
    from noisewright.files import check_writable

    for path in (output, aggregate):
        if path is not None:
            check_writable(path)
    made = local_plan(nw.load(plan_file), plan_file)
    robust = {name: choices.pop(name) for name in ("groups", "cap")}
    with progress("aggregating"):
        merged = _merged(made, reports, robust)
        found = made.estimate(merged, **choices)
    if aggregate is not None:
        merged.save(aggregate)
    if output is not None:
        found.write(output)
    if as_json:
        low, high = found.intervals.each
        answers = {"answers": found.answers, "std_error": found.std, "lower": low, "upper": high}
        print_json({**found.metadata, **answers})
    else:
        _show(found, output)


def local_plan(loaded: Any, path: str) -> Any:
    """Refuse plans with a curator."""
    from noisewright.errors import InvalidParameter

    if loaded.model != "local":
        raise InvalidParameter(
            "plan", path, "has a curator", "use `release`, or plan --model local"
        )
    return loaded


def _merged(made: Any, paths: tuple[str, ...], robust: dict[str, Any]) -> Any:
    from noisewright.local.aggregate import Aggregate

    parts = []
    for path in paths:
        if path.endswith(".agg"):
            parts.append(Aggregate.from_bytes(Path(path).read_bytes(), made.format))
        else:
            parts.append(made.aggregate(path, **robust))
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    return merged


def _show(found: Any, output: str | None) -> None:
    rows = [
        (label, f"{answer:,.1f}", f"± {half:,.1f}", f"± {wide:,.1f}")
        for label, answer, half, wide in zip(
            found.labels[:_SHOWN],
            found.answers,
            found.halfwidth,
            found.simultaneous_halfwidth,
            strict=False,
        )
    ]
    more = len(found) - len(rows)
    aside = ", ".join(f"{n:,} {name}" for name, n in found.metadata["set_aside"].items() if n)
    caption = f"{found.metadata['people']:,} reports" + (f"; set aside: {aside}" if aside else "")
    caption += f"; {more:,} more answers" if more else ""
    caption += f"; written to {output}" if output else ""
    columns = ["query", "answer", "95 %", "all at once"]
    print_table("Estimates, in people", columns, rows, caption)
