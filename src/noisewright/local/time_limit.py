"""The one clock of planning: for people who wait, and for a limit that they ask for.

Without a limit nothing that is found depends on it: searches count work (`work`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf

from noisewright.local.interruption import interrupted


@dataclass(eq=False)
class TimeLimit:
    """How long something has taken, and whether it must end with what it has."""

    limit: float | None = None
    """Seconds it may take, or None for as many as its work does."""
    began: float = field(default_factory=time.perf_counter)
    cut_short: bool = False
    """Whether a search ended early because the time was over, or somebody pressed Ctrl-C."""

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds left; infinite without a limit, whatever the time."""
        return inf if self.limit is None else self.limit - self.seconds

    def over(self, needed: float = 0.0) -> bool:
        """Whether to end now: less time than needed is left, or somebody wants to see the best."""
        if self.left <= needed or interrupted():
            self.cut_short = True
        return self.cut_short
