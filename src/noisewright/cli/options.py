"""Options as fields of structs: each is said once, and a struct is a section of the help."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from noisewright.errors import InvalidParameter, refuse_given, require

if TYPE_CHECKING:
    from noisewright.domain import Domain, Unit
    from noisewright.local.reports.format import ReportFormat
    from noisewright.planning.central.options import Composition
    from noisewright.planning.local.plan import LocalPlan
    from noisewright.planning.plan import CuratorPlan
    from noisewright.planning.release import Answers
    from noisewright.privacy.promise.budget import Neighbours, Privacy
    from noisewright.workload import Workload

Command = Callable[..., None]
Option = Callable[[Command], Command]


class FileName(click.Path):
    """The name of a file; not the next option, taken where a name was left out."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        if str(value).startswith("--"):
            self.fail(
                f"{value!r} is no name of a file; write ./{value} if it is", param, ctx
            )
        return super().convert(value, param, ctx)


FILE = FileName(dir_okay=False)


def option(*names: str, **settings: Any) -> Any:
    """A field of a struct of options that is an option of the command line."""
    return field(
        metadata={"decorator": functools.partial(click.option, *names, **settings)}
    )


def argument(**settings: Any) -> Any:
    """A field of a struct of options that is an argument of the command line."""
    return field(metadata={"decorator": functools.partial(click.argument, **settings)})


def names_of(*kinds: type[Any]) -> tuple[str, ...]:
    """The parameters that are fields of these structs."""
    return tuple(
        parameter.name
        for kind in kinds
        for parameter in fields(kind)
        if parameter.metadata
    )


def option_group(name: str, kind: type[Any], title: str = "Options") -> Option:
    """Options that a command receives together, as one struct of that name, in one section."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def called(**values: object) -> None:
            options = kind(**{key: values.pop(key) for key in names_of(kind)})
            command(**{name: options}, **values)

        # click reverses its list when it builds the command: added last to first, the fields are
        # helped in order.
        parameters: list[click.Parameter] = called.__dict__.setdefault(
            "__click_params__", []
        )
        for declared in reversed(fields(kind)):
            if declared.metadata:
                declared.metadata["decorator"](declared.name)(called)
                parameters[-1].section = title  # type: ignore[attr-defined]

        return called

    return decorate


class Sectioned(click.Command):
    """A command whose help has a section for every group of options."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                title = getattr(parameter, "section", "Options")
                sections.setdefault(title, []).append(record)

        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def typed_options(*parameters: str) -> dict[str, object]:
    """Which of these parameters were typed, as opposed to defaults: name for errors ─► value."""
    context = click.get_current_context()
    line = click.core.ParameterSource.COMMANDLINE
    return {
        _spelled(known): context.params[known.name]
        for known in context.command.params
        if known.name in parameters and context.get_parameter_source(known.name) is line
    }


def refuse_typed(
    *parameters: str | type[Any], rule: str, remedy: str = "leave it out"
) -> None:
    """Refuse what the line gives of these parameters, or of these structs of options."""
    names: list[str] = []
    for parameter in parameters:
        if isinstance(parameter, str):
            names.append(parameter)
        else:
            names.extend(names_of(parameter))
    refuse_given(typed_options(*names), rule, remedy)


def _spelled(parameter: click.Parameter) -> str:
    """The name of an option in errors: that of Python where they agree."""
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")


plan_argument: Option = click.argument("plan_file", metavar="PLAN", type=FILE)
json_option: Option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON on standard output."
)
neighbours_settings: dict[str, Any] = {
    "type": click.Choice(["add-remove", "replace-one"]),
    "default": "add-remove",
    "show_default": True,
    "help": "What one person can change.",
}
composition_settings: dict[str, Any] = {
    "type": click.Choice(["one", "many"]),
    "help": "With ε and δ: is this one release (one), or one of many that add up in ρ (many)? "
    "Many takes Gaussian noise, which costs less there; one takes whichever noise errs less.",
}
composition_option: Option = click.option("--composition", **composition_settings)


@dataclass(frozen=True)
class Budget:
    """What may be spent."""

    epsilon: float | None = option("--epsilon", type=float, help="Privacy budget ε.")
    delta: float | None = option(
        "--delta", type=float, help="Probability δ for approximate privacy (try 1e-9)."
    )
    rho: float | None = option(
        "--rho", type=float, help="Budget ρ of zero-concentrated privacy, instead of ε."
    )
    neighbours: Neighbours = option("--neighbours", **neighbours_settings)

    @property
    def privacy(self) -> Privacy:
        """The budget as a promise, checked."""
        from noisewright.privacy.promise.budget import Privacy

        return Privacy(self.epsilon, self.delta, self.rho, self.neighbours)


@dataclass(frozen=True)
class Question:
    """What is asked: a workload in text, or questions over a schema."""

    workload: str | None = argument(required=False)
    spec: str | None = option("--queries", type=FILE, help="Questions in YAML.")
    schema: str | None = option(
        "--schema", type=FILE, help="The table's schema in YAML."
    )
    unit: str | None = option(
        "--unit", help="The column that names people, where one has several rows."
    )
    rows: int | None = option(
        "--rows", type=int, help="How many rows of one person count (with a unit)."
    )

    @functools.cached_property
    def domain(self) -> Domain | None:
        """The domain that the schema declares, where one is given; options say whose rows count."""
        from noisewright.domain import Domain

        declared = None if self.schema is None else Domain.from_yaml(self.schema)
        if self.unit is None and self.rows is None:
            return declared

        if declared is None:
            name = "rows" if self.unit is None else "unit"
            rule = "goes with a schema"
            raise InvalidParameter(name, getattr(self, name), rule, "add --schema FILE")

        require(
            self.unit is not None or declared.unit is not None,
            "rows",
            self.rows,
            "needs the column that names people",
            "add --unit COLUMN",
        )
        return replace(declared, unit=self.unit_over(declared.unit))

    def unit_over(self, declared: object) -> Unit | None:
        """The unit of a schema, with what options say of it."""
        from noisewright.domain import Unit
        from noisewright.domain.unit import read_unit

        unit = read_unit(declared)
        # Another column is another unit: the schema's limits do not carry over.
        if self.unit is not None and (unit is None or self.unit != unit.column):
            unit = Unit(self.unit)

        if unit is None or self.rows is None:
            return unit
        return replace(unit, rows=self.rows)

    @functools.cached_property
    def queries(self) -> Workload:
        """A workload in text, or questions over a schema."""
        from noisewright.workload import Workload, workload

        if self.workload is not None and self.spec is None:
            return workload(named_workload(self.workload))

        if self.spec is None or self.workload is not None:
            rule = "must be given, or else --queries"
            remedy = "give exactly one of the two"
            raise InvalidParameter("workload", self.workload, rule, remedy)

        if self.domain is None:
            raise InvalidParameter(
                "schema", None, "must be given with --queries", "add --schema FILE"
            )

        return Workload.from_spec(self.spec, self.domain)


@dataclass(frozen=True)
class Model:
    """Who adds the noise."""

    model: Literal["central", "local"] = option(
        "--model",
        type=click.Choice(["central", "local"]),
        default="central",
        show_default=True,
        help="Who adds the noise: a trusted curator, or every person.",
    )


@dataclass(frozen=True)
class Curator:
    """What may be chosen where a curator adds the noise."""

    error: str = option(
        "--error", default="rmse", show_default=True, help="rmse, max or a number >= 2."
    )
    composition: Composition | None = option("--composition", **composition_settings)

    @property
    def exponent(self) -> str | float:
        """The error as a number where it is one, by its name otherwise."""
        try:
            return float(self.error)
        except ValueError:
            return self.error


def named_workload(text: str) -> str | Path:
    """A workload in text, or the file of a matrix by its ending."""
    from noisewright.workload.forms.matrix_files import is_matrix_file

    return Path(text) if is_matrix_file(text) else text


def check_output(output: str, *inputs: str) -> None:
    """Refuse, before any work is done, an output that cannot be written or is an input."""
    from noisewright.files import check_apart, check_writable

    check_apart(output, *inputs)
    check_writable(output)


def check_recorded(output: str, *inputs: str) -> int:
    """Refuse, before any budget is spent, answers whose record could not be kept beside them.

    Returns how many times a budget was spent on this output before.
    """
    from noisewright.files import check_table
    from noisewright.planning.release import count_spendings, metadata_path, read_record

    check_output(output, *inputs)
    check_table(output)
    check_output(str(metadata_path(output)), *inputs)

    return count_spendings(read_record(metadata_path(output)))


def curator_plan(path: str) -> CuratorPlan[Any, Answers]:
    """The plan in a file, of whatever kind is released by itself; others are refused."""
    import noisewright as nw
    from noisewright.planning.plan import CuratorPlan

    plan = nw.load(path)
    if not isinstance(plan, CuratorPlan) or plan.release_kind is None:
        raise InvalidParameter(
            "plan",
            path,
            "has no curator, or is no plan of one release",
            "without a curator use `randomize` and `estimate`",
        )

    return plan


def local_plan(path: str) -> LocalPlan:
    """The plan in a file; one with a curator is refused."""
    import noisewright as nw
    from noisewright.planning.local.plan import LocalPlan

    plan = nw.load(path)
    if hasattr(plan, "client") and not isinstance(plan, LocalPlan):
        rule = "learns or selects, and asks for no answers"
        raise InvalidParameter("plan", path, rule, "read it by `nw.load` in Python")

    if not isinstance(plan, LocalPlan):
        raise InvalidParameter(
            "plan", path, "has a curator", "use `release`, or plan with --model local"
        )

    return plan


def client_format(path: str) -> ReportFormat:
    """How clients of any plan without a curator report, also of one that learns or selects."""
    import noisewright as nw
    from noisewright.learn import LearningPlan, Selection

    plan = nw.load(path)
    if isinstance(plan, LearningPlan | Selection):
        return plan.client.format
    return local_plan(path).format
