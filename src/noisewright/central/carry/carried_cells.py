"""What carry noise is searched over: the cells that queries tell apart, once for all that repeats.

Attributes whose every value is counted repeat one and the same design, attributes that are not
asked about are summed out, and cells that no query tells apart are counted as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.carry.carries import Carries
from noisewright.central.laplace.weighted_products import MergedCells, merged_cells
from noisewright.central.problem import CentralProblem
from noisewright.workload import Identity, Total, Workload
from noisewright.workload.kinds.algebra import kron


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
