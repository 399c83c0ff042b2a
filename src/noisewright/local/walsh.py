"""χᵀMχ for Walsh characters χ of binary cells: closed forms where the structure has them."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from noisewright.errors import TooLarge
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import (
    Gram,
    IdentityGram,
    KronGram,
    MarginalGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
    XorGram,
)
from noisewright.workload.tensor import column_kron, walsh_hadamard

DENSE_SIZE = 4096


def is_power_of_two(number: int) -> bool:
    """Whether cells of that number are binary strings."""
    return number > 0 and number & (number - 1) == 0


def padded_size(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length()


def walsh_energies(gram: Gram) -> FloatArray:
    """χᵀMχ for every character, by mask; cells beyond the domain count as absent."""
    if is_power_of_two(gram.size):
        return _energies(gram)
    return _dense(gram)


def _dense(gram: Gram) -> FloatArray:
    if gram.size > DENSE_SIZE:
        raise TooLarge(f"no closed-form Walsh transform of this workload over {gram.size} cells")
    full = padded_size(gram.size)
    m = np.zeros((full, full))
    m[: gram.size, : gram.size] = gram.dense()
    both = walsh_hadamard(walsh_hadamard(m).T)
    return np.asarray(np.maximum(np.diagonal(both), 0.0))


@singledispatch
def _energies(gram: Gram) -> FloatArray:
    return _dense(gram)


@_energies.register
def _(gram: IdentityGram) -> FloatArray:
    return np.full(gram.size, float(gram.size))


@_energies.register
def _(gram: OnesGram) -> FloatArray:
    result = np.zeros(gram.size)
    result[0] = float(gram.size) ** 2
    return result


@_energies.register
def _(gram: XorGram) -> FloatArray:
    return gram.size * gram.eigenvalues


def _ramp(size: int) -> tuple[FloatArray, FloatArray]:
    """ΣS² and ΣS over the prefix sums S of every character.

    Between the cells where its lowest bit's period 2w ends, a character's prefix sums rise to w and
    fall back to zero, up or down as the higher bits say: only the lowest bit matters for squares.
    """
    masks = np.arange(size)
    w = (masks & -masks).astype(np.float64)
    periods = size / np.maximum(2 * w, 1.0)
    squares = periods * (w * (w + 1) * (2 * w + 1) / 6 + (w - 1) * w * (2 * w - 1) / 6)
    sums = np.where((masks & (masks - 1)) == 0, periods * w**2, 0.0)
    n = float(size)
    squares[0], sums[0] = n * (n + 1) * (2 * n + 1) / 6, n * (n + 1) / 2
    return squares, sums


@_energies.register
def _(gram: PrefixGram) -> FloatArray:
    return _ramp(gram.size)[0]


@_energies.register
def _(gram: RangesGram) -> FloatArray:
    squares, sums = _ramp(gram.size)
    return (gram.size + 1) * squares - sums**2


@_energies.register
def _(gram: ScaledGram) -> FloatArray:
    return gram.scale * _energies(gram.inner)


@_energies.register
def _(gram: SumGram) -> FloatArray:
    return np.asarray(sum(_energies(part) for part in gram.parts))


@_energies.register
def _(gram: KronGram) -> FloatArray:
    if not all(is_power_of_two(factor.size) for factor in gram.factors):
        return _dense(gram)
    return column_kron([_energies(factor) for factor in gram.factors])


@_energies.register
def _(gram: MarginalGram) -> FloatArray:
    if set(gram.sizes) != {2}:
        return _dense(gram)
    result = np.zeros(gram.size)
    for block in gram.closure:
        result[block_mask(block, len(gram.sizes))] = gram.eigenvalue(block) * gram.size
    return result


def block_mask(block: tuple[int, ...], attributes: int) -> int:
    """The character of a set of binary attributes; the last attribute is the lowest bit."""
    return sum(1 << (attributes - 1 - i) for i in block)
