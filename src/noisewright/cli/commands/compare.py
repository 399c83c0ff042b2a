"""`noisewright compare`: every mechanism that applies, as a table, JSON or a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    Curator,
    Model,
    Question,
    Sectioned,
    option,
    option_group,
    refuse_typed,
)
from noisewright.cli.output import (
    bound_note,
    print_bounds,
    print_json,
    print_table,
    progress,
)

_GRIDS = 0.01  # by how much noise of one law and budget differs between grids
_WIDEST = "to any: the error over the bound for any mechanism whatever"

if TYPE_CHECKING:
    from noisewright.local.choose.cost import LocalComparison
    from noisewright.planning.central.comparing import Comparison
    from noisewright.privacy.promise.budget import Privacy


@dataclass(frozen=True)
class ComparedCurator(Curator):
    """What may be said of mechanisms with a curator."""

    people: int | None = option(
        "--people",
        type=int,
        help="How many there are, if public: adds mechanisms whose error depends on it "
        "(simulated).",
    )


@dataclass(frozen=True)
class ComparedLocal:
    """What may be said of mechanisms without one."""

    effort: str | None = option(
        "--effort",
        type=click.Choice(["low", "normal", "high"]),
        help="How hard to look for a better strategy (normal unless told).",
    )
    alpha: float | None = option(
        "--alpha", type=float, help="Variance per query aimed at (0.01 unless told)."
    )


@dataclass(frozen=True)
class Output:
    """What is drawn and printed."""

    chart: str | None = option(
        "--chart", type=FILE, help="Draw it (.html, .svg or .png)."
    )
    as_json: bool = option(
        "--json", is_flag=True, help="Print JSON on standard output."
    )


@click.command(cls=Sectioned)
@option_group("question", Question, "What is asked")
@option_group("budget", Budget, "The budget")
@option_group("model", Model, "Who adds the noise")
@option_group("curator", ComparedCurator, "With a curator")
@option_group("local", ComparedLocal, "Without a curator (--model local)")
@option_group("output", Output, "Output")
def compare(
    question: Question,
    budget: Budget,
    model: Model,
    curator: ComparedCurator,
    local: ComparedLocal,
    output: Output,
) -> None:
    """Compare all mechanisms for WORKLOAD (such as prefix:64), or for questions in YAML.

    Each is set against the highest lower bound known; a note says what that is a bound for.

    \b
    Examples:
      noisewright compare prefix:64 --epsilon 1 --delta 1e-9
      noisewright compare marginals:2^8:3 --epsilon 1 --json
      noisewright compare marginals:2^6:2 --epsilon 1 --neighbours replace-one --people 500
      noisewright compare prefix:64 --model local --epsilon 1
    """
    from noisewright.report.charts import check_chart

    if output.chart is not None:
        check_chart(output.chart)

    if model.model == "local":
        rule = "is for the central model"
        refuse_typed(ComparedCurator, rule=rule, remedy="say --alpha, or plan")
        _compare_local(question, budget.privacy, local, output)
    else:
        rule = "is for the local model"
        refuse_typed(ComparedLocal, rule=rule, remedy="add --model local")
        _compare_central(question, budget.privacy, curator, output)


def _compare_central(
    question: Question, privacy: Privacy, curator: ComparedCurator, output: Output
) -> None:
    """Every central mechanism with its errors, against the lower bound."""
    from noisewright import api
    from noisewright.planning.central.options import Central

    people = curator.people
    error = curator.error

    with progress("comparing"):
        options = Central(
            error=curator.exponent,
            people=people,
            composition=curator.composition or "one",
        )
        rows = api.compare(question.queries, privacy, options, domain=question.domain)

    planned = [row for row in rows if row.refusal is None]
    first = planned[0]
    if output.chart is not None:
        _draw(planned, f"Error at {privacy.text()}", error, output.chart)

    if output.as_json:
        print_json([row.to_dict() for row in planned])
        return

    heads = [f"bound ({error})" if name == "bound" else name for name in _COLUMNS]
    print_table(
        f"Expected error in people, {privacy.text()}",
        heads,
        [
            [_rounded(getattr(row, name)) for name in _COLUMNS.values()]
            for row in planned
        ],
        caption="\n".join(
            filter(None, [_WIDEST if first.bounds else "", _refusals(rows)])
        ),
    )

    for sentence in [] if first.limits is None else first.limits.sentences(people):
        click.echo(sentence)

    if (certain := _worst_cases(planned)) is not None:
        click.echo(certain)

    known = first.limits is not None and first.limits.any_bound(people)
    if first.bounds or first.lower_bound is not None or not known:
        print_bounds(f"The least error ({error}) against its bounds", first)


_COLUMNS = {
    "mechanism": "mechanism",
    "rmse": "rmse",
    "largest": "max",
    "errors": "errors",
    "bound": "lower_bound",
    "ratio": "ratio",
    "to any": "widest_ratio",
}
"""The figures of a mechanism, by the heads of their columns."""


def _draw(planned: Sequence[Comparison], title: str, error: str, path: str) -> None:
    """Errors as bars, and the bound on them.

    The bound is on the error compared: nothing else may be drawn beside it. A bound for linear
    strategies is one for their noise: others have no ratio to this one.
    """
    from noisewright.report.charts import draw_comparison

    first = planned[0]
    values = [
        (
            r.mechanism,
            r.achieved,
            r.ratio if _same(r.lower_bound, first.lower_bound) else None,
        )
        for r in planned
        if r.achieved is not None
    ]
    axis = f"error ({error}), people"
    draw_comparison(values, first.lower_bound, first.bound_class, title, axis, path)


def _same(bound: float | None, other: float | None) -> bool:
    """Whether two bounds are one, but for what coarser grids change."""
    return (
        bound is not None
        and other is not None
        and isclose(bound, other, rel_tol=_GRIDS)
    )


def _worst_cases(rows: Sequence[Comparison]) -> str | None:
    """Errors that no data exceed, of those mechanisms whose forecasts are for some data alone."""
    known = [
        f"{r.mechanism} {r.worst_rmse:.4g}" for r in rows if r.worst_rmse is not None
    ]
    return (
        f"Root mean square errors that no data exceed: {', '.join(known)}."
        if known
        else None
    )


def _rounded(value: str | float | None) -> str | float:
    if value is None:
        return "unknown"
    return round(value, 4) if isinstance(value, float) else value


def _refusals(rows: Sequence[Comparison | LocalComparison]) -> str:
    """Why mechanisms do not apply, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.refusal is not None:
            reasons.setdefault(row.refusal, []).append(row.mechanism)

    return "\n".join(
        f"{', '.join(names)}: {reason}" for reason, names in reasons.items()
    )


def _compare_local(
    question: Question, privacy: Privacy, local: ComparedLocal, output: Output
) -> None:
    """Every local mechanism with the people it needs, against the lower bound."""
    from noisewright import api
    from noisewright.local.bounds.floors import best_bound
    from noisewright.local.choose.candidates import narrowed_workload
    from noisewright.local.choose.cost import ALPHA
    from noisewright.local.choose.options import Local
    from noisewright.report.charts import draw_comparison
    from noisewright.solution import BoundClass

    alpha = ALPHA if local.alpha is None else local.alpha

    with progress("comparing"):
        options = Local(alpha=alpha)
        if local.effort is not None:
            options = replace(options, effort=local.effort)

        rows = api.compare(question.queries, privacy, options, domain=question.domain)
        best = best_bound(narrowed_workload(question.queries), rows[0].epsilon)

    bound_class = BoundClass.UNBIASED if best else None
    floor = best.sample_complexity(alpha) if best else 0.0
    # A bound is for ε alone: it says nothing of mechanisms that also take a δ.
    planned = [
        (row, people, people / floor if floor and row.bound_class is not None else None)
        for row in rows
        if (people := row.sample_complexity) is not None
    ]
    if output.chart is not None and planned:
        title = f"People needed for a variance of {alpha:g} at ε = {privacy.epsilon:g}"
        values = [(row.mechanism, people, ratio) for row, people, ratio in planned]
        draw_comparison(
            values, floor or None, bound_class, title, "people", output.chart
        )

    if output.as_json:
        print_json([row.to_dict() for row, _, _ in planned])
        return

    unknown = "unknown", "unknown"
    print_table(
        f"People needed for a variance of {alpha:g} per query, ε = {privacy.epsilon:g}",
        ["mechanism", "people", "lower bound", "ratio", "seconds"],
        [
            (
                row.mechanism,
                f"{people:,.1f}",
                *(unknown if ratio is None else (f"{floor:,.1f}", f"{ratio:.4f}")),
                round(row.seconds, 3),
            )
            for row, people, ratio in planned
        ],
        caption="\n".join(
            filter(None, [bound_note(bound_class if floor else None), _refusals(rows)])
        ),
    )
