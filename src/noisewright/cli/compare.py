"""`noisewright compare`: every mechanism that applies, as a table, JSON or a chart."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.options import asked, asking, exponent
from noisewright.cli.output import bound_note, json_option, print_json, print_table, progress


@click.command()
@asking
@click.option(
    "--effort", type=click.Choice(["low", "normal", "high"]), default="normal",
    show_default=True, help="Local: how hard to look for a better strategy.",
)  # fmt: skip
@click.option("--alpha", type=float, default=0.01, help="Local: variance per query aimed at.")
@click.option("--chart", type=click.Path(dir_okay=False), help="Draw it (.html, .svg or .png).")
@json_option
def compare(
    workload: str | None,
    spec: str | None,
    schema: str | None,
    chart: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Compare all mechanisms for WORKLOAD (such as prefix:64), or for questions in YAML.

    Each is set against the highest lower bound known; a note says what that is a bound for.

    \b
    Examples:
      noisewright compare prefix:64 --epsilon 1 --delta 1e-9
      noisewright compare marginals:2^8:3 --epsilon 1 --json
      noisewright compare prefix:64 --model local --epsilon 1
    """
    import noisewright as nw
    from noisewright.cli.plan_local import compare_without_curator
    from noisewright.files import check_writable
    from noisewright.privacy.budget import Privacy
    from noisewright.report.comparison import check_format, draw_comparison

    if chart is not None:
        check_writable(chart)
        check_format(chart)
    privacy = Privacy(choices["epsilon"], choices["delta"], choices["rho"], choices["neighbours"])
    domain = None if schema is None else nw.Domain.from_yaml(schema)
    queries = asked(workload, spec, domain)
    if choices["model"] == "local":
        settings = {name: choices[name] for name in ("alpha", "effort")}
        compare_without_curator(queries, privacy, domain, chart, as_json, **settings)
        return
    with progress("comparing"):
        error = exponent(choices["error"])
        rows: list[Any] = nw.compare(queries, privacy, error=error, domain=domain)
    planned = [row for row in rows if row.refusal is None]
    first = planned[0]
    if chart is not None:
        # The bound is on the error compared: nothing else may be drawn beside it.
        values = [(row.mechanism, row.achieved, row.ratio) for row in planned]
        title, axis = f"Error at {privacy.text()}", f"error ({choices['error']}), people"
        draw_comparison(values, first.lower_bound, first.bound_class, title, axis, chart)
    if as_json:
        print_json([row.to_dict() for row in planned])
        return
    print_table(
        f"Expected error in people, {privacy.text()}",
        ["mechanism", "rmse", "largest", f"lower bound ({choices['error']})", "ratio", "seconds"],
        [[_shown(getattr(row, name)) for name in _COLUMNS] for row in planned],
        caption=". ".join(filter(None, [bound_note(first.bound_class), _refusals(rows)])),
    )


_COLUMNS = ("mechanism", "rmse", "max", "lower_bound", "ratio", "seconds")


def _refusals(rows: list[Any]) -> str:
    """Why mechanisms do not apply, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.refusal is not None:
            reasons.setdefault(row.refusal, []).append(row.mechanism)
    return ". ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _shown(value: Any) -> Any:
    if value is None:
        return "unknown"
    return round(value, 4) if isinstance(value, float) else value
