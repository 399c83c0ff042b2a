"""Second moments and pairs of columns on the command line: plans and releases without cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noisewright.cli.shared.options import Question, check_output, check_recorded
from noisewright.cli.shared.output import (
    print_json,
    print_table,
    progress,
    significant,
    tell_earlier,
)
from noisewright.cli.shared.sources import opened
from noisewright.cli.shared.spending import Spending, show_dry_run
from noisewright.errors import require

if TYPE_CHECKING:
    from noisewright.planning.rows.covariance import CovarianceRelease
    from noisewright.planning.rows.plan import RowsPlanned

_SHOWN = 12


def asks_rows(question: Question, columns: str | None) -> bool:
    """Whether second moments of columns are asked, or so many pairs that cells are not listed."""
    from noisewright.workload.kinds.conjunctions import pairs_of_many

    if columns is not None:
        return True

    text = question.workload
    named = text is not None and text.startswith("conjunctions:")
    return named and question.schema is None and pairs_of_many(question.queries)


def plan_rows(
    question: Question,
    columns: str | None,
    radius: float | None,
    people: int | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Plan second moments of columns, or all pairs of binary ones; nothing is read or spent."""
    with progress("planning"):
        plan = _planned(question, columns, radius)
        told = _expected(plan, people)

    if output is not None:
        plan.save(output)

    if as_json:
        print_json(plan.summary() | ({"expected": told} if told else {}))
        return

    rows = [
        ("released", plan.title),
        ("privacy", plan.privacy.text()),
        *((name, significant(value)) for name, value in _flat(told)),
    ]
    if not told:
        rows.append(
            ("errors", "add --people N to see them as shares of so many people")
        )

    if output is not None:
        rows.append(("written to", output))

    print_table("Plan", ["", ""], rows)


def _planned(
    question: Question, columns: str | None, radius: float | None
) -> RowsPlanned:
    import noisewright as nw
    from noisewright.errors import InvalidParameter
    from noisewright.workload.kinds.conjunctions import Conjunctions

    names = None if columns is None else column_list(columns)
    if question.workload is None:
        assert names is not None
        if radius is None:
            rule = "must be given: the public Euclidean length that rows are clipped to"
            raise InvalidParameter("radius", radius, rule, "add --radius 1, say")
        return nw.plan(nw.Moments(names, radius=radius), question.privacy)

    asked = question.queries
    if not isinstance(asked, Conjunctions) or asked.ways != 2:
        rule = "goes with no workload, or with conjunctions of 2"
        raise InvalidParameter(
            "columns", columns, rule, "leave it out, or the workload"
        )

    if radius is not None:
        rule = "is of numeric columns; rows of pairs have a length of their own"
        raise InvalidParameter("radius", radius, rule, "leave it out")

    if names is not None and len(names) != len(asked.bases):
        rule = f"must be the {len(asked.bases)} that {asked.text()} is about"
        raise InvalidParameter("columns", len(names), rule)

    return nw.plan(nw.Pairs(names or len(asked.bases)), question.privacy)


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


def _expected(plan: RowsPlanned, people: int | None) -> dict[str, Any]:
    from noisewright.planning.rows.covariance import CovariancePlan
    from noisewright.planning.rows.pairs import PairsPlan

    if people is None:
        return {}
    if isinstance(plan, CovariancePlan):
        return plan.errors(people)

    assert isinstance(plan, PairsPlan)
    return plan.expected(people)


def _flat(told: Mapping[str, Any]) -> list[tuple[str, float]]:
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


def release_rows(
    plan: RowsPlanned,
    plan_file: str,
    tables: Sequence[str],
    output: str | None,
    excel: bool,
    spending: Spending,
    as_json: bool,
) -> None:
    """Measure the columns of a table once, and write figures, record and the release itself."""
    from noisewright.planning.release import kept_path

    # without one only counting is explained, which is refused above
    assert output is not None
    kept = str(kept_path(output))
    spent = check_recorded(output, plan_file, *tables)
    check_output(kept, plan_file, *tables)
    spending.check_free(output, kept)
    if spending.dry_run:
        show_dry_run(plan, spending, as_json)
        return

    with progress("reading and adding noise"), opened(tables) as table:
        released: Any = spending.release(plan, table, output)
        beside = released.write(output, excel=excel)
        released.save(kept)

    tell_earlier(spent, beside)
    if as_json:
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
    print_table(plan.title.capitalize(), figures.column_names, head,
                f"{where}; what was spent: {beside}; kept: {kept}")  # fmt: skip
    spending.tell_left()


def _cell(value: object) -> str:
    return significant(value) if isinstance(value, float) else str(value or "")


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
