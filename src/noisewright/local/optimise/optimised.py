"""The best strategy that a search finds, as a mechanism among others."""

from __future__ import annotations

from noisewright.errors import TooLarge
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.strategy import LARGEST_VECTOR, Strategy


def _plan(problem: LocalProblem) -> Strategy:
    from noisewright.local.optimise.ways import optimise  # plans without a search do not need it

    if problem.cells > LARGEST_VECTOR:
        raise TooLarge(f"{problem.cells:.3g} cells are too many to search")
    return optimise(problem.workload, problem.epsilon, **vars(problem.search)).strategy


ENTRY = LocalMechanism("optimised", "the best strategy that a search finds", _plan, searches=True)
