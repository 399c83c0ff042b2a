"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.options import FILE, Question, json_option, question_options
from noisewright.cli.output import (
    ERRORS_BY_TABLE,
    SHOWN,
    bound_note,
    print_json,
    print_table,
    progress,
)

if TYPE_CHECKING:
    from noisewright.local.optimise.optimised import Progress
    from noisewright.planning.central import CentralPlan
    from noisewright.planning.local import LocalPlan
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
@click.option("-o", "--output", type=FILE, help="Write the plan here.")
@json_option
def plan(
    question: Question,
    mechanism: str,
    output: str | None,
    as_json: bool,
    target_rmse: float | None,
    target_max: float | None,
    table_targets: tuple[str, ...],
    pure: bool,
    prior: str | None,
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
    """
    from noisewright.files import check_writable
    from noisewright.planning.targets import Target

    if output is not None:
        check_writable(output)
    if question.model == "local":
        settings: dict[str, Any] = {k: v for k, v in local.items() if v is not None}
        if prior is not None:
            settings["prior"] = _numbers(prior)
        _plan_local(question, mechanism, settings, output, as_json)
        return
    targets = [Target.parse(text) for text in table_targets]
    if target_rmse is not None:
        targets.append(Target("rmse", target_rmse))
    if target_max is not None:
        targets.append(Target("max", target_max))
    with progress("planning"):
        result, binding = _planned(question, mechanism, targets, pure)
    if output is not None:
        result.save(output)
    if as_json:
        print_json(result.summary() | ({} if binding is None else {"binding": binding}))
    else:
        _show_central(result, output, binding)


def _planned(
    question: Question, mechanism: str, targets: list[Target], pure: bool
) -> tuple[CentralPlan, str | None]:
    """The plan for a budget, or for targets with the one that decides the budget."""
    from noisewright import api
    from noisewright.errors import InvalidParameter

    queries, error, domain = question.queries, question.exponent, question.domain
    if not targets:
        plan = api.plan(queries, question.privacy, error=error, mechanism=mechanism, domain=domain)
        return plan, None
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
    return fit.plan, fit.binding.text()


def _show_central(plan: CentralPlan, output: str | None, binding: str | None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    from noisewright.workload.statistics import PEOPLE

    forecast = plan.forecast()
    ratio = "no bound known" if forecast.ratio is None else f"{forecast.ratio:.4f} × the bound"
    rows = [
        ("queries", f"{plan.queries:,}"),
        ("privacy", plan.privacy.text()),
        ("mechanism", plan.mechanism),
        ("root mean square error", f"{forecast.rmse:,.2f} people"),
        ("largest standard error", f"{forecast.max:,.2f} people"),
        (f"certified ({forecast.error})", ratio),
        ("solver", plan.status),
    ]
    if forecast.ratio is not None:
        rows.insert(-1, ("bound for", str(forecast.bound_class)))
        rows.insert(-1, ("bound by", plan.proposal.certificate))
    if binding is not None:
        rows.append(("decided by", binding))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan", ["", ""], rows, bound_note(forecast.bound_class))
    tables = plan.table_errors()
    if len(tables) > 1:
        of_people = all(table.unit == PEOPLE for table in plan.tables())
        title = "Expected error by table" + (", in people" if of_people else "")
        note = "" if of_people else "– depends on how many people there are"
        print_table(title, ERRORS_BY_TABLE, tables, note)


def _plan_local(
    question: Question,
    mechanism: str,
    settings: dict[str, Any],
    output: str | None,
    as_json: bool,
) -> None:
    """Plan, and say what it will take: people for an error, or errors for people."""
    from noisewright import api

    limit = settings.get("time_limit")
    with progress("planning") as advance:

        def tell(state: Progress) -> None:
            ratio = f"{state.ratio:.3f} × the bound" if state.ratio < 1e3 else "no bound"
            share = state.seconds / (limit if isinstance(limit, float) and limit else 10.0)
            advance(min(share, 0.99), f"optimising ({state.stage}): {ratio}")

        plan: LocalPlan = api.plan(
            question.queries,
            replace(question, neighbours="replace-one").privacy,
            model="local",
            mechanism=mechanism,
            domain=question.domain,
            progress=tell,
            **settings,
        )
    if output is not None:
        plan.save(output)
    document = plan.summary()
    if as_json:
        print_json(document)
        return
    _show_local(plan, document, output)
    if plan.people is not None:
        _show_forecast(plan, plan.people)


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


def _show_local(plan: LocalPlan, document: dict[str, Any], output: str | None) -> None:
    ratio, bound = document["certified_ratio"], document["certified_lower_bound"]
    against = f"{ratio:.4f} × the bound ({bound:,.4g} people)" if ratio else "no bound known"
    rows = [
        ("queries", f"{document['queries']:,}"),
        ("privacy of every report", plan.privacy.text()),
        ("mechanism", plan.mechanism),
        ("one report", f"{document['report_bytes']:,} bytes"),
        ("people for a variance of 0.01 per query", f"{document['sample_complexity']:,.0f}"),
        ("certified", against),
    ]
    bound_class = plan.comparison.bound_class if ratio else None
    if bound_class is not None:
        rows.append(("bound for", str(bound_class)))
    if "people_needed" in document:
        needed = f"{document['people_needed']:,}"
        rows.append((f"people for a variance of {document['alpha']:g}", needed))
    if document.get("shuffled"):
        shuffled = document["shuffled"]
        text = f"ε = {shuffled['epsilon']:.4g}, δ = {shuffled['delta']:g} (beside ε, not instead)"
        rows.append(("reports together, once shuffled", text))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan without a curator", ["", ""], rows, bound_note(bound_class))
    others = [(r["mechanism"], f"{r['sample_complexity']:,.0f}") for r in plan.runners_up]
    if others:
        print_table("What others would need", ["mechanism", "people"], others)


def _show_forecast(plan: LocalPlan, people: int) -> None:
    """Expected errors: table by table where there are several, else query by query."""
    forecast = plan.forecast(people)
    title = f"Expected error from {people:,} people, in people"
    caption = f"root mean square {forecast.rmse:,.1f}; on the worst data {forecast.worst_rmse:,.1f}"
    tables = plan.table_errors(people)
    if len(tables) > 1:
        print_table(title, ERRORS_BY_TABLE, tables, caption)
        return
    shown = zip(plan.labels()[:SHOWN], forecast.std, forecast.halfwidth, strict=False)
    rows = [(label, f"{std:,.1f}", f"± {half:,.1f}") for label, std, half in shown]
    more = len(forecast.std) - len(rows)
    caption += f"; {more:,} more queries" if more else ""
    print_table(title, ["query", "standard error", "95 % within"], rows, caption)
