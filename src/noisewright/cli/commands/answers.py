"""Commands that answer from a table of people: `release`, `sums` and `demo`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from noisewright.cli.plan.rows import release_rows
from noisewright.cli.shared.options import (
    FILE,
    Budget,
    budget_options,
    check_output,
    check_recorded,
    composition_option,
    curator_plan,
    json_option,
    non_negative_option,
    plan_argument,
    typed,
)
from noisewright.cli.shared.output import (
    SHOWN,
    print_answers,
    print_errors,
    print_json,
    progress,
    tell_earlier,
)
from noisewright.cli.shared.sources import opened, plain_paths, table_argument
from noisewright.cli.shared.spending import Spending, show_dry_run, spending_options
from noisewright.errors import refuse_given, require
from noisewright.stages import stage

if TYPE_CHECKING:
    from noisewright.planning.central.choice.problems import Composition
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release
    from noisewright.workload.questions.measures import Missing


_AFTER = ("non_negative", "integer", "suppress", "levels", "synthetic", "declared")
"""Parameters of what is done after the noise."""


@click.command()
@plan_argument
@table_argument()
@click.option(
    "-o", "--output", type=FILE,
    help="Answers: CSV, Parquet or .nwr by suffix. What was spent goes beside it in .meta.json, "
    "and the release itself, for further questions, in .nwr.",
)  # fmt: skip
@non_negative_option("Fit one non-negative histogram to all answers.")
@click.option(
    "--integer", is_flag=True, help="The same in whole numbers that keep their total."
)
@click.option(
    "--suppress", type=float, help="Leave out answers with a larger relative error."
)
@click.option(
    "--quantile", "levels", type=float, multiple=True,
    help="Write this quantile of every CDF to OUTPUT.quantiles.csv.",
)  # fmt: skip
@click.option(
    "--synthetic", type=(int, FILE), metavar="N FILE",
    help="Write N made-up rows that agree with the release (CSV or Parquet).",
)  # fmt: skip
@click.option(
    "--report", "page", type=FILE, help="Write a page about the release here (.html)."
)
@click.option(
    "--excel", is_flag=True, help="Mark CSV as UTF-8 the way spreadsheets look for it."
)
@click.option(
    "--invariant", "declared", multiple=True, help='Public value: "LABEL = NUMBER".'
)
@spending_options
@click.option(
    "--explain", is_flag=True, help="Print the SQL that would count, and end."
)
@json_option
def release(
    spending: Spending,
    plan_file: str,
    tables: tuple[str, ...],
    output: str | None,
    non_negative: bool,
    integer: bool,
    suppress: float | None,
    levels: tuple[float, ...],
    synthetic: tuple[int, str] | None,
    page: str | None,
    excel: bool,
    declared: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Answer the queries of PLAN from TABLE.

    TABLE is a CSV or Parquet file, several of them, a folder, - for standard input, or
    postgresql://host/database#table; NAME=TABLE for each, where the schema derives from several. A
    plan of queries in text knows no columns and takes the counts of its cells (.npy). Every run
    draws fresh noise and spends the plan's budget once more. With --ledger it is taken from the
    budget of --dataset before any noise is drawn, and a release that does not fit is refused. An
    OUTPUT that exists is refused without --force; its record of what was spent only ever grows.
    Options that change answers work after the noise and do not read the table again.
    """
    from noisewright.errors import InvalidParameter
    from noisewright.files import check_table, write_table
    from noisewright.planning.after.postprocess import Steps, apply_steps, check_steps
    from noisewright.planning.after.quantiles import check_quantiles
    from noisewright.planning.after.synthetic import check_synthesis
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import kept_path
    from noisewright.planning.rows.plan import RowPlan
    from noisewright.report import report

    require(
        output is not None or explain,
        "output",
        None,
        "must be given",
        "add -o answers.csv",
    )

    plan = curator_plan(plan_file)
    if isinstance(plan, RowPlan):
        rule = "is for answers over cells; this plan measures columns"
        refuse_given(typed(*_AFTER, "page", "explain"), rule)
        release_rows(plan, plan_file, tables, output, excel, spending, as_json)
        return

    # Of values that are told first nothing is known yet but that there will be some.
    form = plan if isinstance(plan, CentralPlan) else plan.assumed()
    if explain:
        refuse_given(
            typed(*_AFTER, "page", "excel"),
            "does not go with --explain, which counts nothing",
        )
        with opened(tables, form.domain) as table:
            click.echo(plan.counting_sql(table))
        return

    assert output is not None
    if declared and form is not plan:
        rule = "names a cell of values that are not told yet"
        raise InvalidParameter("invariant", declared[0], rule, "leave it out")

    paths = plain_paths(tables, form.domain)
    kept = kept_path(output)
    quantiles = f"{output}.quantiles.csv"
    spent = check_recorded(output, plan_file, *paths)
    more = [str(kept), *([quantiles] if levels else []), *([page] if page else [])]
    if synthetic is not None:
        check_table(synthetic[1], "synthetic")
        more.append(synthetic[1])

    for path in more:
        check_output(path, plan_file, *paths)

    spending.check_free(output, *more)
    # Whatever cannot be done is refused before any budget is spent.
    steps = Steps(
        invariants=dict(map(_invariant, declared)),
        non_negative=non_negative,
        integer=integer,
        suppress=suppress,
    )
    if steps != Steps():
        check_steps(form, steps)

    if levels:
        check_quantiles(form, levels)

    if synthetic is not None:
        check_synthesis(form, synthetic[0])

    if spending.dry_run:
        show_dry_run(plan, spending, as_json)
        return

    with progress("counting and adding noise"), opened(tables, form.domain) as table:
        released = plain = spending.release(plan, table, output)
        if steps != Steps():
            released = apply_steps(plain, steps)

        beside = released.write(output, excel=excel)
        released.save(kept)
        if levels:
            _write_quantiles(plain, levels, quantiles)

        if synthetic is not None:
            stage("making up rows")
            made_up = plain.synthesise(synthetic[0])
            write_table(synthetic[1], made_up.to_arrow())

        if page is not None:
            stage("drawing the report")
            report(released, page)

    tell_earlier(spent, beside)
    if as_json:
        files = {"answers": output, "metadata": str(beside), "kept": str(kept)}
        files |= {} if page is None else {"report": page}
        if synthetic is not None:
            files |= {"synthetic": synthetic[1], "synthetic_note": made_up.note}
        print_json({**released.metadata, **files})
        return

    rest = len(released) - SHOWN
    where = f"{rest:,} more in {output}" if rest > 0 else f"written to {output}"
    where += "" if page is None else f"; report: {page}"
    where += "" if synthetic is None else f"; {synthetic[1]}: {made_up.note}"
    print_answers(
        "Private answers", released, f"{where}; what was spent: {beside}; kept: {kept}"
    )
    spending.tell_left()


def _invariant(text: str) -> tuple[str, float]:
    from noisewright.errors import InvalidParameter

    label, _, number = text.rpartition("=")
    try:
        return label.strip(), float(number)
    except ValueError:
        raise InvalidParameter(
            "invariant",
            text,
            "must read LABEL = NUMBER",
            "use a label as it is released",
        ) from None


def _write_quantiles(released: Release, levels: tuple[float, ...], path: str) -> None:
    import pyarrow as pa

    import noisewright as nw
    from noisewright.files import write_table

    rows = nw.release_quantiles(released, levels)
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows]))


@click.command()
@table_argument(required=False)
@click.option("--schema", type=FILE, required=True, help="Schema in YAML.")
@click.option("--value", required=True, help="The numeric attribute to sum.")
@click.option(
    "--by", multiple=True, help="A table of groups, as in region,sex; may be repeated."
)
@click.option(
    "--unit", type=float, default=1.0, show_default=True, help="Values are multiples."
)
@click.option(
    "--missing", type=click.Choice(["left-out", "zero"]), default="left-out", show_default=True,
    help="People without a value: in no mean, or zero.",
)  # fmt: skip
@budget_options
@composition_option
@click.option("-o", "--output", type=FILE, help="Answers (with TABLE).")
@spending_options
@json_option
def sums(
    spending: Spending,
    budget: Budget,
    tables: tuple[str, ...],
    schema: str,
    value: str,
    by: tuple[str, ...],
    unit: float,
    missing: Missing,
    composition: Composition | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Counts, sums and means of VALUE by group, from TABLE; without it, their expected errors.

    \b
    Examples:
      noisewright sums --schema s.yaml --value income --by region --rho 0.1
      noisewright sums people.csv --schema s.yaml --value income --by region --rho 0.1 -o sums.csv

    With --ledger, what is taken from its budget is counted in the currency of its rule, and the
    noise is of the kind that costs less there, unless --composition says otherwise.
    """
    import noisewright as nw
    from noisewright.errors import InvalidParameter

    if bool(tables) == (output is None):
        raise InvalidParameter(
            "output", output, "goes with a table", "give both, or neither"
        )

    if output is None and not spending.dry_run:
        given = typed("ledger", "dataset", "again", "force")
        refuse_given(
            given, "goes with a table: nothing is spent", "give a table and --output"
        )

    spent = 0
    if output is not None:
        spent = check_recorded(output, schema, *tables)
        spending.check_free(output)

    privacy = budget.privacy
    groups = [
        [name.strip() for name in names.split(",") if name.strip()] for names in by
    ] or [[]]
    with progress("planning"):
        domain = nw.Domain.from_yaml(schema)
        plan = nw.plan(
            nw.Sums(value, groups, domain, unit=unit, missing=missing),
            privacy,
            nw.Central(composition=composition or spending.composition(privacy)),
        )

    if spending.dry_run:
        show_dry_run(plan, spending, as_json)
        return

    if output is None:
        _show_expected(plan, as_json)
        return

    with progress("counting and adding noise"), opened(tables) as table:
        released = spending.release(plan, table, output)
        beside = released.write(output)

    tell_earlier(spent, beside)
    if as_json:
        print_json({**released.metadata, "answers": output, "metadata": str(beside)})
    else:
        click.echo(f"written to {output}; what was spent: {beside}")
        spending.tell_left()


def _show_expected(plan: CentralPlan, as_json: bool) -> None:
    errors = plan.table_errors()
    if as_json:
        print_json([error._asdict() for error in errors])
    else:
        known = [error for error in errors if error.rmse == error.rmse]
        note = "the error of a mean depends on how many people are in its group"
        print_errors("Expected standard errors", known, note)


@click.command()
@click.option(
    "-o", "--output", type=click.Path(file_okay=False), default="demo-output", show_default=True,
    help="Folder for the table, the plan, the answers and the report.",
)  # fmt: skip
@click.option(
    "--epsilon", type=float, default=1.0, show_default=True, help="Privacy budget ε."
)
@click.option(
    "--delta", type=float, default=1e-9, show_default=True, help="Probability δ."
)
@json_option
def demo(output: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Make a table of 50,000 synthetic people and answer questions about them privately.

    CDFs of age and income and all two-way tables, with a report that sets the private answers
    beside the true ones: the people do not exist, so their truth may be shown.
    """
    from noisewright.demo import run
    from noisewright.privacy.promise.budget import Privacy

    privacy = Privacy(epsilon=epsilon, delta=delta)

    with progress("planning, counting, adding noise, drawing"):
        result = run(output, privacy)

    if as_json:
        files = {name: str(path) for name, path in result.files.items()}
        print_json({**result.plan.summary(), "files": files})
        return

    title = f"Expected error, in people, at ε = {epsilon:g} and δ = {delta:g}"
    print_errors(title, result.plan.table_errors())
    if result.plan.asked is not None:
        click.echo(
            f"Noise for ε = {epsilon:g} alone errs less here and keeps what was asked without a δ."
        )

    forecast = result.plan.forecast()
    if forecast.lower_bound is not None:
        click.echo(
            f"Root mean square error: {forecast.rmse:,.4g} people; that of no linear strategy "
            f"under this noise is below {forecast.lower_bound:,.4g}."
        )

    for name in ("answers.csv", "report.html"):
        click.echo(f"written: {result.files[name]}")
