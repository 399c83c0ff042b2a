"""The optimised strategy as a candidate beside the classical ones, within a stated effort."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.analysis import Analysis
from noisewright.local.catalogue import Candidate, table_gram
from noisewright.local.optimise import LEVELS, Progress, optimise
from noisewright.workload.base import Workload

OPTIMISED = "optimised"

Listener = Callable[[Progress], None]


@dataclass(frozen=True)
class Search:
    """How hard, how long and from which seed to look for a better strategy."""

    effort: str = "normal"
    time_limit: float | None = None
    seed: int = 0
    progress: Listener | None = None

    def __post_init__(self) -> None:
        if self.effort not in LEVELS:
            raise InvalidParameter("effort", self.effort, f"must be one of {', '.join(LEVELS)}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidParameter("time_limit", self.time_limit, "must be > 0 seconds")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InvalidParameter("seed", self.seed, "must be a whole number >= 0")


def optimised(workload: Workload, epsilon: float, settings: Search) -> Candidate:
    """The best strategy found for a workload, or the reason why none was looked for."""
    began = time.perf_counter()
    try:
        found = optimise(
            workload,
            epsilon,
            effort=settings.effort,
            time_limit=settings.time_limit,
            seed=settings.seed,
            progress=settings.progress,
        )
        analysis = Analysis(found.strategy, workload, table_gram(workload))
    except NoisewrightError as error:
        return Candidate(OPTIMISED, time.perf_counter() - began, refusal=str(error))
    return Candidate(OPTIMISED, time.perf_counter() - began, analysis)
