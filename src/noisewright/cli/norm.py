"""`noisewright norm`: how hard a workload is for linear strategies, with the proof."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import click

from noisewright.cli.options import neighbours_option
from noisewright.cli.output import bound_note, json_option, print_json, print_table, progress
from noisewright.errors import InvalidParameter


@click.command()
@click.argument("workloads", metavar="WORKLOAD...", nargs=-1, required=True)
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
@neighbours_option
@click.option("--tolerance", type=float, help="Relative gap at which to stop.")
@click.option(
    "--chart",
    type=click.Path(dir_okay=False),
    help="Draw value and bound against the norm, or the size, into FILE (.svg, .png or .html).",
)
@json_option
def norm(workloads: tuple[str, ...], chart: str | None, as_json: bool, **choices: Any) -> None:
    """Error of the best factorization found of each WORKLOAD, and a lower bound on that of any.

    The error is that of the linear strategy W = RA per unit of noise on Ax, of any law.

    \b
    Examples:
      noisewright norm prefix:64
      noisewright norm ranges:64 --norm 2 --norm 4 --norm inf --chart norms.svg
      noisewright norm prefix:16 prefix:64 prefix:256 --chart sizes.svg
      noisewright norm prefix:16 --entrywise 0.1 --shift
    """
    if chart is not None:
        _check_chart(chart)
    if choices["entrywise"] is not None:
        found = _approximate(workloads, choices)
    elif choices["shift"]:
        raise InvalidParameter("shift", True, "needs --entrywise", "add --entrywise 0.1, say")
    else:
        found = _factorize(workloads, choices)
    if chart is not None:
        _draw(found, chart)
    if as_json:
        rows = [_fields(result) for result in found]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        _print(found)


def _factorize(workloads: tuple[str, ...], choices: dict[str, Any]) -> list[Any]:
    from noisewright.norm.factorize import TOLERANCE, factorize

    tasks = [(text, exponent) for text in workloads for exponent in choices["norms"]]
    tolerance = TOLERANCE if choices["tolerance"] is None else choices["tolerance"]
    found = []
    with progress("factorizing") as advance:
        for position, (text, exponent) in enumerate(tasks):

            def show(gap: float, done: int = position) -> None:
                # The gap falls geometrically, so its logarithm moves the bar evenly.
                part = math.log(max(gap, 1e-12)) / math.log(tolerance) if gap < 1 else 0.0
                advance((done + min(part, 1.0)) / len(tasks))

            neighbours = choices["neighbours"]
            result = factorize(
                text, exponent, neighbours=neighbours, tolerance=tolerance, progress=show
            )
            found.append(result)
    return found


def _approximate(workloads: tuple[str, ...], choices: dict[str, Any]) -> list[Any]:
    from noisewright.norm.approximate import TOLERANCE, approximate_norm

    tolerance = TOLERANCE if choices["tolerance"] is None else choices["tolerance"]
    entrywise, shift = choices["entrywise"], choices["shift"]
    with progress("approximating"):
        return [
            approximate_norm(text, entrywise, shift=shift, tolerance=tolerance)
            for text in workloads
        ]


def _exponent(result: Any) -> float:
    return float(getattr(result, "norm", math.inf))


def _print(found: list[Any]) -> None:
    from noisewright.norm.factorization import Factorization
    from noisewright.norm.named_bounds import lower_bounds

    print_table(
        "error of the best factorization found, and the lower bound on that of any",
        [
            "workload",
            "queries",
            "cells",
            "norm",
            "value",
            "lower bound",
            "gap",
            "seconds",
            "status",
        ],
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
                result.explanation,
            )
            for result in found
        ],
        caption="value: p-th mean over queries of the standard deviation per unit of noise"
        + _tolerance_note(found[0])
        + f". {bound_note(found[0].bound_class)}",
    )
    exact = [result for result in found if isinstance(result, Factorization)]
    if len(exact) == 1:
        print_table(
            "lower bounds",
            ["name", "value", "statement"],
            [
                (b.name, "—" if b.value is None else f"{b.value:.6g}", b.statement)
                for b in lower_bounds(exact[0])
            ],
        )


def _tolerance_note(result: Any) -> str:
    if not hasattr(result, "entrywise"):
        return ""
    shifted = ", each query shifted freely" if result.shift else ""
    return f"; every entry within {result.entrywise:g} of the workload's{shifted}"


def _fields(result: Any) -> dict[str, Any]:
    from noisewright.norm.factorization import Factorization
    from noisewright.norm.named_bounds import lower_bounds

    exponent = _exponent(result)
    common = {
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


def _check_chart(path: str) -> None:
    from noisewright.files import check_writable

    if path.rsplit(".", 1)[-1] not in ("svg", "png", "html"):
        raise InvalidParameter("chart", path, "must end in .svg, .png or .html", "rename it")
    check_writable(path, "chart")


def _draw(found: list[Any], path: str) -> None:
    """Value and bound against the norm, or against the size when several sizes were asked."""
    import altair as alt

    from noisewright.files import replacing

    by_size = len({result.workload.size for result in found}) > 1
    rows = [
        {
            "cells": result.workload.size,
            "norm": f"{_exponent(result):g}",
            "workload": result.workload.brief(),
            "what": what,
            "error": error,
        }
        for result in found
        for what, error in (("value", result.value), ("lower bound", result.lower_bound))
    ]
    x: Any = alt.X("norm:N", sort=None, title="norm of the error")
    if by_size:
        x = alt.X("cells:Q", scale=alt.Scale(type="log"), title="cells")
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x,
        y=alt.Y("error:Q", scale=alt.Scale(zero=False), title="error per unit of noise"),
        color=alt.Color("norm:N" if by_size else "workload:N", sort=None),
    )
    # Value and bound mostly coincide: hollow diamonds leave the dots on the line in sight.
    lines = base.transform_filter("datum.what == 'value'").mark_line()
    shapes = alt.Scale(domain=["value", "lower bound"], range=["circle", "diamond"])
    points = base.mark_point(size=90, strokeWidth=1.5).encode(
        shape=alt.Shape("what:N", scale=shapes, title=None)
    )
    drawing = alt.layer(lines, points).properties(width=420, height=260)
    kind = path.rsplit(".", 1)[-1]
    with replacing(path, "chart") as temporary:
        drawing.save(str(temporary), format=kind, inline=kind == "html")
