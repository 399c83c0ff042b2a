"""Laplace noise with a flat core, drawn exactly: Pr(d) proportional to e^(-max(|d| - c, 0)/scale).

Inside its core, |d| <= c, the law is uniform; beyond, it falls like Laplace noise. A draw is inside
with probability (2c + 1)/(2c + 1 + 2q/(1 - q)), q = e^(-1/scale), which one uniform number decides
in integer enclosures; then it is uniform, or the core's end and a geometric number beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from noisewright.arrays import BoolArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.privacy.exact.proven import Enclosure, exp_minus
from noisewright.privacy.exact.rounding import checked_scale
from noisewright.privacy.noise.integers import FIRST_BITS, Scale, Uniform, geometric
from noisewright.privacy.noise.source import (
    WORD_BITS,
    ByteSource,
    SystemSource,
    uniform_words,
)

LARGEST_CORE = 2**46
"""Steps of a core up to which sums over thousands of draws fit a word."""

_EXTRA_BITS = 32


def flat_core(
    scale: Scale, cores: IntArray, source: ByteSource | None = None
) -> IntArray:
    """One draw for every core, in grid steps; a core of zero is discrete Laplace noise."""
    exact = checked_scale("scale", scale)
    source = source or SystemSource()
    flat = check_cores(cores).ravel()
    result = np.empty(flat.size, dtype=np.int64)
    inside = _inside(exact, flat, source)
    result[inside] = _uniform(2 * flat[inside] + 1, source) - flat[inside]
    tail = flat[~inside] + 1 + geometric(exact, int((~inside).sum()), source)
    negative = (uniform_words(tail.size, source) & np.uint64(1)).astype(bool)
    result[~inside] = np.where(negative, -tail, tail)

    return result.reshape(cores.shape)


def check_cores(cores: IntArray) -> IntArray:
    """Refuse cores that are not whole numbers of grid steps, or too many of them."""
    whole = cores.dtype == np.int64
    if not whole or cores.min(initial=0) < 0 or cores.max(initial=0) > LARGEST_CORE:
        rule = "must be whole, from 0 to 2^46 steps"
        raise InvalidParameter("cores", cores.dtype.name, rule)
    return cores


def _inside(scale: Fraction, cores: IntArray, source: ByteSource) -> BoolArray:
    """Whether each draw falls into its core."""
    kinds, places = np.unique(cores, return_inverse=True)
    bounds = [_chance(scale, int(core)) for core in kinds]
    ends = [bound(FIRST_BITS + _EXTRA_BITS) for bound in bounds]
    low = np.array([lo >> _EXTRA_BITS for lo, _ in ends], dtype=np.uint64)[places]
    high = np.array([-(-hi >> _EXTRA_BITS) for _, hi in ends], dtype=np.uint64)[places]
    bits = uniform_words(cores.size, source) >> np.uint64(WORD_BITS - FIRST_BITS)
    inside = bits < low  # the number lies below (bits + 1)/2^63

    for position in np.flatnonzero(~inside & (bits < high)):
        uniform = Uniform(int(bits[position]), source)
        inside[position] = uniform.at_most(bounds[places[position]])

    return np.asarray(inside)


def _chance(scale: Fraction, core: int) -> Callable[[int], Enclosure]:
    """Enclosures of (2c+1)(1-q) / (2c+1 - (2c-1)q), which falls in q."""
    width = 2 * core + 1

    def at(q: int, precision: int) -> tuple[int, int]:
        one = 1 << precision
        return width * (one - q) << precision, width * one - (width - 2) * q

    def enclosed(precision: int) -> Enclosure:
        least, most = exp_minus(1 / scale, precision)
        low = at(min(most, 1 << precision), precision)
        high = at(least, precision)
        return low[0] // low[1], -(-high[0] // high[1])

    return enclosed


def _uniform(bounds: IntArray, source: ByteSource) -> IntArray:
    """Independent integers, each exactly uniform below its bound: too large ones are redrawn."""
    result = np.zeros(bounds.size, dtype=np.int64)
    masks = np.int64(1) << np.frexp(bounds.astype(np.float64))[1].astype(np.int64)
    pending = np.arange(bounds.size)

    while pending.size:
        words = uniform_words(pending.size, source) >> np.uint64(1)
        result[pending] = words.astype(np.int64) & (masks[pending] - 1)
        pending = pending[result[pending] >= bounds[pending]]

    return result
