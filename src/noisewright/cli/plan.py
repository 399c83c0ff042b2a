"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.options import asked, asking, exponent
from noisewright.cli.output import bound_note, json_option, print_json, print_table, progress


@click.command()
@asking
@click.option("--target-rmse", type=float, help="Find the budget for this mean error instead.")
@click.option("--target-max", type=float, help="Find the budget for this largest error instead.")
@click.option(
    "--target",
    "table_targets",
    multiple=True,
    help='Largest standard error of a table, as in "income*region: 5% of 1000".',
)
@click.option("--pure", is_flag=True, help="With targets: find ε of pure privacy, not ρ.")
@click.option("--mechanism", default="auto", show_default=True, help="A mechanism's name.")
@click.option("--people", type=int, help="Local: the expected error for that many people.")
@click.option("--alpha", type=float, help="Local: people needed for this variance per query.")
@click.option(
    "--effort", type=click.Choice(["low", "normal", "high"]),
    help="Local: how hard to look for a better strategy (normal unless told).",
)  # fmt: skip
@click.option("--time-limit", type=float, help="Local: seconds to look for a better strategy.")
@click.option("--seed", type=int, help="Local: seed of the search, which is public.")
@click.option("--target-ratio", type=float, help="Local: stop this close to the lower bound.")
@click.option(
    "--checkpoint", type=click.Path(dir_okay=False),
    help="Local: keep the state of the search here, and go on from it after an interruption.",
)  # fmt: skip
@click.option(
    "--objective", type=click.Choice(["worst", "average"]),
    help="Local: the error to make small, over people (worst unless told).",
)  # fmt: skip
@click.option(
    "--prior", type=click.Path(exists=True, dir_okay=False),
    help="Local: make the mean error small under these shares of people, one number per cell.",
)  # fmt: skip
@click.option(
    "--norm", type=float,
    help="Local: with --objective average, the exponent of the mean over queries (inf: the worst).",
)  # fmt: skip
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

    Nothing is spent and no data is read: the plan says how wrong every answer will be and, where a
    lower bound is known, how close to it that is and which methods the bound is about.
    `noisewright release PLAN TABLE` then answers.
    With targets instead of a budget, the smallest budget that meets them all is found: ρ, or ε
    where --delta or --pure is given.

    \b
    Examples:
      noisewright plan prefix:64 --epsilon 1 --delta 1e-9
      noisewright plan prefix:64 --target-rmse 25
      noisewright plan prefix:64 --model local --epsilon 1 --people 200000
      noisewright plan --queries q.yaml --schema s.yaml --epsilon 1 --delta 1e-9 -o people.nw
    """
    import noisewright as nw
    from noisewright.cli.plan_local import plan_without_curator
    from noisewright.files import check_writable

    if output is not None:
        check_writable(output)
    domain = None if schema is None else nw.Domain.from_yaml(schema)
    queries = asked(workload, spec, domain)
    if choices["model"] == "local":
        plan_without_curator(queries, domain, output, as_json, choices)
        return
    with progress("planning"):
        made, binding = _planned(queries, domain, choices)
    if output is not None:
        made.save(output)
    if as_json:
        print_json(made.summary() | ({} if binding is None else {"binding": binding}))
    else:
        show(made, output, binding)


def _planned(queries: Any, domain: Any, choices: dict[str, Any]) -> tuple[Any, str | None]:
    """The plan for a budget, or for targets with the one that decides the budget."""
    from noisewright import api
    from noisewright.errors import InvalidParameter
    from noisewright.planning.targets import Target
    from noisewright.privacy.budget import Privacy

    targets = [Target.parse(text) for text in choices["table_targets"]]
    if choices["target_rmse"] is not None:
        targets.append(Target("rmse", choices["target_rmse"]))
    if choices["target_max"] is not None:
        targets.append(Target("max", choices["target_max"]))
    settings = {
        "error": exponent(choices["error"]),
        "mechanism": choices["mechanism"],
        "domain": domain,
    }
    epsilon, delta, rho = choices["epsilon"], choices["delta"], choices["rho"]
    neighbours = choices["neighbours"]
    if not targets:
        return api.plan(queries, Privacy(epsilon, delta, rho, neighbours), **settings), None
    if epsilon is not None or rho is not None:
        raise InvalidParameter(
            "target",
            targets[0].limit,
            "cannot be combined with a budget",
            "drop --epsilon and --rho: the budget is what is found",
        )
    fit = api.plan_for(
        queries, targets, pure=choices["pure"], delta=delta, neighbours=neighbours, **settings
    )
    return fit.plan, fit.binding.text()


def show(made: Any, output: str | None, binding: str | None = None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    forecast = made.forecast()
    ratio = "no bound known" if forecast.ratio is None else f"{forecast.ratio:.4f} × the bound"
    rows = [
        ("queries", f"{made.workload.queries:,}"),
        ("privacy", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("root mean square error", f"{forecast.rmse:,.2f} people"),
        ("largest standard error", f"{forecast.max:,.2f} people"),
        (f"certified ({forecast.error})", ratio),
        ("solver", made.status),
    ]
    if forecast.ratio is not None:
        rows.insert(-1, ("bound for", str(forecast.bound_class)))
        rows.insert(-1, ("bound by", made.planned.certificate))
    if binding is not None:
        rows.append(("decided by", binding))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan", ["", ""], rows, bound_note(forecast.bound_class))
    tables = made.table_errors()
    if len(tables) > 1:
        print_table(
            "Expected error by table, in people",
            ["table", "queries", "rmse", "largest", "95 % within ±", "all at once ±"],
            tables,
        )
