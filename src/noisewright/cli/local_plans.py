"""`noisewright plan --model local`: plan, and say what it will take."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.options import Question
from noisewright.cli.output import (
    SHOWN,
    bound_note,
    draw,
    print_errors,
    print_json,
    print_table,
    progress,
)

if TYPE_CHECKING:
    from noisewright.local.mechanism import Progress
    from noisewright.planning.local import LocalPlan

PROOFS = {
    "trace": "the trace of the information",
    "prior": "the trace, at the worst prior found",
    "order": "kernels that fall with distance",
    "tables": "kernels over tables",
    "sets": "multipliers for sets of every size",
    "cuts": "products of neighbouring whole numbers",
    "triples": "distances of any three cells in sets of every size",
}
"""What proves a local bound, in words."""

_STAGES = {"proof": "proving", "first plan": "a first plan"}


def plan_local(
    question: Question,
    mechanism: str,
    settings: dict[str, Any],
    explain: bool,
    output: str | None,
    page: str | None,
    as_json: bool,
) -> None:
    """Plan, and say what it will take: people for an error, or errors for people."""
    from noisewright import api

    limit = settings.get("time_limit")
    with progress("planning") as advance:

        def tell(state: Progress) -> None:
            ratio = f"{state.ratio:.3f} × the bound" if state.ratio < 1e3 else "no bound"
            share = state.seconds / (limit if isinstance(limit, float) and limit else 10.0)
            doing = _STAGES.get(state.stage, f"optimising ({state.stage})")
            advance(min(share, 0.99), f"{doing}: {ratio}")

        plan: LocalPlan = api.plan(
            question.queries,
            replace(question, neighbours="replace-one").privacy,
            model="local",
            error=question.exponent,
            mechanism=mechanism,
            domain=question.domain,
            progress=tell,
            **settings,
        )
    if output is not None:
        plan.save(output)
    draw(plan, page)
    document = plan.summary()
    chosen = mechanism == "auto" and "strategy" not in settings
    why = _why_local(plan, document) if chosen else "it was asked for"
    if as_json:
        print_json(document | ({"why": why} if explain else {}))
        return
    _show_local(plan, document, output)
    if explain:
        click.echo(f"Why {plan.mechanism}: {why}\n")
    if plan.people is not None:
        _show_forecast(plan, plan.people)


def _why_local(plan: LocalPlan, document: dict[str, Any]) -> str:
    """Why the plan is by its mechanism, in a sentence."""
    why = f"the fewest people of {len(plan.runners_up) + 1} mechanisms planned"
    if plan.runners_up:
        name = "sample_complexity" if plan.goal is None else "people_for_max_error"
        second = min(plan.runners_up, key=lambda row: row[name])
        times = second[name] / document[name]
        why += f"; {second['mechanism']} would need {times:.3f} times as many"
    return why


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
        rows.append(("bound by", PROOFS.get(document["certificate"], document["certificate"])))
    if "people_needed" in document:
        needed = f"{document['people_needed']:,}"
        rows.append((f"people for a variance of {document['alpha']:g}", needed))
    if plan.goal is not None:
        within = f"people for every answer within ± {plan.goal.error:g}"
        rows.append((within, f"{document['people_for_max_error']:,}"))
        rows.append(("but with probability", f"{plan.goal.beta:g}"))
        hard = plan.hard_instance
        if hard is not None:
            rows.append((f"{hard.bound_class} needs, biased or not", f"{hard.people:,}"))
        rows.append(("largest bias, included", f"{document['largest_bias']:g}"))
    if document.get("shuffled"):
        shuffled = document["shuffled"]
        text = f"ε = {shuffled['epsilon']:.4g}, δ = {shuffled['delta']:g} (beside ε, not instead)"
        rows.append(("reports together, once shuffled", text))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan without a curator", ["", ""], rows, bound_note(bound_class))
    name = "sample_complexity" if plan.goal is None else "people_for_max_error"
    others = [(r["mechanism"], f"{r[name]:,.0f}") for r in plan.runners_up]
    if others:
        print_table("What others would need", ["mechanism", "people"], others)


def _show_forecast(plan: LocalPlan, people: int) -> None:
    """Expected errors: table by table where there are several, else query by query."""
    forecast = plan.forecast(people)
    title = f"Expected error from {people:,} people, in people"
    caption = f"root mean square {forecast.rmse:,.1f}; on the worst data {forecast.worst_rmse:,.1f}"
    tables = plan.table_errors(people)
    if len(tables) > 1:
        print_errors(title, tables, caption)
        return
    shown = zip(islice(plan.each_label(), SHOWN), forecast.std, forecast.halfwidth, strict=False)
    rows = [(label, f"{std:,.1f}", f"{half:,.1f}") for label, std, half in shown]
    more = len(forecast.std) - len(rows)
    caption += f"; {more:,} more queries" if more else ""
    print_table(title, ["query", "standard error", "95 % within ±"], rows, caption)
