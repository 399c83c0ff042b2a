"""The best strategy that a search finds: what is known of it, and how it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from noisewright.errors import TooLarge
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.strategy import LARGEST_VECTOR, Strategy
from noisewright.solution import Solution


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimised(Solution):
    """A strategy, how good it is, and how the search for it went.

    `value` is the variance per person that was asked for, recomputed from the whole-number chances
    of the finished strategy; `lower_bound` is what no unbiased linear estimate can beat.
    """

    strategy: Strategy
    mechanism: str
    objective: str


def _plan(problem: LocalProblem) -> Strategy:
    from noisewright.local.optimise.run import optimise  # plans without a search do not need it

    if problem.cells > LARGEST_VECTOR:
        raise TooLarge(f"{problem.cells:.3g} cells are too many to search")
    return optimise(problem.workload, problem.epsilon, **vars(problem.search)).strategy


ENTRY = LocalMechanism("optimised", "the best strategy that a search finds", _plan, searches=True)
