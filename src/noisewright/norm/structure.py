"""Structure first: each kind of workload is taken apart before any numerical solver sees it.

`solve_part` is dispatched on the workload's type. Products are solved factor by factor, weights
and summed-out attributes pass through, atoms have closed forms or fast spectral evaluations, and
only what remains is a dense problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from math import prod
from typing import Protocol

import numpy as np

from noisewright.errors import TooLarge
from noisewright.norm import certificate
from noisewright.norm.families import attribute_sizes, marginal_family, solve_family
from noisewright.norm.operators import (
    Adjoint,
    Dense,
    Eye,
    Kronecker,
    OnTable,
    Operator,
    Scaled,
    uniform,
)
from noisewright.norm.problems import (
    DenseProblem,
    Factors,
    GramProblem,
    PrefixProblem,
    RangesProblem,
    prefix_gram_inverse,
    ranges_gram_inverse,
)
from noisewright.norm.result import Settings, Solved
from noisewright.norm.rounding import inward, mean_factor, outward
from noisewright.norm.solver import Problem, Weights, dual_exponent, error_norm, solve
from noisewright.workload.algebra import Kron, Stack, Weighted
from noisewright.workload.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.marginals import Marginals, OnAttributes
from noisewright.workload.tensor import column_kron

LARGEST_EIGENPROBLEM = 8192  # cells; 0.5 GB per matrix, minutes per step
LARGEST_ROWS = 2**26  # entries of an explicit matrix of rows


class _Solvable(Problem, Protocol):
    def factors(self, weights: Weights) -> Factors:
        """The factorization at these weights."""


def column(values: FloatArray) -> Operator:
    """A weight vector as a one-column operator."""
    return Dense(values[:, None])


@singledispatch
def solve_part(workload: Workload, settings: Settings) -> Solved:
    """The best factorization of a workload, by its structure."""
    return solve_generic(workload, settings)


def solve_generic(workload: Workload, settings: Settings) -> Solved:
    """The best factorization of a workload known only as an operator."""
    norm, n = settings.norm, workload.size
    if n > LARGEST_EIGENPROBLEM:
        raise TooLarge(
            f"workload {workload.brief()} has {n} cells and no structure that a solver could use; "
            f"the limit is {LARGEST_EIGENPROBLEM}; write it as products (*) of smaller workloads "
            f"or as marginals, or coarsen the domain"
        )
    if norm == 2 and workload.queries > n:
        return solve_numerically(workload, GramProblem(workload.gram().dense()), settings)
    if workload.queries * n > LARGEST_ROWS:
        raise TooLarge(
            f"workload {workload.brief()} has {workload.queries} x {n} entries, more than the "
            f"limit of {LARGEST_ROWS} at norm {norm:g}; use norm 2, or a structured workload"
        )
    return solve_numerically(workload, DenseProblem(workload.dense(LARGEST_ROWS)), settings)


def solve_numerically(
    workload: Workload,
    problem: _Solvable,
    settings: Settings,
    quadratic: Callable[[FloatArray], FloatArray] | None = None,
    nuclear: Callable[[FloatArray | None, FloatArray], float] | None = None,
) -> Solved:
    """Run the solver, then rebuild both bounds from the weights it returned."""
    norm = settings.norm
    found = solve(
        problem,
        norm,
        tolerance=settings.tolerance,
        iterations=settings.iterations,
        start=settings.start,
    )
    factors = problem.factors(found.primal)
    squares = row_squares(workload, factors.inverse, norm, quadratic)
    scale = mean_factor(workload.queries, norm)
    if nuclear is None:
        bound = certificate.nuclear_from_operator(workload, found.dual.a, found.dual.b)
    else:
        bound = nuclear(found.dual.a, found.dual.b)
    return Solved(
        strategy=Dense(factors.strategy),
        inverse=Dense(factors.inverse),
        errors=lambda: np.sqrt(row_squares(workload, factors.inverse, math.inf, quadratic)),
        value=outward(error_norm(squares, norm) * scale, workload.size),
        bound=bound * scale,
        rows=None if found.dual.a is None else column(found.dual.a),
        columns=column(found.dual.b),
        iterations=found.iterations,
        converged=found.converged,
        notes=_rank_note(factors, workload),
    )


def row_squares(
    workload: Workload,
    inverse: FloatArray,
    norm: float,
    quadratic: Callable[[FloatArray], FloatArray] | None,
) -> FloatArray:
    """‖R_i‖² of R = W·inverse for every query (at norm 2 only their sum, when that is cheaper)."""
    if quadratic is not None:
        return np.maximum(quadratic(inverse @ inverse.T), 0.0)
    if norm == 2 and workload.queries > workload.size:
        return np.array([np.sum(inverse * workload.gram().matvec(inverse))])
    block = max(1, 2**24 // max(1, workload.queries))
    total = np.zeros(workload.queries)
    for start in range(0, inverse.shape[1], block):
        images = np.asarray(workload.matvec(inverse[:, start : start + block]), dtype=np.float64)
        total += np.einsum("ij,ij->i", images, images)
    return total


def _rank_note(factors: Factors, workload: Workload) -> tuple[str, ...]:
    rank, full = factors.strategy.shape[0], min(workload.shape)
    if rank == full:
        return ()
    return (
        f"rank {rank} of at most {full}: the strategy measures only the {rank} directions that "
        f"the queries use",
    )


@solve_part.register
def _(workload: Identity, settings: Settings) -> Solved:
    n, norm = workload.size, settings.norm
    a_power = 1 / dual_exponent(norm) if norm > 2 else 0.0
    return Solved(
        strategy=Eye(n),
        inverse=Eye(n),
        errors=lambda: np.ones(n),
        value=1.0,
        bound=1.0,
        rows=uniform(n, a_power) if norm > 2 else None,
        columns=uniform(n, 1.0),
    )


@solve_part.register
def _(workload: Total, settings: Settings) -> Solved:
    n = workload.size
    return Solved(
        strategy=OnTable((n,), (), Eye(1)),
        inverse=Scaled(1 / n, Adjoint(OnTable((n,), (), Eye(1)))),
        errors=lambda: np.ones(1),
        value=1.0,
        bound=1.0,
        rows=uniform(1, 0.0) if settings.norm > 2 else None,
        columns=uniform(n, 1.0),
    )


@solve_part.register
def _(workload: Prefix, settings: Settings) -> Solved:
    n = workload.size
    problem = prefix_gram_inverse(n) if settings.norm == 2 else PrefixProblem(n)
    return solve_numerically(workload, problem, settings, nuclear=certificate.nuclear_of_prefix)


@solve_part.register
def _(workload: Ranges, settings: Settings) -> Solved:
    rows = RangesProblem(workload.size)
    problem = ranges_gram_inverse(workload.size) if settings.norm == 2 else rows
    return solve_numerically(workload, problem, settings, rows.quadratic)


@solve_part.register
def _(workload: Weighted, settings: Settings) -> Solved:
    inner = solve_part(workload.inner, settings)
    weight = workload.weight
    return Solved(
        strategy=inner.strategy,
        inverse=inner.inverse,
        errors=lambda: weight * inner.errors(),
        value=outward(weight * inner.value, 1),
        bound=inward(weight * inner.bound, 1),
        rows=inner.rows,
        columns=inner.columns,
        iterations=inner.iterations,
        converged=inner.converged,
        notes=inner.notes,
    )


@solve_part.register
def _(workload: OnAttributes, settings: Settings) -> Solved:
    inner = solve_part(workload.inner, settings)
    sizes, attributes = workload.sizes, workload.attributes
    repeats = workload.size // workload.inner.size

    def spread_out(operator: Operator) -> Operator:
        return Scaled(1 / repeats, Adjoint(OnTable(sizes, attributes, Adjoint(operator))))

    return Solved(
        strategy=OnTable(sizes, attributes, inner.strategy),
        inverse=spread_out(inner.inverse),
        errors=inner.errors,
        value=inner.value,
        bound=inner.bound,
        rows=inner.rows,
        columns=spread_out(inner.columns),
        iterations=inner.iterations,
        converged=inner.converged,
        notes=inner.notes,
    )


@solve_part.register(Stack)
@solve_part.register(Marginals)
def _(workload: Workload, settings: Settings) -> Solved:
    family = marginal_family(workload)
    if family is not None:
        sizes = attribute_sizes(workload)
        assert sizes is not None
        return solve_family(sizes, family, settings)
    return solve_generic(workload, settings)


@solve_part.register
def _(workload: Kron, settings: Settings) -> Solved:
    # Relative gaps add up, so each factor has to do better than the whole.
    share = replace(settings, tolerance=settings.tolerance / len(workload.factors), start=None)
    solved = {factor: solve_part(factor, share) for factor in dict.fromkeys(workload.factors)}
    parts = [solved[factor] for factor in workload.factors]
    rows = [part.rows for part in parts if part.rows is not None]
    return Solved(
        strategy=Kronecker(tuple(part.strategy for part in parts)),
        inverse=Kronecker(tuple(part.inverse for part in parts)),
        errors=lambda: column_kron([part.errors() for part in parts]),
        value=outward(prod(part.value for part in parts), len(parts)),
        bound=inward(prod(part.bound for part in parts), len(parts)),
        rows=Kronecker(tuple(rows)) if settings.norm > 2 else None,
        columns=Kronecker(tuple(part.columns for part in parts)),
        iterations=sum(part.iterations for part in solved.values()),
        converged=all(part.converged for part in parts),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )
