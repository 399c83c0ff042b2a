"""Orbits on the same attributes: patterns, the chances of orbits, and sums over all translates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import WORD, exponential, odds_threshold
from noisewright.local.transform.translations import Translations


@dataclass(frozen=True, eq=False)
class Family:
    """Orbits on the same attributes: patterns over their cells, and the chances of the orbits.

    The cells of a pattern are e^ε times likelier than the others, or as near to that as 64 bits
    come from below.
    """

    axes: tuple[int, ...]
    group: Translations
    patterns: BoolArray
    weights: tuple[int, ...]
    """Chances of the orbits, out of 2^64."""
    epsilon: float

    def __post_init__(self) -> None:
        rows = len(self.patterns)
        require(
            rows and self.patterns.shape == (rows, self.group.cells),
            "patterns",
            self.patterns.shape,
            "must hold all cells",
        )
        require(
            len(self.weights) == rows and min(self.weights) >= 1,
            "weights",
            len(self.weights),
            "must be a chance a pattern",
        )
        require(
            self.counts.min() >= 1 and self.counts.max() < self.group.cells,
            "patterns",
            self.axes,
            "must hold some cells, and not all",
        )

    @cached_property
    def counts(self) -> IntArray:
        """High cells of each pattern."""
        return np.asarray(self.patterns.sum(axis=1, dtype=np.int64))

    @cached_property
    def thresholds(self) -> tuple[int, ...]:
        """Chances of a high cell, out of 2^64."""
        odds = exponential(self.epsilon)
        cells = self.group.cells
        known = {
            count: odds_threshold(odds * Fraction(count, cells - count))
            for count in set(self.counts.tolist())
        }
        return tuple(known[count] for count in self.counts.tolist())

    @cached_property
    def values(self) -> FloatArray:
        """Scores of the untranslated reports: chances under each cell over their mean."""
        cells = self.group.cells
        chance = np.array([t / WORD for t in self.thresholds])
        high = chance / self.counts
        low = (1.0 - chance) / (cells - self.counts)
        return cells * np.where(self.patterns, high[:, None], low[:, None])

    @property
    def shares(self) -> FloatArray:
        return np.array([weight / WORD for weight in self.weights])

    @property
    def reports(self) -> int:
        return int(self.patterns.size)


def _sums(group: Translations) -> IntArray:
    """Cell numbers of i + d, by d and i."""
    cells = np.arange(group.cells)
    zero = np.zeros(group.cells, dtype=np.int64)
    return np.stack(
        [
            group.subtract(cells, group.subtract(zero, zero + d))
            for d in range(group.cells)
        ]
    )


def family_moment(family: Family, histogram: FloatArray) -> FloatArray:
    """Σ_t c_t s_t s_tᵀ: on each diagonal i, i+d a convolution of c with v·v(·+d)."""
    group = family.group
    sums = _sums(group)
    result = np.zeros((group.cells, group.cells))
    waves = group.forward(histogram[None])
    spectra = group.forward(family.values)

    for share, values, spectrum in zip(
        family.shares, family.values, spectra, strict=True
    ):
        chances = group.backward(waves * np.conj(spectrum)) * (share / group.cells)
        diagonals = group.backward(
            group.forward(values * values[sums]) * group.forward(chances)
        )
        result[np.arange(group.cells), sums] += diagonals

    return result


def family_energy(family: Family, quadratic: FloatArray) -> FloatArray:
    """Σ_t q_t(u) s_tᵀ S s_t: a correlation on every diagonal of S, all summed as spectra."""
    group = family.group
    sums = _sums(group)
    diagonals = group.forward(quadratic[np.arange(group.cells), sums])
    total = np.zeros_like(diagonals[0])
    spectra = group.forward(family.values)

    for share, values, spectrum in zip(
        family.shares, family.values, spectra, strict=True
    ):
        squares = (diagonals * np.conj(group.forward(values * values[sums]))).sum(
            axis=0
        )
        total = total + squares * spectrum * (share / group.cells)

    return np.asarray(group.backward(total[None])[0])
