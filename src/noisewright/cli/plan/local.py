"""`noisewright plan --model local`: plan, and say what it will take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from noisewright.arrays import FloatArray
from noisewright.cli.options import FILE, Budget, Question, option, refuse_typed
from noisewright.cli.output import (
    SHOWN,
    bound_note,
    draw_page,
    print_errors,
    print_json,
    print_table,
    progress,
)
from noisewright.errors import InvalidParameter

if TYPE_CHECKING:
    from noisewright.cli.plan import Method, Output
    from noisewright.local.choose.options import Local
    from noisewright.local.mechanism import Progress
    from noisewright.planning.local.plan import LocalPlan, RunnerUp

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

_USUAL_SECONDS = 10.0
"""Of a search without a time limit, for the bar that shows how far it is."""

_STAGES = {"proof": "proving", "first plan": "a first plan"}


@dataclass(frozen=True)
class LocalFlags:
    """What is asked of a plan without a curator alone, as it stands on the line."""

    alpha: float | None = option(
        "--alpha", type=float, help="People needed for this variance per query."
    )
    max_error: float | None = option(
        "--max-error", type=float, help="Fewest people for this largest error."
    )
    beta: float | None = option(
        "--beta",
        type=float,
        help="Chance that --max-error fails (0.05 unless told).",
    )
    effort: str | None = option(
        "--effort",
        type=click.Choice(["low", "normal", "high"]),
        help="How hard to look for a better strategy and a better proof (normal unless told).",
    )
    time_limit: float | None = option(
        "--time-limit", type=float, help="Seconds, then the best so far."
    )
    seed: int | None = option(
        "--seed", type=int, help="Seed of the search, which is public."
    )
    target_ratio: float | None = option(
        "--target-ratio", type=float, help="Stop this close to the lower bound."
    )
    checkpoint: str | None = option(
        "--checkpoint",
        type=FILE,
        help="Keep the state of the search here, and go on from it after an interruption.",
    )
    objective: str | None = option(
        "--objective",
        type=click.Choice(["worst", "average"]),
        help="The error to make small, over people (worst unless told).",
    )
    prior: str | None = option(
        "--prior",
        type=click.Path(exists=True, dir_okay=False),
        help="Make the mean error small under these shares of people, one number per cell.",
    )
    norm: float | None = option(
        "--norm",
        type=float,
        help="With --objective average, the exponent of the mean over queries (inf: the worst).",
    )

    def options(self, method: Method) -> Local:
        """The same, checked, as Python takes it."""
        from noisewright.local.choose.options import Local
        from noisewright.workload.forms.matrix_files import read_matrix

        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.prior is not None:
            given["prior"] = _numbers(self.prior)

        if method.strategy is not None:
            given["strategy"] = read_matrix(method.strategy)

        return Local(people=method.people, mechanism=method.mechanism, **given)


def plan_local(
    question: Question, budget: Budget, options: Local, output: Output
) -> None:
    """Plan, and say what it will take: people for an error, or errors for people."""
    from noisewright import api

    if budget.neighbours == "add-remove":
        rule = "needs a curator: nobody is absent from a report"
        refuse_typed("neighbours", rule=rule)

    with progress("planning") as advance:

        def tell(state: Progress) -> None:
            ratio = (
                f"{state.ratio:.3f} × the bound" if state.ratio < 1e3 else "no bound"
            )
            share = state.seconds / (options.time_limit or _USUAL_SECONDS)
            doing = _STAGES.get(state.stage, f"optimising ({state.stage})")
            advance(min(share, 0.99), f"{doing}: {ratio}")

        plan = api.plan(
            question.queries,
            replace(budget, neighbours="replace-one").privacy,
            replace(options, progress=tell),
            domain=question.domain,
        )

    if output.file is not None:
        plan.save(output.file)

    draw_page(plan, output.page)
    document = plan.summary()
    chosen = options.mechanism == "auto" and options.strategy is None
    why = _why_local(plan, document) if chosen else "it was asked for"
    if output.as_json:
        print_json(document | ({"why": why} if output.explain else {}))
        return

    _show_local(plan, document, output.file)
    if output.explain:
        click.echo(f"Why {plan.mechanism.name}: {why}\n")

    if plan.people is not None:
        _show_forecast(plan, plan.people)


def _why_local(plan: LocalPlan, document: dict[str, object]) -> str:
    """Why the plan is by its mechanism, in a sentence."""
    why = f"the fewest people of {len(plan.runners_up) + 1} mechanisms planned"
    if plan.runners_up:
        second = min(plan.runners_up, key=partial(_needed, plan))
        own = "sample_complexity" if plan.goal is None else "people_for_max_error"
        times = _needed(plan, second) / cast("float", document[own])
        why += f"; {second['mechanism']} would need {times:.3f} times as many"

    return why


def _needed(plan: LocalPlan, other: RunnerUp) -> float:
    """The people that another mechanism needs for what the plan was made for."""
    if plan.goal is None:
        return other["sample_complexity"]
    return other["people_for_max_error"]


def _show_local(
    plan: LocalPlan, document: dict[str, object], output: str | None
) -> None:
    from noisewright.planning.local.forecast import CUT_SHORT

    ratio = document["certified_ratio"]
    bound = document["certified_lower_bound"]
    against = (
        f"{ratio:.4f} × the bound ({bound:,.4g} people)" if ratio else "no bound known"
    )
    rows = [
        ("queries", f"{document['queries']:,}"),
        ("privacy of every report", plan.privacy.text()),
        ("mechanism", plan.mechanism.name),
        ("one report", f"{document['report_bytes']:,} bytes"),
        (
            "people for a variance of 0.01 per query",
            f"{document['sample_complexity']:,.0f}",
        ),
        ("certified", against),
    ]
    bound_class = plan.comparison.bound_class if ratio else None
    if bound_class is not None:
        rows.append(("bound for", str(bound_class)))
        proved = str(document["certificate"])
        rows.append(("bound by", PROOFS.get(proved, proved)))

    if "people_needed" in document:
        needed = f"{document['people_needed']:,}"
        rows.append((f"people for a variance of {document['alpha']:g}", needed))

    if plan.goal is not None:
        within = f"people for every answer within ± {plan.goal.error:g}"
        rows.append((within, f"{document['people_for_max_error']:,}"))
        rows.append(("but with probability", f"{plan.goal.beta:g}"))
        hard = plan.hard_instance
        if hard is not None:
            rows.append(
                (f"{hard.bound_class} needs, biased or not", f"{hard.people:,}")
            )
        rows.append(("largest bias, included", f"{document['largest_bias']:g}"))

    if document.get("shuffled"):
        shuffled = cast("dict[str, float]", document["shuffled"])
        text = f"ε = {shuffled['epsilon']:.4g}, δ = {shuffled['delta']:g} (beside ε, not instead)"
        rows.append(("reports together, once shuffled", text))

    if plan.cut_short:
        rows.append(("the search was", CUT_SHORT))

    if output is not None:
        rows.append(("written to", output))

    print_table("Plan without a curator", ["", ""], rows, bound_note(bound_class))
    others = [(r["mechanism"], f"{_needed(plan, r):,.0f}") for r in plan.runners_up]
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

    shown = zip(
        islice(plan.each_label(), SHOWN), forecast.std, forecast.halfwidth, strict=False
    )
    rows = [(label, f"{std:,.1f}", f"{half:,.1f}") for label, std, half in shown]
    more = len(forecast.std) - len(rows)
    caption += f"; {more:,} more queries" if more else ""
    print_table(title, ["query", "standard error", "95 % within ±"], rows, caption)


def _numbers(path: str) -> FloatArray:
    """The numbers of a text file, separated by commas, blanks or lines."""
    import numpy as np

    try:
        words = Path(path).read_text(encoding="utf-8").replace(",", " ").split()
        return np.array([float(word) for word in words])
    except ValueError:  # not text, or not numbers
        raise InvalidParameter(
            "prior",
            path,
            "must be text that holds a number per cell",
            "write one to a line",
        ) from None
