"""The best strategy that a search finds: how it is planned, when it stops and whom it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from noisewright.arrays import Array
from noisewright.errors import TooLarge
from noisewright.local.mechanism import LocalMechanism, LocalProblem, Progress
from noisewright.local.strategy import LARGEST_VECTOR, Arrays, Strategy
from noisewright.local.time_limit import TimeLimit
from noisewright.local.work import Work
from noisewright.solution import Solution

# Seconds before the first snapshot: what takes less is soon done again.
_FIRST_SNAPSHOT = 1.0

Snapshot = Callable[[str, Arrays], None]
"""Takes the name of a stage and the arrays from which it can go on."""


@dataclass(eq=False)
class Control:
    """When to stop, whom to tell, and where to keep the state.

    `floor` is the lower bound on the variance per person; a run without a positive bound reports
    an infinite ratio and never meets a target.
    """

    floor: float = 0.0
    limit: TimeLimit = field(default_factory=TimeLimit)
    target_ratio: float | None = None
    listener: Callable[[Progress], None] | None = None
    snapshot: Snapshot | None = None
    snapshot_every: float = 10.0
    work: Work = field(default_factory=Work)
    iterations: int = 0
    saved: float = 0.0

    @property
    def seconds(self) -> float:
        return self.limit.seconds

    @property
    def expired(self) -> bool:
        """Whether all work or time is spent, or somebody wants to see the best so far."""
        return self.work.over or self.limit.over()

    def ratio(self, variance: float) -> float:
        """Variance per person over its lower bound."""
        return variance / self.floor if self.floor > 0 else float("inf")

    def met(self, variance: float) -> bool:
        return (
            self.target_ratio is not None and self.ratio(variance) <= self.target_ratio
        )

    def step(self, stage: str, variance: float) -> bool:
        """Count an iteration and report it; true when the run should stop."""
        self.iterations += 1
        if self.listener is not None:
            self.listener(
                Progress(stage, self.iterations, self.ratio(variance), self.seconds)
            )
        return self.expired or self.met(variance)

    def keep(
        self, stage: str, state: Callable[[], Mapping[str, Array]], now: bool = False
    ) -> None:
        """Hand the state to the snapshot, if one is wanted and it is time."""
        first = min(_FIRST_SNAPSHOT, self.snapshot_every)
        due = self.saved + self.snapshot_every if self.saved else first
        if self.snapshot is None or (not now and self.seconds < due):
            return
        self.snapshot(stage, dict(state()))
        self.saved = self.seconds


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
    # plans without a search do not need it
    from noisewright.local.optimise.run import optimise

    if problem.cells > LARGEST_VECTOR:
        raise TooLarge(f"{problem.cells:.3g} cells are too many to search")

    found = optimise(
        problem.workload, problem.epsilon, settings=problem.search, limit=problem.limit
    )
    return found.strategy


ENTRY = LocalMechanism(
    "optimised", "the best strategy that a search finds", _plan, searches=True
)
