"""Strategies for products of workloads under pure privacy, where L1 sensitivity decides.

Every factor gets the best weighted identity found (see `weighted_identity`); products multiply
strategies, sensitivities and errors. Unlike under Gaussian noise that is not optimal for L1: over
few cells, weighted sums over several attributes at once do better, so both ways are tried.

Two cells whose columns of W are equal, or equal up to sign, enter every answer only through their
sum or difference. A strategy for the merged cells, spread back with the signs, has the same L1
sensitivity and the same errors; a column of zeros needs no measurement at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, log2, prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.gaussian.products import as_one_axis, fine_grid
from noisewright.central.laplace.pure_bound import NAME as L1_BOUND
from noisewright.central.laplace.pure_bound import pure_bound
from noisewright.central.problem import Candidate
from noisewright.errors import InvalidParameter
from noisewright.norm.factorize import factorize
from noisewright.norm.l1 import WeightedIdentity
from noisewright.norm.l1_search import for_norm, weighted_identity
from noisewright.workload import (
    Identity,
    Prefix,
    Ranges,
    Total,
    Workload,
)
from noisewright.workload.kinds.algebra import kron
from noisewright.workload.linear.gram import DenseGram, Gram
from noisewright.workload.linear.tensor import mean_error
from noisewright.workload.structure import Term

# cells of one factor, or of all searched, whose L1 bound is computed too
LARGEST_FACTOR = 2048
_JOINT_CELLS = 1024  # of the attributes that are searched at once
_WORTHWHILE = 1e-6  # a gain that pays for measuring all cells at once
# of all rounded factors together; half or double changes errors of prefix:64 by less than 1e-6
_TOTAL_BITS = 33
# of an entry; half or double changes errors of prefix:64 by less than 1e-6
MOST_BITS = 16
_LEAST_BITS = 3  # with which rounding says anything at all
# entries of W times cells up to which other means than squares are minimised
_NORM_WORK = 2**27
_BOUND_ENTRIES = 2**20  # of W up to which other norms than 2 get a bound of their own
_OWN_ENTRIES = 2**12  # of a matrix of queries that is tried as a start
L2_BOUND = "L2 bound, valid for pure privacy too: L1 sensitivity is never smaller"
# of an entry of the Gram matrix that agree where columns may be the same
_SAME_BITS = 36
_TINY = 1e-300  # no division by zero where nothing is asked
_COMPARED = 2**22  # numbers that are compared at once


@dataclass(frozen=True, eq=False)
class Factor:
    """The strategy found for one factor, and its p-th mean error at L1 sensitivity one."""

    workload: Workload
    cells: MergedCells
    strategy: WeightedIdentity
    error: float

    def integers(self, bits: int) -> IntArray:
        """The strategy on the integer grid, with entries up to 2^bits."""
        return self.cells.spread(self.strategy.integers(bits))

    @property
    def exact(self) -> bool:
        """Whether its integers are small and need no rounding."""
        return not len(self.strategy.rows)

    @property
    def plain(self) -> bool:
        """Whether nothing is to be searched: counts of cells."""
        return isinstance(self.workload, Identity | Total)


def laplace_product(
    term: Term,
    sizes: tuple[int, ...],
    norm: float,
    largest: float = inf,
    bounded: bool = True,
) -> Candidate:
    """A strategy for one product of workloads: factor by factor, or over all cells at once.

    Its integers are as fine as an L1 sensitivity of at most `largest` allows. A lower bound for
    added people is computed only where it is asked for.
    """
    workloads = term.factors or ()
    named = {factor.text(): factor for factor in workloads}
    solved = {text: _solve(factor, norm) for text, factor in named.items()}
    factors = [solved[factor.text()] for factor in workloads]
    error = prod(factor.error for factor in factors)
    joint = _joint_factor(factors, sizes, norm)
    if joint is not None and joint.error < (1 - _WORTHWHILE) * error:
        error = joint.error
        strategy = _joint(term, sizes, factors, joint, largest)
    else:
        strategy = _product(term, sizes, factors, largest)

    bound = None
    certificate = "none"
    if bounded:
        bound, certificate = _bound(workloads, norm)
        bound *= term.weight

    status = "best of several starts"
    return Candidate(strategy, term.weight * error, bound, certificate, status)


def _solve(
    factor: Workload,
    norm: float,
    sizes: tuple[int, ...] | None = None,
) -> Factor:
    cells = merged_cells(factor)
    if isinstance(factor, Identity | Total):
        return Factor(
            factor,
            cells,
            WeightedIdentity(np.zeros((0, cells.classes))),
            1.0,
        )

    gram = factor.gram()
    if cells.classes < factor.size:
        gram = cells.merge(gram)
        sizes = None

    squared = weighted_identity(gram, sizes, _own_rows(factor, cells))
    options = [_valued(factor, cells, squared, norm)]
    if norm > 2 and factor.queries * factor.size**2 <= _NORM_WORK:
        queries = factor.dense()[:, cells.representatives]
        options.append(
            _valued(
                factor,
                cells,
                for_norm(squared, queries, norm),
                norm,
            )
        )

    return min(options, key=lambda option: option.error)


def _valued(
    factor: Workload,
    cells: MergedCells,
    best: WeightedIdentity,
    norm: float,
) -> Factor:
    squares = factor.row_quadratics(cells.covariance(best.covariance()))
    return Factor(
        factor,
        cells,
        best,
        mean_error(np.sqrt(squares), norm),
    )


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
    searched = [
        factor for factor in factors if not isinstance(factor, Identity | Total)
    ]
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
    term: Term,
    sizes: tuple[int, ...],
    factors: Sequence[Factor],
    largest: float,
) -> BlockStrategy:
    """Factor by factor, on the finest grid whose sensitivity is not above `largest`."""

    def strategy(bits: int) -> BlockStrategy:
        matrices = tuple(factor.integers(bits) for factor in factors)
        block = Block(term.attributes, matrices, multiplier=fine_grid(matrices))
        return BlockStrategy(sizes, (block,))

    rounded = sum(not factor.exact for factor in factors)
    bits = max(6, min(MOST_BITS, _TOTAL_BITS // max(1, rounded)))
    return finest_quantised(
        strategy,
        bits,
        rounded,
        "add-remove",
        largest,
    )


def finest_quantised(
    strategy: Callable[[int], BlockStrategy],
    bits: int,
    rounded: int,
    neighbours: str,
    largest: float,
) -> BlockStrategy:
    """The strategy with the most bits, up to `bits`, whose L1 sensitivity is not above `largest`.

    `rounded` of its factors grow by a bit with every bit.
    """
    while True:
        trial = strategy(bits)
        # In logarithms: the largest may be so small that the ratio is no float.
        excess = log2(trial.sensitivity(1, neighbours)) - log2(largest)
        if excess <= 0 or bits <= _LEAST_BITS or not rounded:
            return trial
        bits = max(_LEAST_BITS, bits - ceil(min(excess / rounded, bits)))


def _joint_factor(
    factors: Sequence[Factor],
    sizes: tuple[int, ...],
    norm: float,
) -> Factor | None:
    """All attributes that are no plain counts as one, where their cells are few."""
    searched = [factor.workload for factor in factors if not factor.plain]
    cells = tuple(workload.size for workload in searched)
    if len(searched) < 2 or prod(cells) > _JOINT_CELLS or prod(sizes) > LARGEST_FACTOR:
        return None
    return _solve(kron(searched), norm, cells)


def _joint(
    term: Term,
    sizes: tuple[int, ...],
    factors: Sequence[Factor],
    joint: Factor,
    largest: float,
) -> BlockStrategy:
    """The joint strategy by every combination of the plain attributes, over all cells."""
    searched = [i for i, f in zip(term.attributes, factors, strict=True) if not f.plain]
    counted = {
        i: f.integers(1)
        for i, f in zip(term.attributes, factors, strict=True)
        if f.plain
    }
    others = [i for i in range(len(sizes)) if i not in searched]
    narrow = _product(
        as_one_axis(joint.workload),
        (joint.workload.size,),
        [joint],
        largest,
    )
    matrix = narrow.matrix

    for i in others:
        matrix = np.kron(
            matrix,
            counted.get(i, np.ones((1, sizes[i]), dtype=np.int64)),
        )

    order = np.argsort([*searched, *others])
    tensor = matrix.reshape(len(matrix), *(sizes[i] for i in [*searched, *others]))
    whole = tensor.transpose(0, *(1 + order)).reshape(len(matrix), -1)
    block = Block(
        (0,),
        (np.ascontiguousarray(whole),),
        multiplier=fine_grid([whole]),
    )

    return BlockStrategy((prod(sizes),), (block,))


# --- cells that no query tells apart --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MergedCells:
    """Class and sign of every cell (sign 0: in no query), and one cell of each class."""

    labels: IntArray
    signs: IntArray
    representatives: IntArray

    @property
    def classes(self) -> int:
        """Number of merged cells."""
        return len(self.representatives)

    def merge(self, gram: Gram) -> Gram:
        """The Gram matrix over the merged cells."""
        cells = self.representatives
        return DenseGram(gram.dense()[np.ix_(cells, cells)])

    def spread(self, strategy: IntArray) -> IntArray:
        """A strategy over the merged cells as one over all cells."""
        return np.ascontiguousarray(strategy[:, self.labels] * self.signs)

    def covariance(self, merged: FloatArray) -> FloatArray:
        """A matrix over all cells with the merged cells' variance for every query."""
        if self.classes == len(self.labels):
            return merged
        full = np.zeros((len(self.labels),) * 2)
        full[np.ix_(self.representatives, self.representatives)] = merged
        return full


def merged_cells(workload: Workload) -> MergedCells:
    """The cells of a workload up to columns that agree, or agree up to sign, exactly."""
    size = workload.size
    each = np.arange(size)
    one = np.ones(size, dtype=np.int64)
    if isinstance(workload, Total):
        return MergedCells(0 * each, one, each[:1])
    if isinstance(workload, Identity | Prefix | Ranges):
        return MergedCells(each, one, each)

    owners, signs = _similar(workload.gram().dense())
    apart = _differing(workload, owners, signs)
    owners[apart], signs[apart] = apart, 1
    representatives = np.unique(owners[signs != 0])
    if not len(representatives):
        raise InvalidParameter(
            "workload",
            workload.brief(),
            "is zero everywhere",
            "ask something",
        )

    labels = np.where(signs != 0, np.searchsorted(representatives, owners), 0)
    return MergedCells(labels, signs, representatives)


def _similar(gram: FloatArray) -> tuple[IntArray, IntArray]:
    """For every cell the first whose column is the same, within rounding, and their sign."""
    each = np.arange(len(gram))
    rounded = np.rint(gram / max(float(np.abs(gram).max()), _TINY) * 2.0**_SAME_BITS)
    leading = np.sign(rounded[each, (rounded != 0).argmax(axis=1)])
    _, first, classes = np.unique(
        rounded * leading[:, None],
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    owners = first[classes.ravel()]

    return owners, (leading * leading[owners]).astype(np.int64)


def _differing(
    workload: Workload,
    owners: IntArray,
    signs: IntArray,
) -> IntArray:
    """Cells whose column is not exactly what it is taken for: W(e_u − s·e_v) is not zero."""
    merged = np.flatnonzero((owners != np.arange(len(owners))) | (signs == 0))
    wrong = []
    step = max(1, _COMPARED // (workload.queries + workload.size))

    for start in range(0, len(merged), step):
        block = merged[start : start + step]
        differences = np.zeros((workload.size, len(block)))
        differences[owners[block], np.arange(len(block))] = -signs[block]
        differences[block, np.arange(len(block))] = 1.0
        wrong.append(block[(workload.matvec(differences) != 0).any(axis=0)])

    return np.concatenate([np.zeros(0, dtype=np.int64), *wrong])
