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
from noisewright.privacy.noise.integers import Scale, Uniform, geometric
from noisewright.privacy.noise.source import (
    FIRST_BITS,
    WORD_BITS,
    ByteSource,
    SystemSource,
    uniform_words,
)

LARGEST_CORE = 2**46
"""Steps of a core up to which sums over thousands of draws fit a word."""

# of an enclosure that is cut to the bits known at first: far below one of these
_EXTRA_BITS = 32


def flat_core(
    scale: Scale, cores: IntArray, source: ByteSource | None = None
) -> IntArray:
    """One draw for every core, in grid steps; a core of zero is discrete Laplace noise."""
    exact = checked_scale("scale", scale)
    source = source or SystemSource()
    ends = check_cores(cores).ravel()
    inside = _inside(exact, ends, source)
    result = np.empty(ends.size, dtype=np.int64)

    core = ends[inside]
    result[inside] = _uniform(2 * core + 1, source) - core

    outer = ends[~inside]
    tail = outer + 1 + geometric(exact, outer.size, source)
    negative = (uniform_words(outer.size, source) & np.uint64(1)).astype(bool)
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
    # Cut to the bits known at first, downwards and upwards.
    low = np.array([lo >> _EXTRA_BITS for lo, _ in ends], dtype=np.uint64)
    high = np.array([-(-hi >> _EXTRA_BITS) for _, hi in ends], dtype=np.uint64)

    bits = uniform_words(cores.size, source) >> np.uint64(WORD_BITS - FIRST_BITS)
    inside = bits < low[places]  # the number lies below (bits + 1)/2^63
    doubtful = ~inside & (bits < high[places])
    for position in np.flatnonzero(doubtful):
        uniform = Uniform(int(bits[position]), source)
        inside[position] = uniform.at_most(bounds[places[position]])

    return np.asarray(inside)


def _chance(scale: Fraction, core: int) -> Callable[[int], Enclosure]:
    """Enclosures of (2c+1)(1-q) / (2c+1 - (2c-1)q), which falls in q."""
    width = 2 * core + 1

    def terms(q: int, precision: int) -> tuple[int, int]:
        one = 1 << precision
        above = width * (one - q) << precision
        below = width * one - (width - 2) * q
        return above, below

    def enclosed(precision: int) -> Enclosure:
        least, most = exp_minus(1 / scale, precision)
        above, below = terms(min(most, 1 << precision), precision)
        low = above // below
        above, below = terms(least, precision)
        high = -(-above // below)
        return low, high

    return enclosed


def _uniform(bounds: IntArray, source: ByteSource) -> IntArray:
    """Independent integers, each exactly uniform below its bound: too large ones are redrawn."""
    result = np.zeros(bounds.size, dtype=np.int64)
    _, exponents = np.frexp(bounds.astype(np.float64))
    masks = (np.int64(1) << exponents.astype(np.int64)) - 1
    pending = np.arange(bounds.size)

    while pending.size:
        words = uniform_words(pending.size, source) >> np.uint64(1)
        result[pending] = words.astype(np.int64) & masks[pending]
        redrawn = result[pending] >= bounds[pending]
        pending = pending[redrawn]

    return result
