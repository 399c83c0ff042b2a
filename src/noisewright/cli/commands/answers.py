"""Commands that answer at once: `sums` from a table, `answer` from a release, and `demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    Sectioned,
    check_recorded,
    composition_option,
    json_option,
    option,
    option_group,
    refuse_typed,
)
from noisewright.cli.output import (
    SHOWN,
    print_answers,
    print_errors,
    print_json,
    progress,
    tell_earlier,
)
from noisewright.cli.plan.columns import show_regression
from noisewright.cli.spending import (
    Spending,
    opened_tables,
    show_dry_run,
    spending_options,
    table_argument,
)
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.planning.central.options import Composition
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.questions import Sums
    from noisewright.workload.questions.measures import Missing


@dataclass(frozen=True)
class Summed:
    """What is summed, of whom."""

    schema: str = option("--schema", type=FILE, required=True, help="Schema in YAML.")
    value: str = option("--value", required=True, help="The numeric attribute to sum.")
    by: tuple[str, ...] = option(
        "--by",
        multiple=True,
        help="A table of groups, as in region,sex; may be repeated.",
    )
    unit: float = option(
        "--unit",
        type=float,
        default=1.0,
        show_default=True,
        help="Values are multiples.",
    )
    missing: Missing = option(
        "--missing",
        type=click.Choice(["left-out", "zero"]),
        default="left-out",
        show_default=True,
        help="People without a value: in no mean, or zero.",
    )

    @property
    def question(self) -> Sums:
        """The same as Python takes it."""
        from noisewright.domain import Domain
        from noisewright.questions import Sums

        groups = [
            [name.strip() for name in names.split(",") if name.strip()]
            for names in self.by
        ]
        domain = Domain.from_yaml(self.schema)
        return Sums(self.value, groups or [[]], domain, self.unit, self.missing)


@click.command(cls=Sectioned)
@table_argument(required=False)
@option_group("summed", Summed, "What is asked")
@option_group("budget", Budget, "The budget")
@composition_option
@click.option("-o", "--output", type=FILE, help="Answers (with TABLE).")
@json_option
@spending_options
def sums(
    tables: tuple[str, ...],
    summed: Summed,
    budget: Budget,
    composition: Composition | None,
    output: str | None,
    spending: Spending,
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

    require(
        bool(tables) == (output is not None),
        "output",
        output,
        "goes with a table",
        "give both, or neither",
    )

    if output is None and not spending.dry_run:
        rule = "goes with a table: nothing is spent"
        remedy = "give a table and --output"
        refuse_typed("ledger", "dataset", "again", "force", rule=rule, remedy=remedy)

    spent = 0
    if output is not None:
        spent = check_recorded(output, summed.schema, *tables)
        spending.check_free(output)

    privacy = budget.privacy
    with progress("planning"):
        chosen = composition or spending.composition(privacy)
        plan = nw.plan(summed.question, privacy, nw.Central(composition=chosen))

    if spending.dry_run:
        show_dry_run(plan, spending, as_json)
        return

    if output is None:
        _show_expected(plan, as_json)
        return

    with progress("counting and adding noise"), opened_tables(tables) as table:
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


_kept = click.argument("release_file", metavar="RELEASE", type=FILE)


@click.command()
@_kept
@click.argument("workload", required=False)
@click.option("--queries", type=FILE, help="Further questions in YAML.")
@click.option(
    "--regress", metavar="COLUMN", help="Least squares of it, from second moments."
)
@click.option(
    "--on", metavar="NAMES", help="With --regress: on these (all others unless told)."
)
@click.option(
    "-o", "--output", type=FILE, help="Answers: CSV, Parquet or .nwr by suffix."
)
@json_option
def answer(
    release_file: str,
    workload: str | None,
    queries: str | None,
    regress: str | None,
    on: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Answer further questions from RELEASE (.nwr): no table is read and no budget is spent.

    Whatever the measurement determines is answered with exact errors; the rest is refused.

    \b
    Examples:
      noisewright answer r.nwr --queries more.yaml -o more.csv
      noisewright answer r.nwr prefix:64
      noisewright answer moments.nwr --regress weight --on height,age
    """
    from pathlib import Path

    from noisewright.errors import InvalidParameter

    if regress is not None or on is not None:
        asked = workload or queries
        if asked is not None or regress is None:
            rule = "goes with --regress alone, and that with no other question"
            raise InvalidParameter(
                "on", on or asked, rule, "name the column to fit by --regress"
            )
        if output is not None:
            check_recorded(output, release_file)
        show_regression(moments(release_file), regress, on, output, as_json)
        return

    require(
        (workload is None) != (queries is None),
        "queries",
        queries,
        "or else a workload must be given",
        "give exactly one of the two",
    )

    if output is not None:
        check_recorded(output, release_file)

    with progress("answering"):
        answers = kept_release(release_file).answer(workload or Path(str(queries)))
        if output is not None:
            answers.write(output)

    if as_json:
        print_json({**answers.metadata, "rows": answers.to_arrow().to_pylist()})
        return

    more = len(answers) - SHOWN
    note = [
        f"{more:,} more" if more > 0 else "",
        f"written to {output}" if output else "",
    ]
    cost = "from the same measurement: nothing was spent"
    print_answers("Further answers", answers, "; ".join(filter(None, [*note, cost])))


def moments(path: str) -> CovarianceRelease:
    """The release of second moments in a file."""
    import noisewright as nw
    from noisewright.errors import InvalidParameter
    from noisewright.planning.rows.covariance import CovarianceRelease

    content = nw.load(path)
    if not isinstance(content, CovarianceRelease):
        rule = "tells no second moments of numeric columns"
        raise InvalidParameter(
            "release", path, rule, "plan with --columns and --radius"
        )

    return content


def kept_release(path: str) -> Release:
    """The release in a file; a plan is refused."""
    import noisewright as nw

    return _release_of(nw.load(path), path)


def _release_of(content: object, path: str) -> Release:
    from noisewright.errors import InvalidParameter
    from noisewright.planning.release import Release
    from noisewright.planning.rows.plan import RowRelease
    from noisewright.planning.streams import RunningStream, StreamRelease

    if isinstance(content, StreamRelease | RunningStream):
        rule = "is of a stream, which answers its running count alone"
        raise InvalidParameter(
            "release", path, rule, "see it by `noisewright report` or `show`"
        )

    if isinstance(content, RowRelease):
        rule = "is of columns, whose cells were not counted"
        raise InvalidParameter(
            "release", path, rule, "its figures stand in the file of answers"
        )

    if not isinstance(content, Release):
        raise InvalidParameter(
            "release",
            path,
            "is a plan, which has no answers",
            "give the .nwr file of a release",
        )

    return content
