"""Options that several commands share, each said once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Option = Callable[[Any], Any]

neighbours_option: _Option = click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="What one person can change.",
)

_ASKING: tuple[_Option, ...] = (
    click.argument("workload", required=False),
    click.option("--queries", "spec", type=click.Path(dir_okay=False), help="Questions in YAML."),
    click.option("--schema", type=click.Path(dir_okay=False), help="The table's schema in YAML."),
    click.option("--epsilon", type=float, help="Privacy budget ε."),
    click.option("--delta", type=float, help="Probability δ for approximate privacy (try 1e-9)."),
    click.option("--rho", type=float, help="Budget ρ of zero-concentrated privacy, instead of ε."),
    neighbours_option,
    click.option("--error", default="rmse", show_default=True, help="rmse, max or a number >= 2."),
    click.option(
        "--model",
        type=click.Choice(["central", "local"]),
        default="central",
        show_default=True,
        help="Who adds the noise: a trusted curator, or every person.",
    ),
)


def asking(command: _Command) -> _Command:
    """What is asked, under which budget, for which error, in which model."""
    return reduce(lambda decorated, option: option(decorated), reversed(_ASKING), command)


def asked(workload: str | None, spec: str | None, domain: Any) -> Any:
    """What the command line asks: a workload in text, or questions over a schema."""
    from noisewright.errors import InvalidParameter
    from noisewright.workload import Workload

    if (workload is None) == (spec is None):
        raise InvalidParameter(
            "workload", workload, "must be given, or else --queries", "give exactly one of the two"
        )
    if spec is None:
        return workload
    if domain is None:
        raise InvalidParameter("schema", None, "must be given with --queries", "add --schema FILE")
    return Workload.from_spec(spec, domain)


def exponent(error: str) -> str | float:
    """An error as a number where it is one, by its name otherwise."""
    try:
        return float(error)
    except ValueError:
        return error
