"""Orbits on the same attributes: patterns, whole-number chances, and sums over all translates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.optimise.dense.design import BoolArray
from noisewright.local.optimise.orbits.translations import Translations
from noisewright.local.strategy import IntArray
from noisewright.workload.base import FloatArray

UNIT = 1 << 62
"""Every column of whole-number chances sums to this."""


@dataclass(frozen=True, eq=False)
class Family:
    """Orbits on the same attributes: patterns over their cells with low and high chances."""

    axes: tuple[int, ...]
    group: Translations
    patterns: BoolArray
    low: IntArray
    high: IntArray

    def __post_init__(self) -> None:
        rows = len(self.patterns)
        if not rows or self.patterns.shape != (rows, self.group.cells):
            raise InvalidParameter("patterns", self.patterns.shape, "must hold all cells")
        for chances in (self.low, self.high):
            if chances.dtype != np.int64 or chances.shape != (rows,):
                raise InvalidParameter("families", chances.shape, "must have a chance a pattern")
        if self.low.min() <= 0 or (self.low > self.high).any():
            raise InvalidParameter("families", self.axes, "must have 0 < low <= high")

    @cached_property
    def counts(self) -> IntArray:
        """High cells of each pattern."""
        return np.asarray(self.patterns.sum(axis=1, dtype=np.int64))

    @cached_property
    def masses(self) -> IntArray:
        """Chance of each orbit, out of 2^62."""
        low_cells = self.group.cells - self.counts
        return np.asarray(low_cells * self.low + self.counts * self.high)

    @property
    def total(self) -> int:
        """The masses' sum, in numbers that cannot overflow: a plan may come from anybody."""
        cells = self.group.cells
        parts = zip(self.counts.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return sum((cells - count) * low + count * high for count, low, high in parts)

    @cached_property
    def values(self) -> FloatArray:
        """Scores of the untranslated reports: chances under each cell over their mean."""
        chances = np.where(self.patterns, self.high[:, None], self.low[:, None])
        return np.asarray(chances * (self.group.cells / self.masses[:, None]))

    @property
    def shares(self) -> FloatArray:
        return np.asarray(self.masses / UNIT)

    @property
    def reports(self) -> int:
        return int(self.patterns.size)


def _sums(group: Translations) -> IntArray:
    """Cell numbers of i + d, by d and i."""
    cells = np.arange(group.cells)
    zero = np.zeros(group.cells, dtype=np.int64)
    return np.stack(
        [group.subtract(cells, group.subtract(zero, zero + d)) for d in range(group.cells)]
    )


def family_moment(family: Family, histogram: FloatArray) -> FloatArray:
    """Σ_t c_t s_t s_tᵀ: on each diagonal i, i+d a convolution of c with v·v(·+d)."""
    group = family.group
    sums = _sums(group)
    result = np.zeros((group.cells, group.cells))
    waves = group.forward(histogram[None])
    spectra = group.forward(family.values)
    for share, values, spectrum in zip(family.shares, family.values, spectra, strict=True):
        chances = group.backward(waves * np.conj(spectrum)) * (share / group.cells)
        diagonals = group.backward(group.forward(values * values[sums]) * group.forward(chances))
        result[np.arange(group.cells), sums] += diagonals
    return result


def family_energy(family: Family, quadratic: FloatArray) -> FloatArray:
    """Σ_t q_t(u) s_tᵀ S s_t: a correlation on every diagonal of S, all summed as spectra."""
    group = family.group
    sums = _sums(group)
    diagonals = group.forward(quadratic[np.arange(group.cells), sums])
    total = np.zeros_like(diagonals[0])
    spectra = group.forward(family.values)
    for share, values, spectrum in zip(family.shares, family.values, spectra, strict=True):
        squares = (diagonals * np.conj(group.forward(values * values[sums]))).sum(axis=0)
        total = total + squares * spectrum * (share / group.cells)
    return np.asarray(group.backward(total[None])[0])
