"""What an optimisation returns."""

from __future__ import annotations

from dataclasses import dataclass

from noisewright.local.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Optimised:
    """A strategy, how good it is, and how the search for it went.

    `value` is the variance per person that was asked for, recomputed from the whole-number chances
    of the finished strategy; `lower_bound` is what no unbiased linear estimate can
    beat, and `ratio` their quotient (infinite where the bound says nothing).
    """

    strategy: Strategy
    mechanism: str
    objective: str
    value: float
    lower_bound: float
    status: str
    iterations: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Value over lower bound."""
        return self.value / self.lower_bound if self.lower_bound > 0 else float("inf")
