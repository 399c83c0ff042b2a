"""Strategies for products of workloads under pure privacy, where L1 sensitivity decides.

Every factor gets the best weighted identity found (see `weighted_identity`); products multiply
strategies, sensitivities and errors. Unlike under Gaussian noise that is not optimal for L1: over
few cells, weighted sums over several attributes at once do better, so both ways are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log2, prod

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.candidate import Candidate
from noisewright.central.gaussian.products import as_one_axis, fine_grid
from noisewright.central.laplace.merged_cells import MergedCells, merged_cells
from noisewright.central.laplace.pure_bound import NAME as L1_BOUND
from noisewright.central.laplace.pure_bound import pure_bound
from noisewright.central.laplace.weighted_identity import (
    WeightedIdentity,
    for_norm,
    weighted_identity,
)
from noisewright.errors import TooLarge
from noisewright.norm.factorize import factorize
from noisewright.workload import Identity, Total, Workload
from noisewright.workload.algebra import kron
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import Term
from noisewright.workload.tensor import mean_error

LARGEST_FACTOR = 2048
_JOINT_CELLS = 1024  # of the attributes that are searched at once
_WORTHWHILE = 1e-6  # a gain that pays for measuring all cells at once
_TOTAL_BITS = 33
_MOST_BITS = 16
_LEAST_BITS = 3
_NORM_WORK = 2**27  # entries of W times cells up to which other means than squares are minimised
_BOUND_ENTRIES = 2**20  # of W up to which other norms than 2 get a bound of their own
_OWN_ENTRIES = 2**12  # of a matrix of queries that is tried as a start
L2_BOUND = "L2 bound, valid for pure privacy too: L1 sensitivity is never smaller"
_STATUS = "best of several starts"


@dataclass(frozen=True, eq=False)
class Factor:
    """The strategy found for one factor, and its p-th mean error at L1 sensitivity one."""

    workload: Workload
    cells: MergedCells
    found: WeightedIdentity
    error: float

    def integers(self, bits: int) -> Integers:
        """The strategy on the integer grid, with entries up to 2^bits."""
        return self.cells.spread(self.found.integers(bits))

    @property
    def exact(self) -> bool:
        """Whether its integers are small and need no rounding."""
        return not len(self.found.rows)

    @property
    def plain(self) -> bool:
        """Whether nothing is to be searched: counts of cells."""
        return isinstance(self.workload, Identity | Total)


def laplace_product(
    term: Term, sizes: tuple[int, ...], norm: float, largest: float = inf, bounded: bool = True
) -> Candidate:
    """A strategy for one product of workloads: factor by factor, or over all cells at once.

    Its integers are as fine as an L1 sensitivity of at most `largest` allows. A lower bound for
    added people is computed only where it is asked for.
    """
    if term.factors is None:
        return laplace_product(as_one_axis(term.inner), (prod(sizes),), norm, largest, bounded)
    known = {factor.text(): factor for factor in term.factors}
    solved = {text: _solve(factor, norm) for text, factor in known.items()}
    factors = [solved[factor.text()] for factor in term.factors]
    error = prod(factor.error for factor in factors)
    strategy = _product(term, sizes, factors, largest)
    joint = _joint_factor(factors, sizes, norm)
    if joint is not None and joint.error < (1 - _WORTHWHILE) * error:
        error, strategy = joint.error, _joint(term, sizes, factors, joint, largest)
    planned = Candidate(strategy, term.weight * error, None, "none", _STATUS)
    if not bounded:
        return planned
    bound, name = _bound(term.factors, norm)
    return replace(planned, bound=term.weight * bound, certificate=name)


def _solve(factor: Workload, norm: float, sizes: tuple[int, ...] | None = None) -> Factor:
    if factor.size > LARGEST_FACTOR and not isinstance(factor, Identity | Total):
        raise TooLarge(
            f"workload {factor.brief()} has {factor.size} cells; a strategy is optimised up to "
            f"{LARGEST_FACTOR}; combine attributes with '*' or coarsen the bins"
        )
    cells = merged_cells(factor)
    if isinstance(factor, Identity | Total):
        return Factor(factor, cells, WeightedIdentity(np.zeros((0, cells.classes))), 1.0)
    gram = factor.gram()
    if cells.classes < factor.size:
        gram, sizes = cells.merge(gram), None
    found = weighted_identity(gram, sizes, _own_rows(factor, cells))
    options = [_valued(factor, cells, found, norm)]
    if norm > 2 and factor.queries * factor.size**2 <= _NORM_WORK:
        queries = factor.dense()[:, cells.representatives]
        options.append(_valued(factor, cells, for_norm(found, queries, norm), norm))
    return min(options, key=lambda option: option.error)


def _valued(factor: Workload, cells: MergedCells, found: WeightedIdentity, norm: float) -> Factor:
    squares = factor.row_quadratics(cells.covariance(found.covariance()))
    return Factor(factor, cells, found, mean_error(np.sqrt(squares), norm))


def _own_rows(factor: Workload, cells: MergedCells) -> list[FloatArray]:
    """The queries themselves as sums to measure, where they are few."""
    if factor.queries * factor.size > _OWN_ENTRIES:
        return []
    rows = np.abs(factor.dense()[:, cells.representatives])
    return [weight * rows / rows.max() for weight in (0.3, 100.0) if rows.any()]


def _bound(factors: Sequence[Workload], norm: float) -> tuple[float, str]:
    """The larger of two lower bounds on the error of any linear strategy, and what it comes from.

    For plain counts of some attributes nothing changes: a strategy for one value of them is among
    the columns of a strategy for all.
    """
    searched = [factor for factor in factors if not isinstance(factor, Identity | Total)]
    if not searched:
        return 1.0, "counts of cells have error one at sensitivity one"
    names = {factor.text(): factor for factor in searched}
    floors = {text: _length_bound(factor, norm) for text, factor in names.items()}
    lengths = prod(floors[factor.text()] for factor in searched)
    joint = kron(searched)
    if joint.size > LARGEST_FACTOR:
        return lengths, L2_BOUND
    sums = pure_bound(joint.gram().dense(), joint.queries)
    return (lengths, L2_BOUND) if lengths >= sums else (sums, L1_BOUND)


def _length_bound(factor: Workload, norm: float) -> float:
    """The bound from L2 sensitivity; for many queries that of norm 2, below those of all others."""
    many = factor.queries * factor.size > _BOUND_ENTRIES
    return factorize(factor, norm=2 if many else norm, tolerance=1e-3).lower_bound


def _product(
    term: Term, sizes: tuple[int, ...], factors: Sequence[Factor], largest: float
) -> BlockStrategy:
    """Factor by factor, on the finest grid whose sensitivity is not above `largest`."""
    rounded = sum(not factor.exact for factor in factors)
    bits = max(6, min(_MOST_BITS, _TOTAL_BITS // max(1, rounded)))
    while True:
        matrices = tuple(factor.integers(bits) for factor in factors)
        block = Block(term.attributes, matrices, multiplier=fine_grid(matrices))
        strategy = BlockStrategy(sizes, (block,))
        # In logarithms: the largest may be so small that the ratio is no float.
        excess = log2(strategy.sensitivity(1)) - log2(largest)
        if excess <= 0 or bits <= _LEAST_BITS or not rounded:
            return strategy
        bits = max(_LEAST_BITS, bits - ceil(excess / rounded))


def _joint_factor(factors: Sequence[Factor], sizes: tuple[int, ...], norm: float) -> Factor | None:
    """All attributes that are no plain counts as one, where their cells are few."""
    searched = [factor.workload for factor in factors if not factor.plain]
    cells = tuple(workload.size for workload in searched)
    if len(searched) < 2 or prod(cells) > _JOINT_CELLS or prod(sizes) > LARGEST_FACTOR:
        return None
    return _solve(kron(searched), norm, cells)


def _joint(
    term: Term, sizes: tuple[int, ...], factors: Sequence[Factor], joint: Factor, largest: float
) -> BlockStrategy:
    """The joint strategy by every combination of the plain attributes, over all cells."""
    searched = [i for i, f in zip(term.attributes, factors, strict=True) if not f.plain]
    counted = {i: f.integers(1) for i, f in zip(term.attributes, factors, strict=True) if f.plain}
    others = [i for i in range(len(sizes)) if i not in searched]
    narrow = _product(as_one_axis(joint.workload), (joint.workload.size,), [joint], largest)
    matrix = narrow.blocks[0].factors[0]
    for i in others:
        matrix = np.kron(matrix, counted.get(i, np.ones((1, sizes[i]), dtype=np.int64)))
    order = np.argsort([*searched, *others])
    tensor = matrix.reshape(len(matrix), *(sizes[i] for i in [*searched, *others]))
    whole = tensor.transpose(0, *(1 + order)).reshape(len(matrix), -1)
    block = Block((0,), (np.ascontiguousarray(whole),), multiplier=fine_grid([whole]))
    return BlockStrategy((prod(sizes),), (block,))
