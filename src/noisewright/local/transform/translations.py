"""Translations of a product of cycles: the transform that makes all invariant matrices diagonal.

Cells are tuples of residues, one per attribute; for attributes of two values a translation is an
XOR. A matrix that all translations leave unchanged has the characters as eigenvectors, and real
vectors have conjugate coefficients at opposite characters, so one of each pair is kept and counted
twice.

Orbits on the same attributes: patterns, the chances of orbits, and sums over all translates.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import prod

import numpy as np

from noisewright.arrays import Array, BoolArray, FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.fixedpoint import WORD, exponential, odds_threshold
from noisewright.local.randomizer.outcomes import difference

_BITS = 5
"""Bits that one matrix product transforms."""

_UNTHREADED = 2**18  # multiplications up to which a matrix product stays on one thread


def is_power_of_two(number: int) -> bool:
    """Whether cells of that number are binary strings."""
    return number > 0 and number & (number - 1) == 0


def binary_sizes(cells: int) -> tuple[int, ...]:
    """The attributes of so many cells as binary strings."""
    return (2,) * (cells.bit_length() - 1)


@dataclass(frozen=True)
class Translations:
    """The group of translations of a domain with attributes of these sizes."""

    sizes: tuple[int, ...]

    @cached_property
    def cells(self) -> int:
        """Number of cells, and of translations."""
        return prod(self.sizes)

    @property
    def binary(self) -> bool:
        """Whether every translation is an XOR."""
        return all(size == 2 for size in self.sizes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the kept characters."""
        if self.binary:
            return self.sizes

        *others, last = self.sizes
        return (*others, last // 2 + 1)

    @cached_property
    def counts(self) -> FloatArray:
        """How many characters each kept one stands for; the trivial one comes first."""
        if self.binary:
            return np.ones(self.cells)

        last = np.full(self.shape[-1], 2.0)
        last[0] = 1.0
        if self.sizes[-1] % 2 == 0:
            last[-1] = 1.0

        return np.broadcast_to(last, self.shape).reshape(-1).copy()

    def forward(self, x: FloatArray) -> Array:
        """Coefficients of the rows of `x` at the kept characters, in the precision of `x`."""
        if self.binary:
            return _walsh(x)

        from scipy import fft

        tensors = x.reshape(-1, *self.sizes)
        waves = fft.rfftn(tensors, axes=self._axes)

        return waves.reshape(len(x), -1)

    @property
    def _axes(self) -> tuple[int, ...]:
        """The axes of a stack of tensors over the cells."""
        return tuple(range(1, len(self.sizes) + 1))

    def backward(self, spectrum: Array) -> FloatArray:
        """The rows with these coefficients: the inverse of `forward`."""
        if self.binary:
            return _walsh(spectrum) / self.cells

        from scipy import fft

        waves = spectrum.reshape(-1, *self.shape)
        full = fft.irfftn(waves, s=self.sizes, axes=self._axes)

        return full.reshape(len(spectrum), -1)

    def everywhere(self, half: FloatArray) -> FloatArray:
        """Eigenvalues at all characters, as a tensor, from those at the kept ones."""
        tensor = half.reshape(self.shape)
        rest = self.sizes[-1] - self.shape[-1]
        if not rest:
            return tensor

        opposite = tensor[..., 1 : rest + 1][..., ::-1]
        for axis, size in enumerate(self.sizes[:-1]):
            opposite = np.take(opposite, -np.arange(size), axis=axis)

        return np.concatenate([tensor, opposite], axis=-1)

    def power(self, x: FloatArray) -> FloatArray:
        """Squared modulus of the coefficients of the rows of `x`."""
        return squared_modulus(self.forward(x))

    def apply(self, eigenvalues: FloatArray, x: FloatArray) -> FloatArray:
        """The invariant matrix with these eigenvalues, times each row of `x`."""
        return self.backward(self.forward(x) * eigenvalues)

    def subtract(self, u: IntArray, t: IntArray) -> IntArray:
        """Cells u − t, by their numbers."""
        return difference(self.sizes, u, t)


def squared_modulus(spectrum: Array) -> FloatArray:
    """|z|² of real or complex coefficients."""
    squares = spectrum.real**2
    return squares + spectrum.imag**2 if spectrum.dtype.kind == "c" else squares


def _walsh(x: FloatArray) -> FloatArray:
    """Walsh–Hadamard transform of rows, five bits at a time: few passes, each a matrix product.

    The products are cut into pieces too small for the library to spread over threads: on a machine
    that is busy otherwise, threads waiting for each other made this ten times slower.
    """
    bits = x.shape[1].bit_length() - 1
    work = np.ascontiguousarray(x)
    done = 0

    while done < bits:
        take = min(_BITS, bits - done)
        block = 1 << take
        inner = 1 << done
        most = _UNTHREADED >> (2 * take)
        factor = _hadamard(take).astype(work.dtype)
        result = np.empty_like(work)
        if inner == 1:
            pieces = (-1, min(most, x.shape[1] // block), block)
            np.matmul(work.reshape(pieces), factor, out=result.reshape(pieces))
        else:
            width = min(most, inner)
            shape = (-1, block, inner // width, width)
            taken = work.reshape(shape).transpose(0, 2, 1, 3)
            into = result.reshape(shape).transpose(0, 2, 1, 3)
            np.matmul(factor, taken, out=into)

        work = result
        done = done + take

    return work


@cache
def _hadamard(bits: int) -> FloatArray:
    index = np.arange(1 << bits)
    common = np.bitwise_count(index[:, None] & index)
    return np.where(common & 1, -1.0, 1.0)


# --- orbit families -------------------------------------------------------------------------------


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
        rows = len(self.weights)
        shape = self.patterns.shape
        chances = rows > 0 and min(self.weights) >= 1
        require(chances, "weights", rows, "must be a chance a pattern")
        full = shape == (rows, self.group.cells)
        require(full, "patterns", shape, "must hold all cells, one row a chance")

        some = 0 < self.counts.min() <= self.counts.max() < self.group.cells
        rule = "must hold some cells, and not all"
        require(some, "patterns", self.axes, rule)

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
        chances = np.array([threshold / WORD for threshold in self.thresholds])
        high = chances / self.counts
        low = (1.0 - chances) / (cells - self.counts)
        rows = np.where(self.patterns, high[:, None], low[:, None])
        return cells * rows

    @property
    def shares(self) -> FloatArray:
        return np.array([weight / WORD for weight in self.weights])

    @property
    def reports(self) -> int:
        return int(self.patterns.size)


def _sums(group: Translations) -> IntArray:
    """Cell numbers of i + d, by d and i."""
    cells = np.arange(group.cells)
    opposite = group.subtract(np.zeros_like(cells), cells)
    return group.subtract(cells, opposite[:, None])


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
        correlated = group.backward(waves * np.conj(spectrum))
        chances = group.forward(correlated * (share / group.cells))
        products = group.forward(values * values[sums])
        result[np.arange(group.cells), sums] += group.backward(products * chances)

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
        products = group.forward(values * values[sums])
        squares = (diagonals * np.conj(products)).sum(axis=0)
        total = total + squares * spectrum * (share / group.cells)

    return np.asarray(group.backward(total[None])[0])
