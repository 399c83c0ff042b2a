"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.output import json_option, print_json, print_table, progress


@click.command()
@click.argument("workload", required=False)
@click.option("--queries", "spec", type=click.Path(dir_okay=False), help="Questions in YAML.")
@click.option("--schema", type=click.Path(dir_okay=False), help="The table's schema in YAML.")
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
@click.option("--error", default="rmse", show_default=True, help="rmse, max or an exponent >= 2.")
@click.option("--mechanism", default="auto", show_default=True, help="A mechanism's name.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the plan here.")
@json_option
def plan(
    workload: str | None,
    spec: str | None,
    schema: str | None,
    output: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Plan private answers to WORKLOAD (such as prefix:64), or to questions in YAML.

    Nothing is spent and no data is read: the plan says how wrong every answer will be, and how
    close that is to the least possible. `noisewright release PLAN TABLE` then answers.

    \b
    Examples:
      noisewright plan prefix:64 --epsilon 1 --delta 1e-9
      noisewright plan --queries q.yaml --schema s.yaml --epsilon 1 --delta 1e-9 -o people.nw
    """
    import noisewright as nw
    from noisewright.files import check_writable
    from noisewright.privacy.budget import Privacy

    if output is not None:
        check_writable(output)
    privacy = Privacy(choices["epsilon"], choices["delta"], choices["rho"], choices["neighbours"])
    domain = None if schema is None else nw.Domain.from_yaml(schema)  # type: ignore[attr-defined]
    queries = _asked(workload, spec, domain)
    with progress("planning"):
        made = nw.plan(  # type: ignore[operator]
            queries,
            privacy,
            error=_exponent(choices["error"]),
            mechanism=choices["mechanism"],
            domain=domain,
        )
    if output is not None:
        made.save(output)
    if as_json:
        print_json(made.summary())
    else:
        show(made, output)


def _asked(workload: str | None, spec: str | None, domain: Any) -> Any:
    from noisewright.errors import InvalidParameter
    from noisewright.workload import Workload

    if (workload is None) == (spec is None):
        raise InvalidParameter(
            "workload", workload, "must be given, or else --queries", "give exactly one of the two"
        )
    if spec is None:
        return workload
    if domain is None:
        raise InvalidParameter("schema", None, "must be given with --queries", "add --schema FILE")
    return Workload.from_spec(spec, domain)


def _exponent(error: str) -> str | float:
    try:
        return float(error)
    except ValueError:
        return error


def show(made: Any, output: str | None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    forecast = made.forecast()
    bound = "no bound known" if forecast.ratio is None else f"{forecast.ratio:.4f} × the least"
    rows = [
        ("queries", f"{made.workload.queries:,}"),
        ("privacy", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("root mean square error", f"{forecast.rmse:,.2f} people"),
        ("largest standard error", f"{forecast.max:,.2f} people"),
        (f"certified ({forecast.error})", bound),
        ("solver", made.planned.status),
    ]
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan", ["", ""], rows)
    tables = made.table_errors()
    if len(tables) > 1:
        print_table(
            "Expected error by table, in people",
            ["table", "queries", "rmse", "largest", "95 % within ±", "all at once ±"],
            tables,
        )
