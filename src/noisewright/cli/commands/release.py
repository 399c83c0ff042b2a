"""`noisewright release`: private answers from a plan and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Sectioned,
    check_output,
    check_recorded,
    curator_plan,
    option,
    option_group,
    plan_argument,
    refuse_typed,
)
from noisewright.cli.output import (
    SHOWN,
    print_answers,
    print_json,
    progress,
    tell_earlier,
)
from noisewright.cli.plan.columns import release_figures
from noisewright.cli.spending import (
    Spending,
    opened_tables,
    plain_paths,
    show_dry_run,
    spending_options,
    table_argument,
)
from noisewright.errors import refuse_given, require
from noisewright.stages import stage

if TYPE_CHECKING:
    from pathlib import Path

    from noisewright.planning.after.postprocess import Steps
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release


@dataclass(frozen=True)
class Written:
    """What is written and printed."""

    file: str | None = option(
        "-o",
        "--output",
        type=FILE,
        help="Answers: CSV, Parquet or .nwr by suffix. What was spent goes beside it in "
        ".meta.json, and the release itself, for further questions, in .nwr.",
    )
    page: str | None = option(
        "--report",
        type=FILE,
        help="Write a page about the release here (.html).",
    )
    excel: bool = option(
        "--excel",
        is_flag=True,
        help="Mark CSV as UTF-8 the way spreadsheets look for it.",
    )
    explain: bool = option(
        "--explain", is_flag=True, help="Print the SQL that would count, and end."
    )
    as_json: bool = option(
        "--json", is_flag=True, help="Print JSON on standard output."
    )


@dataclass(frozen=True)
class After:
    """What is done after the noise: it changes answers and does not read the table again."""

    non_negative: bool = option(
        "--non-negative",
        "--nonnegative",
        is_flag=True,
        help="Fit one non-negative histogram to all answers.",
    )
    integer: bool = option(
        "--integer",
        is_flag=True,
        help="The same in whole numbers that keep their total.",
    )
    suppress: float | None = option(
        "--suppress",
        type=float,
        help="Leave out answers with a larger relative error.",
    )
    declared: tuple[str, ...] = option(
        "--invariant", multiple=True, help='Public value: "LABEL = NUMBER".'
    )
    levels: tuple[float, ...] = option(
        "--quantile",
        type=float,
        multiple=True,
        help="Write this quantile of every CDF to OUTPUT.quantiles.csv.",
    )
    synthetic: tuple[int, str] | None = option(
        "--synthetic",
        type=(int, FILE),
        metavar="N FILE",
        help="Write N made-up rows that agree with the release (CSV or Parquet).",
    )

    @property
    def steps(self) -> Steps | None:
        """What changes the answers, if anything does."""
        from noisewright.planning.after.postprocess import Steps

        steps = Steps(
            invariants=dict(map(_invariant, self.declared)),
            non_negative=self.non_negative,
            integer=self.integer,
            suppress=self.suppress,
        )
        return None if steps == Steps() else steps

    def check(self, form: CentralPlan) -> None:
        """Refuse what cannot be done with answers of the plan, before any budget is spent."""
        from noisewright.planning.after.further import check_quantiles
        from noisewright.planning.after.postprocess import check_steps
        from noisewright.planning.after.synthetic import check_synthesis

        if self.steps is not None:
            check_steps(form, self.steps)

        if self.levels:
            check_quantiles(form, self.levels)

        if self.synthetic is not None:
            check_synthesis(form, self.synthetic[0])


@click.command(cls=Sectioned)
@plan_argument
@table_argument()
@option_group("written", Written, "Output")
@option_group("after", After, "After the noise")
@spending_options
def release(
    plan_file: str,
    tables: tuple[str, ...],
    written: Written,
    after: After,
    spending: Spending,
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
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.found.open_values import OpenPlan

    require(
        written.file is not None or written.explain,
        "output",
        None,
        "must be given",
        "add -o answers.csv",
    )

    plan = curator_plan(plan_file)
    if not isinstance(plan, CentralPlan | OpenPlan):
        rule = "is for answers over cells; this plan measures columns"
        refuse_typed(After, "page", "explain", rule=rule)
        release_figures(plan, [plan_file, *tables], written, spending)
        return

    # Of values that are told first nothing is known yet but that there will be some.
    form = plan if isinstance(plan, CentralPlan) else plan.assumed()
    if written.explain:
        rule = "does not go with --explain, which counts nothing"
        refuse_typed(After, "page", "excel", rule=rule)
        with opened_tables(tables, form.domain) as table:
            click.echo(plan.counting_sql(table))
        return

    if form is not plan:
        rule = "names a cell of values that are not told yet"
        refuse_given({"invariant": after.declared[:1]}, rule)

    inputs = [plan_file, *plain_paths(tables, form.domain)]
    spent = _check_outputs(written, after, inputs, spending)
    after.check(form)
    if spending.dry_run:
        show_dry_run(plan, spending, written.as_json)
        return

    assert written.file is not None
    with (
        progress("counting and adding noise"),
        opened_tables(tables, form.domain) as table,
    ):
        plain = spending.release(plan, table, written.file)
        made = _finish(plain, written, after)

    tell_earlier(spent, made.beside)
    _tell(made, written, after, spending)


@dataclass(frozen=True)
class _Made:
    """What came of a release: answers as they are told, and the files beside them."""

    released: Release
    beside: Path
    kept: Path
    synthetic_note: str = ""


def _check_outputs(
    written: Written, after: After, inputs: Sequence[str], spending: Spending
) -> int:
    """Refuse what cannot be written, and say how often a budget was spent on these answers."""
    from noisewright.files import check_table
    from noisewright.planning.release import kept_path

    output = str(written.file)
    spent = check_recorded(output, *inputs)
    more = [str(kept_path(output))]
    if after.levels:
        more.append(_quantiles_path(output))

    if written.page is not None:
        more.append(written.page)

    if after.synthetic is not None:
        check_table(after.synthetic[1], "synthetic")
        more.append(after.synthetic[1])

    for path in more:
        check_output(path, *inputs)

    spending.check_free(output, *more)
    return spent


def _finish(plain: Release, written: Written, after: After) -> _Made:
    """Do what is done after the noise, and write everything."""
    from noisewright.files import write_table
    from noisewright.planning.after.postprocess import apply_steps
    from noisewright.planning.release import kept_path
    from noisewright.report import report

    output = str(written.file)
    kept = kept_path(output)
    steps = after.steps
    released = plain if steps is None else apply_steps(plain, steps)
    beside = released.write(output, excel=written.excel)
    released.save(kept)
    if after.levels:
        _write_quantiles(plain, after.levels, _quantiles_path(output))

    note = ""
    if after.synthetic is not None:
        stage("making up rows")
        count, path = after.synthetic
        made_up = plain.synthesise(count)
        write_table(path, made_up.to_arrow())
        note = made_up.note

    if written.page is not None:
        stage("drawing the report")
        report(released, written.page)

    return _Made(released, beside, kept, note)


def _tell(made: _Made, written: Written, after: After, spending: Spending) -> None:
    """What was answered, and where everything is."""
    output = written.file
    page = written.page
    synthetic = after.synthetic
    if written.as_json:
        files = {
            "answers": output,
            "metadata": str(made.beside),
            "kept": str(made.kept),
        }
        if page is not None:
            files["report"] = page

        if synthetic is not None:
            files["synthetic"] = synthetic[1]
            files["synthetic_note"] = made.synthetic_note

        print_json({**made.released.metadata, **files})
        return

    rest = len(made.released) - SHOWN
    where = [f"{rest:,} more in {output}" if rest > 0 else f"written to {output}"]
    if page is not None:
        where.append(f"report: {page}")

    if synthetic is not None:
        where.append(f"{synthetic[1]}: {made.synthetic_note}")

    where += [f"what was spent: {made.beside}", f"kept: {made.kept}"]
    print_answers("Private answers", made.released, "; ".join(where))
    spending.tell_left()


def _quantiles_path(output: str) -> str:
    return f"{output}.quantiles.csv"


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
