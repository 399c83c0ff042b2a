"""`noisewright release`: spend the budget of a plan on a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.output import (
    check_output,
    check_recorded,
    json_option,
    print_json,
    print_table,
    progress,
    tell_earlier,
    told_warnings,
)

if TYPE_CHECKING:
    from noisewright.planning.release import Release

SHOWN = 20


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(dir_okay=False))
@click.argument("table", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), required=True,
    help="Answers: CSV, or Parquet by suffix. What was spent goes beside it in .meta.json.",
)  # fmt: skip
@click.option(
    "--non-negative", "--nonnegative", "non_negative", is_flag=True,
    help="Fit one non-negative histogram to all answers.",
)  # fmt: skip
@click.option("--integer", is_flag=True, help="The same in whole numbers that keep their total.")
@click.option("--suppress", type=float, help="Leave out answers with a larger relative error.")
@click.option(
    "--quantile", "levels", type=float, multiple=True,
    help="Write this quantile of every CDF to OUTPUT.quantiles.csv.",
)  # fmt: skip
@click.option("--invariant", "declared", multiple=True, help='Public value: "LABEL = NUMBER".')
@json_option
def release(plan_file: str, table: str, output: str, as_json: bool, **choices: Any) -> None:
    """Answer the queries of PLAN from TABLE (CSV or Parquet, one row per person).

    Every run draws fresh noise and spends the plan's budget once more; a second run onto the same
    OUTPUT adds to the record of what was spent and never replaces it. The options change answers
    after the noise, without reading the table again; the metadata says what that does to intervals.
    """
    import noisewright as nw
    from noisewright.errors import InvalidParameter
    from noisewright.planning.released_quantiles import check_quantiles

    quantiles = f"{output}.quantiles.csv"
    spent = check_recorded(output, plan_file, table)
    if choices["levels"]:
        check_output(quantiles, plan_file, table)
    loaded = nw.load(plan_file)
    if loaded.model != "central":
        raise InvalidParameter(
            "plan", plan_file, "has no curator", "use `randomize` and `estimate`"
        )
    after = _post_processing(loaded, choices)
    if choices["levels"]:
        check_quantiles(loaded, choices["levels"])
    with told_warnings(), progress("counting and adding noise"):
        plain = loaded.release(table)
        released = nw.post_process(loaded, plain, **after) if after else plain
        beside = released.write(output)
        if choices["levels"]:
            _write_quantiles(loaded, plain, choices["levels"], quantiles)
    tell_earlier(spent, beside)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
    else:
        _show(released, output, str(beside))


def _write_quantiles(loaded: Any, released: Any, levels: tuple[float, ...], path: str) -> None:
    import pyarrow as pa

    import noisewright as nw
    from noisewright.files import write_table

    rows = nw.release_quantiles(loaded, released, levels)
    write_table(path, pa.Table.from_pylist([row.to_dict() for row in rows]))


def _post_processing(loaded: Any, choices: dict[str, Any]) -> dict[str, Any]:
    """The steps chosen, checked before any budget is spent."""
    from noisewright.planning.postprocess import check_steps

    declared = dict(map(_invariant, choices["declared"]))
    steps = {name: choices[name] for name in ("non_negative", "integer", "suppress")}
    after = {name: value for name, value in steps.items() if value not in (None, False)}
    after |= {"invariants": declared} if declared else {}
    if after:
        whole = bool(after.get("non_negative") or after.get("integer"))
        check_steps(loaded, invariants=declared, non_negative=whole, suppress=after.get("suppress"))
    return after


def _invariant(text: str) -> tuple[str, float]:
    from noisewright.errors import InvalidParameter

    label, _, number = text.rpartition("=")
    try:
        return label.strip(), float(number)
    except ValueError:
        raise InvalidParameter(
            "invariant", text, "must read LABEL = NUMBER", "use a label as it is released"
        ) from None


def _show(released: Any, output: str, beside: str) -> None:
    more = len(released) - SHOWN
    caption = f"{more:,} more in {output}; " if more > 0 else f"written to {output}; "
    show_answers("Private answers", released, caption + f"what was spent: {beside}")


def show_answers(title: str, released: Release, caption: str) -> None:
    """The first answers with their intervals, as they are written."""
    each, everywhere = released.intervals.each, released.intervals.all
    rows = [
        (label, "left out", "", "")
        if answer != answer
        else (
            label,
            f"{answer:,.1f}",
            *(f"{lo[i]:,.1f} … {hi[i]:,.1f}" for lo, hi in (each, everywhere)),
        )
        for i, (label, answer) in enumerate(
            zip(released.labels[:SHOWN], released.answers, strict=False)
        )
    ]
    print_table(title, ["query", "answer", "95 %", "all at once"], rows, caption)
