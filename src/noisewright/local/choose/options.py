"""What may be asked of a plan without a curator: one struct, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy.typing as npt

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.analysis import check_alpha
from noisewright.local.choose.cost import check_people
from noisewright.local.mechanism import LocalMechanism, Search
from noisewright.local.vector.tails import MaxError


@dataclass(frozen=True)
class Local(Search):
    """Options of a plan without a curator, beside those that steer the search for a strategy.

    `people` and `alpha`, a variance per query, are what summaries and forecasts are about. With a
    `max_error`, a share of people, the plan is the one that needs the fewest people for all answers
    to be within it of the truth, but with probability `beta` (0.05 unless told).

    `mechanism` is a name, or an entry of one's own; `strategy` a matrix of one's own in its place:
    chances, a row per report and a column per value, made exact in whole numbers, from which ε is
    computed.
    """

    people: int | None = None
    alpha: float | None = None
    max_error: float | None = None
    beta: float | None = None
    mechanism: str | LocalMechanism = "auto"
    strategy: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.people is not None:
            check_people(self.people)
        if self.alpha is not None:
            check_alpha(self.alpha)
        if self.strategy is not None and self.mechanism != "auto":
            rule = "is a mechanism of its own"
            remedy = "give a strategy or a mechanism"
            raise InvalidParameter("strategy", "a matrix", rule, remedy)
        if self.beta is not None and self.max_error is None:
            remedy = "say how large it may be"
            raise InvalidParameter("beta", self.beta, "needs a max_error", remedy)

        _ = self.goal

    @cached_property
    def goal(self) -> MaxError | None:
        """The largest error to reach, where one is asked for."""
        if self.max_error is None:
            return None
        if self.beta is None:
            return MaxError(self.max_error)

        return MaxError(self.max_error, self.beta)
