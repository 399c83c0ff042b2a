"""Structure first: each kind of workload is taken apart before any numerical solver sees it.

`solve_part` is dispatched on the workload's type. Products are solved factor by factor, weights
and summed-out attributes pass through, atoms have closed forms or fast spectral evaluations, and
only what remains is a dense problem.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from math import prod

import numpy as np

from noisewright.errors import TooLarge
from noisewright.norm.exact.explicit import solve_explicit, solve_tall
from noisewright.norm.exact.symmetric import (
    LARGEST_TRANSFORM,
    solve_family,
    solve_invariant,
)
from noisewright.norm.exact.tridiagonal import (
    PrefixProblem,
    prefix_gram_inverse,
    ranges_gram_inverse,
)
from noisewright.norm.kernel import certificate
from noisewright.norm.kernel.certificate import inward, outward
from noisewright.norm.kernel.factorization import (
    DualWeights,
    Part,
    Settings,
    Solvable,
    solve_numerically,
    uniform_weights,
    worst_status,
)
from noisewright.norm.kernel.problems import (
    LARGEST_EIGENPROBLEM,
    DenseProblem,
    GramProblem,
    RowwiseProblem,
)
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted
from noisewright.workload.kinds.atoms import Identity, Prefix, Ranges, Total
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import Marginals, OnAttributes
from noisewright.workload.kinds.parity import Parity
from noisewright.workload.linear.linear_map import LinearMap
from noisewright.workload.linear.maps import Adjoint, Kronecker, OnTable, Scaled
from noisewright.workload.linear.tensor import column_kron

# entries of a matrix that is held; above it rows are visited in blocks
LARGEST_DENSE = 2**24


@singledispatch
def solve_part(workload: Workload, settings: Settings) -> Part:
    """The best factorization of a workload, by its structure."""
    return _solve_generic(workload, settings)


def _solve_generic(workload: Workload, settings: Settings) -> Part:
    """The best factorization of a workload known only as an operator."""
    queries = workload.queries
    n = _checked_size(
        workload, "write it as products (*) of smaller workloads or as marginals"
    )
    problem: Solvable
    if settings.norm == 2 and queries > n:
        problem = GramProblem(workload.gram().dense())
    elif queries > 2 * n or queries * n > LARGEST_DENSE:
        problem = RowwiseProblem(workload)
    else:
        problem = DenseProblem(workload.dense())

    return solve_numerically(workload, problem, settings)


def _checked_size(workload: Workload, instead: str) -> int:
    size = workload.size
    if size > LARGEST_EIGENPROBLEM:
        raise TooLarge(
            f"workload {workload.brief()} has {size} cells in one piece; a dense strategy "
            f"is optimised up to {LARGEST_EIGENPROBLEM}; {instead}"
        )
    return size


@solve_part.register
def _solve_part_identity(workload: Identity, settings: Settings) -> Part:
    return Part(
        strategy=workload,
        inverse=workload,
        errors=lambda: np.ones(workload.size),
        value=1.0,
        lower_bound=1.0,
        certificate=uniform_weights(workload, settings.norm),
    )


@solve_part.register
def _solve_part_total(workload: Total, settings: Settings) -> Part:
    return Part(
        strategy=workload,
        inverse=Scaled(1 / workload.size, Adjoint(workload)),
        errors=lambda: np.ones(1),
        value=1.0,
        lower_bound=1.0,
        certificate=uniform_weights(workload, settings.norm),
    )


@solve_part.register
def _solve_part_prefix(workload: Prefix, settings: Settings) -> Part:
    n = _checked_size(workload, "release it step by step (nw.RunningCount)")
    problem = prefix_gram_inverse(n) if settings.norm == 2 else PrefixProblem(n)
    return solve_numerically(workload, problem, settings, certificate.nuclear_of_prefix)


@solve_part.register
def _solve_part_ranges(workload: Ranges, settings: Settings) -> Part:
    n = _checked_size(workload, "coarsen the domain")
    if settings.norm > 2:
        return solve_numerically(workload, RowwiseProblem(workload), settings)

    problem = ranges_gram_inverse(n)
    return solve_numerically(workload, problem, settings, certificate.nuclear_of_ranges)


@solve_part.register
def _solve_part_explicit(workload: Explicit, settings: Settings) -> Part:
    tall = solve_tall(workload, settings)
    return solve_explicit(workload, settings) if tall is None else tall


@solve_part.register
def _solve_part_parity(workload: Parity, settings: Settings) -> Part:
    # The rows are orthogonal with entries ±1, so the workload itself, scaled, is optimal.
    queries, n = workload.shape
    length = float(np.sqrt(queries))
    return Part(
        strategy=Scaled(1 / length, workload),
        inverse=Scaled(length / n, Adjoint(workload)),
        errors=lambda: np.full(queries, length),
        value=outward(length, 1),
        lower_bound=inward(length, 1),
        certificate=uniform_weights(workload, settings.norm),
    )


@solve_part.register
def _solve_part_weighted(workload: Weighted, settings: Settings) -> Part:
    return reweighted_factorization(
        workload.weight, solve_part(workload.inner, settings)
    )


def reweighted_factorization(weight: float, inner: Part) -> Part:
    """The same factorization when every answer counts `weight` times as much."""
    return replace(
        inner,
        errors=lambda: weight * inner.errors(),
        value=outward(weight * inner.value, 1),
        lower_bound=inward(weight * inner.lower_bound, 1),
    )


@solve_part.register
def _solve_part_on_attributes(workload: OnAttributes, settings: Settings) -> Part:
    # A warm start is over the whole domain, the inner problem over one table.
    return on_attributes(
        workload, solve_part(workload.inner, replace(settings, start=None))
    )


def on_attributes(workload: OnAttributes, inner: Part) -> Part:
    """The factorization on a marginal table, spread over the attributes that are summed out."""
    sizes = workload.sizes
    attributes = workload.attributes
    repeats = workload.size // workload.inner.size

    def spread_out(operator: LinearMap) -> LinearMap:
        table = OnTable(sizes, attributes, Adjoint(operator))
        return Scaled(1 / repeats, Adjoint(table))

    weights = inner.certificate
    # weights of pairs stay those of its pairs
    if weights.columns.shape[0] == workload.inner.size:
        weights = replace(weights, columns=spread_out(weights.columns))

    return replace(
        inner,
        strategy=OnTable(sizes, attributes, inner.strategy),
        inverse=spread_out(inner.inverse),
        certificate=weights,
    )


@solve_part.register(Stack)
@solve_part.register(Marginals)
def _solve_part_stack_or_marginals(workload: Workload, settings: Settings) -> Part:
    family = workload.structure.tables
    if family is not None:
        return solve_family(workload, family, settings)

    axes = workload.invariant_axes
    if settings.norm == 2 and axes is not None and workload.size <= LARGEST_TRANSFORM:
        return solve_invariant(workload, axes)
    return _solve_generic(workload, settings)


@solve_part.register
def _solve_part_kron(workload: Kron, settings: Settings) -> Part:
    factors = workload.factors
    # Relative gaps add up, so each factor has to do better than the whole.
    share = settings.tolerance / len(factors)
    finer = replace(settings, tolerance=share, start=None)
    solved = {factor: solve_part(factor, finer) for factor in dict.fromkeys(factors)}
    parts = [solved[factor] for factor in factors]
    proofs = [part.certificate for part in parts]

    rows = [proof.rows for proof in proofs if proof.rows is not None]
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return Part(
        strategy=Kronecker(tuple(part.strategy for part in parts)),
        inverse=Kronecker(tuple(part.inverse for part in parts)),
        errors=lambda: column_kron([part.errors() for part in parts]),
        value=outward(prod(part.value for part in parts), len(parts)),
        lower_bound=inward(prod(part.lower_bound for part in parts), len(parts)),
        certificate=DualWeights(
            rows=Kronecker(tuple(rows)) if settings.norm > 2 else None,
            columns=Kronecker(tuple(proof.columns for proof in proofs)),
        ),
        status=worst_status(parts),
        iterations=sum(part.iterations for part in solved.values()),
        notes=tuple(notes),
    )
