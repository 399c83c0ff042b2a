"""Gram matrices of families of marginal tables, over domains of any number of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import Array, FloatArray
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.interactions import Table, downward_closure
from noisewright.workload.linear.linear_map import Shape
from noisewright.workload.linear.tensor import DENSE_LIMIT, Sizes, sum_out

_MOST_ATTRIBUTES = 20
"""Up to which a number is held for every set of attributes: 8 MiB of doubles."""

_FEW_TABLES = 64
"""Up to which tables are summed one by one. 4^6 cells in 16 columns: 64 tables take 14 ms and their
characters 12; 2^12 cells: 128 tables 29 ms, 256 of them 80, their characters 50 either way."""


@dataclass(frozen=True, eq=False)
class MarginalGram(Gram):
    """Σ_S w_S ⊗_{i∈S} I ⊗_{i∉S} 11ᵀ: the Gram matrix of a weighted family of marginal tables."""

    sizes: Sizes
    weights: Mapping[Table, float]

    @property
    def shape(self) -> Shape:
        return prod(self.sizes), prod(self.sizes)

    def matvec(self, x: Array) -> Array:
        """Product with `x`: each table summed out and spread back; many tables by characters."""
        tensor = x.reshape(*self.sizes, -1)
        if len(self.weights) > _FEW_TABLES and len(self.sizes) <= _MOST_ATTRIBUTES:
            return self._by_characters(tensor).reshape(x.shape)

        kind = np.result_type(x.dtype, np.float64)
        result = np.zeros(tensor.shape, kind)
        for table, weight in self.weights.items():
            result += weight * sum_out(tensor, self.sizes, table, keepdims=True)

        return result.reshape(x.shape)

    def _by_characters(self, tensor: Array) -> Array:
        """The product of cells as a tensor, whose last axis is a batch."""
        axes = tuple(range(len(self.sizes)))
        waves = np.fft.fftn(tensor, axes=axes)

        # A character lies in the interaction of the attributes along which it is not constant.
        varies = [np.minimum(np.arange(size), 1) for size in self.sizes]
        spectrum = self._on_sets(self.eigenvalues)[np.ix_(*varies)]
        waves *= spectrum[..., None]

        return np.asarray(np.fft.ifftn(waves, axes=axes).real)

    def dense(self, limit: int = DENSE_LIMIT) -> FloatArray:
        """The matrix itself: an entry is the weight of the tables in which two cells agree."""
        if self.size**2 > limit or len(self.sizes) > _MOST_ATTRIBUTES:
            return super().dense(limit)

        # Σ of weights over all subsets of a set of attributes, for every set at once.
        sums = self._on_sets(self.weights)
        for axis in range(len(self.sizes)):
            sums = np.cumsum(sums, axis=axis)

        # The attributes in which two cells agree, as a bit mask: the first attribute leads.
        agreement = np.zeros((self.size, self.size), np.int64)
        cells = np.arange(self.size)
        for values in np.unravel_index(cells, self.sizes):
            agreement <<= 1
            agreement += values[:, None] == values[None, :]

        return np.asarray(sums.ravel()[agreement])

    def _on_sets(self, values: Mapping[Table, float]) -> FloatArray:
        """A value for every set of attributes, zero unless given, as a tensor of 0 and 1."""
        axes = range(len(self.sizes))
        result = np.zeros((2,) * len(self.sizes))
        for table, value in values.items():
            inside = tuple(int(axis in table) for axis in axes)
            result[inside] += value

        return result

    def diagonal(self) -> FloatArray:
        return np.full(self.size, self.mean_square())

    def trace(self) -> float:
        return self.mean_square() * self.size

    @cached_property
    def closure(self) -> tuple[Table, ...]:
        """The downward closure of the tables, smallest first: the blocks of the residual basis."""
        return downward_closure(self.weights)

    @cached_property
    def eigenvalues(self) -> Mapping[Table, float]:
        """Eigenvalue on the interaction block of each set of attributes in the closure.

        Every table adds to all its subsets, one attribute left out at a time.
        """
        result = dict.fromkeys(self.closure, 0.0)
        for table, weight in self.weights.items():
            share = self.size // prod(self.sizes[i] for i in table)
            result[tuple(sorted(table))] += weight * share

        holding: dict[int, list[Table]] = {}
        for block in self.closure:
            for axis in block:
                holding.setdefault(axis, []).append(block)

        for axis, blocks in holding.items():
            for block in blocks:
                without = tuple(i for i in block if i != axis)
                result[without] += result[block]

        return result

    def eigenvalue(self, block: Table) -> float:
        """Eigenvalue on the interaction block of the attributes in `block`."""
        return self.eigenvalues.get(tuple(sorted(block)), 0.0)

    def largest_distance_squared(self) -> float:
        """Cells that differ in every attribute share no cell of any table but the total."""
        parted = [
            weight
            for table, weight in self.weights.items()
            if any(self.sizes[i] > 1 for i in table)
        ]
        return 2.0 * sum(parted)

    def mean_square(self) -> float:
        return float(sum(self.weights.values()))
