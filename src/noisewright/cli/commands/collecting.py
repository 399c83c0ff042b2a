"""Commands without a curator: `client` (what devices run), `randomize` and `estimate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from noisewright.cli.options import (
    FILE,
    Sectioned,
    check_output,
    check_recorded,
    client_format,
    json_option,
    local_plan,
    option,
    option_group,
    plan_argument,
)
from noisewright.cli.output import (
    SHOWN,
    print_answers,
    print_json,
    print_table,
    progress,
)
from noisewright.cli.spending import opened_tables, table_argument
from noisewright.errors import InvalidParameter

if TYPE_CHECKING:
    from noisewright.local.reports.aggregate import Aggregate
    from noisewright.planning.local.plan import LocalPlan
    from noisewright.planning.local.reading import Margins
    from noisewright.planning.release import Release


@click.command()
@plan_argument
@click.option(
    "--specification", is_flag=True, help="Print all that a client needs, as JSON."
)
@json_option
def client(plan_file: str, specification: bool, as_json: bool) -> None:
    """Recompute from PLAN's own chances what every report spends, and export its client.

    The specification holds nothing private. A browser, a phone or an auditor can run it, and
    recompute ε, without trusting the library that wrote it:

    \b
      noisewright client survey.plan --specification > client.json

    docs/reference/randomizer.md says how it is read, and clients/javascript runs it.
    """
    from noisewright.local.reports.format import exported

    form = client_format(plan_file)
    document = exported(form)
    if specification:
        print_json(document)
        return

    about = {name: value for name, value in document.items() if name != "specification"}
    about["report_bytes"] = form.length
    written = cast("dict[str, list[dict[str, str]]]", document["specification"])
    nodes = [node["op"] for node in written["nodes"]]
    about["nodes"] = nodes
    if as_json:
        print_json(about)
        return

    spent = "exactly" if document["exact"] else "at most"
    promise = f"ε = {document['epsilon']!r}, δ = {document['delta']:g}"
    languages = "this library only" if document["continuous_noise"] else "any language"
    rows = [
        (f"every report spends {spent}", promise),
        ("values", document["cells"]),
        ("one report", f"{about['report_bytes']:,} bytes"),
        ("primitives", ", ".join(sorted(set(nodes)))),
        ("runs in", languages),
        ("digest", document["digest"]),
    ]
    print_table("Client", ["", ""], rows)


@click.command()
@plan_argument
@table_argument()
@click.option(
    "-o", "--output", type=FILE, required=True,
    help="Reports: Parquet, or hexadecimal text in CSV by suffix.",
)  # fmt: skip
@json_option
def randomize(
    plan_file: str, tables: tuple[str, ...], output: str, as_json: bool
) -> None:
    """Write one report per row of TABLE, as each person's own device would.

    TABLE is a CSV or Parquet file, several of them, a folder, or - for standard input.

    Every run draws fresh randomness from the operating system. Reports are private one by one, but
    they are in the order of the rows: keep them apart from the table. Where the plan knows no
    schema, the table's column `cell` holds cells by number.
    """
    from noisewright.files import check_table

    check_output(output, plan_file, *tables)
    check_table(output)
    plan = local_plan(plan_file)

    with progress("randomising"), opened_tables(tables) as table:
        count = plan.randomize_table(table, output)

    if as_json:
        about = {
            "plan": plan.format.name,
            "mechanism": plan.mechanism.name,
            "epsilon": plan.epsilon,
        }
        length = plan.format.length
        print_json(
            {"reports": count, **about, "report_bytes": length, "output": output}
        )
        return

    rows = [
        ("reports", f"{count:,}"),
        ("privacy of every report", plan.privacy.text()),
        ("mechanism", plan.mechanism.name),
        ("plan", plan.format.name),
        ("written to", output),
    ]
    print_table("Reports", ["", ""], rows)


@dataclass(frozen=True)
class Estimates:
    """What is written and printed."""

    output: str | None = option(
        "-o",
        "--output",
        type=FILE,
        help="Answers: CSV, Parquet or .nwr by suffix. What they rest on goes beside it in "
        ".meta.json.",
    )
    aggregate: str | None = option(
        "--aggregate",
        type=FILE,
        help="Write the merged statistics here (.agg); such files can be given as REPORTS again.",
    )
    distribution: str | None = option(
        "--distribution",
        type=FILE,
        help="Write the share of people in every cell here (CSV): none negative, summing to one.",
    )
    page: str | None = option(
        "--report", type=FILE, help="Write a page about the estimates here (.html)."
    )
    as_json: bool = option(
        "--json", is_flag=True, help="Print JSON on standard output."
    )

    def check(self, *inputs: str) -> None:
        """Refuse what cannot be written."""
        from noisewright.files import check_table

        if self.distribution is not None:
            check_table(self.distribution, "distribution")

        if self.output is not None:
            check_recorded(self.output, *inputs)

        for path in (self.aggregate, self.distribution, self.page):
            if path is not None:
                check_output(path, *inputs)


@dataclass(frozen=True)
class Collected:
    """Which reports count."""

    robust: tuple[str, ...] = option(
        "--robust",
        multiple=True,
        help="Against poisoned reports: median:20 (medians over 20 groups), cap:6 (set aside "
        "reports more than 6 standard deviations out); may be repeated.",
    )
    different_people: bool = option(
        "--different-people",
        is_flag=True,
        help="Add up rounds of a campaign although the same people may be in several of them.",
    )

    def merged(self, plan: LocalPlan, paths: Sequence[str]) -> Aggregate:
        """The statistics of all reports."""
        from noisewright.local.reports.aggregate import Aggregate

        groups, cap = _robust(self.robust)
        parts = []

        for path in paths:
            if not path.endswith(".agg"):
                parts.append(plan.aggregate(path, groups=groups, cap=cap))
            elif Path(path).is_file():
                parts.append(Aggregate.from_bytes(Path(path).read_bytes(), plan.format))
            else:
                remedy = "check the path"
                raise InvalidParameter("reports", path, "is not a file", remedy)

        total, *others = parts
        for part in others:
            total = total.merge(part, different_people=self.different_people)

        return total


@dataclass(frozen=True)
class Read:
    """How answers are read from reports."""

    non_negative: bool = option(
        "--non-negative",
        "--nonnegative",
        is_flag=True,
        help="Answers of the best fitting table of people.",
    )
    shrink: bool = option(
        "--shrink", is_flag=True, help="Biased answers with the least worst error."
    )
    population: bool = option(
        "--population",
        is_flag=True,
        help="Errors for the population people come from.",
    )
    worst_case: bool = option(
        "--worst-case",
        is_flag=True,
        help="Errors on the worst data, not the estimated.",
    )
    liars: float = option(
        "--liars",
        type=float,
        default=0.0,
        help="Answers and intervals that hold even if this share of the reports was sent to "
        "deceive.",
    )
    margins: str | None = option(
        "--margins",
        type=FILE,
        help="Weight answers to a population: CSV with columns of attributes, and how many "
        "`people` it has of each combination.",
    )

    def estimate(self, plan: LocalPlan, merged: Aggregate) -> Release:
        """The estimates, read like this."""
        return plan.estimate(
            merged,
            errors="worst" if self.worst_case else "plug-in",
            population=self.population,
            non_negative=self.non_negative,
            shrink=self.shrink,
            liars=self.liars,
            margins=None if self.margins is None else _margins(plan, self.margins),
        )


@click.command(cls=Sectioned)
@plan_argument
@click.argument("reports", nargs=-1, required=True, type=FILE)
@option_group("written", Estimates, "Output")
@option_group("read", Read, "How answers are read")
@option_group("collected", Collected, "Which reports count")
def estimate(
    plan_file: str,
    reports: tuple[str, ...],
    written: Estimates,
    read: Read,
    collected: Collected,
) -> None:
    """Estimate the answers of PLAN from REPORTS (Parquet, CSV or .agg files).

    Reports that are malformed, impossible or of another plan are counted and set aside. A warning
    says where the others fit no table of people at all: some were not sent by honest devices.

    \b
    Examples:
      noisewright estimate people.nw reports.parquet -o answers.csv --report answers.html
      noisewright estimate people.nw monday.agg tuesday.agg --non-negative
    """
    from noisewright.report import report

    written.check(plan_file, *reports)
    plan = local_plan(plan_file)
    with progress("adding up reports"):
        merged = collected.merged(plan, reports)
        release = read.estimate(plan, merged)

    _warn(release)
    if written.aggregate is not None:
        merged.save(written.aggregate)

    if written.distribution is not None:
        _write_shares(plan, merged, written.distribution)

    if written.output is not None:
        release.write(written.output)

    if written.page is not None:
        report(release, written.page)

    if not written.as_json:
        _show(release, written.output, written.page)
        return

    lower, upper = release.intervals.each
    figures = {"answers": release.answers, "std_error": release.std}
    ends = {"lower": lower, "upper": upper}
    files = {"output": written.output}
    if written.page is not None:
        files["report"] = written.page

    print_json({**release.metadata, **figures, **ends, **files})


def _robust(options: tuple[str, ...]) -> tuple[int, float | None]:
    """`median:20` and `cap:6` as the groups and the cap of an aggregate."""
    groups = 1
    cap = None
    for chosen in options:
        name, _, number = chosen.partition(":")
        try:
            if name == "median":
                groups = int(number)
            elif name == "cap":
                cap = float(number)
            else:
                raise ValueError
        except ValueError:
            raise InvalidParameter(
                "robust",
                chosen,
                "must be median:GROUPS or cap:DEVIATIONS",
                "try median:20",
            ) from None

    return groups, cap


def _warn(release: Release) -> None:
    """Say on standard error where reports fit no honest people."""
    fit = cast("dict[str, object]", release.metadata["fit"])
    if fit["status"] == "alarm":
        least = fit["least_liars"]
        number = (
            f"; at least {least:,} of them were not sent by honest devices"
            if least
            else ""
        )
        cover = (
            f"limits allow for {release.metadata['liars']:.1%} of liars"
            if release.metadata["liars"]
            else "answers may be poisoned, and intervals do not cover that; see --liars"
        )
        click.echo(
            "warning: these reports do not fit any table of honest people (so bad a fit has "
            f"chance {fit['p_value']:.1g} at most){number}: {cover}",
            err=True,
        )


def _margins(plan: LocalPlan, path: str) -> Margins:
    from noisewright.errors import InvalidParameter
    from noisewright.planning.local.reading import Margins

    if plan.domain is None:
        raise InvalidParameter(
            "margins", path, "need a plan with a schema", "plan with --schema"
        )
    return Margins.read(path, plan.domain)


def _write_shares(plan: LocalPlan, merged: Aggregate, path: str) -> None:
    import pyarrow as pa

    from noisewright.files import write_table

    shares = {"cell": plan.cell_labels(), "share": plan.distribution(merged)}
    write_table(path, pa.table(shares))


def _fit_text(fit: dict[str, object]) -> str:
    if fit["status"] == "unknown":
        return "not tested: too few reports, or too many cells"
    honest = f"(p = {fit['p_value']:.2g}, alarm in {fit['level']:.1%} of honest cases)"
    return ("fit no honest people " if fit["status"] == "alarm" else "fit ") + honest


def _show(release: Release, output: str | None, page: str | None) -> None:
    aside = cast("dict[str, int]", release.metadata["set_aside"])
    reasons = ", ".join(
        f"{n:,} {reason.replace('_', ' ')}" for reason, n in aside.items() if n
    )
    rows = [
        ("reports that count", f"{release.metadata['people']:,}"),
        ("set aside", reasons or "none"),
        ("mechanism", release.metadata["mechanism"]),
        ("standard errors", release.metadata["standard_errors"]),
        (
            "fit of the reports",
            _fit_text(cast("dict[str, object]", release.metadata["fit"])),
        ),
    ]
    print_table("Estimates", ["", ""], rows)
    more = len(release) - SHOWN
    caption = f"{more:,} more answers" if more > 0 else ""
    where = f"written to {output}" if output else "use -o to write them"
    where += f"; report: {page}" if page else ""
    print_answers(
        "Answers, in people", release, "; ".join(t for t in (caption, where) if t)
    )
