"""Columns whose cells or values nobody lists: second moments, pairs, and open attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.options import Question, check_output, check_recorded, option
from noisewright.cli.output import (
    print_json,
    print_table,
    progress,
    significant_digits,
    tell_earlier,
)
from noisewright.cli.spending import Spending, opened_tables, show_dry_run
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.cli.commands.release import Written
    from noisewright.cli.options import Curator
    from noisewright.cli.plan import Method, Output
    from noisewright.planning.found.open_values import OpenPlan
    from noisewright.planning.plan import CuratorPlan
    from noisewright.planning.release import Answers
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.planning.rows.plan import RowsPlanned
    from noisewright.privacy.promise.budget import Privacy
    from noisewright.questions import Moments, Pairs
    from noisewright.workload.questions.measures import Missing

_SHOWN = 12
"""Rows of figures on a screen, beside what else a release says."""

_VALUES_TOLD = (2, 5, 20, 100)
"""How many values of an attribute may be told, from few to many: errors are shown for each."""


@dataclass(frozen=True)
class Columns:
    """What is asked of columns whose cells, or values, are not listed."""

    columns: str | None = option(
        "--columns",
        metavar="NAMES",
        help="Second moments of these numeric columns; with conjunctions:D:2 all pairs of binary "
        "ones. Between commas, or @FILE with a name to a line.",
    )
    radius: float | None = option(
        "--radius", type=float, help="With --columns: rows are clipped to this length."
    )
    missing: Missing | None = option(
        "--missing",
        type=click.Choice(["left-out", "zero"]),
        help="With --columns: rows that lack a value are left out (the default), or it is zero.",
    )
    values_share: float = option(
        "--values-share",
        type=float,
        default=0.25,
        show_default=True,
        help="With open attributes: the share of the budget by which their values are told.",
    )


def asks_columns(question: Question, asked: Columns) -> bool:
    """Whether second moments of columns are asked, or so many pairs that cells are not listed."""
    from noisewright.workload.kinds.conjunctions import pairs_of_many

    if asked.columns is not None:
        return True

    text = question.workload
    named = text is not None and text.startswith("conjunctions:")
    return named and question.schema is None and pairs_of_many(question.queries)


def plan_columns(
    question: Question,
    asked: Columns,
    privacy: Privacy,
    method: Method,
    curator: Curator,
    output: Output,
) -> None:
    """Plan second moments of columns, or all pairs of binary ones; nothing is read or spent."""
    import noisewright as nw

    with progress("planning"):
        columns = _columns(question, asked)
        options = nw.Central(composition=curator.composition or "one")
        plan: RowsPlanned = nw.plan(columns, privacy, options)
        expected = {} if method.people is None else _expected(plan, method.people)

    if output.file is not None:
        plan.save(output.file)

    if output.as_json:
        print_json(plan.summary() | ({"expected": expected} if expected else {}))
        return

    errors = [(name, significant_digits(value)) for name, value in _flat(expected)]
    unknown = ("errors", "add --people N to see them as shares of so many people")
    rows = [
        ("released", plan.title),
        ("privacy", plan.privacy.text()),
        *(errors or [unknown]),
    ]
    if output.file is not None:
        rows.append(("written to", output.file))

    print_table("Plan", ["", ""], rows)


def _columns(question: Question, asked: Columns) -> Moments | Pairs:
    """The question that names them."""
    from noisewright.errors import InvalidParameter
    from noisewright.questions import Moments, Pairs
    from noisewright.workload.kinds.conjunctions import Conjunctions

    names = None if asked.columns is None else column_list(asked.columns)
    if question.workload is None:
        assert names is not None
        if asked.radius is None:
            rule = "must be given: the public Euclidean length that rows are clipped to"
            raise InvalidParameter("radius", None, rule, "add --radius 1, say")
        return Moments(names, radius=asked.radius, missing=asked.missing or "left-out")

    pairs = question.queries
    if not isinstance(pairs, Conjunctions) or pairs.ways != 2:
        rule = "goes with no workload, or with conjunctions of 2"
        raise InvalidParameter(
            "columns", asked.columns, rule, "leave it out, or the workload"
        )

    require(
        asked.radius is None,
        "radius",
        asked.radius,
        "is of numeric columns; rows of pairs have a length of their own",
        "leave it out",
    )
    require(
        asked.missing is None,
        "missing",
        asked.missing,
        "is of numeric columns; who lacks a value has no such attribute",
        "leave it out",
    )
    require(
        names is None or len(names) == len(pairs.bases),
        "columns",
        len(names or []),
        f"must be the {len(pairs.bases)} that {pairs.text()} is about",
    )
    return Pairs(names or len(pairs.bases))


def column_list(text: str) -> list[str]:
    """Names between commas, or the lines of a file after @."""
    from noisewright.errors import InvalidParameter

    if not text.startswith("@"):
        names = text.split(",")
    else:
        try:
            names = Path(text[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            rule = "must be a file of text, a name to a line"
            raise InvalidParameter("columns", text, rule) from None

    names = [name.strip() for name in names if name.strip()]
    require(names, "columns", text, "must name at least one column")

    return names


Errors = Mapping[str, float] | Mapping[str, dict[str, float]]
"""Root mean square errors by name: of figures, or of populations that were made up."""


def _expected(plan: RowsPlanned, people: int) -> Errors:
    """Errors of shares among so many people."""
    from noisewright.planning.rows.covariance import CovariancePlan
    from noisewright.planning.rows.pairs import PairsPlan

    if isinstance(plan, CovariancePlan):
        return plan.errors(people)

    assert isinstance(plan, PairsPlan)
    return plan.expected(people)


def _flat(told: Errors) -> list[tuple[str, float]]:
    """Errors by name: of a covariance plan as they are, of populations one by one."""
    rows: list[tuple[str, float]] = []
    for name, value in told.items():
        words = name.replace("_", " ")
        if isinstance(value, float):
            rows.append((f"error, {words}", value))
        else:
            rows += [
                (f"error of a share, {words} attributes, {k}", v)
                for k, v in value.items()
            ]

    return rows


def release_figures(
    plan: CuratorPlan[Any, Answers],
    inputs: Sequence[str],
    written: Written,
    spending: Spending,
) -> None:
    """Measure once, and write figures, record and the release itself.

    `inputs` are the plan's file and the tables.
    """
    from noisewright.planning.release import kept_path

    output = written.file
    assert output is not None  # without one only counting is explained: refused above
    kept = str(kept_path(output))
    spent = check_recorded(output, *inputs)
    check_output(kept, *inputs)
    spending.check_free(output, kept)
    if spending.dry_run:
        show_dry_run(plan, spending, written.as_json)
        return

    with progress("reading and adding noise"), opened_tables(inputs[1:]) as table:
        released = spending.release(plan, table, output)
        beside = released.write(output, excel=written.excel)
        released.save(kept)

    tell_earlier(spent, beside)
    if written.as_json:
        files = {"answers": output, "metadata": str(beside), "kept": kept}
        print_json({**released.metadata, **files})
        return

    figures = released.to_arrow()
    head = [
        [_cell(value) for value in row.values()]
        for row in figures.slice(0, _SHOWN).to_pylist()
    ]
    rest = max(0, len(figures) - _SHOWN)
    where = f"{rest:,} more in {output}" if rest else f"written to {output}"
    print_table(
        plan.title.capitalize(),
        figures.column_names,
        head,
        f"{where}; what was spent: {beside}; kept: {kept}",
    )
    spending.tell_left()


def _cell(value: object) -> str:
    return significant_digits(value) if isinstance(value, float) else str(value or "")


def show_regression(
    release: CovarianceRelease,
    target: str,
    on: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Coefficients of least squares with the intervals that the noise gives them."""
    import pyarrow as pa

    from noisewright.planning.release import recorded

    fit = release.regression(target, None if on is None else column_list(on))
    table = pa.table({
        "term": list(fit.names), "coefficient": fit.coefficients, "std_error": fit.std_error,
        "lower": fit.lower, "upper": fit.upper,
    })  # fmt: skip
    if output is not None:
        from noisewright.files import write_table

        recorded(Path(output), release.metadata, lambda file: write_table(file, table))

    if as_json:
        print_json({"target": target, "coefficients": table.to_pylist()})
        return

    rows = [[_cell(value) for value in row.values()] for row in table.to_pylist()]
    note = "noise alone, to first order: what people themselves vary by is not in it"
    print_table(f"{target}, by least squares", table.column_names, rows, note)
    if output is not None:
        click.echo(f"written to {output}")


def open_schema(question: Question) -> dict[str, object] | None:
    """The schema as it stands, where some attribute of it is open; None otherwise."""
    from noisewright.domain.schema import load_yaml
    from noisewright.planning.found.open_values import declares_open

    if question.schema is None or question.spec is None:
        return None

    schema = load_yaml(question.schema)
    if not isinstance(schema, Mapping) or not declares_open(schema):
        return None

    unit = question.unit_over(schema.get("unit"))
    return {**schema, **({} if unit is None else {"unit": unit.to_dict()})}


def plan_open(
    question: Question,
    schema: dict[str, object],
    share: float,
    privacy: Privacy,
    error: str,
    output: Output,
) -> None:
    """Plan values and tables over them; nothing is read or spent."""
    import noisewright as nw

    assert question.spec is not None
    with progress("planning"):
        asked = nw.OpenQuestions(question.spec, schema, share=share)
        plan = nw.plan(asked, privacy, nw.Central(error=error))

    if output.file is not None:
        plan.save(output.file)

    if output.as_json:
        print_json(plan.summary())
    else:
        _show_open(plan, output.file)


def _show_open(plan: OpenPlan, output: str | None) -> None:
    """The plan as a person reads it: budgets, what will appear, how wrong tables will be."""
    facts = plan.summary()
    values = plan.value_plans[0].privacy
    tables = plan.rest
    each = " each" if len(plan.open_names) > 1 else ""
    rows = [
        ("values told first", ", ".join(plan.open_names)),
        ("privacy", plan.privacy.text()),
        ("of which for values", values.text() + each),
        ("of which for tables", tables.text()),
        ("a person", facts["person"]),
    ]
    if output is not None:
        rows.append(("written to", output))

    print_table("Plan", ["", ""], rows)
    chances = [
        (f"{people:,}", f"{chance:.3g}") for people, chance in plan.chances().items()
    ]
    note = "a value that nobody holds is never told"
    print_table(
        "Values that will appear",
        ["people who hold it", "fraction told"],
        chances,
        note,
    )
    errors = [
        (f"{count:,}", f"{plan.forecast(count).rmse:,.2f}") for count in _VALUES_TOLD
    ]
    note = "each open attribute; all values that are not told are one cell, `other`"
    print_table(
        "Expected error of the tables, in people", ["values told", "rmse"], errors, note
    )
