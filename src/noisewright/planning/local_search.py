"""The optimised strategy as a candidate beside the classical ones, within a stated effort."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.analysis import Analysis
from noisewright.local.bound import LowerBound
from noisewright.local.catalogue import Candidate
from noisewright.local.dense import MatrixStrategy
from noisewright.local.optimise.control import Control, Progress
from noisewright.local.optimise.search import Effort, search
from noisewright.workload.base import Workload

OPTIMISED = "optimised"

Listener = Callable[[Progress], None]

_DENSE_CELLS = 1024


@dataclass(frozen=True)
class Search:
    """How hard, how long and from which seed to look for a better strategy."""

    effort: str = "normal"
    time_limit: float | None = None
    seed: int = 0
    progress: Listener | None = None

    def __post_init__(self) -> None:
        if self.effort not in _EFFORTS:
            raise InvalidParameter("effort", self.effort, f"must be one of {', '.join(_EFFORTS)}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidParameter("time_limit", self.time_limit, "must be > 0 seconds")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InvalidParameter("seed", self.seed, "must be a whole number >= 0")

    @property
    def seconds(self) -> float:
        """When to stop at the latest; a valid strategy comes back at any time."""
        return _EFFORTS[self.effort][1] if self.time_limit is None else self.time_limit


_EFFORTS = {
    "low": (Effort(iterations=30, generate_up_to=0), 10.0),
    "normal": (Effort(), 15.0),
    "high": (Effort(rows_per_cell=8, iterations=400, rounds=60, generate_up_to=256), 300.0),
}
"""How the search is set, and its seconds unless told."""


def optimised(
    workload: Workload, epsilon: float, bound: LowerBound | None, settings: Search
) -> Candidate:
    """The best strategy found for a workload, or the reason why none was looked for."""
    began = time.perf_counter()
    n = workload.size
    if not 2 <= n <= _DENSE_CELLS:
        return Candidate(OPTIMISED, 0.0, refusal=f"searched for 2 to {_DENSE_CELLS} cells only")
    effort, _ = _EFFORTS[settings.effort]
    floor = 0.0 if bound is None else max(bound.variance, 0.0)
    control = Control(floor, settings.seconds, listener=settings.progress)
    rng = np.random.default_rng(settings.seed)
    uniform = np.full(n, 1.0 / n)
    design, prior = search(workload.gram().dense(), epsilon, uniform, True, effort, rng, control)
    strategy = MatrixStrategy.from_chances(design.chances(), epsilon, prior)
    return Candidate(OPTIMISED, time.perf_counter() - began, Analysis(strategy, workload))
