"""Unions of products in one shared basis: every row of it measured as exactly as is worth it.

Every attribute has one basis, its total and the contrasts of its axis turned so that the queries
asked of it do not mix them (the eigenvectors of their mean Gram matrix). Products of such rows are
a basis of the cells in which each row e may have a precision y_e of its own. With v_e what unit
variance of row e adds to all answers, the best y minimises Σ v_e/y_e while no cell's squared column
length exceeds one: a convex problem whose dual has one weight per cell, y_e = √(v_e/c_e) with c the
dual weights seen through the squared basis. It has the form that `norm.kernel.solver` solves, at
every norm. Interaction blocks (see `mixed`) are the special case of equal y within a block.
Attributes whose values are all alike keep two kinds of rows, totals and contrasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2, prod

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.axes import Axis
from noisewright.central.blocks.block import Block, Table
from noisewright.central.blocks.quantise import USUAL_BITS, bits_each
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.gaussian.certified import certified
from noisewright.central.gaussian.product_designs import (
    Family,
    MixedDesign,
    compile_family,
    has_exchangeable_cells,
)
from noisewright.central.gaussian.products import refuses_union
from noisewright.central.problem import (
    Candidate,
    CentralMechanism,
    CentralProblem,
    Proposal,
)
from noisewright.norm.kernel.solver import Spectrum, Weights, solve
from noisewright.workload import Workload
from noisewright.workload.linear.tensor import (
    apply_along_axes,
    column_kron,
)
from noisewright.workload.structure import Term

LARGEST_GRID = 2**18
"""Kinds of rows up to which each gets a weight of its own."""

LARGEST_QUERIES = 2**23
"""Entries of the queries of one attribute in the basis, and queries at norms above two."""

# of contrasts: half as many lose 1e-3 of the error, twice gain nothing, at 16 × 8 × 8 cells
_MOST_BITS = 12
# of the heaviest row: rounding the others to integers costs less than 1e-4
_WEIGHT = 2**10
# of the solver at most, which settles before: half or double changes nothing at 16 × 8 × 8 cells
_STEPS = 300
_WORK = 2**24  # cells × steps
_SETTLED = 1e-4  # of the error: half or double changes it by less than that


def _refuses_shared(family: Family, norm: float) -> str | None:
    """Why rows cannot have weights of their own, or None."""
    used = {i for block in family.blocks for i in block}
    alike = [
        all(
            has_exchangeable_cells(kind.gram)
            for kind in family.kinds
            if kind.group == group
        )
        for group in range(len(family.group_sizes))
    ]
    rows = prod(2 if alike[family.groups[i]] else family.sizes[i] for i in used)
    if all(alike[family.groups[i]] for i in used):
        return "values of all attributes are alike: interactions are the best linear strategy"
    if rows > LARGEST_GRID:
        return f"a shared basis would have {rows} rows (limit {LARGEST_GRID})"

    largest = max(k.workload.queries * k.workload.size for k in family.kinds)
    if max(largest, family.queries if norm > 2 else 0) > LARGEST_QUERIES:
        return "there are too many queries for a shared basis"

    return None


def _shared_basis(
    terms: Sequence[Term],
    design: MixedDesign,
    norm: float,
    bound: float,
    total_bits: int = USUAL_BITS,
) -> Candidate:
    """The best row weights in the basis of a design, and the strategy that measures so."""
    problem = SharedProblem.of(design, terms, total_bits)
    start = Weights(None, problem.product_weights())
    steps = max(
        20,
        min(
            _STEPS,
            _WORK // max(problem.rows if norm > 2 else 0, problem.columns),
        ),
    )
    solution = solve(
        problem,
        norm,
        tolerance=_SETTLED,
        iterations=steps,
        start=start,
    )
    value = solution.upper * design.family.queries ** (-1 / norm)

    return Candidate(
        problem.strategy(problem.precisions(solution.primal)),
        value,
        bound,
        "weighted nuclear norm, product weights",
        f"{problem.gains(None).size} kinds of rows, each with noise of its own",
    )


@dataclass(frozen=True, eq=False)
class Basis:
    """Rows of one attribute: its total, then contrasts (all of one kind where `uniform`)."""

    axis: Axis
    uniform: bool

    @cached_property
    def _raw(self) -> FloatArray:
        """Squared entries, kinds of rows × values (one value where all are alike)."""
        if self.uniform:
            return np.array([[1.0], [float(self.axis.length)]])
        return np.vstack(
            [
                np.ones(self.axis.size),
                self.axis.contrasts.astype(np.float64) ** 2,
            ]
        )

    @property
    def units(self) -> FloatArray:
        """Largest entry of each kind of row; all else is in rows divided by it."""
        return np.asarray(np.sqrt(self._raw.max(axis=1)))

    @cached_property
    def squares(self) -> FloatArray:
        """Squared entries in these units."""
        return np.asarray(self._raw / self._raw.max(axis=1, keepdims=True))

    def total_gain(self, gram: FloatArray) -> FloatArray:
        """What unit variance of each kind of row adds to all queries with this Gram matrix."""
        total = self.axis.total_variance(gram)
        if self.uniform:
            contrasts = np.einsum("ij,ij->", gram, self.axis.covariance)
        else:
            contrasts = np.einsum(
                "ie,ie->e", self.axis.inverse, gram @ self.axis.inverse
            )

        return np.append(total, contrasts) * self.units**2

    def query_gains(self, workload: Workload) -> FloatArray:
        """The same for every query by itself, queries × kinds of rows."""
        total = np.asarray(workload.matvec(self.axis.reference), dtype=np.float64) ** 2
        if self.uniform:
            contrasts = workload.row_quadratics(self.axis.covariance)
        else:
            contrasts = (workload.matvec(self.axis.inverse)) ** 2
        return np.column_stack([total, contrasts]) * self.units**2


@dataclass(frozen=True, eq=False)
class SharedProblem:
    """Row precisions on the grid of the attributes used, as `norm.kernel.solver` sees them."""

    design: MixedDesign
    terms: tuple[Term, ...]
    used: Table
    bases: tuple[Basis, ...]

    @classmethod
    def of(
        cls,
        design: MixedDesign,
        terms: Sequence[Term],
        total_bits: int = USUAL_BITS,
    ) -> SharedProblem:
        """The problem in the turned basis of a design."""
        family = design.family
        used = tuple(sorted({i for block in family.blocks for i in block}))
        # many rows share the budget
        spread = sum(log2(family.sizes[i]) for i in used) / 2
        bits = bits_each(total_bits - log2(_WEIGHT) - spread, len(used), _MOST_BITS)
        turned = {g: _turned(design, g, bits) for g in {family.groups[i] for i in used}}

        return cls(
            design,
            tuple(terms),
            used,
            tuple(turned[family.groups[i]] for i in used),
        )

    @property
    def rows(self) -> int:
        """Number of queries."""
        return self.design.family.queries

    @property
    def columns(self) -> int:
        """Number of cells, values that are alike counted once."""
        return prod(basis.squares.shape[1] for basis in self.bases)

    @cached_property
    def _mean_gains(self) -> FloatArray:
        total = np.zeros(prod(len(basis.squares) for basis in self.bases))
        for term in self.terms:
            factors = term.by_attribute
            parts = [
                basis.total_gain(factors[i].gram().dense())
                if i in factors
                else np.eye(1, len(basis.squares))[0]
                for i, basis in zip(self.used, self.bases, strict=True)
            ]
            total += term.weight**2 * column_kron(parts)

        return np.where(total > 1e-13 * total.max(), total, 0.0)

    @cached_property
    def _query_gains(self) -> list[list[FloatArray]]:
        """Per term, its weighted queries in the basis: one matrix per attribute."""
        known: dict[tuple[int, str], FloatArray] = {}
        result = []
        for term in self.terms:
            factors = term.by_attribute
            matrices = []
            for i, basis in zip(self.used, self.bases, strict=True):
                if i not in factors:
                    matrices.append(np.eye(1, len(basis.squares)))
                    continue
                key = (self.design.family.groups[i], factors[i].text())
                if key not in known:
                    known[key] = basis.query_gains(factors[i])
                matrices.append(known[key])

            matrices[0] = term.weight**2 * matrices[0]
            result.append(matrices)

        return result

    def gains(self, a: FloatArray | None) -> FloatArray:
        """What unit variance of each row adds to the answers, queries weighted by `a`."""
        if a is None:
            return self._mean_gains
        ends = np.cumsum([term.queries for term in self.terms])[:-1]
        parts = zip(self._query_gains, np.split(a, ends), strict=True)
        by_term = [_along([m.T for m in matrices], part) for matrices, part in parts]
        return np.where(self._mean_gains > 0, np.sum(by_term, axis=0), 0.0)

    def precisions(self, weights: Weights) -> FloatArray:
        """y = √(v/c), before any scaling."""
        seen = _along([basis.squares for basis in self.bases], weights.b)
        return np.sqrt(self.gains(weights.a) / seen)

    def spectrum(self, weights: Weights) -> Spectrum:
        """The dual value, squared errors of the queries, squared lengths of the columns."""
        y = self.precisions(weights)
        lengths = _along([basis.squares.T for basis in self.bases], y)
        rows = None
        if weights.a is not None:
            spread = np.divide(1.0, y, out=np.zeros_like(y), where=y > 0)
            errors = [_along(matrices, spread) for matrices in self._query_gains]
            rows = np.concatenate(errors)

        return Spectrum(float(weights.b @ lengths), rows, lengths)

    def product_weights(self) -> FloatArray:
        """The design's own dual weights, as a start."""
        groups = self.design.family.groups
        return column_kron(
            [
                np.ones(1) if basis.uniform else self.design.dual[groups[i]]
                for i, basis in zip(self.used, self.bases, strict=True)
            ]
        )

    def strategy(self, precisions: FloatArray) -> BlockStrategy:
        """Integer contrasts and integer row weights, block by block."""
        units = column_kron([basis.units for basis in self.bases])
        shape = [len(basis.squares) for basis in self.bases]
        roots = (np.sqrt(precisions) / units).reshape(shape)
        blocks = []

        for block in sorted(self.design.family.blocks, key=lambda t: (len(t), t)):
            inside = tuple(slice(1, None) if i in block else 0 for i in self.used)
            factors = tuple(
                basis.axis.contrasts
                for i, basis in zip(self.used, self.bases, strict=True)
                if i in block
            )
            precisions_inside = roots[inside]
            unit = float(precisions_inside.max()) / _WEIGHT
            weights = np.maximum(np.rint(precisions_inside / unit), 1).astype(np.int64)
            if block:
                blocks.append(
                    Block(
                        block,
                        factors,
                        1 / unit,
                        weights=weights,
                    )
                )
            else:
                blocks.append(
                    Block(
                        (),
                        (),
                        1 / unit,
                        int(weights),
                    )
                )

        return BlockStrategy(self.design.family.sizes, tuple(blocks))


def _along(matrices: list[FloatArray], values: FloatArray) -> FloatArray:
    return apply_along_axes([(*m.shape, m.__matmul__) for m in matrices], values)


def _turned(
    design: MixedDesign,
    group: int,
    bits: int,
) -> Basis:
    """The axis of a group, its contrasts turned to the eigenvectors of the queries' mean Gram."""
    axis = design.axes[group]
    if axis.size <= 2 or len(axis.contrasts) == axis.size:
        return Basis(axis, True)

    grams = [kind.gram for kind in design.family.kinds if kind.group == group]
    mean = sum(gram / np.trace(gram) for gram in grams)
    _, vectors = np.linalg.eigh(axis.inverse.T @ mean @ axis.inverse)
    rows = vectors.T @ axis.contrasts.astype(np.float64)
    scales = 2.0**bits / np.abs(rows).max(axis=1, keepdims=True)

    return Basis(Axis(np.rint(rows * scales).astype(np.int64)), False)


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_union(problem):
        return reason
    if problem.neighbours != "add-remove":
        return "rows of different weights are planned for add-remove neighbours only"
    if problem.counts:
        return "for tables of counts interactions are the best linear strategy"
    return _refuses_shared(compile_family(problem.sizes, problem.terms), problem.norm)


def _plan(problem: CentralProblem) -> Proposal:
    start = problem.once(certified)
    bits = problem.grid_bits
    candidate = _shared_basis(
        problem.terms,
        start.design,
        problem.norm,
        start.bound,
        bits,
    )

    return candidate.proposal(problem)


SHARED_BASIS = CentralMechanism(
    "shared-basis",
    "unions of products: one basis, every row of it with noise of its own",
    _refuses,
    _plan,
)
