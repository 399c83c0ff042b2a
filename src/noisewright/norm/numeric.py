"""From a problem to a finished part: run the solver, then rebuild both bounds from its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from noisewright.norm import certificate
from noisewright.norm.factorization import Part, Settings, dense_weights, uniform_weights
from noisewright.norm.outward import mean_factor, outward
from noisewright.norm.problems import Factors
from noisewright.norm.solver import Problem, Weights, solve
from noisewright.workload.atoms import Explicit
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.linear import Adjoint, Dense, OnTable
from noisewright.workload.tensor import mean_error


class Solvable(Problem, Protocol):
    """A problem that can also build the factorization at chosen weights."""

    def factors(self, weights: Weights) -> Factors:
        """The factorization at these weights."""


Nuclear = Callable[[FloatArray | None, FloatArray], float]


def solve_numerically(
    workload: Workload, problem: Solvable, settings: Settings, nuclear: Nuclear | None = None
) -> Part:
    """Run the solver, then rebuild both bounds from the weights it returned.

    `nuclear` recomputes the lower bound from dual weights; by default from the workload's operator.
    """
    norm = settings.norm
    found = solve(
        problem,
        norm,
        tolerance=settings.tolerance,
        iterations=settings.iterations,
        start=settings.start,
        progress=settings.progress,
    )
    factors = problem.factors(found.primal)
    scale = mean_factor(workload.queries, norm)
    dual = found.dual
    if nuclear is None:
        bound = certificate.nuclear_from_operator(workload, dual.a, dual.b)
    else:
        bound = nuclear(dual.a, dual.b)
    return Part(
        strategy=Dense(factors.strategy),
        inverse=Dense(factors.inverse),
        errors=lambda: row_lengths(workload, factors.inverse),
        value=outward(_error(workload, factors.inverse, norm), workload.size),
        lower_bound=bound * scale,
        certificate=dense_weights(dual.a, dual.b),
        status=found.status,
        iterations=found.iterations,
        notes=rank_note(factors.strategy.shape[0], workload),
    )


def _error(workload: Workload, inverse: FloatArray, norm: float) -> float:
    """The p-th mean of ‖R_i‖, R = W·inverse; at norm 2 the Gram matrix is enough."""
    if norm == 2 and workload.queries > workload.size and not isinstance(workload, Explicit):
        total = np.sum(inverse * workload.gram().matvec(inverse))
        return float(np.sqrt(total / workload.queries))
    return mean_error(row_lengths(workload, inverse), norm)


def row_lengths(workload: Workload, inverse: FloatArray) -> FloatArray:
    """‖R_i‖ of R = W·inverse for every query; squares would blur explicit rows that cancel."""
    if workload.queries > 2 * workload.size and not isinstance(workload, Explicit):
        return np.sqrt(np.maximum(workload.row_quadratics(inverse @ inverse.T), 0.0))
    images = np.asarray(workload.matvec(inverse), dtype=np.float64)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", images, images)))


def rank_note(rank: int, workload: Workload) -> tuple[str, ...]:
    """How a rank-deficient workload was handled, if it is one."""
    full = min(workload.shape)
    if rank == full:
        return ()
    note = (
        f"rank {rank} of at most {full}: only the {rank} directions that queries use are measured"
    )
    return (note,)


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
