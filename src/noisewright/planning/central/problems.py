"""What mechanisms plan for: a workload with its attributes, under each promise that would do.

Pure ε keeps (ε, δ) whatever δ is, and its noise is less wherever few numbers are measured: both are
planned. A release that adds up with others in ρ is another matter: there pure ε costs the ρ that it
implies, which is far more than that of Gaussian noise for (ε, δ).
"""

from __future__ import annotations

from typing import get_args

from noisewright.central.groups import RowBounds
from noisewright.central.problem import CentralProblem
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central.options import Central, Composition
from noisewright.privacy.promise.budget import Contribution, Privacy, pure_promise
from noisewright.privacy.promise.calibration import row_budget
from noisewright.workload import Workload
from noisewright.workload.questions.measures import COUNT
from noisewright.workload.structure import check_magnitudes


def check_composition(composition: str, privacy: Privacy) -> None:
    """Refuse what is no composition, or says nothing about this promise."""
    if composition not in get_args(Composition):
        rule = f"must be one of {', '.join(get_args(Composition))}"
        raise InvalidParameter("composition", composition, rule)
    if composition == "many" and privacy.kind != "approximate":
        rule = f"is for a promise (ε, δ), and this one is {privacy.text()}"
        raise InvalidParameter(
            "composition",
            composition,
            rule,
            "leave it out: such promises add up as they are",
        )


def central_problems(
    workload: Workload, privacy: Privacy, options: Central, domain: Domain | None = None
) -> tuple[CentralProblem, ...]:
    """The problem under the promise asked for, then under one that is stronger, if any."""
    check_composition(options.composition, privacy)
    asked = central_problem(workload, privacy, options, domain)
    pure = None if options.composition == "many" else pure_promise(privacy)
    if pure is None:
        return (asked,)

    rows = RowBounds.of(asked.domain, asked.sizes).rows
    return asked, asked.under(*_of_a_row(pure, rows), asked=privacy)


def central_problem(
    workload: Workload, privacy: Privacy, options: Central, domain: Domain | None = None
) -> CentralProblem:
    """The workload with its attributes, as mechanisms see it."""
    domain = workload.domain or domain
    sizes = _sizes(workload, domain)
    own, promise = _of_a_row(privacy, RowBounds.of(domain, sizes).rows)
    problem = CentralProblem(
        workload, sizes, own, options.norm, domain, promise, options.given
    )
    check_magnitudes(workload)
    if problem.structure.zero:
        raise InvalidParameter(
            "workload", workload.brief(), "is zero everywhere", "ask for something"
        )

    counts = workload.measures == (COUNT,)
    if counts and privacy.neighbours == "replace-one" and problem.structure.only_totals:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "asks only for the number of people, which replace-one neighbours make public",
            "publish it as it is, or plan with neighbours='add-remove' to protect it",
        )

    return problem


def _of_a_row(privacy: Privacy, rows: int) -> tuple[Privacy, Privacy | None]:
    """The budget of one row, and of the person that it follows from where several count."""
    return row_budget(privacy, Contribution(rows)), None if rows == 1 else privacy


def _sizes(workload: Workload, domain: Domain | None) -> tuple[int, ...]:
    if domain is not None:
        domain.require_reviewed()
        if workload.size != domain.size:
            raise InvalidParameter(
                "workload",
                workload.brief(),
                f"has {workload.size} cells where the domain has {domain.size}",
                "match the workload's size to the domain",
            )
        return domain.shape

    return workload.structure.sizes
