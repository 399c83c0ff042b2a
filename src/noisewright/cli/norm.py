"""`noisewright norm`: how hard a workload is, with the proof."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.output import json_option, print_json, print_table, progress

if TYPE_CHECKING:
    from noisewright.norm.approximate import ApproximateNorm
    from noisewright.norm.result import Factorization


@click.command()
@click.argument("workload")
@click.option(
    "--norm",
    "norms",
    multiple=True,
    default=("2",),
    show_default=True,
    help="Exponent of the error, from 2 (rmse) to inf (largest); may be repeated.",
)
@click.option(
    "--entrywise",
    type=float,
    help="Answer queries only to within this much per entry: the approximate norm γ2(W, ·).",
)
@click.option("--shift", is_flag=True, help="With --entrywise: shifting a query is free.")
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="What one person can change.",
)
@click.option("--tolerance", type=float, help="Relative gap at which to stop.")
@json_option
def norm(
    workload: str,
    norms: tuple[str, ...],
    entrywise: float | None,
    shift: bool,
    neighbours: str,
    tolerance: float | None,
    as_json: bool,
) -> None:
    """Least error of any factorization of WORKLOAD, and a lower bound that proves it.

    WORKLOAD is in text form: prefix:64, ranges:64, marginals:2^8:<=3, prefix:16*identity:4, ...
    """
    if entrywise is not None:
        _approximate(workload, entrywise, shift, tolerance, as_json)
        return
    from noisewright.norm.factorize import TOLERANCE, factorize

    found = []
    with progress(f"factorizing {workload}") as advance:
        for position, exponent in enumerate(norms):
            advance(position / len(norms))
            found.append(
                factorize(
                    workload, exponent, neighbours=neighbours, tolerance=tolerance or TOLERANCE
                )
            )
    if as_json:
        rows = [_fields(result) for result in found]
        print_json(rows[0] if len(rows) == 1 else rows)
        return
    first = found[0].workload
    print_table(
        f"{first.brief()}: {first.queries} queries over {first.size} cells",
        ["norm", "value", "lower bound", "gap", "seconds", "status"],
        [
            (f"{r.norm:g}", r.value, r.lower_bound, f"{r.gap:.1e}", round(r.seconds, 3), r.status)
            for r in found
        ],
        caption="value: p-th mean over queries of the standard deviation per unit of noise",
    )


def _approximate(
    workload: str, entrywise: float, shift: bool, tolerance: float | None, as_json: bool
) -> None:
    from noisewright.norm.approximate import TOLERANCE, approximate_norm

    with progress(f"approximating {workload}"):
        found = approximate_norm(workload, entrywise, shift=shift, tolerance=tolerance or TOLERANCE)
    if as_json:
        print_json(
            _common(found) | {"norm": "inf", "entrywise": found.entrywise, "shift": found.shift}
        )
        return
    print_table(
        f"{found.workload.brief()} to within {found.entrywise:g} per entry"
        + (", rows shifted freely" if shift else ""),
        ["value", "lower bound", "gap", "seconds", "status"],
        [
            (
                found.value,
                found.lower_bound,
                f"{found.gap:.1e}",
                round(found.seconds, 3),
                found.status,
            )
        ],
        caption="value: largest standard deviation over queries per unit of noise",
    )


def _common(result: Factorization | ApproximateNorm) -> dict[str, Any]:
    return {
        "workload": result.workload.text(),
        "queries": result.workload.queries,
        "size": result.workload.size,
        "value": result.value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "seconds": result.seconds,
        "status": result.status,
    }


def _fields(result: Factorization) -> dict[str, Any]:
    # JSON has no infinity
    exponent = "inf" if math.isinf(result.norm) else result.norm
    return _common(result) | {
        "norm": exponent,
        "neighbours": result.neighbours,
        "certificate": result.certificate.name,
    }
