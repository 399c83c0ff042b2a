"""A factorization of one part of a workload: what solvers return, and the numerical one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.norm.kernel import certificate
from noisewright.norm.kernel.certificate import outward
from noisewright.norm.kernel.problems import Factors
from noisewright.norm.kernel.solver import (
    FixedPoint,
    Problem,
    Progress,
    Weights,
    dual_exponent,
    mean_factor,
    solve,
)
from noisewright.solution import BoundClass, Certificate, Solution, Status
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Stack, Weighted
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.linear.linear_map import LinearMap
from noisewright.workload.linear.maps import Adjoint, Dense, OnTable, uniform
from noisewright.workload.linear.tensor import DENSE_LIMIT, mean_error


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
    rows = None if a is None else Dense(a[:, None])
    return DualWeights(rows=rows, columns=Dense(b[:, None]))


def uniform_weights(workload: Workload, norm: float) -> DualWeights:
    """The certificate of a workload whose queries are all alike, and its cells too."""
    power = 1 / dual_exponent(norm)
    rows = uniform(workload.queries, power) if norm > 2 else None
    return DualWeights(rows=rows, columns=uniform(workload.size, 1.0))


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
        return replace(workload, parts=tuple(map(without_offsets, workload.parts)))
    if not isinstance(workload, Explicit):
        return workload

    rows = workload.dense()
    return Explicit(rows - rows[:, -1:])


class Solvable(Problem, Protocol):
    """A problem that can also build the factorization at chosen weights."""

    def factors(self, weights: Weights) -> Factors:
        """The factorization at these weights."""


Nuclear = Callable[[FloatArray | None, FloatArray], float]


def solve_numerically(
    workload: Workload,
    problem: Solvable,
    settings: Settings,
    nuclear: Nuclear | None = None,
) -> Part:
    """Run the solver, then rebuild both bounds from the weights it returned.

    `nuclear` recomputes the lower bound from dual weights; by default from the workload's operator.
    """
    point = run_solver(problem, settings)
    factors = problem.factors(point.primal)
    inverse = factors.inverse
    queries, size = workload.shape
    if settings.norm == 2 and queries > size and not isinstance(workload, Explicit):
        # The Gram matrix is enough.
        total = np.sum(inverse * workload.gram().matvec(inverse))
        error = float(np.sqrt(total / queries))
    else:
        error = mean_error(row_lengths(workload, inverse), settings.norm)

    nuclear = nuclear or partial(certificate.nuclear_from_operator, workload)
    bound = nuclear(point.dual.a, point.dual.b)
    notes = _rank_note(len(factors.strategy), min(queries, size))
    return solved_part(workload, factors, point, error, bound, settings.norm, notes)


def run_solver(problem: Problem, settings: Settings) -> FixedPoint:
    """The solver's best points, with the effort that is asked for."""
    return solve(
        problem,
        settings.norm,
        tolerance=settings.tolerance,
        iterations=settings.iterations,
        start=settings.start,
        progress=settings.progress,
    )


def solved_part(
    workload: Workload,
    factors: Factors,
    point: FixedPoint,
    error: float,
    bound: float,
    norm: float,
    notes: tuple[str, ...] = (),
) -> Part:
    """What the solver found; `bound` is that of the sum over queries, `error` a mean over them."""
    return Part(
        strategy=Dense(factors.strategy),
        inverse=Dense(factors.inverse),
        errors=lambda: row_lengths(workload, factors.inverse),
        value=outward(error, workload.size),
        lower_bound=bound * mean_factor(workload.queries, norm),
        certificate=dense_weights(point.dual.a, point.dual.b),
        status=point.status,
        iterations=point.iterations,
        notes=notes,
    )


def row_lengths(workload: Workload, inverse: FloatArray) -> FloatArray:
    """‖R_i‖ of R = W·inverse for every query; squares would blur explicit rows that cancel."""
    queries, size = workload.shape
    if isinstance(workload, Explicit):
        squares = workload.image_squares(inverse)
    elif queries > 2 * size:
        squares = np.maximum(workload.row_quadratics(inverse @ inverse.T), 0.0)
    else:
        images = np.asarray(workload.matvec(inverse), dtype=np.float64)
        squares = np.einsum("ij,ij->i", images, images)

    return np.sqrt(squares)


def _rank_note(rank: int, full: int) -> tuple[str, ...]:
    """How a rank-deficient workload was handled, if it is one."""
    if rank == full:
        return ()
    used = f"only the {rank} directions that queries use are measured"
    return (f"rank {rank} of at most {full}: {used}",)


def nothing_asked(workload: Workload, norm: float) -> Part:
    """A workload of zeros: no measurement, no error."""
    queries, size = workload.shape
    empty = OnTable((size,), (), Dense(np.zeros((0, 1))))  # of any size
    return Part(
        strategy=empty,
        inverse=Adjoint(empty),
        errors=lambda: np.zeros(queries),
        value=0.0,
        certificate=uniform_weights(workload, norm),
        notes=("every answer is known beforehand: nothing needs to be measured",),
    )
