"""What an optimisation returns."""

from __future__ import annotations

from dataclasses import dataclass

from noisewright.local.bounds.trace import proven_ratio
from noisewright.local.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Optimised:
    """A strategy, how good it is, and how the search for it went.

    `value` is the variance per person that was asked for, recomputed from the whole-number chances
    of the finished strategy; `lower_bound` is what no unbiased linear estimate can
    beat, and `ratio` their quotient (infinite where the bound says nothing). A value below the
    bound is never returned: it raises, since one of the two must be wrong.
    """

    strategy: Strategy
    mechanism: str
    objective: str
    value: float
    lower_bound: float
    status: str
    iterations: int
    seconds: float

    def __post_init__(self) -> None:
        proven_ratio(self.value, self.lower_bound)

    @property
    def ratio(self) -> float:
        """Value over lower bound."""
        ratio = proven_ratio(self.value, self.lower_bound)
        return float("inf") if ratio is None else ratio
