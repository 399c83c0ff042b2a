"""Questions that need more than counts: one mechanism per measure, under one budget.

Values are taken in whole units and centred (`workload.questions.measures`), so that one person
changes a cell of the sums by at most the width of the bounds. Every measure gets the strategy that
is best for its own tables, and the share of the budget that makes the weighted squared errors
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisewright.central.composite import Composite
from noisewright.central.mechanism import Mechanism
from noisewright.central.problem import CentralProblem, Proposal
from noisewright.domain import Domain
from noisewright.planning.central.choose import (
    Contender,
    best_contender,
)
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import least_error_shares, splittable
from noisewright.workload import Workload
from noisewright.workload.questions.measures import COUNT, Count, Measure, Missing
from noisewright.workload.questions.relative_weights import weighted_needs


def by_measures(
    problem: CentralProblem, questions: Workload, mechanism: str
) -> Contender:
    """One contender for every measure that the questions need, as one mechanism."""
    contenders = [
        _of_measure(problem, questions, m, mechanism) for m in questions.measures
    ]
    members = tuple(contender.proposal.mechanism for contender in contenders)
    names = dict.fromkeys(contender.name for contender in contenders)
    shares = _shares(members, questions, problem.privacy)
    proposal = Proposal(
        Composite(members, shares, problem.privacy, name=" + ".join(names)),
        None,
        _bound(contenders, questions.measures, problem),
        "every measure alone, with the whole budget",
        "; ".join(dict.fromkeys(contender.proposal.status for contender in contenders)),
        problem.privacy.neighbours,
    )

    return Contender(problem, proposal)


def _of_measure(
    problem: CentralProblem, questions: Workload, measure: Measure, mechanism: str
) -> Contender:
    problem = replace(problem, asked=None)  # a part keeps no promise of its own
    if measure == COUNT and not (
        problem.privacy.neighbours == "replace-one" and problem.structure.only_totals
    ):
        return best_contender(
            replace(problem, workload=questions.of_measure(COUNT)), mechanism
        )

    # A replaced person leaves the number of people as it is, but not their sum: the strategy must
    # not count on the former.
    added = replace(problem.privacy, neighbours="add-remove")
    part = replace(problem, workload=questions.of_measure(measure), privacy=added)
    contender = best_contender(part, mechanism)
    own = contender.proposal.mechanism.of(measure).at(problem.privacy)

    return replace(contender, proposal=replace(contender.proposal, mechanism=own))


def _shares(
    members: Sequence[Mechanism], questions: Workload, privacy: Privacy
) -> tuple[float, ...]:
    whole = splittable(privacy)
    costs = []

    for member, measure in zip(members, questions.measures, strict=True):
        needs = [
            pair
            for pair in weighted_needs(questions.statistics)
            if pair[0].measure == measure
        ]
        variance = member.at(whole).accuracy([term for term, _ in needs]).variance
        weights = np.repeat([w for _, w in needs], [term.queries for term, _ in needs])
        costs.append(float((weights**2 * variance).sum()))

    return least_error_shares(costs, privacy)


def _bound(
    contenders: Sequence[Contender],
    measures: Sequence[Measure],
    problem: CentralProblem,
) -> float | None:
    """The mean error if every measure had the whole budget for itself, at its own lower bound."""
    norm = problem.norm
    queries = []
    bounds = []

    for contender, measure in zip(contenders, measures, strict=True):
        bound = contender.proposal.bound or 0.0
        if not isinstance(measure, Count):
            bound *= measure.least_change(problem.privacy.neighbours == "replace-one")
        elif contender.proposal.neighbours != problem.privacy.neighbours:
            bound = 0.0
        queries.append(contender.problem.workload.queries)
        bounds.append(bound)

    if not any(bounds):
        return None
    if norm == np.inf:
        return max(bounds)

    powers = np.average(np.array(bounds) ** norm, weights=queries)
    return float(powers ** (1 / norm))


def sums_by_group(
    value: str,
    by: Sequence[Sequence[str]],
    domain: Domain,
    unit: float = 1.0,
    missing: Missing = "left-out",
) -> Workload:
    """Counts, sums and means of a numeric attribute for tables of groups, as queries.

    `by` lists the tables, each a list of attributes (an empty one is everybody together).
    """
    said = {} if missing == "left-out" else {"missing": missing}
    queries: list[dict[str, object]] = []

    for names in by:
        groups = list(names)
        queries.append({"marginal": groups} if groups else {"total": True})
        queries += [
            {kind: value, "by": groups, "unit": float(unit), **said}
            for kind in ("sum", "mean")
        ]

    return Workload.from_spec({"queries": queries}, domain)
