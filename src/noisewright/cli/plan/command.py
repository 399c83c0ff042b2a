"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import click

from noisewright.cli.plan.local import LOCAL, LocalFlags, local_options, plan_local
from noisewright.cli.plan.open import open_schema, plan_open
from noisewright.cli.plan.rows import asks_rows, plan_rows
from noisewright.cli.shared.options import (
    FILE,
    Question,
    composition_option,
    json_option,
    question_options,
    typed,
)
from noisewright.cli.shared.output import (
    currencies,
    draw,
    print_bounds,
    print_errors,
    print_json,
    print_table,
    progress,
    significant,
)
from noisewright.errors import refuse_given

if TYPE_CHECKING:
    from noisewright.planning.budgets.targets import Target
    from noisewright.planning.central.choice.explain import Explanation
    from noisewright.planning.central.choice.problems import Composition
    from noisewright.planning.central.plan import CentralPlan


_OF_CELLS = ("mechanism", "strategy", "composition", "explain", "page")
_NOT_OF_ROWS = ("spec", "schema", "unit", "rows", "error", "values_share")
TARGETS = ("target_rmse", "target_max", "table_targets", "pure")


def _without_curator(question: Question) -> dict[str, object]:
    """The model, where it is the local one."""
    return {"model": question.model} if question.model == "local" else {}


@click.command()
@question_options
@click.option(
    "--target-rmse", type=float, help="Find the budget for this mean error instead."
)
@click.option(
    "--target-max", type=float, help="Find the budget for this largest error instead."
)
@click.option(
    "--target",
    "table_targets",
    multiple=True,
    help='Largest standard error of a table, as in "income*region: 5% of 1000".',
)
@click.option(
    "--pure", is_flag=True, help="With targets: find ε of pure privacy, not ρ."
)
@click.option(
    "--mechanism", default="auto", show_default=True, help="A mechanism's name."
)
@click.option(
    "--strategy", type=FILE,
    help="Your own matrix instead (.npy, .npz, .mtx, .csv): rows to measure; local: chances.",
)  # fmt: skip
@composition_option
@click.option(
    "--explain", is_flag=True, help="Say why this mechanism, and what others reach."
)
@click.option(
    "--people", type=int,
    help="How many there are, if public. Local: the expected error; else adds biased mechanisms.",
)  # fmt: skip
@local_options
@click.option(
    "--values-share", type=float, default=0.25, show_default=True,
    help="With open attributes: the share of the budget by which their values are told.",
)  # fmt: skip
@click.option(
    "--columns", metavar="NAMES",
    help="Second moments of these numeric columns; with conjunctions:D:2 all pairs of binary ones. "
    "Between commas, or @FILE with a name to a line.",
)  # fmt: skip
@click.option(
    "--radius", type=float, help="With --columns: rows are clipped to this length."
)
@click.option("-o", "--output", type=FILE, help="Write the plan here.")
@click.option(
    "--report", "page", type=FILE,
    help="Write a page about the plan and its runners-up here (.html).",
)  # fmt: skip
@json_option
def plan(
    question: Question,
    mechanism: str,
    strategy: str | None,
    composition: Composition | None,
    explain: bool,
    output: str | None,
    page: str | None,
    as_json: bool,
    target_rmse: float | None,
    target_max: float | None,
    table_targets: tuple[str, ...],
    pure: bool,
    local: LocalFlags,
    people: int | None,
    values_share: float,
    columns: str | None,
    radius: float | None,
) -> None:
    """Plan private answers to WORKLOAD (such as prefix:64), or to questions in YAML.

    Nothing is spent and no data is read: the plan says how wrong every answer will be and, where a
    lower bound is known, how close to it that is and which methods the bound is about.
    `noisewright release PLAN TABLE` then answers.
    With targets instead of a budget, the smallest budget that meets them all is found: ρ, or ε
    where --delta or --pure is given.

    \b
    Examples:
      noisewright plan prefix:64 --epsilon 1 --delta 1e-9
      noisewright plan prefix:64 --target-rmse 25
      noisewright plan prefix:64 --model local --epsilon 1 --people 200000
      noisewright plan --queries q.yaml --schema s.yaml --epsilon 1 --delta 1e-9 -o people.nw
      noisewright plan --columns height,weight,age --radius 1 --epsilon 1 -o moments.nw
      noisewright plan conjunctions:200:2 --columns @names.txt --epsilon 1 -o pairs.nw
    """
    from noisewright.files import check_writable
    from noisewright.planning.budgets.targets import Target

    if output is not None:
        check_writable(output)

    if asks_rows(question, columns):
        given = _without_curator(question) | typed(
            *_OF_CELLS, *_NOT_OF_ROWS, *LOCAL, *TARGETS
        )
        refuse_given(given, "does not go with second moments of columns")
        plan_rows(question, columns, radius, people, output, as_json)
        return

    refuse_given({"radius": radius}, "goes with --columns", "name the columns")
    if (schema := open_schema(question)) is not None:
        given = _without_curator(question) | typed(
            *_OF_CELLS, "people", *LOCAL, *TARGETS
        )
        remedy = "leave it out, or list the values"
        refuse_given(given, "does not go with attributes that are open", remedy)
        plan_open(question, schema, values_share, output, as_json)
        return

    refuse_given(typed("values_share"), "is for attributes that are open", "see --help")
    if question.model == "local":
        refuse_given(
            typed(*TARGETS), "is for the central model", "say --people, or --max-error"
        )
        refuse_given(typed("composition"), "is for the central model")
        refuse_given(typed("error"), "is for the central model", "say --max-error")
        own = local.options(people)
        plan_local(question, mechanism, strategy, own, explain, output, page, as_json)
        return

    refuse_given(typed(*LOCAL), "is for the local model", "add --model local")
    targets = [Target.parse(text) for text in table_targets]
    if target_rmse is not None:
        targets.append(Target("rmse", target_rmse))

    if target_max is not None:
        targets.append(Target("max", target_max))

    if not targets:
        refuse_given(
            typed("pure"), "goes with targets", "say --target-rmse, or a budget"
        )

    with progress("planning"):
        reasons = _planned(
            question, mechanism, strategy, targets, pure, people, composition or "one"
        )

    result = reasons.plan
    binding = None if reasons.binding is None else reasons.binding.text()
    if output is not None:
        result.save(output)

    draw(reasons, page)
    if as_json:
        told: dict[str, object] = {} if binding is None else {"binding": binding}
        if explain:
            told |= {
                "why": reasons.why,
                "others": [other.to_dict() for other in reasons.others],
            }
        print_json(result.summary() | told)
        return

    _show_central(result, output, binding)
    if explain:
        _show_reasons(reasons)


def _show_reasons(reasons: Explanation) -> None:
    """Why this mechanism, and what the others would reach."""
    planned = [
        (
            other.mechanism,
            significant(other.achieved),
            f"{other.times:.4f}",
            significant(other.spends["rho"]) if "rho" in other.spends else "",
            other.reason,
        )
        for other in reasons.others
        if other.achieved is not None and other.times is not None
    ]
    left_out: dict[str, list[str]] = {}
    for other in reasons.others:
        if other.achieved is None:
            left_out.setdefault(other.reason, []).append(other.mechanism)

    title = f"Why {reasons.plan.mechanism}: {reasons.why}"
    note = "\n".join(
        f"{', '.join(names)}: {reason}" for reason, names in left_out.items()
    )
    columns = ["instead", "error", "times this", "ρ", ""]
    print_table(title, columns if planned else [], planned, note)


def _planned(
    question: Question,
    mechanism: str,
    strategy: str | None,
    targets: list[Target],
    pure: bool,
    people: int | None,
    composition: Composition,
) -> Explanation:
    """The plan for a budget, or for targets with the one that decides the budget."""
    from noisewright import api
    from noisewright.planning.budgets.targets import Accuracy
    from noisewright.planning.central.options import Central
    from noisewright.workload.forms.matrix_files import read_matrix

    options = Central(
        error=question.exponent,
        mechanism=mechanism,
        strategy=None if strategy is None else read_matrix(strategy),
        people=people,
        composition=composition,
    )
    if targets:
        remedy = "drop it: the budget is what is found"
        given = typed("epsilon", "rho")
        refuse_given(given, "cannot be combined with targets", remedy)
        budget: api.Budget = Accuracy(
            targets, pure, question.delta, question.neighbours
        )
    else:
        budget = question.privacy

    return api.explain(question.queries, budget, options, domain=question.domain)


def _show_central(plan: CentralPlan, output: str | None, binding: str | None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    from noisewright.ledger.standing import amount
    from noisewright.workload.questions.statistics import PEOPLE

    forecast = plan.forecast()
    rows = [
        ("queries", f"{plan.queries:,}"),
        ("privacy", plan.privacy.text()),
        ("a person", plan.person),
        ("mechanism", plan.mechanism),
    ]
    if plan.asked is not None:
        rows.insert(2, ("keeps", f"{amount(plan.asked)} too, as asked"))

    if plan.spends:
        rows.append(("spends", currencies(plan.spends)))

    tables = plan.table_errors()
    pairs = zip(plan.tables(), tables, strict=True)
    if {table.unit for table, error in pairs if isfinite(error.max)} == {PEOPLE}:
        rows.append(("root mean square error", f"{forecast.rmse:,.2f} people"))
        rows.append(("largest standard error", f"{forecast.max:,.2f} people"))

    if forecast.worst_rmse is not None:
        rows.append(
            ("at most, whatever the data", f"{forecast.worst_rmse:,.2f} people")
        )

    rows.append(("solver", plan.status))
    if forecast.ratio is not None:
        rows.append(("linear bound by", plan.proposal.certificate))

    if binding is not None:
        rows.append(("decided by", binding))

    if output is not None:
        rows.append(("written to", output))

    print_table("Plan", ["", ""], rows)
    weighed = ", questions weighed" if len(set(plan.weights)) > 1 else ""
    print_bounds(f"How close to the least error ({forecast.error}{weighed})", forecast)
    if len(tables) > 1:
        of_people = all(table.unit == PEOPLE for table in plan.tables())
        title = "Expected error by table" + (", in people" if of_people else "")
        known = all(isfinite(table.max) for table in tables)
        note = "" if known else "– depends on how many people there are"
        print_errors(title, tables, note)

    if plan.domain is not None and plan.domain.unit is not None:
        _show_rows(plan)


def _show_rows(plan: CentralPlan) -> None:
    """Errors for other numbers of rows per person: the number is public and chosen unseen."""
    if not isfinite(plan.forecast().rmse):
        return  # it depends on how many people there are

    choices = sorted({1, 2, 3, 5, 10, 20, plan.rows})
    rows = [
        (f"{k:,}" + " (this plan)" * (k == plan.rows), f"{plan.error_of_rows(k):,.2f}")
        for k in choices
    ]
    note = "errors grow with the rows kept, what is left out shrinks; choose without the data"
    print_table("Rows of one person that count", ["rows", "rmse"], rows, note)
