"""Families of marginal tables, solved exactly in the residual basis for any attribute sizes.

The family of tables S is left unchanged by permuting the values of any attribute, so uniform
column weights are optimal at every norm and the row weights are one number a_S per table. In the
residual (interaction) basis the weighted Gram matrix is diagonal: block T, of multiplicity
m_T = Π_{i∈T}(n_i − 1), has g_T² = Σ_{S⊇T} a_S w_S² / Q_S with Q_S = Π_{i∈S} n_i. The dual value is
f = Σ_T m_T g_T; the strategy that belongs to it gives block T the noise variance σ_T² = f/(Q_T g_T)
and a cell of table S the variance f·Q_S⁻² Σ_{T⊆S} m_T/g_T. At norm 2 every a_S is one: a closed
form. Nothing here ever visits a cell of the domain.

Replace-one neighbours put weights β_D on pairs of cells that differ in exactly the attributes D.
Their Laplacian is diagonal in the same basis, with c_T² = Σ_D β_D·2(1 − Π_{i∈T∩D} −1/(n_i − 1)),
and c_T g_T takes the place of g_T. The total's block has c = 0: the number of people is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, require
from noisewright.norm.kernel.certificate import nuclear_of_marginals, outward
from noisewright.norm.kernel.solver import (
    FixedPoint,
    Spectrum,
    Weights,
    dual_exponent,
    mean_factor,
    solve,
)
from noisewright.solution import BoundClass, Certificate, Solution, Status
from noisewright.workload.linear.interactions import subsets_of
from noisewright.workload.linear.linear_map import check_neighbours
from noisewright.workload.linear.tensor import mean_error

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Table = tuple[int, ...]

# attributes whose 2^10 patterns of difference are weighted one by one
MOST_PATTERNED = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class TableWeights(Certificate):
    """The dual weight of a query of each table, and uniform weights on cells.

    Under replace-one neighbours instead of the latter the weight of all `pairs` of cells that
    differ in given attributes.
    """

    name: str = "weighted nuclear norm"
    bound_class: BoundClass = BoundClass.LINEAR
    tables: FloatArray
    pairs: dict[Table, float] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ResidualSolution(Solution):
    """The optimal Gaussian strategy for a family of marginals, at sensitivity one.

    Block T measures ⊗_{i∈T}(I − 11ᵀ/n_i) ⊗_{i∉T} 1ᵀ with noise covariance σ_T² times that
    projection; a cell of table S is then answered with variance `table_variances[S]` (before its
    weight). `value` and `lower_bound` are p-th means over all weighted cells asked.
    """

    sizes: tuple[int, ...]
    tables: tuple[Table, ...]
    weights: tuple[float, ...]
    norm: float
    neighbours: str
    blocks: tuple[Table, ...]
    block_variances: FloatArray
    table_variances: FloatArray
    certificate: TableWeights

    @cached_property
    def table_cells(self) -> tuple[int, ...]:
        """Number of cells of each table."""
        return tuple(_product(self.sizes, table) for table in self.tables)


def residual_plan(
    sizes: Sequence[int],
    tables: Sequence[Table],
    weights: Sequence[float] | None = None,
    norm: float = 2,
    *,
    neighbours: str = "add-remove",
    tolerance: float = 5e-7,
    iterations: int = 2000,
) -> ResidualSolution:
    """The least-error strategy for tables (tuples of attributes) over attributes of these sizes.

    `weights` multiply the answers of each table, so that its errors count that much more. Under
    replace-one neighbours the total is not measured: the number of people is public.
    """
    ordered = tuple(tuple(sorted(table)) for table in tables)
    given = np.ones(len(ordered)) if weights is None else weights
    importance = np.array(given, dtype=np.float64)
    _check(sizes, ordered, importance)
    whole = tuple(int(n) for n in sizes)
    problem = MarginalProblem.of(whole, ordered, importance, norm, neighbours)
    even = Weights(None, np.ones(1))
    if (norm > 2 or problem.columns > 1) and problem.blocks:
        point = solve(problem, norm, tolerance=tolerance, iterations=iterations)
    else:
        point = FixedPoint(even, even, math.inf, 0.0, 0, Status.CLOSED_FORM)

    return _residual_solution(problem, ordered, point, neighbours)


def _residual_solution(
    problem: MarginalProblem,
    tables: tuple[Table, ...],
    point: FixedPoint,
    neighbours: str,
) -> ResidualSolution:
    """The strategy at the primal weights, and the bound of the dual ones."""
    norm = problem.norm
    importance = problem.table_weights
    g, c = problem.roots(point.primal)
    change = problem.largest_change(g, c)
    squares = problem.row_squares(g, c) * change
    value = mean_error(np.sqrt(squares), norm, problem.table_cells)
    terms = len(problem.blocks) + problem.rows

    dual = TableWeights(
        tables=problem.per_row(point.dual.a), pairs=problem.pairs(point.dual.b)
    )
    bound = nuclear_of_marginals(
        problem.sizes, tables, importance, dual.tables, dual.pairs
    )
    queries = sum(_product(problem.sizes, table) for table in tables)
    return ResidualSolution(
        sizes=problem.sizes,
        tables=tables,
        weights=tuple(importance.tolist()),
        norm=norm,
        neighbours=neighbours,
        blocks=problem.blocks,
        block_variances=change * c / (problem.block_cells * g),
        table_variances=squares / importance**2,
        certificate=dual,
        value=outward(value, terms),
        lower_bound=bound * mean_factor(queries, norm),
        status=point.status,
        iterations=point.iterations,
    )


@dataclass(frozen=True, eq=False)
class MarginalProblem:
    """The family as the solver sees it: one row per table, one column per kind of change.

    The Q_S equal rows of a table count as one row scaled by Q_S^(1/norm), which leaves the ℓ_norm
    of the errors and the dual norm of the weights as they are. `changes` (kinds × blocks) holds the
    squared size of a change in each block: one kind, of size one, for adding a person; one kind
    per set of attributes that differ for replacing one.
    """

    sizes: tuple[int, ...]
    blocks: tuple[Table, ...]
    incidence: csr_array[Any]  # tables × blocks: 1 where block ⊆ table
    table_cells: FloatArray
    table_weights: FloatArray
    norm: float
    patterns: tuple[Table, ...] | None
    changes: FloatArray

    @classmethod
    def of(
        cls,
        sizes: tuple[int, ...],
        tables: Sequence[Table],
        weights: FloatArray,
        norm: float,
        neighbours: str,
    ) -> MarginalProblem:
        """The problem of these tables; blocks of a one-valued attribute are empty and left out."""
        blocks, incidence = subsets_of(tables, [n > 1 for n in sizes])
        cells = np.array([float(_product(sizes, table)) for table in tables])
        patterns = None
        changes = np.ones((1, len(blocks)))
        if check_neighbours(neighbours) == "replace-one":
            varying = [k for k, block in enumerate(blocks) if block]
            blocks = tuple(blocks[k] for k in varying)
            incidence = incidence[:, varying]
            patterns, changes = replacement_changes(sizes, blocks)

        return cls(sizes, blocks, incidence, cells, weights, norm, patterns, changes)

    @cached_property
    def multiplicity(self) -> FloatArray:
        """Dimension of each block."""
        freedom = [size - 1.0 for size in self.sizes]
        return np.array([math.prod(freedom[i] for i in block) for block in self.blocks])

    @cached_property
    def block_cells(self) -> FloatArray:
        """Number of cells of the table on each block's attributes."""
        return np.array([float(_product(self.sizes, block)) for block in self.blocks])

    @property
    def rows(self) -> int:
        return self.table_cells.size

    @property
    def columns(self) -> int:
        return len(self.changes)

    def per_row(self, a: FloatArray | None) -> FloatArray:
        """The dual weight of a single query of each table."""
        if a is None:
            return np.ones(self.rows)
        return a / self.table_cells ** (1 / dual_exponent(self.norm))

    def pairs(self, b: FloatArray) -> dict[Table, float] | None:
        """Weight of the pairs of cells by the attributes in which they differ (replace-one)."""
        if self.patterns is None:
            return None
        return dict(zip(self.patterns, b.tolist(), strict=True))

    def grouped(self, squares: FloatArray) -> FloatArray:
        """Squared row lengths scaled so that one row stands for a whole table."""
        if math.isinf(self.norm):
            return squares
        return squares * self.table_cells ** (2 / self.norm)

    def roots(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """g_T = (Σ_{S⊇T} a_S w_S² / Q_S)^½ and c_T = (Σ_D β_D · change)^½."""
        per_row = self.per_row(weights.a) * self.table_weights**2 / self.table_cells
        g = np.sqrt(self.incidence.T @ per_row)
        return g, np.sqrt(weights.b @ self.changes)

    def row_squares(self, g: FloatArray, c: FloatArray) -> FloatArray:
        """w_S² Q_S⁻² Σ_{T⊆S} m_T c_T/g_T, the squared length of a row of table S."""
        scale = (self.table_weights / self.table_cells) ** 2
        sums = self.incidence @ (self.multiplicity * c / g)
        return np.asarray(scale * sums)

    def column_squares(self, g: FloatArray, c: FloatArray) -> FloatArray:
        """Squared change of the strategy's answers for each kind of change."""
        return self.changes @ (self.multiplicity * g / c)

    def largest_change(self, g: FloatArray, c: FloatArray) -> float:
        """The largest of them; over all patterns when only some carry weights."""
        blocks = self.blocks
        if self.patterns is None or len(self.patterns) > 1 or not blocks:
            return float(self.column_squares(g, c).max(initial=0.0))

        # No product of factors −1/(n_i − 1) is below minus the largest of them.
        fewest = np.array([min(self.sizes[i] for i in block) for block in blocks])
        worst = 2 + 2 / (fewest - 1.0)
        weights = self.multiplicity * g / c
        return float(worst @ weights)

    def spectrum(self, weights: Weights) -> Spectrum:
        g, c = self.roots(weights)
        return Spectrum(
            float(self.multiplicity @ (g * c)),
            self.grouped(self.row_squares(g, c)),
            self.column_squares(g, c),
        )


def replacement_changes(
    sizes: Sequence[int], blocks: Sequence[Table]
) -> tuple[tuple[Table, ...], FloatArray]:
    """Sets of attributes in which two people can differ, and the squared change in each block.

    Beyond MOST_PATTERNED attributes one kind stands for all pairs alike, 2/(1 − 1/n) everywhere.
    """
    used = sorted({i for block in blocks for i in block})
    if not used:
        return ((),), np.ones((1, 0))

    if len(used) > MOST_PATTERNED:
        fraction = math.prod(1 / sizes[i] for i in used)
        return ((),), np.full((1, len(blocks)), 2 / (1 - fraction))

    masks = np.arange(1, 2 ** len(used))
    differs = {}
    factor = {}
    for position, i in enumerate(used):
        differs[i] = masks >> position & 1
        factor[i] = np.where(differs[i], -1 / (sizes[i] - 1.0), 1.0)

    changes = np.empty((masks.size, len(blocks)))
    for k, block in enumerate(blocks):
        changes[:, k] = 2 - 2 * math.prod(factor[i] for i in block)

    patterns = (tuple(i for i in used if differs[i][k]) for k in range(masks.size))
    return tuple(patterns), changes


def _product(sizes: Sequence[int], table: Table) -> int:
    return math.prod(sizes[i] for i in table)


def _check(sizes: Sequence[int], tables: Sequence[Table], weights: FloatArray) -> None:
    if not tables:
        raise InvalidParameter(
            "tables", (), "must name at least one table", "add a table"
        )

    for table in tables:
        known = all(0 <= i < len(sizes) for i in table)
        require(
            known and len(set(table)) == len(table),
            "tables",
            table,
            f"must list attributes between 0 and {len(sizes) - 1}, each once",
            "name existing attributes",
        )

    positive = np.isfinite(weights) & (weights > 0)
    require(
        weights.shape == (len(tables),) and bool(positive.all()),
        "weights",
        weights.tolist(),
        "must be one finite number > 0 per table",
        "drop tables that do not matter",
    )
