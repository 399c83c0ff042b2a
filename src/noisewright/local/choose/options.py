"""What may be asked of a plan without a curator: one struct, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

from noisewright.errors import InvalidParameter, refuse_given
from noisewright.local.analysis.analysis import check_alpha
from noisewright.local.choose.cost import check_people
from noisewright.local.mechanism import Search, SearchOptions
from noisewright.local.vector.tails import MaxError


class LocalOptions(SearchOptions, total=False):
    """Fields of `Local` beside `people`, where they are given by name."""

    alpha: float | None
    max_error: float | None
    beta: float | None


@dataclass(frozen=True)
class Local(Search):
    """Options of a plan without a curator, beside those that steer the search for a strategy.

    `people` and `alpha`, a variance per query, are what summaries and forecasts are about. With a
    `max_error`, a share of people, the plan is the one that needs the fewest people for all answers
    to be within it of the truth, but with probability `beta` (0.05 unless told).
    """

    people: int | None = None
    alpha: float | None = None
    max_error: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.people is not None:
            check_people(self.people)
        if self.alpha is not None:
            check_alpha(self.alpha)
        _ = self.goal

    @property
    def goal(self) -> MaxError | None:
        """The largest error to reach, where one is asked for."""
        if self.max_error is None:
            refuse_given(
                {"beta": self.beta}, "needs a max_error", "say how large it may be"
            )
            return None
        return (
            MaxError(self.max_error)
            if self.beta is None
            else MaxError(self.max_error, self.beta)
        )

    def check_error(self, error: str | float) -> None:
        """Refuse an error that no plan here is made for: the variance is, or a largest error."""
        largest = error in ("max", float("inf"))
        if error in ("rmse", 2) or (largest and self.max_error is not None):
            return

        remedy = (
            "max_error=0.05, say"
            if largest
            else "leave it out, or error='max' with a max_error"
        )
        rule = (
            "needs a max_error in the local model"
            if largest
            else "is not for the local model"
        )
        raise InvalidParameter("error", error, rule, remedy)
