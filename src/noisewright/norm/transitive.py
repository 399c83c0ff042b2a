"""Transitive symmetry at norm 2: when shifts leave the Gram matrix unchanged, M^¼ is optimal."""

from __future__ import annotations

import math

import numpy as np

from noisewright.norm.blocks import Invariant, characters
from noisewright.norm.factorization import Part, uniform_weights
from noisewright.norm.outward import EPSILON, inward, mean_factor, outward
from noisewright.workload.algebra import Kron, Stack, Weighted
from noisewright.workload.atoms import Identity, Parity, Total
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.marginals import Marginals, OnAttributes
from noisewright.workload.quadratics import row_quadratics

LARGEST_TRANSFORM = 2**26  # cells


def invariant_axes(workload: Workload) -> tuple[int, ...] | None:
    """Axes along which cyclic shifts leave the workload's Gram matrix unchanged, if it shows any.

    Read from the workload's form alone: counts, totals and parities, their products and stacks.
    """
    if isinstance(workload, Weighted):
        return invariant_axes(workload.inner)
    if isinstance(workload, Parity):
        return (2,) * workload.bits
    if isinstance(workload, (Identity, Total)):
        return (workload.size,)
    if isinstance(workload, Marginals):
        return workload.sizes if workload.is_identity else None
    if isinstance(workload, OnAttributes):
        inner = invariant_axes(workload.inner)
        asked = tuple(workload.sizes[i] for i in workload.attributes)
        return workload.sizes if inner in (asked, (math.prod(asked),)) else None
    if isinstance(workload, Kron):
        axes = [invariant_axes(factor) for factor in workload.factors]
        return None if None in axes else tuple(n for part in axes if part for n in part)
    if isinstance(workload, Stack):
        parts = [(invariant_axes(part), part) for part in workload.parts]
        finest = max((axes or () for axes, _ in parts), key=len)
        return finest if all(_fits(axes, part, finest) for axes, part in parts) else None
    return None


def _fits(axes: tuple[int, ...] | None, part: Workload, finest: tuple[int, ...]) -> bool:
    """Whether shifts along the finest axes leave this part unchanged as well."""
    inner = part.inner if isinstance(part, Weighted) else part
    # An undivided histogram or total is unchanged by every permutation of the cells.
    return axes == finest or isinstance(inner, (Identity, Total))


def solve_invariant(workload: Workload, axes: tuple[int, ...]) -> Part:
    """The closed form: uniform weights, strategy M^¼."""
    first = np.zeros(workload.size)
    first[0] = 1.0
    column = np.asarray(workload.gram().matvec(first), dtype=np.float64)
    return solve_spectrum(workload, axes, characters(axes, column))


def solve_spectrum(workload: Workload, axes: tuple[int, ...], values: FloatArray) -> Part:
    """The closed form from the eigenvalues of the Gram matrix."""
    n = workload.size
    # Rounding in the transform is absolute: what lies below it is a direction nobody asks about.
    margin = 8 * math.log2(n + 1) * EPSILON * float(values.max())
    roots = np.sqrt(np.where(values > 2 * margin, values, 0.0))
    total = float(roots.sum())
    lower = float(np.sqrt(np.maximum(values - margin, 0.0)).sum())
    scale = mean_factor(workload.queries, 2) / math.sqrt(n)
    unit = math.sqrt(n / total)
    halves = np.sqrt(roots)
    inverse = np.divide(1.0, halves, out=np.zeros(n), where=halves > 0) / unit

    def errors() -> FloatArray:
        flat = Invariant(axes, inverse**2).matvec(np.eye(n))
        return np.sqrt(np.maximum(row_quadratics(workload, flat), 0.0))

    rank = int(np.count_nonzero(roots))
    note = f"rank {rank} of {n} cells: only the directions that the queries use carry noise"
    return Part(
        strategy=Invariant(axes, unit * halves),
        inverse=Invariant(axes, inverse),
        errors=errors,
        value=outward(total * scale, n),
        lower_bound=inward(lower * scale, int(math.log2(n)) + 2),
        certificate=uniform_weights(workload, 2),
        notes=() if rank == n else (note,),
    )
