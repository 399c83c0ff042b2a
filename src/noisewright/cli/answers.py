"""Commands that answer from a table of people: `release`, `sums` and `demo`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    budget_options,
    central_plan,
    check_output,
    check_recorded,
    json_option,
    non_negative_option,
    plan_argument,
)
from noisewright.cli.output import (
    ERRORS_BY_TABLE,
    SHOWN,
    print_answers,
    print_json,
    print_table,
    progress,
    tell_earlier,
    told_warnings,
)

if TYPE_CHECKING:
    from noisewright.planning.central import CentralPlan
    from noisewright.planning.release import Release


@click.command()
@plan_argument
@click.argument("table", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True,
    help="Answers: CSV, or Parquet by suffix. What was spent goes beside it in .meta.json.",
)  # fmt: skip
@non_negative_option("Fit one non-negative histogram to all answers.")
@click.option("--integer", is_flag=True, help="The same in whole numbers that keep their total.")
@click.option("--suppress", type=float, help="Leave out answers with a larger relative error.")
@click.option(
    "--quantile", "levels", type=float, multiple=True,
    help="Write this quantile of every CDF to OUTPUT.quantiles.csv.",
)  # fmt: skip
@click.option("--invariant", "declared", multiple=True, help='Public value: "LABEL = NUMBER".')
@json_option
def release(
    plan_file: str,
    table: str,
    output: str,
    non_negative: bool,
    integer: bool,
    suppress: float | None,
    levels: tuple[float, ...],
    declared: tuple[str, ...],
    as_json: bool,
) -> None:
    """Answer the queries of PLAN from TABLE (CSV or Parquet, one row per person).

    Every run draws fresh noise and spends the plan's budget once more; a second run onto the same
    OUTPUT adds to the record of what was spent and never replaces it. The options change answers
    after the noise, without reading the table again; the metadata says what that does to intervals.
    """
    from noisewright.planning.postprocess import Steps, apply_steps, check_steps
    from noisewright.planning.released_quantiles import check_quantiles

    quantiles = f"{output}.quantiles.csv"
    spent = check_recorded(output, plan_file, table)
    if levels:
        check_output(quantiles, plan_file, table)
    plan = central_plan(plan_file)
    # Whatever cannot be done is refused before any budget is spent.
    steps = Steps(
        invariants=dict(map(_invariant, declared)),
        non_negative=non_negative,
        integer=integer,
        suppress=suppress,
    )
    if steps != Steps():
        check_steps(plan, steps)
    if levels:
        check_quantiles(plan, levels)
    with told_warnings(), progress("counting and adding noise"):
        released = plain = plan.release(table)
        if steps != Steps():
            released = apply_steps(plain, steps)
        beside = released.write(output)
        if levels:
            _write_quantiles(plain, levels, quantiles)
    tell_earlier(spent, beside)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
        return
    more = len(released) - SHOWN
    where = f"{more:,} more in {output}" if more > 0 else f"written to {output}"
    print_answers("Private answers", released, f"{where}; what was spent: {beside}")


def _invariant(text: str) -> tuple[str, float]:
    from noisewright.errors import InvalidParameter

    label, _, number = text.rpartition("=")
    try:
        return label.strip(), float(number)
    except ValueError:
        raise InvalidParameter(
            "invariant", text, "must read LABEL = NUMBER", "use a label as it is released"
        ) from None


def _write_quantiles(released: Release, levels: tuple[float, ...], path: str) -> None:
    import pyarrow as pa

    import noisewright as nw
    from noisewright.files import write_table

    rows = nw.release_quantiles(released, levels)
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows]))


@click.command()
@click.argument("table", type=FILE, required=False)
@click.option("--schema", type=FILE, required=True, help="Schema in YAML.")
@click.option("--value", required=True, help="The numeric attribute to sum.")
@click.option("--by", multiple=True, help="A table of groups, as in region,sex; may be repeated.")
@click.option("--unit", type=float, default=1.0, show_default=True, help="Values are multiples.")
@budget_options
@click.option("-o", "--output", type=FILE, help="Answers (with TABLE).")
@json_option
def sums(
    budget: Budget,
    table: str | None,
    schema: str,
    value: str,
    by: tuple[str, ...],
    unit: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Counts, sums and means of VALUE by group, from TABLE; without it, their expected errors.

    \b
    Examples:
      noisewright sums --schema s.yaml --value income --by region --rho 0.1
      noisewright sums people.csv --schema s.yaml --value income --by region --rho 0.1 -o sums.csv
    """
    import noisewright as nw
    from noisewright.errors import InvalidParameter

    if (table is None) != (output is None):
        raise InvalidParameter("output", output, "goes with a table", "give both, or neither")
    spent = 0
    if table is not None and output is not None:
        spent = check_recorded(output, table, schema)
    privacy = budget.privacy
    groups = [[name.strip() for name in names.split(",") if name.strip()] for names in by] or [[]]
    with progress("planning"):
        plan = nw.plan_sums(value, groups, privacy, nw.Domain.from_yaml(schema), unit=unit)
    if table is None or output is None:
        _show_expected(plan, as_json)
        return
    with told_warnings(), progress("counting and adding noise"):
        released = plan.release(table)
        beside = released.write(output)
    tell_earlier(spent, beside)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
    else:
        click.echo(f"written to {output}; what was spent: {beside}")


def _show_expected(plan: CentralPlan, as_json: bool) -> None:
    errors = plan.table_errors()
    if as_json:
        print_json([error._asdict() for error in errors])
    else:
        known = [error for error in errors if error.rmse == error.rmse]
        note = "the error of a mean depends on how many people are in its group"
        print_table("Expected standard errors", ERRORS_BY_TABLE, known, note)


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), default="demo-output", show_default=True,
    help="Folder for the table, the plan, the answers and the report.",
)  # fmt: skip
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy budget ε.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Probability δ.")
@json_option
def demo(output: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Make a table of 50,000 synthetic people and answer questions about them privately.

    CDFs of age and income and all two-way tables, with a report that sets the private answers
    beside the true ones: the people do not exist, so their truth may be shown.
    """
    from noisewright.demo import run
    from noisewright.privacy.budget import Privacy

    privacy = Privacy(epsilon=epsilon, delta=delta)
    with progress("planning, counting, adding noise, drawing"):
        result = run(output, privacy)
    if as_json:
        files = {name: str(path) for name, path in result.files.items()}
        print_json({**result.plan.summary(), "files": files})
        return
    print_table(
        f"Expected error, in people, at ε = {epsilon:g} and δ = {delta:g}",
        ERRORS_BY_TABLE,
        [(n, q, *(round(v, 1) for v in rest)) for n, q, *rest in result.plan.table_errors()],
    )
    ratio = result.plan.forecast().ratio
    if ratio is not None:
        click.echo(
            f"No linear strategy under this noise has less than 1/{ratio:.4f} of this error."
        )
    for name in ("answers.csv", "report.html"):
        click.echo(f"written: {result.files[name]}")
