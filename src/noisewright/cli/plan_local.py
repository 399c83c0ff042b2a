"""`plan --model local` and `compare --model local`: how many people, and how wrong."""

from __future__ import annotations

from typing import Any

from noisewright.cli.output import print_json, print_table, progress

_SHOWN = 20


def plan_without_curator(
    queries: Any, domain: Any, output: str | None, as_json: bool, choices: dict[str, Any]
) -> None:
    """Plan, and say what it will take: people for an error, or errors for people."""
    from noisewright import api
    from noisewright.privacy.budget import Privacy

    privacy = Privacy(choices["epsilon"], choices["delta"], choices["rho"])
    with progress("planning"):
        made = api.plan(
            queries, privacy, model="local", mechanism=choices["mechanism"], domain=domain
        )
    if output is not None:
        made.save(output)
    people, alpha = choices["people"], choices["alpha"]
    document = made.summary()
    if alpha is not None:
        document |= {"alpha": alpha, "people_needed": made.sample_complexity(alpha)}
    forecast = None if people is None else made.forecast(people)
    if forecast is not None:
        document |= {**forecast.summary(), "shuffled": _shuffled(made, people)}
    if as_json:
        print_json(document)
    else:
        _show(made, document, forecast, output)


def _shuffled(made: Any, people: int) -> dict[str, Any] | None:
    """What shuffled reports promise together at δ = 1e-9: an extra beside the local ε."""
    from noisewright.errors import NoisewrightError

    try:
        promise = made.amplified(people, 1e-9)
    except NoisewrightError:
        return None
    return {"epsilon": promise.epsilon, "delta": promise.delta}


def _show(made: Any, document: dict[str, Any], forecast: Any, output: str | None) -> None:
    ratio, bound = document["ratio"], document["sample_complexity_lower_bound"]
    rows = [
        ("queries", f"{document['queries']:,}"),
        ("privacy of every report", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("report", f"{document['report_bytes']} bytes"),
        ("people for a variance of 0.01 per query", f"{document['sample_complexity']:,.1f}"),
        (
            "certified",
            "no bound known" if not ratio else f"{ratio:.4f} × the least possible ({bound:,.1f})",
        ),
    ]
    if "people_needed" in document:
        rows.append((f"people for {document['alpha']:g}", f"{document['people_needed']:,.1f}"))
    if forecast is not None:
        rows += [
            (f"root mean square error of {forecast.people:,}", f"{forecast.rmse:,.1f} people"),
            ("on the worst data", f"{forecast.worst_rmse:,.1f} people"),
        ]
        shuffled = document["shuffled"]
        if shuffled:
            text = f"ε = {shuffled['epsilon']:.4g}, δ = {shuffled['delta']:g} (an extra)"
            rows.append(("if shuffled, all reports together", text))
    if output is not None:
        rows.append(("written to", output))
    print_table("Plan without a curator", ["", ""], rows)
    if made.runners_up:
        others = [(r["mechanism"], r["sample_complexity"]) for r in made.runners_up]
        print_table("Runners-up", ["mechanism", "people needed"], others)
    if forecast is not None:
        _show_queries(made, forecast)


def _show_queries(made: Any, forecast: Any) -> None:
    count = min(_SHOWN, len(forecast.std))
    asked = made.plain_workload
    rows = [
        (asked.label(i), f"{forecast.std[i]:,.1f}", f"± {forecast.halfwidth[i]:,.1f}")
        for i in range(count)
    ]
    more = len(forecast.std) - count
    caption = f"and {more:,} more queries" if more else ""
    print_table(
        "Expected error, in people", ["query", "standard error", "95 % within"], rows, caption
    )


def compare_without_curator(
    queries: Any, privacy: Any, alpha: float, chart: str | None, as_json: bool
) -> None:
    """Every local mechanism with the people it needs, against the lower bound."""
    from noisewright.planning.local_make import compare_local
    from noisewright.workload import workload

    with progress("comparing"):
        rows: list[Any] = compare_local(workload(queries), privacy, alpha=alpha)
    planned = [row for row in rows if row.refusal is None]
    if chart is not None:
        from noisewright.cli.compare import draw_bars

        columns = {
            "mechanism": [row.mechanism for row in planned],
            "people": [row.sample_complexity for row in planned],
        }
        floor = planned[0].sample_complexity_lower_bound
        draw_bars(columns, f"people needed at α = {alpha:g}", floor, chart, "log")
    if as_json:
        print_json([row.to_dict() for row in planned])
        return
    print_table(
        f"People needed for a variance of {alpha:g} per query, ε = {privacy.epsilon:g}",
        ["mechanism", "people", "least possible", "ratio", "seconds"],
        [
            (
                row.mechanism,
                row.sample_complexity,
                row.sample_complexity_lower_bound or "unknown",
                f"{row.ratio:.4f}" if row.ratio else "unknown",
                round(row.seconds, 3),
            )
            for row in planned
        ],
        caption="; ".join(f"{row.mechanism}: {row.refusal}" for row in rows if row.refusal),
    )
