"""What is asked of the optimiser: a workload, a budget, and which error counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import (
    InvalidParameter,
    NoisewrightError,
    OutOfReach,
    TooLarge,
    require,
)
from noisewright.local.analysis.grams import (
    factor_and_normalised,
    table_gram,
    without_offsets,
)
from noisewright.local.bounds.trace import (
    even_moment,
    prior_variance,
    variance_off_the_total,
)
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.listed import check_prior
from noisewright.local.strategy import Strategy
from noisewright.solution import SLACK, BoundClass, Certificate
from noisewright.workload.base import Workload
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.linear.gram import DenseGram, Gram

OBJECTIVES = ("worst", "average")
# Of queries looked at one by one: only bounds time.
_BLOCK_ENTRIES = 2**22
LOST = (NoisewrightError, np.linalg.LinAlgError, ArithmeticError)
"""What a search or a file that holds anything may end in."""


@dataclass(frozen=True, eq=False)
class Task:
    """A workload, a budget, and the error that counts: worst case, average, or under a prior.

    The queries are None where only their Gram matrix is known. A search sees it at one scale for
    all: `value` and `floor` are in units of `unit`.
    """

    workload: Workload | None
    gram: Gram
    epsilon: float
    objective: str
    prior: FloatArray | None = None
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        workload: Workload | Gram | npt.ArrayLike,
        epsilon: float,
        objective: str = "worst",
        prior: npt.ArrayLike | None = None,
        query_weights: npt.ArrayLike | None = None,
    ) -> Task:
        """Check and complete what was asked."""
        if objective not in OBJECTIVES:
            raise InvalidParameter(
                "objective",
                objective,
                f"must be one of {', '.join(OBJECTIVES)}",
                "try 'worst'",
            )

        listed: Workload | None = None
        if isinstance(workload, Gram):
            gram = workload
            if query_weights is not None:
                rule = "need the queries themselves"
                raise InvalidParameter(
                    "query_weights", "given", rule, "give the workload"
                )
        else:
            queries = (
                workload
                if isinstance(workload, Workload)
                else Explicit(np.asarray(workload, dtype=np.float64))
            )
            if query_weights is None:
                listed = queries
                gram = table_gram(queries)
            else:
                gram = weighted_gram(
                    queries, np.asarray(query_weights, dtype=np.float64)
                )

        checked = None
        if prior is not None:
            checked = check_prior(prior, gram.size)
            objective = "prior"

        unit, gram = factor_and_normalised(gram)
        return cls(listed, gram, check_epsilon(epsilon), objective, checked, unit)

    @property
    def size(self) -> int:
        return self.gram.size

    @property
    def queries(self) -> Workload:
        """What must be within reach: the queries, or rows that span the same."""
        return Explicit(self.gram.dense()) if self.workload is None else self.workload

    def keeps(self, strategy: Strategy) -> bool:
        """Whether a strategy is over the cells asked and keeps the budget, by its exact chances."""
        fits = strategy.size == self.size and strategy.epsilon == self.epsilon
        return fits and not strategy.delta and strategy.loss.epsilon <= self.epsilon

    @property
    def worst_case(self) -> bool:
        """Whether the worst type counts."""
        return self.objective == "worst"

    @cached_property
    def start_prior(self) -> FloatArray:
        """The prior that a search begins with."""
        return np.full(self.size, 1.0 / self.size) if self.prior is None else self.prior

    def value(self, strategy: Strategy) -> float:
        """The variance per person that counts: infinite where a query is out of reach."""
        if not self.reached(strategy):
            return float("inf")
        if self.prior is not None:
            return float(self.prior @ strategy.type_variances(self.gram))
        if self.objective == "average":
            return strategy.average_variance(self.gram)
        return strategy.worst_variance(self.gram)

    def kept_value(self, strategy: Strategy) -> float | None:
        """The error of a strategy that a file holds; None where it does not do what is asked."""
        try:
            if not self.keeps(strategy) or strategy.promise.epsilon != self.epsilon:
                return None
            # Errors of queries that it does not see would be understated.
            strategy.check_reach(self.queries)
            value = self.value(strategy)
        except LOST:
            return None
        return value if self.floor * (1 - SLACK) <= value < np.inf else None

    def reached(self, strategy: Strategy) -> bool:
        """Whether all queries are answered, also those that vanish beside others in the Gram."""
        workload = self.workload
        if workload is None or workload.queries * workload.size > _BLOCK_ENTRIES:
            return True

        try:
            strategy.check_reach(
                without_offsets(workload) if strategy.lists_cells else workload
            )
        except OutOfReach:
            return False

        return True

    @cached_property
    def floor(self) -> float:
        """The lower bound under it; zero where none is known."""
        try:
            if self.prior is not None:
                return max(prior_variance(self.gram, self.epsilon, self.prior), 0.0)
            moment = even_moment(self.gram, self.epsilon)
            return max(variance_off_the_total(self.gram, moment), 0.0)
        except TooLarge:
            return 0.0

    @property
    def certificate(self) -> Certificate | None:
        """What proves it."""
        name = "trace" if self.prior is None else "prior"
        known = Certificate(name=name, bound_class=BoundClass.UNBIASED)
        return known if self.floor > 0 else None


def weighted_gram(workload: Workload, weights: FloatArray) -> DenseGram:
    """Σ_i weight_i w_i w_iᵀ: each query's squared error times its weight, up to its constant."""
    require(
        weights.shape == (workload.queries,)
        and np.isfinite(weights).all()
        and weights.min() >= 0,
        "query_weights",
        f"array of shape {weights.shape}",
        f"must be {workload.queries} finite numbers >= 0",
    )
    return DenseGram(without_offsets(workload).weighted_gram(weights))
