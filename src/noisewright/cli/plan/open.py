"""Plans over attributes that no schema lists, on the command line: what is asked, what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noisewright.cli.shared.options import Question
from noisewright.cli.shared.output import print_json, print_table, progress

if TYPE_CHECKING:
    from noisewright.planning.found.open_values import OpenPlan

_VALUES = (2, 5, 20, 100)


def open_schema(question: Question) -> dict[str, Any] | None:
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
    schema: dict[str, Any],
    share: float,
    output: str | None,
    as_json: bool,
) -> None:
    """Plan values and tables over them; nothing is read or spent."""
    import noisewright as nw

    assert question.spec is not None
    with progress("planning"):
        plan = nw.plan(
            nw.OpenQuestions(question.spec, schema, share=share),
            question.privacy,
            nw.Central(error=question.error),
        )

    if output is not None:
        plan.save(output)

    if as_json:
        print_json(plan.summary())
        return

    _show(plan, output)


def _show(plan: OpenPlan, output: str | None) -> None:
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
    errors = [(f"{count:,}", f"{plan.forecast(count).rmse:,.2f}") for count in _VALUES]
    note = "each open attribute; all values that are not told are one cell, `other`"
    print_table(
        "Expected error of the tables, in people", ["values told", "rmse"], errors, note
    )
