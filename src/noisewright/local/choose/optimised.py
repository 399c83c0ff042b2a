"""The optimised strategy as a candidate beside the classical ones, within a stated effort."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy.typing as npt

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.analysis.grams import table_gram
from noisewright.local.optimise import Progress, optimise
from noisewright.local.registry import Candidate
from noisewright.local.strategy import LARGEST_VECTOR
from noisewright.workload.base import Workload

OPTIMISED = "optimised"


@dataclass(frozen=True)
class Search:
    """How hard, how long and from which seed to look for a better strategy.

    `progress` is told after every iteration, `target_ratio` stops the search early, `checkpoint`
    names a file from which an interrupted one goes on, and finished ones are kept in a `cache`.

    The error that counts is the worst case over people unless `objective` is "average", a `prior`
    over cells is given, or a `norm` other than 2 asks for an ℓp mean over the queries.
    """

    effort: str = "normal"
    time_limit: float | None = None
    seed: int = 0
    target_ratio: float | None = None
    progress: Callable[[Progress], None] | None = None
    checkpoint: str | Path | None = None
    cache: str | Path | bool = True
    objective: str = "worst"
    prior: npt.ArrayLike | None = None
    norm: float = 2.0

    @property
    def own_error(self) -> bool:
        """Whether another error counts than the one that mechanisms are ranked by."""
        return self.objective != "worst" or self.prior is not None or self.norm != 2

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InvalidParameter("seed", self.seed, "must be a whole number >= 0")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidParameter("time_limit", self.time_limit, "must be > 0 seconds")


def optimised(workload: Workload, epsilon: float, settings: Search) -> Candidate:
    """The best strategy found for a workload, or the reason why there is none."""
    began = time.perf_counter()
    if workload.size > LARGEST_VECTOR:
        return Candidate(
            OPTIMISED, 0.0, refusal=f"{workload.size:.3g} cells are too many to search"
        )
    try:
        found = optimise(workload, epsilon, **asdict(settings))
        analysis = Analysis(found.strategy, workload, table_gram(workload))
        _ = analysis.worst_case
    except InvalidParameter:
        raise
    except NoisewrightError as error:
        return Candidate(OPTIMISED, time.perf_counter() - began, refusal=str(error))
    return Candidate(OPTIMISED, time.perf_counter() - began, analysis)
