"""Plans with carry noise: which rows, which grid, which cores.

What is searched are the cells that queries tell apart, once for all that repeats: attributes whose
every value is counted repeat one and the same design, attributes that are not asked about are
summed out, and cells that no query tells apart are counted as one.
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
from noisewright.central.carry.mechanism import (
    MOST_CELLS,
    CarryMechanism,
)
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
from noisewright.central.laplace.weighted_products import (
    MergedCells,
    merged_cells,
)
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
_LEAST = 2.0**-32  # budget whose noise is exact on the grids tried
_MOST = 2.0**32  # the same at the other end
# budget from which sums are tried
_LEAST_SUMS = 2.0**-20
_MOST_SUMS = 16.0  # beyond, noise on whole people is coarse
# multipliers tried besides: whole people have less noise on the unit lattice
_COARSE = (1, 2, 4)
# beyond it, moments of the noise are below the rounding of their sums
_MOST_CLOSED = 24


@dataclass(frozen=True, eq=False)
class Design:
    """Rows over the cells that are told apart, and their noise, on a grid of 1/multiplier."""

    error: float
    multiplier: int
    carries: Carries
    matrix: IntArray | None = None

    @property
    def status(self) -> str:
        """What was found, in words."""
        count = int((self.carries.cores > 0).sum())
        carried = f"{count} of {self.carries.rows} cores carried"
        if not count:
            carried = "no core is worth it"

        if self.matrix is None:
            grid = f"1/{self.multiplier} of a person"
            if self.multiplier == 1:
                grid = "whole people"
            return f"{carried}, on a grid of {grid}"

        rows, cells = self.matrix.shape
        sums = "1 sum" if rows == cells + 1 else f"{rows - cells} sums"
        return f"{carried}, on {cells} cells and {sums} of them"


def _refuses(problem: CentralProblem) -> str | None:
    if reason := refuses_laplace(problem):
        return reason

    closed = problem.neighbours == "replace-one"
    most = _MOST_CLASSES if closed else MOST_CELLS
    if problem.workload.size > most:
        return f"carry noise is searched for up to {most} cells"
    if closed and problem.epsilon > _MOST_CLOSED:
        return f"carry noise among replaced people is drawn up to an epsilon of {_MOST_CLOSED}"
    if not _LEAST <= problem.epsilon <= _MOST:
        return f"carry noise is drawn for epsilon between {_LEAST:.2g} and {_MOST:.2g}"

    return None


def _plan(problem: CentralProblem) -> Proposal:
    cells = CarriedCells.of(problem)
    closed = problem.neighbours == "replace-one"
    if closed:
        cells = cells.all_counted()

    designs = list(_designs(cells, problem, closed))
    if not closed:
        plain = min(design.error for design in designs)
        designs += _sum_designs(cells, problem, plain)

    best = min(designs, key=lambda design: design.error)
    strategy = cells.strategy(best.matrix, best.multiplier)
    measured = BlockMechanism(strategy, problem.privacy, attribute_sizes=problem.sizes)
    mechanism = CarryMechanism(measured, cells.carries(best.carries), closed)
    return Proposal.unbounded(mechanism, best.status)


def _designs(
    cells: CarriedCells,
    problem: CentralProblem,
    closed: bool,
) -> Iterator[Design]:
    """On the cells themselves, on every grid tried; for replaced people given a total of zero.

    What such noise does depends on W(I − z1ᵀ) alone, whatever z is; the best guess of the search,
    which does not know of the total, is where the cells share it evenly.
    """
    norm = problem.norm
    rate = problem.epsilon / (2 if closed else 1)
    fine = min(_FINEST, max(1, ceil(_FINE * rate)))
    coarse = _COARSE if closed or norm == 2 else _COARSE[:1]
    multipliers = sorted({fine, *(parts for parts in coarse if parts < fine)})

    for order in _orders(cells, fine / rate, closed):
        for multiplier in multipliers:
            scale = multiplier / rate
            for carries in _trials(cells, order, scale, norm, closed):
                if closed:
                    covariance = ZeroTotal(carries, scale).covariance
                else:
                    covariance = carries.covariance(scale).todense()
                error = cells.error(np.asarray(covariance), norm) / multiplier
                yield Design(error, multiplier, carries)


def _orders(cells: CarriedCells, scale: float, closed: bool) -> list[IntArray]:
    """Orders of the cells: all that are likely, or where noise is not closed the best of them."""
    if cells.classes > _MOST_CLASSES:
        return [np.arange(cells.classes)]
    orders = likely_orders(cells.gram)
    if closed:
        return orders
    return [min(orders, key=lambda order: best_carries(cells.gram, order, scale)[0])]


def _sum_designs(
    cells: CarriedCells,
    problem: CentralProblem,
    plain: float,
) -> Iterator[Design]:
    """On cells and sums of them, where these promise less than the error `plain` of cells."""
    epsilon = problem.epsilon
    squares = cells.in_squares(problem.norm)
    least = LEAST_SUMMED if squares else LEAST_WEIGHED
    if not least <= cells.classes <= MOST_SUMMED:
        return
    if not _LEAST_SUMS <= epsilon <= _MOST_SUMS:
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
        yield Design(
            cells.error(covariance, problem.norm),
            1,
            carries,
            matrix,
        )


def _trials(
    cells: CarriedCells,
    order: IntArray,
    scale: float,
    norm: float,
    closed: bool = False,
) -> Iterator[Carries]:
    """Carries for the mean that is asked for; for squares where another takes long."""
    if cells.in_squares(norm):
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
        sizes = problem.sizes
        if not problem.single_product or problem.neighbours == "replace-one":
            return cls(sizes, problem.workload, tuple(range(len(sizes))))

        (term,) = problem.terms
        factors = term.by_attribute
        counted = tuple(i for i, f in factors.items() if isinstance(f, Identity))
        searched = tuple(i for i in factors if i not in counted)
        asked = kron([factors[i] for i in searched]) if searched else Total(1)

        return cls(sizes, asked, searched, counted)

    def all_counted(self) -> CarriedCells:
        """Every cell in one row with the sign of a count, so that all rows add up to the people."""
        if (self.merged.signs == 1).all():
            return self

        each = np.arange(len(self.merged.labels))
        apart = replace(self)
        object.__setattr__(
            apart,
            "merged",
            MergedCells(each, np.ones_like(each), each),
        )

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
        return np.asarray(self.workload.dense()[:, self.merged.representatives])

    def in_squares(self, norm: float) -> bool:
        """Whether the mean of squares is made small: where it is asked, or another takes long."""
        return norm == 2 or self.workload.queries * self.classes**2 > _NORM_WORK

    def error(self, covariance: FloatArray, norm: float) -> float:
        """The mean that is made small, up to a factor, where cells have this covariance."""
        if self.in_squares(norm):
            return float(np.sqrt(max(0.0, float((self.gram * covariance).sum()))))
        squares = np.einsum("ij,ij->i", self.queries @ covariance, self.queries)
        return mean_error(np.sqrt(np.maximum(squares, 0.0)), norm)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, IntArray]:
        """For every cell of the domain its copy, its class and its sign."""
        cells = np.indices(self.sizes).reshape(len(self.sizes), -1)
        copies, positions = (
            self._number(cells, attributes)
            for attributes in (self.counted, self.searched)
        )
        return (
            copies,
            self.merged.labels[positions],
            self.merged.signs[positions],
        )

    def _number(self, cells: IntArray, attributes: tuple[int, ...]) -> IntArray:
        """Every cell's place in the table of some attributes."""
        number = np.zeros(cells.shape[1], dtype=np.int64)
        for i in attributes:
            number = number * self.sizes[i] + cells[i]
        return number

    @cached_property
    def plain(self) -> bool:
        """Whether every cell of the domain is told apart."""
        whole = len(self.searched) + len(self.counted) == len(self.sizes)
        return whole and self.classes == len(self.merged.labels)

    def strategy(self, matrix: IntArray | None, multiplier: int) -> BlockStrategy:
        """The design's rows for all copies; None for the cells themselves."""
        if matrix is None and self.plain:
            factors = tuple(np.eye(n, dtype=np.int64) for n in self.sizes)
            block = Block(
                tuple(range(len(self.sizes))),
                factors,
                multiplier=multiplier,
            )
            return BlockStrategy(self.sizes, (block,))

        if matrix is None:
            matrix = np.eye(self.classes, dtype=np.int64)

        copies, labels, signs = self._places
        size = len(labels)
        rows = np.zeros((self.copies, len(matrix), size), dtype=np.int64)
        rows[copies, :, np.arange(size)] = matrix[:, labels].T * signs[:, None]
        whole = np.ascontiguousarray(rows.reshape(-1, size))

        return BlockStrategy(
            (size,),
            (Block((0,), (whole,), multiplier=multiplier),),
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


CARRY = CentralMechanism(
    "carry",
    "pure privacy: the flat core of each draw is cancelled by later ones",
    _refuses,
    _plan,
)
