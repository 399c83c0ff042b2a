"""Closed forms by symmetry: families of marginal tables, Gram matrices that shifts do not change.

At norm 2, where shifts of the cells leave the Gram matrix M unchanged, M^¼ is optimal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge
from noisewright.norm.exact.residual_basis import ResidualSolution, residual_plan
from noisewright.norm.kernel.certificate import EPSILON, inward, outward
from noisewright.norm.kernel.factorization import (
    DualWeights,
    Part,
    Settings,
    nothing_asked,
    uniform_weights,
)
from noisewright.norm.kernel.solver import mean_factor
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Identity
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.linear_map import LinearMap
from noisewright.workload.linear.maps import (
    Adjoint,
    Dense,
    Invariant,
    Kronecker,
    OnTable,
    Repeated,
    Scaled,
    Stacked,
    characters,
    uniform,
)
from noisewright.workload.linear.tensor import DENSE_LIMIT
from noisewright.workload.structure import Term


def solve_family(workload: Workload, parts: list[Term], settings: Settings) -> Part:
    """The exact optimum of a family of tables, as one part of a factorization."""
    solution = residual_plan(
        workload.structure.sizes,
        [part.attributes for part in parts],
        [part.weight for part in parts],
        settings.norm,
        neighbours=settings.neighbours,
        tolerance=settings.tolerance,
        iterations=settings.iterations,
    )
    if not solution.blocks:
        return nothing_asked(workload, settings.norm)

    return Part(
        strategy=ResidualStrategy(solution),
        inverse=_inverse(solution),
        errors=lambda: _errors(solution),
        value=solution.value,
        lower_bound=solution.lower_bound,
        certificate=_spread_weights(solution),
        status=solution.status,
        iterations=solution.iterations,
    )


def _spread_weights(solution: ResidualSolution) -> DualWeights:
    """Weights of tables as weights of queries; of cells, or of pairs by where they differ."""
    tables = solution.certificate.tables
    pairs = solution.certificate.pairs
    columns = uniform(math.prod(solution.sizes), 1.0)
    if pairs is not None:
        columns = Dense(np.array(list(pairs.values()))[:, None])
    rows = Repeated(tables, solution.table_cells) if solution.norm > 2 else None
    return DualWeights(rows=rows, columns=columns)


@dataclass(frozen=True, eq=False)
class ResidualStrategy(LinearMap):
    """Orthonormal contrasts of every block of attributes, each block with its own noise level."""

    solution: ResidualSolution

    @cached_property
    def blocks(self) -> Stacked:
        """One operator per block: its contrasts divided by its standard deviation."""
        sizes = self.solution.sizes
        return Stacked(
            tuple(
                Scaled(1 / math.sqrt(variance), _contrasts(sizes, block))
                for block, variance in _by_block(self.solution)
            )
        )

    @property
    def shape(self) -> tuple[int, int]:
        freedom = [size - 1 for size in self.solution.sizes]
        blocks = self.solution.blocks
        rows = sum(math.prod(freedom[i] for i in block) for block in blocks)
        return rows, math.prod(self.solution.sizes)

    def matvec(self, x: FloatArray) -> FloatArray:
        return self.blocks.matvec(x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        return self.blocks.rmatvec(y)

    def column_norms(self, order: int = 2) -> FloatArray:
        if order == 1:
            return super().column_norms(order)
        return np.full(self.shape[1], self.sensitivity())

    def _largest_norm(self, order: int) -> float:
        """(Σ_T Π_{i∈T}(1 − 1/n_i)/σ_T²)^½: all cells are alike."""
        if order == 1:
            return super()._largest_norm(order)

        sizes = self.solution.sizes
        terms = (
            math.prod(1 - 1 / sizes[i] for i in block) / variance
            for block, variance in _by_block(self.solution)
        )
        return math.sqrt(math.fsum(terms))


def _inverse(solution: ResidualSolution) -> LinearMap:
    """A⁺: each block's contrasts spread back over the cells."""
    sizes = solution.sizes
    parts = []
    for block, variance in _by_block(solution):
        share = math.prod(sizes[i] for i in block) / math.prod(sizes)
        parts.append(Scaled(math.sqrt(variance) * share, _contrasts(sizes, block)))

    return Adjoint(Stacked(tuple(parts)))


def _by_block(solution: ResidualSolution) -> zip[tuple[Table, float]]:
    return zip(solution.blocks, solution.block_variances.tolist(), strict=True)


def _contrasts(sizes: tuple[int, ...], block: Table) -> LinearMap:
    """Orthonormal contrasts of a block's table; the total for the empty block."""
    factors = tuple(Dense(helmert(sizes[i])) for i in block)
    return OnTable(sizes, block, Kronecker(factors) if block else Identity(1))


def helmert(size: int) -> FloatArray:
    """size − 1 orthonormal rows, each orthogonal to the constant."""
    if size**2 > DENSE_LIMIT:
        raise TooLarge(
            f"contrasts of an attribute of {size} values have {size**2:.3g} entries, more than the "
            f"limit of {DENSE_LIMIT}; coarsen the attribute"
        )

    row, column = np.ogrid[1:size, :size]
    raw = np.where(column < row, 1.0, np.where(column == row, -row, 0.0))
    return raw / np.sqrt(row * (row + 1.0))


def _errors(solution: ResidualSolution) -> FloatArray:
    deviations = np.sqrt(solution.table_variances) * np.array(solution.weights)
    return np.repeat(deviations, solution.table_cells)


LARGEST_TRANSFORM = 2**26  # cells


def solve_invariant(workload: Workload, axes: tuple[int, ...]) -> Part:
    """The closed form: uniform weights, strategy M^¼."""
    first = np.zeros(workload.size)
    first[0] = 1.0
    column = np.asarray(workload.gram().matvec(first), dtype=np.float64)
    return solve_spectrum(workload, axes, characters(axes, column))


def solve_spectrum(
    workload: Workload, axes: tuple[int, ...], values: FloatArray
) -> Part:
    """The closed form from the eigenvalues of the Gram matrix."""
    n = workload.size
    # Rounding in the transform is absolute: what lies below it is a direction nobody asks about.
    margin = 8 * math.log2(n + 1) * EPSILON * float(values.max())
    roots = np.sqrt(np.where(values > 2 * margin, values, 0.0))
    total = float(roots.sum())
    lower = float(np.sqrt(np.maximum(values - margin, 0.0)).sum())
    mean = mean_factor(workload.queries, 2) / math.sqrt(n)

    unit = math.sqrt(n / total)
    halves = np.sqrt(roots)
    inverse = np.divide(1.0, halves, out=np.zeros(n), where=halves > 0) / unit

    def errors() -> FloatArray:
        covariance = Invariant(axes, inverse**2).matvec(np.eye(n))
        return np.sqrt(np.maximum(workload.row_quadratics(covariance), 0.0))

    rank = int(np.count_nonzero(roots))
    note = f"rank {rank} of {n} cells: only the directions that the queries use carry noise"
    return Part(
        strategy=Invariant(axes, unit * halves),
        inverse=Invariant(axes, inverse),
        errors=errors,
        value=outward(total * mean, n),
        lower_bound=inward(lower * mean, int(math.log2(n)) + 2),
        certificate=uniform_weights(workload, 2),
        notes=() if rank == n else (note,),
    )
