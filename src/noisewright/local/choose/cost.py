"""What a local mechanism costs on a workload, and what no unbiased linear estimate can beat."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.analysis import Analysis
from noisewright.local.bounds.trace import LowerBound
from noisewright.solution import BoundClass, lifted_to_bound

ALPHA = 0.01
"""The normalised variance at which people are counted unless told otherwise."""


@dataclass(frozen=True)
class LocalComparison:
    """One mechanism's cost on a workload; `refusal` says in words why it does not apply."""

    mechanism: str
    epsilon: float
    objective: float | None = None
    objective_lower_bound: float | None = None
    sample_complexity: float | None = None
    sample_complexity_lower_bound: float | None = None
    ratio: float | None = None
    two_valued: bool | None = None
    seconds: float = 0.0
    refusal: str | None = None

    @classmethod
    def of(
        cls,
        mechanism: str,
        epsilon: float,
        analysis: Analysis,
        bound: LowerBound | None,
        seconds: float,
        alpha: float = ALPHA,
    ) -> LocalComparison:
        """The cost of a strategy, against a bound where one is known and says anything.

        The bounds are for ε alone: a strategy that also takes a δ is outside their class, and can
        need fewer people.
        """
        bound = None if analysis.strategy.delta else bound
        if bound is not None:
            lifted_to_bound(analysis.objective, max(bound.objective, 0.0), mechanism)

        needed = analysis.sample_complexity(alpha)
        floor = None if bound is None else bound.sample_complexity(alpha)
        return cls(
            mechanism=mechanism,
            epsilon=epsilon,
            objective=analysis.objective,
            objective_lower_bound=None if bound is None else bound.objective,
            sample_complexity=needed,
            sample_complexity_lower_bound=floor,
            ratio=None if bound is None else bound.ratio(analysis.worst_case),
            two_valued=analysis.strategy.two_valued,
            seconds=seconds,
        )

    def to_dict(self) -> dict[str, object]:
        """The figures scripts rely on."""
        figures = {
            name: value for name, value in asdict(self).items() if name != "refusal"
        }
        return figures | {"bound_class": self.bound_class}

    @property
    def bound_class(self) -> BoundClass | None:
        """The methods that the lower bounds limit, or None where there are none."""
        return None if self.objective_lower_bound is None else BoundClass.UNBIASED


def check_people(people: int | None) -> int:
    """A whole number of people."""
    whole = isinstance(people, int | np.integer) and not isinstance(people, bool)
    if people is None or not whole or people < 1:
        raise InvalidParameter(
            "people", people, "must be a whole number >= 1", "say how many"
        )
    return int(people)
