"""Which noise a projection is put behind, and where it is nearest: both by forecast."""

from __future__ import annotations

from math import prod

from noisewright.central.geometry.projection.fitted import (
    MOST_CELLS,
    FittedMechanism,
    Space,
)
from noisewright.central.mechanism import Mechanism
from noisewright.central.problem import CentralMechanism, CentralProblem, Proposal
from noisewright.errors import OutOfReach
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.questions.measures import COUNT

_NEEDS_PEOPLE = (
    "its error depends on how many people there are: give their public number (people)"
)
_MOST_NOISES = 2  # that are tried in answer space: the best ones by themselves


def refuses_fit(problem: CentralProblem) -> str | None:
    """Why no histogram can be fitted, or its errors be told."""
    if problem.given is None:
        return _NEEDS_PEOPLE
    if prod(problem.sizes) > MOST_CELLS:
        return f"histograms are fitted to at most {MOST_CELLS:,} cells"
    if problem.domain is not None and (
        problem.domain.boxes or problem.domain.unit is not None
    ):
        return (
            "impossible cells and several rows of a person are not for projections yet"
        )
    if problem.workload.measures != (COUNT,):
        return "projections are for numbers of people"

    return None


def unbiased_proposals(problem: CentralProblem) -> list[tuple[float, str, Mechanism]]:
    """All that measure without bias, and noise on cells, with their errors, best first."""
    from noisewright.central.registry import CENTRAL

    result = []
    for entry in CENTRAL.values():
        cells = entry.name.endswith("-cells")
        if (
            entry.biased
            or (entry.baseline and not cells)
            or entry.refuses(problem) is not None
        ):
            continue
        if entry.slow is not None and entry.slow(problem):
            continue

        mechanism = problem.once(entry.plan).mechanism
        error = mean_error(mechanism.accuracy(problem.terms).error, problem.norm)
        result.append((error, entry.name, mechanism))

    return sorted(result, key=lambda proposal: proposal[0])


def _plan(problem: CentralProblem) -> Proposal:
    assert problem.given is not None
    noises = unbiased_proposals(problem)
    options: list[tuple[str, Space, Mechanism]] = [
        (name, "answers", mechanism) for _, name, mechanism in noises[:_MOST_NOISES]
    ]

    for _, name, mechanism in noises:
        if name.endswith("-cells"):
            options += [(name, "cells", mechanism), (name, "answers", mechanism)]

    planned: list[tuple[float, int, Proposal]] = []
    for name, space, inner in options:
        fitted = FittedMechanism(
            inner,
            problem.workload,
            problem.sizes,
            space,
            problem.given,
        )
        try:
            fitted.check_reach(problem.terms)
        except OutOfReach:
            continue
        error = mean_error(fitted.accuracy(problem.terms).error, problem.norm)
        status = f"noise of {name}, projected in {space}"
        proposal = Proposal(
            fitted,
            None,
            None,
            "none",
            status,
            problem.neighbours,
        )
        planned.append((error, len(planned), proposal))

    return min(planned)[2]


PROJECTION = CentralMechanism(
    "projection",
    "any noise, then the nearest possible answers: biased, nearer where people are few",
    refuses_fit,
    _plan,
    biased=True,
)
