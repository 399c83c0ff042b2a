"""`plan --model local` and `compare --model local`: how many people, and how wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from noisewright.cli.output import bound_note, print_json, print_table, progress

_SHOWN = 20


def plan_without_curator(
    queries: Any, domain: Any, output: str | None, as_json: bool, choices: dict[str, Any]
) -> None:
    """Plan, and say what it will take: people for an error, or errors for people."""
    from noisewright import api
    from noisewright.privacy.budget import Privacy

    privacy = Privacy(choices["epsilon"], choices["delta"], choices["rho"], "replace-one")
    search = ("effort", "time_limit", "seed", "target_ratio", "checkpoint", "objective", "norm")
    names = ("mechanism", "people", "alpha", *search)
    settings: dict[str, Any] = {name: choices[name] for name in names if choices[name] is not None}
    if choices["prior"] is not None:
        settings["prior"] = _numbers(choices["prior"])
    with progress("planning") as advance:

        def tell(state: Any) -> None:
            ratio = f"{state.ratio:.3f} × the bound" if state.ratio < 1e3 else "no bound"
            share = state.seconds / (settings.get("time_limit") or 10.0)
            advance(min(share, 0.99), f"optimising ({state.stage}): {ratio}")

        settings["progress"] = tell
        made = api.plan(queries, privacy, model="local", domain=domain, **settings)
    if output is not None:
        made.save(output)
    document = made.summary()
    if as_json:
        print_json(document)
        return
    _show(made, document, output)
    if made.people is not None:
        _show_forecast(made, made.forecast())


def _numbers(path: str) -> Any:
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


def _show(made: Any, document: dict[str, Any], output: str | None) -> None:
    ratio, bound = document["certified_ratio"], document["certified_lower_bound"]
    against = f"{ratio:.4f} × the bound ({bound:,.4g} people)" if ratio else "no bound known"
    rows = [
        ("queries", f"{document['queries']:,}"),
        ("privacy of every report", made.privacy.text()),
        ("mechanism", made.mechanism),
        ("one report", f"{document['report_bytes']:,} bytes"),
        ("people for a variance of 0.01 per query", f"{document['sample_complexity']:,.0f}"),
        ("certified", against),
    ]
    bound_class = made.comparison.bound_class if ratio else None
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
    others = [(r["mechanism"], f"{r['sample_complexity']:,.0f}") for r in made.runners_up]
    if others:
        print_table("What others would need", ["mechanism", "people"], others)


def _show_forecast(made: Any, forecast: Any) -> None:
    """Expected errors: table by table where there are several, else query by query."""
    title = f"Expected error from {forecast.people:,} people, in people"
    caption = f"root mean square {forecast.rmse:,.1f}; on the worst data {forecast.worst_rmse:,.1f}"
    tables = made.table_errors(forecast.people)
    if len(tables) > 1:
        columns = ["table", "queries", "rmse", "largest", "95 % within ±", "all at once ±"]
        print_table(title, columns, tables, caption)
        return
    shown = zip(made.labels()[:_SHOWN], forecast.std, forecast.halfwidth, strict=False)
    rows = [(label, f"{std:,.1f}", f"± {half:,.1f}") for label, std, half in shown]
    more = len(forecast.std) - len(rows)
    caption += f"; {more:,} more queries" if more else ""
    print_table(title, ["query", "standard error", "95 % within"], rows, caption)


def compare_without_curator(
    queries: Any, privacy: Any, domain: Any, chart: str | None, as_json: bool, **settings: Any
) -> None:
    """Every local mechanism with the people it needs, against the lower bound."""
    from noisewright import api
    from noisewright.local.bounds.best import best_bound
    from noisewright.local.choose.candidates import narrowed
    from noisewright.report.comparison import draw_comparison
    from noisewright.solution import BoundClass
    from noisewright.workload import workload

    with progress("comparing"):
        rows: list[Any] = api.compare(queries, privacy, model="local", domain=domain, **settings)
        best = best_bound(narrowed(workload(queries)), privacy.epsilon)
    planned = [row for row in rows if row.refusal is None]
    bound_class = BoundClass.UNBIASED if best else None
    floor = best.sample_complexity(settings["alpha"]) if best else 0.0
    if chart is not None and planned:
        title = f"People needed for a variance of {settings['alpha']:g} at ε = {privacy.epsilon:g}"
        needed = [(r.mechanism, r.sample_complexity, _ratio(r, floor)) for r in planned]
        draw_comparison(needed, floor or None, bound_class, title, "people", chart)
    if as_json:
        print_json([row.to_dict() for row in planned])
        return
    print_table(
        f"People needed for a variance of {settings['alpha']:g} per query, ε = {privacy.epsilon:g}",
        ["mechanism", "people", "lower bound", "ratio", "seconds"],
        [
            (
                row.mechanism,
                f"{row.sample_complexity:,.1f}",
                *_against(row, floor),
                round(row.seconds, 3),
            )
            for row in planned
        ],
        caption=". ".join(
            [
                *([bound_note(bound_class)] if floor else []),
                "; ".join(f"{row.mechanism}: {row.refusal}" for row in rows if row.refusal),
            ]
        ),
    )


def _ratio(row: Any, floor: float) -> float | None:
    """People over the bound, where that says anything, and of this mechanism: none with a δ."""
    return row.sample_complexity / floor if floor and row.bound_class is not None else None


def _against(row: Any, floor: float) -> tuple[str, str]:
    ratio = _ratio(row, floor)
    return ("unknown", "unknown") if ratio is None else (f"{floor:,.1f}", f"{ratio:.4f}")
