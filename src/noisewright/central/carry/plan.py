"""Plans with carry noise: which rows, which grid, which cores.

What carry noise is searched over: the cells that queries tell apart, once for all that repeats.

Attributes whose every value is counted repeat one and the same design, attributes that are not
asked about are summed out, and cells that no query tells apart are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.mechanism import BlockMechanism
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.means import carries_for_mean
from noisewright.central.carry.mechanism import MOST_CELLS, CarryMechanism
from noisewright.central.carry.search import best_carries, likely_orders
from noisewright.central.carry.sum_rows import (
    LEAST_SUMMED,
    LEAST_WEIGHED,
    MOST_SUMMED,
    Mean,
    sums_for_mean,
    with_sums,
)
from noisewright.central.carry.zero_total import ZeroTotal
from noisewright.central.laplace.weighted_products import MergedCells, merged_cells
from noisewright.central.problem import (
    CentralMechanism,
    CentralProblem,
    Proposal,
    refuses_laplace,
)
from noisewright.workload import Identity, Total, Workload
from noisewright.workload.kinds.algebra import kron
from noisewright.workload.linear.tensor import mean_error

_MOST_CLASSES = 1024  # cells over which carries are searched
# entries of W times cells up to which other means than squares are minimised
_NORM_WORK = 2**27
_FINE = 64  # grid steps per scale of the noise: what is lost to rounding is not seen
_FINEST = 4096  # parts of a person: beyond, noise is finer than any answer shows
_LEAST, _MOST = 2.0**-32, 2.0**32  # budgets whose noise is exact on the grids tried
# budgets where sums are tried: beyond, noise is coarse
_LEAST_SUMS = 2.0**-20
_MOST_SUMS = 16.0
# multipliers tried besides: whole people have less noise on the unit lattice
_COARSE = (1, 2, 4)


@dataclass(frozen=True, eq=False)
class Design:
    """Rows over the cells that are told apart, and their noise, on a grid of 1/multiplier."""

    error: float
    multiplier: int
    carries: Carries
    matrix: IntArray | None = None


# beyond it, moments of the noise are below the rounding of their sums
_MOST_CLOSED = 24


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_laplace(problem):
        return reason

    most = MOST_CELLS if problem.neighbours == "add-remove" else _MOST_CLASSES
    if problem.workload.size > most:
        return f"carry noise is searched for up to {most} cells"

    assert problem.privacy.epsilon is not None
    if problem.neighbours == "replace-one" and problem.privacy.epsilon > _MOST_CLOSED:
        return f"carry noise among replaced people is drawn up to an epsilon of {_MOST_CLOSED}"
    if not _LEAST <= problem.privacy.epsilon <= _MOST:
        return f"carry noise is drawn for epsilon between {_LEAST:.2g} and {_MOST:.2g}"

    return None


def _plan(problem: CentralProblem) -> Proposal:
    closed = problem.neighbours == "replace-one"
    cells = CarriedCells.of(problem)
    cells = cells.all_counted() if closed else cells
    designs = list(
        _closed_designs(cells, problem) if closed else _designs(cells, problem)
    )
    if not closed:
        designs += _sum_designs(cells, problem, min(design.error for design in designs))

    best = min(designs, key=lambda design: design.error)
    strategy = cells.strategy(best.matrix, best.multiplier)
    measured = BlockMechanism(strategy, problem.privacy, over=problem.sizes)
    mechanism = CarryMechanism(measured, cells.carries(best.carries), closed)

    return Proposal(
        mechanism,
        None,
        None,
        "none",
        _status(best),
        problem.neighbours,
    )


def _status(design: Design) -> str:
    carried = int((design.carries.cores > 0).sum())
    what = (
        f"{carried} of {design.carries.rows} cores carried"
        if carried
        else "no core is worth it"
    )
    if design.matrix is not None:
        sums = len(design.matrix) - design.matrix.shape[1]
        cells = design.matrix.shape[1]
        return f"{what}, on {cells} cells and {sums} {'sum' if sums == 1 else 'sums'} of them"

    grid = (
        "whole people"
        if design.multiplier == 1
        else f"1/{design.multiplier} of a person"
    )
    return f"{what}, on a grid of {grid}"


def _designs(cells: CarriedCells, problem: CentralProblem) -> Iterator[Design]:
    """On the cells themselves, in the best order, on every grid tried."""
    assert problem.privacy.epsilon is not None
    epsilon = problem.privacy.epsilon
    fine = min(_FINEST, max(1, ceil(_FINE * epsilon)))
    searched = cells.classes <= _MOST_CLASSES
    orders = likely_orders(cells.gram) if searched else [np.arange(cells.classes)]
    costs = [best_carries(cells.gram, order, fine / epsilon)[0] for order in orders]
    order = orders[int(np.argmin(costs))]
    coarse = _COARSE if problem.norm == 2 else _COARSE[:1]

    for multiplier in sorted({fine, *(m for m in coarse if m < fine)}):
        yield cells_design(
            cells,
            order,
            multiplier,
            epsilon,
            problem.norm,
        )


def _sum_designs(
    cells: CarriedCells,
    problem: CentralProblem,
    plain: float,
) -> Iterator[Design]:
    """On cells and sums of them, where these promise less than the error `plain` of cells."""
    epsilon = problem.privacy.epsilon
    squares = _squares(cells, problem.norm)
    assert epsilon is not None
    least = LEAST_SUMMED if squares else LEAST_WEIGHED
    if (
        not least <= cells.classes <= MOST_SUMMED
        or not _LEAST_SUMS <= epsilon <= _MOST_SUMS
    ):
        return

    sizes = tuple(problem.sizes[i] for i in cells.searched)
    sizes = sizes if prod(sizes) == cells.classes else (cells.classes,)
    wanted = None if squares else Mean(cells.queries, problem.norm)
    if wanted:
        sums, gram = sums_for_mean(wanted, sizes, plain * epsilon)
    else:
        sums = with_sums(cells.gram, sizes, (plain * epsilon) ** 2)
        gram = cells.gram

    if sums is not None:
        matrix, carries, covariance = sums.on_grid(gram, epsilon, wanted)
        yield Design(_error(cells, covariance, problem.norm), 1, carries, matrix)


def _closed_designs(cells: CarriedCells, problem: CentralProblem) -> Iterator[Design]:
    """For replaced people: on cells, given that all noise adds up to zero.

    What such noise does depends on W(I − z1ᵀ) alone, whatever z is; the best guess of the search,
    which does not know of the total, is where the cells share it evenly.
    """
    assert problem.privacy.epsilon is not None
    epsilon = problem.privacy.epsilon
    fine = min(_FINEST, max(1, ceil(_FINE * epsilon / 2)))

    for order in likely_orders(cells.gram):
        for multiplier in sorted({fine, *(m for m in _COARSE if m < fine)}):
            scale = 2 * multiplier / epsilon
            for carries in _tried(
                cells,
                order,
                scale,
                problem.norm,
                closed=True,
            ):
                covariance = ZeroTotal(carries, scale).covariance
                error = _error(cells, covariance, problem.norm) / multiplier
                yield Design(error, multiplier, carries)


def cells_design(
    cells: CarriedCells,
    order: IntArray,
    multiplier: int,
    epsilon: float,
    norm: float,
) -> Design:
    """Counts of cells on one grid."""
    scale = multiplier / epsilon
    trials = list(_tried(cells, order, scale, norm))
    covariances = ((carries.covariance(scale).todense()) for carries in trials)
    errors = [_error(cells, covariance, norm) for covariance in covariances]
    best = int(np.argmin(errors))

    return Design(errors[best] / multiplier, multiplier, trials[best])


def _tried(
    cells: CarriedCells,
    order: IntArray,
    scale: float,
    norm: float,
    closed: bool = False,
) -> Iterator[Carries]:
    """Carries for the mean that is asked for; for squares where another takes long."""
    if _squares(cells, norm):
        gram = cells.gram
        if closed:
            means = gram.mean(axis=0)
            gram = gram - means - means[:, None] + means.mean()
        yield best_carries(gram, order, scale, closed)[1]
        return

    queries = cells.queries
    if closed:
        queries = queries - queries.mean(axis=1, keepdims=True)

    yield from carries_for_mean(
        queries,
        order,
        scale,
        norm,
        closed,
    )


def _squares(cells: CarriedCells, norm: float) -> bool:
    return norm == 2 or cells.workload.queries * cells.classes**2 > _NORM_WORK


def _error(
    cells: CarriedCells,
    covariance: FloatArray,
    norm: float,
) -> float:
    """In the sense that is planned for, up to a factor; of squares where others take long."""
    if _squares(cells, norm):
        return float(np.sqrt(max(0.0, float((cells.gram * covariance).sum()))))
    squares = np.einsum("ij,ij->i", cells.queries @ covariance, cells.queries)
    return mean_error(np.sqrt(np.maximum(squares, 0.0)), norm)


CARRY = CentralMechanism(
    "carry",
    "pure privacy: the flat core of each draw is cancelled by later ones",
    _refuses,
    _plan,
)


@dataclass(frozen=True, eq=False)
class CarriedCells:
    """The `workload` over the attributes `searched`, repeated for the values of those `counted`."""

    sizes: tuple[int, ...]
    workload: Workload
    searched: tuple[int, ...]
    counted: tuple[int, ...] = ()
    merged: MergedCells = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merged", merged_cells(self.workload))

    @classmethod
    def of(cls, problem: CentralProblem) -> CarriedCells:
        """What a problem asks for; where people are replaced, over the whole domain at once."""
        if not problem.single_product or problem.neighbours == "replace-one":
            return cls(
                problem.sizes, problem.workload, tuple(range(len(problem.sizes)))
            )

        (term,) = problem.terms
        pairs = list(zip(term.attributes, term.factors or (), strict=True))
        counted = tuple(i for i, factor in pairs if isinstance(factor, Identity))
        searched = tuple(i for i, _ in pairs if i not in counted)
        factors = [factor for i, factor in pairs if i in searched]

        return cls(
            problem.sizes, kron(factors) if factors else Total(1), searched, counted
        )

    def all_counted(self) -> CarriedCells:
        """Every cell in one row with the sign of a count, so that all rows add up to the people."""
        if (self.merged.signs == 1).all():
            return self
        each = np.arange(len(self.merged.labels))
        apart = replace(self)
        object.__setattr__(apart, "merged", MergedCells(each, np.ones_like(each), each))
        return apart

    @property
    def classes(self) -> int:
        """Cells that are told apart."""
        return self.merged.classes

    @property
    def copies(self) -> int:
        """How often the design is repeated."""
        return prod(self.sizes[i] for i in self.counted)

    @cached_property
    def gram(self) -> FloatArray:
        """The Gram matrix of the queries over the cells that are told apart."""
        return self.merged.merge(self.workload.gram()).dense()

    @cached_property
    def queries(self) -> FloatArray:
        """The queries, over the cells that are told apart."""
        return self.workload.dense()[:, self.merged.representatives]

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray]:
        """For every cell of the domain its copy, its class and its sign."""
        cells = np.indices(self.sizes).reshape(len(self.sizes), -1)
        own = np.zeros((2, cells.shape[1]), dtype=np.int64)
        for row, attributes in zip(own, (self.counted, self.searched), strict=True):
            for i in attributes:
                row[:] = row * self.sizes[i] + cells[i]

        copies, positions = own
        return copies, self.merged.labels[positions], self.merged.signs[positions]

    @cached_property
    def plain(self) -> bool:
        """Whether every cell of the domain is told apart."""
        whole = len(self.searched) + len(self.counted) == len(self.sizes)
        return whole and self.classes == len(self.merged.labels)

    def strategy(self, matrix: IntArray | None, multiplier: int) -> BlockStrategy:
        """The design's rows for all copies; None for the cells themselves."""
        if matrix is None and self.plain:
            factors = tuple(np.eye(n, dtype=np.int64) for n in self.sizes)
            block = Block(tuple(range(len(self.sizes))), factors, multiplier=multiplier)
            return BlockStrategy(self.sizes, (block,))

        matrix = np.eye(self.classes, dtype=np.int64) if matrix is None else matrix
        copies, labels, signs = self._places
        rows = np.zeros((self.copies, len(matrix), len(labels)), dtype=np.int64)
        rows[copies, :, np.arange(len(labels))] = matrix[:, labels].T * signs[:, None]
        whole = np.ascontiguousarray(rows.reshape(-1, len(labels)))

        return BlockStrategy(
            (len(labels),), (Block((0,), (whole,), multiplier=multiplier),)
        )

    def carries(self, design: Carries) -> Carries:
        """The design's carries for all copies."""
        numbers = np.arange(self.copies * design.rows).reshape(self.copies, design.rows)
        if self.plain and design.rows == self.classes:
            copies, labels, _ = self._places
            numbers[copies, labels] = np.arange(len(labels))

        flat = numbers.ravel()

        def repeated(values: IntArray) -> IntArray:
            result = np.empty((len(flat), *values.shape[1:]), dtype=np.int64)
            result[flat] = np.tile(values, (self.copies,) + (1,) * (values.ndim - 1))
            return result

        targets = np.empty((len(flat), design.targets.shape[1]), dtype=np.int64)
        targets[flat] = numbers[:, design.targets].reshape(targets.shape)
        return Carries(
            np.ascontiguousarray(numbers[:, design.order].ravel()),
            repeated(design.packets),
            repeated(design.sizes),
            targets,
            repeated(design.parts),
        )
