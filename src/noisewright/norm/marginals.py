"""Families of marginal tables, solved exactly in the residual basis for any attribute sizes.

The family of tables S is left unchanged by permuting the values of any attribute, so uniform
column weights are optimal at every norm and the row weights are one number a_S per table. In the
residual (interaction) basis the weighted Gram matrix is diagonal: block T, of multiplicity
m_T = Π_{i∈T}(n_i − 1), has g_T² = Σ_{S⊇T} a_S w_S² / Q_S with Q_S = Π_{i∈S} n_i. The dual value is
f = Σ_T m_T g_T; the strategy that belongs to it gives block T the noise variance σ_T² = f/(Q_T g_T)
and a cell of table S the variance f·Q_S⁻² Σ_{T⊆S} m_T/g_T. At norm 2 every a_S is one: a closed
form. Nothing here ever visits a cell of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.norm.certificate import nuclear_of_marginals
from noisewright.norm.rounding import mean_factor, outward
from noisewright.norm.solver import Spectrum, Weights, dual_exponent, error_norm, solve
from noisewright.workload.base import FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Table = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ResidualSolution:
    """The optimal Gaussian strategy for a family of marginals, at sensitivity one.

    Block T measures ⊗_{i∈T}(I − 11ᵀ/n_i) ⊗_{i∉T} 1ᵀ with noise covariance σ_T² times that
    projection; a cell of table S is then answered with variance `table_variances[S]` (before its
    weight). `value` and `lower_bound` are p-th means over all weighted cells asked; the bound is
    proved by `row_weights` (one dual weight per query of each table) and uniform column weights.
    """

    sizes: tuple[int, ...]
    tables: tuple[Table, ...]
    weights: tuple[float, ...]
    norm: float
    blocks: tuple[Table, ...]
    block_variances: FloatArray
    table_variances: FloatArray
    row_weights: FloatArray
    value: float
    lower_bound: float
    iterations: int
    converged: bool

    @property
    def gap(self) -> float:
        """Relative distance between the value and its lower bound."""
        return self.value / self.lower_bound - 1

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
    tolerance: float = 5e-7,
    iterations: int = 2000,
) -> ResidualSolution:
    """The least-error strategy for tables (tuples of attributes) over attributes of these sizes.

    `weights` multiply the answers of each table, so that its errors count that much more.
    """
    asked = tuple(tuple(sorted(table)) for table in tables)
    importance = np.ones(len(asked)) if weights is None else np.array(weights, dtype=np.float64)
    _check(sizes, asked, importance)
    problem = MarginalProblem.of(tuple(int(n) for n in sizes), asked, importance, norm)
    primal = dual = np.ones(len(asked))
    steps, converged = 0, True
    if norm > 2:
        found = solve(problem, norm, tolerance=tolerance, iterations=iterations)
        primal, dual = problem.per_row(found.primal), problem.per_row(found.dual)
        steps, converged = found.iterations, found.converged
    g = problem.block_roots(primal)
    total = float(problem.multiplicity @ g)
    squares = total * problem.row_squares(g)
    scale = mean_factor(sum(_product(sizes, table) for table in asked), norm)
    return ResidualSolution(
        sizes=problem.sizes,
        tables=asked,
        weights=tuple(importance.tolist()),
        norm=norm,
        blocks=problem.blocks,
        block_variances=total / (problem.block_cells * g),
        table_variances=squares / importance**2,
        row_weights=dual,
        value=outward(error_norm(np.sqrt(problem.grouped(squares)), norm) * scale, problem.terms),
        lower_bound=nuclear_of_marginals(problem.sizes, asked, importance, dual) * scale,
        iterations=steps,
        converged=converged,
    )


@dataclass(frozen=True, eq=False)
class MarginalProblem:
    """The family as the solver sees it: one row per table, one column for all cells.

    The Q_S equal rows of a table count as one row scaled by Q_S^(1/norm), which leaves the ℓ_norm
    of the errors and the dual norm of the weights as they are.
    """

    sizes: tuple[int, ...]
    blocks: tuple[Table, ...]
    incidence: csr_array[Any]  # tables × blocks: 1 where block ⊆ table
    table_cells: FloatArray
    table_weights: FloatArray
    norm: float

    @classmethod
    def of(
        cls, sizes: tuple[int, ...], tables: Sequence[Table], weights: FloatArray, norm: float
    ) -> MarginalProblem:
        """The problem of these tables; blocks of a one-valued attribute are empty and left out."""
        blocks, incidence = subsets_of(tables, [n > 1 for n in sizes])
        cells = np.array([float(_product(sizes, table)) for table in tables])
        return cls(sizes, blocks, incidence, cells, weights, norm)

    @cached_property
    def multiplicity(self) -> FloatArray:
        """Dimension of each block."""
        return np.array([math.prod(self.sizes[i] - 1.0 for i in block) for block in self.blocks])

    @cached_property
    def block_cells(self) -> FloatArray:
        """Number of cells of the table on each block's attributes."""
        return np.array([float(_product(self.sizes, block)) for block in self.blocks])

    @property
    def rows(self) -> int:
        """Number of tables."""
        return self.table_cells.size

    @property
    def columns(self) -> int:
        """All cells are alike."""
        return 1

    @property
    def terms(self) -> int:
        """Length of the longest sums, for rounding."""
        return len(self.blocks) + self.rows

    def per_row(self, weights: Weights) -> FloatArray:
        """The dual weight of a single query of each table."""
        assert weights.a is not None
        return np.asarray(weights.a / self.table_cells ** (1 / dual_exponent(self.norm)))

    def grouped(self, squares: FloatArray) -> FloatArray:
        """Squared row lengths scaled so that one row stands for a whole table."""
        if math.isinf(self.norm):
            return squares
        return np.asarray(squares * self.table_cells ** (2 / self.norm))

    def block_roots(self, a: FloatArray) -> FloatArray:
        """g_T = (Σ_{S⊇T} a_S w_S² / Q_S)^½."""
        return np.asarray(
            np.sqrt(self.incidence.T @ (a * self.table_weights**2 / self.table_cells))
        )

    def row_squares(self, g: FloatArray) -> FloatArray:
        """w_S² Q_S⁻² Σ_{T⊆S} m_T/g_T, the squared length of a row of table S."""
        scale = (self.table_weights / self.table_cells) ** 2
        return np.asarray(scale * (self.incidence @ (self.multiplicity / g)))

    def spectrum(self, a: FloatArray | None, b: FloatArray) -> Spectrum:
        """The dual value, and the squared lengths of the rows and of the one kind of column."""
        per_row = np.ones(self.rows) if a is None else self.per_row(Weights(a, b))
        g = self.block_roots(per_row)
        total = float(self.multiplicity @ g)
        return Spectrum(total, self.grouped(self.row_squares(g)), np.array([total]))


def subsets_of(
    tables: Sequence[Table], varies: Sequence[bool]
) -> tuple[tuple[Table, ...], csr_array[Any]]:
    """All subsets of the tables, by size and in order, and which table holds which subset.

    Tables of equal length are handled together and subsets compared as numbers: hundreds of
    thousands of tables take a second.
    """
    from scipy.sparse import csr_array

    keep = np.array([*varies, False])
    by_length: dict[int, list[int]] = {}
    for position, table in enumerate(tables):
        by_length.setdefault(len(table), []).append(position)
    base, longest = len(varies) + 1, max(by_length)
    # A subset is a number in base d + 1, its size the leading digit; exact integers when 64 bits
    # are too few.
    kind: Any = np.int64 if (longest + 1) * base**longest < 2**62 else object
    keys: list[Any] = []
    owners: list[Any] = []
    for length, positions in by_length.items():
        members = np.array([tables[p] for p in positions], dtype=np.int64)
        members = members.reshape(len(positions), length)
        for mask in range(2**length):
            chosen = members[:, [i for i in range(length) if mask >> i & 1]]
            whole = keep[chosen].all(axis=1)
            key = np.full(int(whole.sum()), chosen.shape[1], dtype=kind)
            for digit in (chosen[whole].astype(kind) + 1).T:
                key = key * base + digit
            keys.append(key * base ** (longest - chosen.shape[1]))
            owners.append(np.array(positions)[whole])
    unique, column = np.unique(np.concatenate(keys), return_inverse=True)
    row = np.concatenate(owners)
    incidence = csr_array(
        (np.ones(row.size), (row, column.ravel())), shape=(len(tables), len(unique))
    )
    return tuple(_decode(int(key), base, longest) for key in unique.tolist()), incidence


def _decode(key: int, base: int, longest: int) -> Table:
    digits = []
    for _ in range(longest):
        key, digit = divmod(key, base)
        if digit:
            digits.append(digit - 1)
    return tuple(reversed(digits))


def _product(sizes: Sequence[int], table: Table) -> int:
    return math.prod(sizes[i] for i in table)


def _check(sizes: Sequence[int], tables: Sequence[Table], weights: FloatArray) -> None:
    if not tables:
        raise InvalidParameter("tables", (), "must name at least one table", "add a table")
    for table in tables:
        if len(set(table)) != len(table) or any(not 0 <= i < len(sizes) for i in table):
            raise InvalidParameter(
                "tables",
                table,
                f"must list attributes between 0 and {len(sizes) - 1}, each once",
                "name existing attributes",
            )
    if weights.shape != (len(tables),) or not (np.isfinite(weights) & (weights > 0)).all():
        raise InvalidParameter(
            "weights",
            weights.tolist(),
            "must be one finite number > 0 per table",
            "drop tables that do not matter",
        )
