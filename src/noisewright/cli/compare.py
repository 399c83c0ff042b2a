"""`noisewright compare`: every mechanism that applies, as a table, JSON or a chart."""

from __future__ import annotations

from typing import Any

import click

from noisewright.cli.options import asked, asking, exponent
from noisewright.cli.output import json_option, print_json, print_table, progress


@click.command()
@asking
@click.option(
    "--effort", type=click.Choice(["low", "normal", "high"]), default="normal",
    show_default=True, help="Local: how hard to look for a better strategy.",
)  # fmt: skip
@click.option("--alpha", type=float, default=0.01, help="Local: variance per query aimed at.")
@click.option("--chart", type=click.Path(dir_okay=False), help="Draw it (.html, .svg or .png).")
@json_option
def compare(
    workload: str | None,
    spec: str | None,
    schema: str | None,
    chart: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Compare all mechanisms for WORKLOAD (such as prefix:64), or for questions in YAML.

    \b
    Examples:
      noisewright compare prefix:64 --epsilon 1 --delta 1e-9
      noisewright compare marginals:2^8:3 --epsilon 1 --json
      noisewright compare prefix:64 --model local --epsilon 1
    """
    import noisewright as nw
    from noisewright.cli.plan_local import compare_without_curator
    from noisewright.files import check_writable
    from noisewright.privacy.budget import Privacy

    if chart is not None:
        check_writable(chart)
    privacy = Privacy(choices["epsilon"], choices["delta"], choices["rho"], choices["neighbours"])
    domain = None if schema is None else nw.Domain.from_yaml(schema)
    queries = asked(workload, spec, domain)
    if choices["model"] == "local":
        settings = {name: choices[name] for name in ("alpha", "effort")}
        compare_without_curator(queries, privacy, domain, chart, as_json, **settings)
        return
    with progress("comparing"):
        rows = nw.compare(queries, privacy, error=exponent(choices["error"]), domain=domain)
    planned = [row for row in rows if row.refusal is None]
    if chart is not None:
        _draw(planned, chart)
    if as_json:
        print_json([row.to_dict() for row in planned])
        return
    print_table(
        f"Expected error in people, {privacy.text()}",
        ["mechanism", "rmse", "largest", "least possible", "ratio", "seconds"],
        [[_shown(value) for value in row.to_dict().values()] for row in planned],
        caption="; ".join(f"{row.mechanism}: {row.refusal}" for row in rows if row.refusal),
    )


def _shown(value: Any) -> Any:
    if value is None:
        return "unknown"
    return round(value, 4) if isinstance(value, float) else value


def _draw(rows: list[Any], path: str) -> None:
    """Bars of the root mean square error, with the least possible error as a rule."""
    data = {"mechanism": [r.mechanism for r in rows], "rmse": [r.rmse for r in rows]}
    draw_bars(data, "root mean square error (people)", rows[0].lower_bound, path)


def draw_bars(
    columns: dict[str, list[Any]], title: str, bound: float | None, path: str, scale: str = "linear"
) -> None:
    """Horizontal bars by mechanism, with the least possible value as a dashed rule."""
    import altair as alt
    import pyarrow as pa

    from noisewright.files import replacing

    data = pa.table(columns)
    _, value = columns
    base: Any = alt.Chart(data)
    # A logarithm has no zero for a bar to start from.
    marked = base.mark_bar() if scale == "linear" else base.mark_point(filled=True, size=90)
    drawing = marked.encode(
        x=alt.X(f"{value}:Q", title=title, scale=alt.Scale(type=scale)),
        y=alt.Y("mechanism:N", sort=None, title=None),
    )
    if bound is not None:
        rule = alt.Chart(pa.table({"least": [bound]})).mark_rule(strokeDash=[4, 3])
        drawing = drawing + rule.encode(x="least:Q")
    with replacing(path) as temporary:
        drawing.save(str(temporary), format=path.rsplit(".", 1)[-1])
