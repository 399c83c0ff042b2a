"""Workloads that are families of marginal tables, however they were written, and their strategy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.errors import TooLarge
from noisewright.norm.factorization import DualWeights, Part, Settings
from noisewright.norm.numeric import nothing_asked
from noisewright.norm.residual_basis import ResidualSolution, residual_plan
from noisewright.workload.atoms import Identity
from noisewright.workload.base import DENSE_LIMIT, FloatArray, Workload
from noisewright.workload.linear import (
    Adjoint,
    Dense,
    Kronecker,
    LinearMap,
    OnTable,
    Repeated,
    Scaled,
    Stacked,
    uniform,
)
from noisewright.workload.marginals import Table
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
    tables, pairs = solution.certificate.tables, solution.certificate.pairs
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
        return Stacked(
            tuple(
                Scaled(1 / math.sqrt(variance), _contrasts(self.solution.sizes, block))
                for block, variance in _by_block(self.solution)
            )
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Contrasts and cells."""
        sizes = self.solution.sizes
        rows = sum(math.prod(sizes[i] - 1 for i in block) for block in self.solution.blocks)
        return rows, math.prod(sizes)

    def matvec(self, x: FloatArray) -> FloatArray:
        """Contrasts of every block's table."""
        return self.blocks.matvec(x)

    def rmatvec(self, y: FloatArray) -> FloatArray:
        """Adjoint."""
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
    sizes, size = solution.sizes, math.prod(solution.sizes)
    parts = (
        Scaled(
            math.sqrt(variance) * math.prod(sizes[i] for i in block) / size,
            _contrasts(sizes, block),
        )
        for block, variance in _by_block(solution)
    )
    return Adjoint(Stacked(tuple(parts)))


def _by_block(solution: ResidualSolution) -> zip[tuple[Table, float]]:
    return zip(solution.blocks, solution.block_variances.tolist(), strict=True)


def _contrasts(sizes: tuple[int, ...], block: Table) -> LinearMap:
    """Orthonormal contrasts of a block's table; the total for the empty block."""
    inner = Kronecker(tuple(Dense(helmert(sizes[i])) for i in block)) if block else Identity(1)
    return OnTable(sizes, block, inner)


def helmert(size: int) -> FloatArray:
    """size − 1 orthonormal rows, each orthogonal to the constant."""
    if size**2 > DENSE_LIMIT:
        raise TooLarge(
            f"contrasts of an attribute of {size} values have {size**2:.3g} entries, more than the "
            f"limit of {DENSE_LIMIT}; coarsen the attribute"
        )
    row, column = np.ogrid[1:size, :size]
    raw = np.where(column < row, 1.0, np.where(column == row, -row, 0.0))
    return np.asarray(raw / np.sqrt(row * (row + 1.0)))


def _errors(solution: ResidualSolution) -> FloatArray:
    deviations = np.sqrt(solution.table_variances) * np.array(solution.weights)
    return np.repeat(deviations, solution.table_cells)
