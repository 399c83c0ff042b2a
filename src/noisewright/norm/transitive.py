"""Transitive symmetry at norm 2: when shifts leave the Gram matrix unchanged, M^¼ is optimal."""

from __future__ import annotations

import math

import numpy as np

from noisewright.norm.factorization import Part, uniform_weights
from noisewright.norm.outward import EPSILON, inward, mean_factor, outward
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.linear import Invariant, characters

LARGEST_TRANSFORM = 2**26  # cells


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
        return np.sqrt(np.maximum(workload.row_quadratics(flat), 0.0))

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
