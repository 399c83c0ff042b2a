"""What a local mechanism costs on a workload, and what none can beat."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from noisewright.errors import NoisewrightError
from noisewright.local.analysis import Analysis
from noisewright.local.bound import LowerBound, lower_bound, optimised_prior
from noisewright.local.catalogue import table_gram
from noisewright.workload.base import Workload

ALPHA = 0.01
"""The normalised variance at which people are counted unless told otherwise."""

_PRIOR_CELLS = 128  # up to here the search for the best prior takes a fraction of a second


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
        """The cost of a strategy, against a bound where one is known and says anything."""
        needed = analysis.sample_complexity(alpha)
        floor = None if bound is None else bound.sample_complexity(alpha)
        return cls(
            mechanism=mechanism,
            epsilon=epsilon,
            objective=analysis.objective,
            objective_lower_bound=None if bound is None else bound.objective,
            sample_complexity=needed,
            sample_complexity_lower_bound=floor,
            ratio=needed / floor if floor else None,
            two_valued=analysis.strategy.two_valued,
            seconds=seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures scripts rely on."""
        return {name: value for name, value in asdict(self).items() if name != "refusal"}


def known_bound(workload: Workload, epsilon: float) -> LowerBound | None:
    """The lower bound for the uniform distribution, or None where no closed form is known."""
    try:
        return lower_bound(workload, epsilon, table_gram(workload))
    except NoisewrightError:
        return None


def best_prior_bound(workload: Workload, epsilon: float) -> LowerBound | None:
    """The bound for the best distribution found, or None where finding it would take long."""
    if not 2 <= workload.size <= _PRIOR_CELLS:
        return None
    return optimised_prior(workload, epsilon)[0]
