"""What is asked of the optimiser: a workload, a budget, and which error counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter, OutOfReach, TooLarge
from noisewright.local.analysis.grams import normalised, table_gram
from noisewright.local.analysis.offsets import without_offsets
from noisewright.local.bounds.trace import LowerBound, lower_bound, prior_bound
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.listed.matrix import check_prior
from noisewright.local.strategy import Strategy
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import Array, FloatArray, Workload
from noisewright.workload.gram import DenseGram, Gram

OBJECTIVES = ("worst", "average")
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class GramOnly(Workload):
    """A workload of which only the Gram matrix and the number of queries are known."""

    matrix: Gram
    count: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and number of cells."""
        return self.count, self.matrix.size

    def gram(self) -> Gram:
        """The Gram matrix itself."""
        return self.matrix

    def matvec(self, x: Array) -> Array:
        """Not known."""
        raise InvalidParameter("workload", "Gram matrix", "has no queries to answer", "give them")

    def rmatvec(self, y: Array) -> Array:
        """Not known."""
        return self.matvec(y)

    def text(self) -> str:
        """A description; it does not parse."""
        return f"gram:{self.matrix.size}"

    def label(self, row: int) -> str:
        """Numbers only."""
        return f"query {row}"


@dataclass(frozen=True, eq=False)
class Task:
    """A workload, a budget, and the error that counts: worst case, average, or under a prior.

    A search sees the Gram matrix at one scale for all: `value` and `floor` are in units of `unit`.
    """

    workload: Workload
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
        if isinstance(workload, Gram):
            workload = GramOnly(workload, workload.size)
        elif not isinstance(workload, Workload):
            workload = Explicit(np.asarray(workload, dtype=np.float64))
        if objective not in OBJECTIVES:
            raise InvalidParameter(
                "objective", objective, f"must be one of {', '.join(OBJECTIVES)}", "try 'worst'"
            )
        gram: Gram
        if query_weights is not None:
            gram = weighted_gram(workload, np.asarray(query_weights, dtype=np.float64))
            workload = GramOnly(gram, workload.queries)
        elif isinstance(workload, GramOnly):
            gram = workload.matrix
        else:
            gram = table_gram(workload)
        checked = None
        if prior is not None:
            checked = check_prior(np.asarray(prior, dtype=np.float64), workload.size)
            objective = "prior"
        unit, gram = normalised(gram)
        return cls(workload, gram, check_epsilon(epsilon), objective, checked, unit)

    @property
    def size(self) -> int:
        """Number of types."""
        return self.gram.size

    @property
    def queries(self) -> Workload:
        """What must be within reach: the queries, or rows that span the same."""
        asked = self.workload
        return Explicit(self.gram.dense()) if isinstance(asked, GramOnly) else asked

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

    def reached(self, strategy: Strategy) -> bool:
        """Whether all queries are answered, also those that vanish beside others in the Gram."""
        asked = self.workload
        if isinstance(asked, GramOnly) or asked.queries * asked.size > _BLOCK_ENTRIES:
            return True
        try:
            strategy.check_reach(without_offsets(asked) if strategy.lists_cells else asked)
        except OutOfReach:
            return False
        return True

    @cached_property
    def bound(self) -> LowerBound | None:
        """What proves a floor under it; None where nothing does at this size."""
        try:
            if self.prior is not None:
                asked = GramOnly(self.gram, 1)
                return prior_bound(asked, self.epsilon, self.prior, self.gram)
            return lower_bound(self.workload, self.epsilon, self.gram)
        except TooLarge:
            return None

    @property
    def floor(self) -> float:
        """The lower bound under it; zero where none is known."""
        return 0.0 if self.bound is None else max(self.bound.variance, 0.0)


def weighted_gram(workload: Workload, weights: FloatArray) -> DenseGram:
    """Σ_i weight_i w_i w_iᵀ: each query's squared error times its weight, up to its constant."""
    if weights.shape != (workload.queries,) or not np.isfinite(weights).all() or weights.min() < 0:
        raise InvalidParameter(
            "query_weights",
            f"array of shape {weights.shape}",
            f"must be {workload.queries} finite numbers >= 0",
        )
    total = np.zeros((workload.size, workload.size))
    step = max(1, _BLOCK_ENTRIES // workload.size)
    asked = without_offsets(workload)
    for start in range(0, workload.queries, step):
        rows = asked.rows(start, min(start + step, workload.queries))
        total += rows.T @ (rows * weights[start : start + step, None])
    return DenseGram(total)
