"""Deadline, target and progress of one optimisation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """Where an optimisation stands: `ratio` is its error over the lower bound."""

    stage: str
    iteration: int
    ratio: float
    seconds: float


@dataclass(eq=False)
class Control:
    """When to stop and whom to tell.

    `floor` is the lower bound on the variance per person; a run without a positive bound reports
    an infinite ratio and never meets a target.
    """

    floor: float = 0.0
    time_limit: float | None = None
    target_ratio: float | None = None
    listener: Callable[[Progress], None] | None = None
    started: float = field(default_factory=time.perf_counter)
    iterations: int = 0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.started

    @property
    def expired(self) -> bool:
        """Whether the time limit has passed."""
        return self.time_limit is not None and self.seconds >= self.time_limit

    def remaining(self) -> float:
        """Seconds left; infinite without a limit."""
        return float("inf") if self.time_limit is None else self.time_limit - self.seconds

    def ratio(self, variance: float) -> float:
        """Variance per person over its lower bound."""
        return variance / self.floor if self.floor > 0 else float("inf")

    def met(self, variance: float) -> bool:
        """Whether the target is reached."""
        return self.target_ratio is not None and self.ratio(variance) <= self.target_ratio

    def step(self, stage: str, variance: float) -> bool:
        """Count an iteration and report it; true when the run should stop."""
        self.iterations += 1
        if self.listener is not None:
            self.listener(Progress(stage, self.iterations, self.ratio(variance), self.seconds))
        return self.expired or self.met(variance)
