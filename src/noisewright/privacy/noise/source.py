"""Where random bytes come from, and unbiased integers made of them."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from noisewright.arrays import WordArray
from noisewright.errors import require

WORD_BITS = 64  # of NumPy's widest whole numbers
FIRST_BITS = 63
"""Bits of a uniform number that are known at first: a word has one left for a sign."""
MORE_BITS = 64
"""Bits that are drawn whenever a comparison needs more: one word."""


class ByteSource(Protocol):
    """Anything that yields independent uniform bytes."""

    def bytes(self, count: int) -> bytes:
        """Return `count` fresh uniform bytes."""
        ...


class SystemSource:
    """The operating system's generator, asked anew every time.

    Nothing is kept between calls, so a forked process can never repeat its parent's noise.
    """

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes from the operating system."""
        return os.urandom(count)


def uniform_words(size: int, source: ByteSource | None = None) -> WordArray:
    """Return `size` independent uniform 64-bit words."""
    source = source or SystemSource()
    fresh = source.bytes(8 * size)
    return np.frombuffer(fresh, dtype="<u8").astype(np.uint64, copy=False)


def with_more_bits(numerator: int, source: ByteSource) -> int:
    """Return a uniform number's bits with `MORE_BITS` fresh ones behind them."""
    fresh = source.bytes(MORE_BITS // 8)
    return (numerator << MORE_BITS) + int.from_bytes(fresh, "little")


def uniform_integers(
    bound: int, size: int, source: ByteSource | None = None
) -> WordArray:
    """Return `size` independent integers, exactly uniform on 0, ..., bound - 1.

    Words are cut to the bits that `bound` needs and redrawn when they reach it; fewer than half
    are, so the number of rounds is logarithmic in `size`.
    """
    require(
        1 <= bound <= 1 << WORD_BITS,
        "bound",
        bound,
        "must lie in 1..2^64",
        "draw several integers",
    )

    shift = np.uint64(WORD_BITS - max(1, (bound - 1).bit_length()))
    largest = np.uint64(bound - 1)
    result = uniform_words(size, source) >> shift
    pending = np.flatnonzero(result > largest)

    while pending.size:
        result[pending] = uniform_words(pending.size, source) >> shift
        pending = pending[result[pending] > largest]

    return result


def uniform_below(bound: int, source: ByteSource | None = None) -> int:
    """Return an integer, exactly uniform on 0, ..., bound - 1, however large the bound."""
    require(bound >= 1, "bound", bound, "must be >= 1")

    source = source or SystemSource()
    bits = (bound - 1).bit_length()
    count = -(-bits // 8)
    mask = (1 << bits) - 1
    while True:
        drawn = int.from_bytes(source.bytes(count), "little") & mask
        if drawn < bound:
            return drawn
