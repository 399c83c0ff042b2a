"""`noisewright norm`: how hard a workload is for linear strategies, with the proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Sectioned,
    json_option,
    named_workload,
    neighbours_settings,
    option,
    option_group,
    typed_options,
)
from noisewright.cli.output import bound_note, print_json, print_table, progress
from noisewright.errors import refuse_given

if TYPE_CHECKING:
    from noisewright.norm.approximate.approximate import ApproximateNorm
    from noisewright.norm.factorize import Factorization
    from noisewright.privacy.promise.budget import Neighbours


@dataclass(frozen=True)
class Nearness:
    """How near answers must be, and how near to the least the search ends."""

    entrywise: float | None = option(
        "--entrywise",
        type=float,
        help="Answer queries only to within this much per entry: the approximate norm γ2(W, ·).",
    )
    shift: bool = option(
        "--shift", is_flag=True, help="With --entrywise: shifting a query is free."
    )
    tolerance: float | None = option(
        "--tolerance", type=float, help="Relative gap at which to stop."
    )


@click.command(cls=Sectioned)
@click.argument("workloads", metavar="WORKLOAD...", nargs=-1, required=True)
@click.option(
    "--norm",
    "norms",
    multiple=True,
    default=("2",),
    show_default=True,
    help="Exponent of the error, from 2 (rmse) to inf (largest); may be repeated.",
)
@option_group("nearness", Nearness, "How near")
@click.option("--neighbours", **neighbours_settings)
@click.option(
    "--chart",
    type=FILE,
    help="Draw value and bound against the norm, or the size, into FILE (.svg, .png or .html).",
)
@json_option
def norm(
    workloads: tuple[str, ...],
    norms: tuple[str, ...],
    nearness: Nearness,
    neighbours: Neighbours,
    chart: str | None,
    as_json: bool,
) -> None:
    """Error of the best factorization found of each WORKLOAD, and a lower bound on that of any.

    The error is that of the linear strategy W = RA per unit of noise on Ax, of any law. A WORKLOAD
    that ends in .npy, .npz, .mtx or .csv is a file with a matrix, one row per query.

    \b
    Examples:
      noisewright norm prefix:64
      noisewright norm ranges:64 --norm 2 --norm 4 --norm inf --chart norms.svg
      noisewright norm prefix:16 prefix:64 prefix:256 --chart sizes.svg
      noisewright norm prefix:16 --entrywise 0.1 --shift
      noisewright norm queries.npz
    """
    from noisewright.report.charts import check_chart, draw_norms

    if chart is not None:
        check_chart(chart)

    results: list[Factorization] | list[ApproximateNorm]
    if nearness.entrywise is not None:
        results = _approximated(workloads, norms, nearness, nearness.entrywise)
    else:
        given = {"shift": nearness.shift}
        refuse_given(given, "needs --entrywise", "add --entrywise 0.1, say")
        tasks = [(text, exponent) for text in workloads for exponent in norms]
        results = _factorized(tasks, neighbours, nearness.tolerance)

    if chart is not None:
        draw_norms(results, chart)

    if as_json:
        rows = [_fields(result) for result in results]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        _print(results)


def _approximated(
    workloads: Sequence[str],
    norms: Sequence[str],
    nearness: Nearness,
    entrywise: float,
) -> list[ApproximateNorm]:
    from noisewright.norm.approximate.approximate import TOLERANCE, approximate_norm
    from noisewright.norm.factorize import check_norm

    rule = "does not go with --entrywise, which limits every entry"
    others = {"norm": [each for each in norms if check_norm(each) != math.inf]}
    refuse_given(
        typed_options("norms") and others, rule, "leave it out: the norm is inf"
    )
    remedy = "say --shift where shifting a query is free"
    refuse_given(typed_options("neighbours"), rule, remedy)
    stop = TOLERANCE if nearness.tolerance is None else nearness.tolerance

    with progress("approximating"):
        return [
            approximate_norm(
                named_workload(text), entrywise, shift=nearness.shift, tolerance=stop
            )
            for text in workloads
        ]


def _factorized(
    tasks: list[tuple[str, str]], neighbours: Neighbours, tolerance: float | None
) -> list[Factorization]:
    from noisewright.norm.factorize import TOLERANCE, factorize

    stop = TOLERANCE if tolerance is None else tolerance
    results = []

    with progress("factorizing") as advance:
        for position, (text, exponent) in enumerate(tasks):

            def show(gap: float, done: int = position) -> None:
                # The gap falls geometrically, so its logarithm moves the bar evenly.
                part = math.log(max(gap, 1e-12)) / math.log(stop) if gap < 1 else 0.0
                advance((done + min(part, 1.0)) / len(tasks))

            asked = named_workload(text)
            results.append(
                factorize(
                    asked,
                    exponent,
                    neighbours=neighbours,
                    tolerance=stop,
                    progress=show,
                )
            )

    return results


def _exponent(result: Factorization | ApproximateNorm) -> float:
    from noisewright.norm.factorize import Factorization

    return result.norm if isinstance(result, Factorization) else math.inf


_COLUMNS = [
    "workload",
    "queries",
    "cells",
    "norm",
    "value",
    "lower bound",
    "gap",
    "seconds",
]


def _print(results: list[Factorization] | list[ApproximateNorm]) -> None:
    from noisewright.norm.factorize import Factorization
    from noisewright.norm.named_bounds import lower_bounds

    first = results[0]
    note = "value: p-th mean over queries of the standard deviation per unit of noise"
    if not isinstance(first, Factorization):
        shifted = ", each query shifted freely" if first.shift else ""
        note += f"; every entry within {first.entrywise:g} of the workload's{shifted}"

    print_table(
        "error of the best factorization found, and the lower bound on that of any",
        _COLUMNS,
        [
            (
                result.workload.brief(),
                result.workload.queries,
                result.workload.size,
                f"{_exponent(result):g}",
                result.value,
                result.lower_bound,
                f"{result.gap:.1e}",
                round(result.seconds, 3),
            )
            for result in results
        ],
        caption="\n".join([note, bound_note(first.bound_class), *_endings(results)]),
    )
    if isinstance(first, Factorization) and len(results) == 1:
        rows = [
            (
                bound.name,
                "—" if bound.value is None else f"{bound.value:.6g}",
                bound.statement,
            )
            for bound in lower_bounds(first)
        ]
        print_table("lower bounds", ["name", "value", "statement"], rows)


def _endings(results: Sequence[Factorization | ApproximateNorm]) -> list[str]:
    """How the searches ended, each way once."""
    ends: dict[str, list[str]] = {}
    for result in results:
        name = f"{result.workload.brief()} at norm {_exponent(result):g}"
        ends.setdefault(result.explanation, []).append(name)

    if len(ends) == 1:
        return list(ends)
    return [f"{', '.join(names)}: {end}" for end, names in ends.items()]


def _fields(result: Factorization | ApproximateNorm) -> dict[str, object]:
    from noisewright.norm.factorize import Factorization
    from noisewright.norm.named_bounds import lower_bounds

    exponent = _exponent(result)
    common: dict[str, object] = {
        "workload": result.workload.text(),
        "queries": result.workload.queries,
        "size": result.workload.size,
        "norm": "inf" if math.isinf(exponent) else exponent,  # JSON has no infinity
        "value": result.value,
        "lower_bound": result.lower_bound,
        "bound_class": result.bound_class,
        "gap": result.gap,
        "seconds": result.seconds,
        "status": result.explanation,
    }
    if isinstance(result, Factorization):
        bounds = [asdict(bound) for bound in lower_bounds(result)]
        own = {"neighbours": result.neighbours, "certificate": result.certificate.name}
        return common | own | {"bounds": bounds}

    return common | {"entrywise": result.entrywise, "shift": result.shift}
