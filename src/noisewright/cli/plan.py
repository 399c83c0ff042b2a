"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from noisewright.cli.local_plans import plan_local
from noisewright.cli.open_plans import open_schema, plan_open
from noisewright.cli.options import FILE, Question, json_option, question_options
from noisewright.cli.output import (
    draw,
    print_bounds,
    print_errors,
    print_json,
    print_table,
    progress,
    significant,
)
from noisewright.cli.row_commands import asks_rows, plan_rows

if TYPE_CHECKING:
    from noisewright.planning.central import CentralPlan
    from noisewright.planning.explain import Explanation
    from noisewright.planning.targets import Target
    from noisewright.workload.base import FloatArray


@click.command()
@question_options
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
@click.option(
    "--strategy", type=FILE,
    help="Your own matrix instead (.npy, .npz, .mtx, .csv): rows to measure; local: chances.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Say why this mechanism, and what others reach.")
@click.option(
    "--people", type=int,
    help="How many there are, if public. Local: the expected error; else adds biased mechanisms.",
)  # fmt: skip
@click.option("--alpha", type=float, help="Local: people needed for this variance per query.")
@click.option("--max-error", type=float, help="Local: the fewest people for this largest error.")
@click.option("--beta", type=float, help="Local: chance that --max-error fails (0.05 unless told).")
@click.option(
    "--effort", type=click.Choice(["low", "normal", "high"]),
    help="Local: how hard to look for a better strategy and a better proof (normal unless told).",
)  # fmt: skip
@click.option("--time-limit", type=float, help="Local: seconds to look for a better strategy.")
@click.option("--seed", type=int, help="Local: seed of the search, which is public.")
@click.option("--target-ratio", type=float, help="Local: stop this close to the lower bound.")
@click.option(
    "--checkpoint", type=FILE,
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
@click.option(
    "--values-share", type=float, default=0.25, show_default=True,
    help="With open attributes: the share of the budget by which their values are told.",
)  # fmt: skip
@click.option(
    "--columns", metavar="NAMES",
    help="Second moments of these numeric columns; with conjunctions:D:2 all pairs of binary ones. "
    "Between commas, or @FILE with a name to a line.",
)  # fmt: skip
@click.option("--radius", type=float, help="With --columns: rows are clipped to this length.")
@click.option("-o", "--output", type=FILE, help="Write the plan here.")
@click.option(
    "--report", "page", type=FILE,
    help="Write a page about the plan and its runners-up here (.html).",
)  # fmt: skip
@json_option
def plan(
    question: Question,
    mechanism: str,
    strategy: str | None,
    explain: bool,
    output: str | None,
    page: str | None,
    as_json: bool,
    target_rmse: float | None,
    target_max: float | None,
    table_targets: tuple[str, ...],
    pure: bool,
    prior: str | None,
    values_share: float,
    columns: str | None,
    radius: float | None,
    **local: str | float | None,
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
      noisewright plan --columns height,weight,age --radius 1 --epsilon 1 -o moments.nw
      noisewright plan conjunctions:200:2 --columns @names.txt --epsilon 1 -o pairs.nw
    """
    from noisewright.errors import InvalidParameter
    from noisewright.files import check_writable
    from noisewright.planning.targets import Target
    from noisewright.workload.matrix_files import read_matrix

    if output is not None:
        check_writable(output)
    settled = {"model": question.model == "local" and "local", "strategy": strategy}
    named = {"mechanism": mechanism != "auto" and mechanism, "target": table_targets}
    goals = {"target_rmse": target_rmse, "target_max": target_max, "explain": explain}
    special = {**settled, **named, **goals, "prior": prior, "report": page, **local}
    if asks_rows(question, columns):
        number = cast("int | None", special.pop("people"))
        special |= {"queries": question.spec, "schema": question.schema, "unit": question.unit}
        plan_rows(question, columns, radius, number, special, output, as_json)
        return
    if radius is not None:
        raise InvalidParameter("radius", radius, "goes with --columns", "name the columns")
    if (schema := open_schema(question)) is not None:
        plan_open(question, schema, values_share, special, output, as_json)
        return
    if question.model == "local":
        settings: dict[str, Any] = {k: v for k, v in local.items() if v is not None}
        if prior is not None:
            settings["prior"] = _numbers(prior)
        if strategy is not None:
            settings["strategy"] = read_matrix(strategy)
        plan_local(question, mechanism, settings, explain, output, page, as_json)
        return
    targets = [Target.parse(text) for text in table_targets]
    if target_rmse is not None:
        targets.append(Target("rmse", target_rmse))
    if target_max is not None:
        targets.append(Target("max", target_max))
    with progress("planning"):
        people = local["people"]
        assert people is None or isinstance(people, int)
        reasons, binding = _planned(question, mechanism, strategy, targets, pure, people)
    result = reasons.plan
    if output is not None:
        result.save(output)
    draw(reasons, page)
    if as_json:
        told: dict[str, object] = {} if binding is None else {"binding": binding}
        if explain:
            told |= {"why": reasons.why, "others": [other.to_dict() for other in reasons.others]}
        print_json(result.summary() | told)
        return
    _show_central(result, output, binding)
    if explain:
        _show_reasons(reasons)


def _show_reasons(reasons: Explanation) -> None:
    """Why this mechanism, and what the others would reach."""
    planned = [
        (other.mechanism, significant(other.achieved), f"{other.times:.4f}", other.reason)
        for other in reasons.others
        if other.achieved is not None and other.times is not None
    ]
    left_out: dict[str, list[str]] = {}
    for other in reasons.others:
        if other.achieved is None:
            left_out.setdefault(other.reason, []).append(other.mechanism)
    title = f"Why {reasons.plan.mechanism}: {reasons.why}"
    note = "\n".join(f"{', '.join(names)}: {reason}" for reason, names in left_out.items())
    columns = ["instead", "error", "times this", ""]
    print_table(title, columns if planned else [], planned, note)


def _planned(
    question: Question,
    mechanism: str,
    strategy: str | None,
    targets: list[Target],
    pure: bool,
    people: int | None,
) -> tuple[Explanation, str | None]:
    """The plan for a budget, or for targets with the one that decides the budget."""
    from noisewright import api
    from noisewright.errors import InvalidParameter
    from noisewright.planning.explain import Explanation
    from noisewright.workload.matrix_files import read_matrix

    queries, error, domain = question.queries, question.exponent, question.domain
    if not targets:
        own = None if strategy is None else read_matrix(strategy)
        budget = question.privacy
        return api.explain(
            queries,
            budget,
            error=error,
            mechanism=mechanism,
            strategy=own,
            domain=domain,
            people=people,
        ), None
    if strategy is not None:
        raise InvalidParameter(
            "strategy", strategy, "cannot be combined with targets", "give a budget instead"
        )
    if question.epsilon is not None or question.rho is not None:
        raise InvalidParameter(
            "target",
            targets[0].limit,
            "cannot be combined with a budget",
            "drop --epsilon and --rho: the budget is what is found",
        )
    fit = api.plan_for(
        queries,
        targets,
        pure=pure,
        delta=question.delta,
        neighbours=question.neighbours,
        error=error,
        mechanism=mechanism,
        domain=domain,
    )
    why = "it meets the targets with the least budget"
    return Explanation(fit.plan, why, ()), fit.binding.text()


def _show_central(plan: CentralPlan, output: str | None, binding: str | None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    from noisewright.workload.statistics import PEOPLE

    forecast = plan.forecast()
    rows = [
        ("queries", f"{plan.queries:,}"),
        ("privacy", plan.privacy.text()),
        ("a person", plan.person),
        ("mechanism", plan.mechanism),
    ]
    tables = plan.table_errors()
    pairs = zip(plan.tables(), tables, strict=True)
    if {table.unit for table, error in pairs if isfinite(error.max)} == {PEOPLE}:
        rows.append(("root mean square error", f"{forecast.rmse:,.2f} people"))
        rows.append(("largest standard error", f"{forecast.max:,.2f} people"))
    if forecast.worst_rmse is not None:
        rows.append(("at most, whatever the data", f"{forecast.worst_rmse:,.2f} people"))
    rows.append(("solver", plan.status))
    if forecast.ratio is not None:
        rows.append(("linear bound by", plan.proposal.certificate))
    if binding is not None:
        rows.append(("decided by", binding))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan", ["", ""], rows)
    weighed = ", questions weighed" if len(set(plan.weights)) > 1 else ""
    print_bounds(f"How close to the least error ({forecast.error}{weighed})", forecast)
    if len(tables) > 1:
        of_people = all(table.unit == PEOPLE for table in plan.tables())
        title = "Expected error by table" + (", in people" if of_people else "")
        known = all(isfinite(table.max) for table in tables)
        note = "" if known else "– depends on how many people there are"
        print_errors(title, tables, note)
    if plan.domain is not None and plan.domain.unit is not None:
        _show_rows(plan)


def _show_rows(plan: CentralPlan) -> None:
    """Errors for other numbers of rows per person: the number is public and chosen unseen."""
    choices = sorted({1, 2, 3, 5, 10, 20, plan.rows})
    rows = [
        (f"{k:,}" + " (this plan)" * (k == plan.rows), f"{plan.error_of_rows(k):,.2f}")
        for k in choices
    ]
    note = "errors grow with the rows kept, what is left out shrinks; choose without the data"
    print_table("Rows of one person that count", ["rows", "rmse"], rows, note)


def _numbers(path: str) -> FloatArray:
    """The numbers of a text file, separated by commas, blanks or lines."""
    import numpy as np

    from noisewright.errors import InvalidParameter

    try:
        words = Path(path).read_text(encoding="utf-8").replace(",", " ").split()
        return np.array([float(word) for word in words])
    except ValueError:  # not text, or not numbers
        raise InvalidParameter(
            "prior", path, "must be text that holds a number per cell", "write one to a line"
        ) from None
