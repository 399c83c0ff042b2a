"""χᵀMχ for Walsh characters χ of binary cells: closed forms where the structure has them."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge
from noisewright.local.strategy import DENSE_SIZE
from noisewright.local.transform.invariants import decompose
from noisewright.local.transform.translations import Translations, is_power_of_two
from noisewright.workload.linear.gram import (
    Gram,
    KronGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
)
from noisewright.workload.linear.tensor import column_kron, walsh_hadamard

_Sums = tuple[FloatArray, FloatArray, FloatArray]


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
        raise TooLarge(
            f"no closed-form Walsh transform of this workload over {gram.size} cells"
        )

    full = padded_size(gram.size)
    m = np.zeros((full, full))
    m[: gram.size, : gram.size] = gram.dense()
    both = walsh_hadamard(walsh_hadamard(m).T)

    return np.asarray(np.maximum(np.diagonal(both), 0.0))


@singledispatch
def _energies(gram: Gram) -> FloatArray:
    known = decompose(gram, Translations((2,) * (gram.size.bit_length() - 1)))
    return _dense(gram) if known is None else gram.size * known.eigenvalues


def prefix_sums(size: int) -> _Sums:
    """S(n), ΣS and ΣS² over all prefix sums S(1), S(2), … of every character of 2^k cells.

    Over the second half of the cells a character repeats its first half, up to its sign.
    """
    level = (np.ones(1), np.ones(1), np.ones(1))  # one cell: S = 1
    while len(level[0]) < size:
        length = len(level[0])
        signs = np.array([1.0, -1.0]).repeat(len(level[0]))
        total, sums, squares = (np.tile(part, 2) for part in level)
        level = (
            total + signs * total,
            sums + length * total + signs * sums,
            2 * squares + length * total**2 + 2 * total * signs * sums,
        )

    return level


@_energies.register
def _energies_of_prefix_gram(gram: PrefixGram) -> FloatArray:
    return prefix_sums(gram.size)[2]


@_energies.register
def _energies_of_ranges_gram(gram: RangesGram) -> FloatArray:
    _, sums, squares = prefix_sums(gram.size)
    return (gram.size + 1) * squares - sums**2


@_energies.register
def _energies_of_scaled_gram(gram: ScaledGram) -> FloatArray:
    return gram.weight * _energies(gram.inner)


@_energies.register
def _energies_of_sum_gram(gram: SumGram) -> FloatArray:
    return np.asarray(sum(_energies(part) for part in gram.parts))


@_energies.register
def _energies_of_kron_gram(gram: KronGram) -> FloatArray:
    if not all(is_power_of_two(factor.size) for factor in gram.factors):
        return _dense(gram)
    return column_kron([_energies(factor) for factor in gram.factors])


def block_mask(block: tuple[int, ...], attributes: int) -> int:
    """The character of a set of binary attributes; the last attribute is the lowest bit."""
    return sum(1 << (attributes - 1 - i) for i in block)
