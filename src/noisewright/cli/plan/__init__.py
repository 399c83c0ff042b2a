"""`noisewright plan`: how wrong will the answers be, and the file that releases them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import click

from noisewright.cli.options import (
    FILE,
    Budget,
    Curator,
    Model,
    Question,
    Sectioned,
    names_of,
    option,
    option_group,
    refuse_typed,
)
from noisewright.cli.output import (
    draw_page,
    print_bounds,
    print_errors,
    print_json,
    print_table,
    progress,
    significant_digits,
    spend_in_currencies,
)
from noisewright.cli.plan.columns import (
    Columns,
    asks_columns,
    open_schema,
    plan_columns,
    plan_open,
)
from noisewright.cli.plan.local import LocalFlags, plan_local
from noisewright.errors import refuse_given

if TYPE_CHECKING:
    from noisewright.api import Budget as Allowed
    from noisewright.planning.central.comparing import Explanation
    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.targets import Target


@dataclass(frozen=True)
class Targets(Budget):
    """What may be spent, or the errors for which the least budget is found."""

    target_rmse: float | None = option(
        "--target-rmse", type=float, help="Find the budget for this mean error instead."
    )
    target_max: float | None = option(
        "--target-max",
        type=float,
        help="Find the budget for this largest error instead.",
    )
    table_targets: tuple[str, ...] = option(
        "--target",
        multiple=True,
        help='Largest standard error of a table, as in "income*region: 5% of 1000".',
    )
    pure: bool = option(
        "--pure", is_flag=True, help="With targets: find ε of pure privacy, not ρ."
    )

    @property
    def listed(self) -> list[Target]:
        """The targets, if any."""
        from noisewright.planning.targets import Target

        targets = [Target.parse(text) for text in self.table_targets]
        if self.target_rmse is not None:
            targets.append(Target("rmse", self.target_rmse))

        if self.target_max is not None:
            targets.append(Target("max", self.target_max))

        return targets

    @property
    def allowed(self) -> Allowed:
        """The budget, or the targets that stand in its place."""
        from noisewright.planning.targets import Accuracy

        targets = self.listed
        if not targets:
            remedy = "say --target-rmse, or a budget"
            refuse_typed("pure", rule="goes with targets", remedy=remedy)
            return self.privacy

        refuse_typed(
            "epsilon",
            "rho",
            rule="cannot be combined with targets",
            remedy="drop it: the budget is what is found",
        )
        return Accuracy(targets, self.pure, self.delta, self.neighbours)


TARGETS = tuple(set(names_of(Targets)) - set(names_of(Budget)))


@dataclass(frozen=True)
class Method(Model):
    """How it is answered, in either model."""

    mechanism: str = option(
        "--mechanism", default="auto", show_default=True, help="A mechanism's name."
    )
    strategy: str | None = option(
        "--strategy",
        type=FILE,
        help="Your own matrix instead (.npy, .npz, .mtx, .csv): rows to measure; without a "
        "curator chances.",
    )
    people: int | None = option(
        "--people",
        type=int,
        help="How many there are, if public: adds biased mechanisms. Without a curator, and with "
        "--columns: the errors to expect.",
    )


@dataclass(frozen=True)
class Output:
    """What is written and printed."""

    file: str | None = option("-o", "--output", type=FILE, help="Write the plan here.")
    page: str | None = option(
        "--report",
        type=FILE,
        help="Write a page about the plan and its runners-up here (.html).",
    )
    explain: bool = option(
        "--explain", is_flag=True, help="Say why this mechanism, and what others reach."
    )
    as_json: bool = option(
        "--json", is_flag=True, help="Print JSON on standard output."
    )


@click.command(cls=Sectioned)
@option_group("question", Question, "What is asked")
@option_group("columns", Columns, "What is asked")
@option_group("budget", Targets, "The budget, or the errors for which it is found")
@option_group("method", Method, "Who adds the noise, and how")
@option_group("curator", Curator, "With a curator")
@option_group("local", LocalFlags, "Without a curator (--model local)")
@option_group("output", Output, "Output")
def plan(
    question: Question,
    columns: Columns,
    budget: Targets,
    method: Method,
    curator: Curator,
    local: LocalFlags,
    output: Output,
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

    if output.file is not None:
        check_writable(output.file)

    if asks_columns(question, columns):
        rule = "does not go with second moments of columns"
        of_tables = ("spec", "schema", "unit", "rows", "error", "values_share")
        _refuse_model(method, rule)
        refuse_typed(*_OF_CELLS, *of_tables, *TARGETS, LocalFlags, rule=rule)
        plan_columns(question, columns, budget.privacy, method, curator, output)
        return

    given = {"radius": columns.radius, "missing": columns.missing}
    refuse_given(given, "goes with --columns", "name the columns")
    if (schema := open_schema(question)) is not None:
        rule = "does not go with attributes that are open"
        _refuse_model(method, rule)
        remedy = "leave it out, or list the values"
        refuse_typed(
            *_OF_CELLS,
            "composition",
            "people",
            *TARGETS,
            LocalFlags,
            rule=rule,
            remedy=remedy,
        )
        share = columns.values_share
        plan_open(question, schema, share, budget.privacy, curator.error, output)
        return

    refuse_typed(
        "values_share", rule="is for attributes that are open", remedy="see --help"
    )
    if method.model == "local":
        rule = "is for the central model"
        refuse_typed(*TARGETS, rule=rule, remedy="say --people, or --max-error")
        refuse_typed("error", rule=rule, remedy="say --max-error, or leave it out")
        refuse_typed(Curator, rule=rule)
        plan_local(question, budget, local.options(method), output)
        return

    refuse_typed(LocalFlags, rule="is for the local model", remedy="add --model local")
    plan_central(question, budget, method, curator, output)


_OF_CELLS = ("mechanism", "strategy", "explain", "page")
"""Parameters that are for questions about cells alone."""


def _refuse_model(method: Method, rule: str) -> None:
    """Refuse the local model, which some questions do not have."""
    refuse_given({"model": method.model == "local" and "local"}, rule)


def plan_central(
    question: Question,
    budget: Targets,
    method: Method,
    curator: Curator,
    output: Output,
) -> None:
    """Plan with a curator, under a budget or for targets, and say what it reaches and why."""
    from noisewright import api
    from noisewright.planning.central.options import Central
    from noisewright.workload.forms.matrix_files import read_matrix

    with progress("planning"):
        options = Central(
            error=curator.exponent,
            mechanism=method.mechanism,
            strategy=None if method.strategy is None else read_matrix(method.strategy),
            people=method.people,
            composition=curator.composition or "one",
        )
        reasons = api.explain(
            question.queries, budget.allowed, options, domain=question.domain
        )

    result = reasons.plan
    binding = None if reasons.binding is None else reasons.binding.text()
    if output.file is not None:
        result.save(output.file)

    draw_page(reasons, output.page)
    if output.as_json:
        told: dict[str, object] = {} if binding is None else {"binding": binding}
        if output.explain:
            others = [other.to_dict() for other in reasons.others]
            told |= {"why": reasons.why, "others": others}

        print_json(result.summary() | told)
        return

    _show_central(result, output.file, binding)
    if output.explain:
        _show_reasons(reasons)


def _show_reasons(reasons: Explanation) -> None:
    """Why this mechanism, and what the others would reach."""
    planned = [
        (
            other.mechanism,
            significant_digits(other.achieved),
            f"{other.times:.4f}",
            significant_digits(other.spends["rho"]) if "rho" in other.spends else "",
            other.reason,
        )
        for other in reasons.others
        if other.achieved is not None and other.times is not None
    ]
    left_out: dict[str, list[str]] = {}
    for other in reasons.others:
        if other.achieved is None:
            left_out.setdefault(other.reason, []).append(other.mechanism)

    title = f"Why {reasons.plan.mechanism.name}: {reasons.why}"
    note = "\n".join(
        f"{', '.join(names)}: {reason}" for reason, names in left_out.items()
    )
    columns = ["instead", "error", "times this", "ρ", ""]
    print_table(title, columns if planned else [], planned, note)


def _show_central(plan: CentralPlan, output: str | None, binding: str | None) -> None:
    """The plan as a person reads it: the whole, then table by table."""
    from noisewright.ledger.standing import budget_text
    from noisewright.workload.questions.statistics import PEOPLE

    forecast = plan.forecast()
    rows = [
        ("queries", f"{plan.queries:,}"),
        ("privacy", plan.privacy.text()),
        ("a person", plan.person),
        ("mechanism", plan.mechanism.name),
    ]
    if plan.asked is not None:
        rows.insert(2, ("keeps", f"{budget_text(plan.asked)} too, as asked"))

    if plan.spends:
        rows.append(("spends", spend_in_currencies(plan.spends)))

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
