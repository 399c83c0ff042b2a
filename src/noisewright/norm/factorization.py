"""What `factorize` returns: a factorization, its error and a bound on that of any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.errors import Contradiction
from noisewright.norm.solver import Progress, Weights, dual_exponent
from noisewright.solution import BoundClass, Certificate, Solution, Status
from noisewright.workload.algebra import Stack, Weighted
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import DENSE_LIMIT, FloatArray, Workload
from noisewright.workload.linear import Dense, LinearMap, Product, uniform
from noisewright.workload.marginals import OnAttributes

PRODUCT_SLACK = 1e-6
"""Relative rounding allowed where a factorization is multiplied back."""

_PROBES = 8  # random histograms: the largest answer to them tells how large a query is
_PROBED_CELLS = 8192


@dataclass(frozen=True)
class Settings:
    """What the solver is asked for."""

    norm: float
    tolerance: float
    iterations: int
    start: Weights | None = None
    neighbours: str = "add-remove"
    progress: Progress | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DualWeights(Certificate):
    """A feasible dual point: proof that no factorization has an error below the bound.

    `rows` and `columns` are the weights a and b as one-column operators (a Kronecker product's
    weights are the product of its factors'); `rows` is None at norm 2, where a is all ones.
    """

    name: str = "weighted nuclear norm"
    bound_class: BoundClass = BoundClass.LINEAR
    rows: LinearMap | None
    columns: LinearMap

    def row_weights(self, limit: int = DENSE_LIMIT) -> FloatArray | None:
        """The weights a on queries, written out (None at norm 2: all ones)."""
        return None if self.rows is None else self.rows.dense(limit)[:, 0]

    def column_weights(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The weights b on cells, written out."""
        return self.columns.dense(limit)[:, 0]


def dense_weights(a: FloatArray | None, b: FloatArray) -> DualWeights:
    """The certificate of weights that are written out."""
    return DualWeights(
        rows=None if a is None else Dense(a[:, None]),
        columns=Dense(b[:, None]),
    )


def uniform_weights(workload: Workload, norm: float) -> DualWeights:
    """The certificate of a workload whose queries are all alike, and its cells too."""
    power = 1 / dual_exponent(norm)
    return DualWeights(
        rows=uniform(workload.queries, power) if norm > 2 else None,
        columns=uniform(workload.size, 1.0),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(Solution):
    """A factorization of one part of a workload, in the units of its own queries.

    The strategy has sensitivity one; `inverse` is A⁺ on the workload's row space; `errors` gives
    ‖R_i‖, the standard deviation of every answer per unit of noise. `value` and `lower_bound` are
    p-th means over queries.
    """

    strategy: LinearMap
    inverse: LinearMap
    errors: Callable[[], FloatArray]
    certificate: DualWeights


@dataclass(frozen=True, eq=False, kw_only=True)
class Factorization(Part):
    """W = R·A with the least error found, and a lower bound on the error of every W = R·A.

    `value` is the p-th mean over queries of ‖R_i‖ times the sensitivity ‖A‖₁→₂ (the strategy is
    scaled to sensitivity one under the `neighbours` asked for); `lower_bound` is recomputed from
    the dual weights in `certificate` and rounded down, `value` is rounded up, so `gap` is never
    negative.
    """

    workload: Workload
    norm: float
    neighbours: str

    def _facts(self) -> list[tuple[str, str]]:
        return [("workload", self.workload.brief()), ("norm", f"{self.norm:g}"), *super()._facts()]

    def __post_init__(self) -> None:
        """No result survives that contradicts its bound or does not multiply back."""
        super().__post_init__()
        self._check_product()

    @property
    def subject(self) -> str:
        return f"factorization of {self.workload.brief()}"

    @cached_property
    def reconstruction(self) -> LinearMap:
        """Answers from measurements, R = W·A⁺."""
        free = self.neighbours == "replace-one"
        return Product(without_offsets(self.workload) if free else self.workload, self.inverse)

    def _check_product(self) -> None:
        """R·A = W on random histograms, up to PRODUCT_SLACK of a query's answers to them.

        Under replace-one neighbours on differences of histograms: constants of rows are free.
        Structured workloads too large for a dense strategy have closed forms and are not probed.
        """
        queries, size = self.workload.shape
        if size > _PROBED_CELLS or queries * size > DENSE_LIMIT:
            return
        asked = self.workload
        probes = np.random.default_rng(0).standard_normal((size, _PROBES))
        if self.neighbours == "replace-one":
            asked = without_offsets(asked)
            probes[-1] -= probes.sum(axis=0)
        answers = np.asarray(asked.matvec(probes), dtype=np.float64)
        seen = self.reconstruction.matvec(self.strategy.matvec(probes))
        sizes = np.abs(answers) + 1e-3 * np.abs(asked.matvec(np.abs(probes)))
        lost = np.abs(seen - answers).max(axis=1) - PRODUCT_SLACK * sizes.max(axis=1)
        if not (lost <= 0).all():  # NaN fails as well
            raise Contradiction(
                f"factorization of {asked.brief()}: query {int(lost.argmax())} does not come back "
                f"from the measurements; bring the queries to comparable sizes with weights"
            )

    def offsets(self) -> FloatArray:
        """What to add to every answer per person in the table: W = R·A + offsets·1ᵀ.

        Zero under add-remove neighbours. Under replace-one the number of people is public, so
        shifting a query costs nothing and the factorization is of the best shift.
        """
        if self.neighbours == "add-remove":
            return np.zeros(self.workload.queries)
        first = np.zeros(self.workload.size)
        first[0] = 1.0
        answers = np.asarray(self.workload.matvec(first), dtype=np.float64)
        return answers - self.reconstruction.matvec(self.strategy.matvec(first))


def worst_status(parts: Iterable[Solution]) -> Status:
    """How a search in parts ended: as the first that did not converge, if any."""
    return next((part.status for part in parts if not part.converged), Status.CONVERGED)


def without_offsets(workload: Workload) -> Workload:
    """The workload with every query of an explicit matrix shifted to zero at the last cell.

    Where the number of people is public, constants are free, and large ones would only round.
    """
    if isinstance(workload, Weighted | OnAttributes):
        return replace(workload, inner=without_offsets(workload.inner))
    if type(workload) is Stack:
        return replace(workload, parts=tuple(without_offsets(part) for part in workload.parts))
    if not isinstance(workload, Explicit):
        return workload
    rows = workload.dense()
    return Explicit(rows - rows[:, -1:])
