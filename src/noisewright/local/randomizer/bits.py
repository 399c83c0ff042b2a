"""Rows of packed bits: independent bits of any exact chance, and uniform sets of any size, fast.

Eight bits at a time are read off a table by sixteen random bits. The few words on the edge between
two patterns draw more bits until an exact comparison decides, so the law is exactly that of
independent bits with chance threshold/2^64, at two random bits each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from noisewright.arrays import BoolArray, ByteArray, IntArray, WordArray
from noisewright.privacy.noise.source import ByteSource, SystemSource

_MASKS = np.array([128, 64, 32, 16, 8, 4, 2, 1], dtype=np.uint8)
# places drawn between two looks at which rows are done
_ROUNDS = 4
# binary digits of a product of eight chances, each a whole number out of 2^64
_DIGITS = 8 * 64


@dataclass(frozen=True)
class PatternTable:
    """The law of eight independent bits, each one with chance threshold/2^64."""

    threshold: int

    @cached_property
    def edges(self) -> list[int]:
        """Upper ends of the patterns' intervals in [0, 2^512), in the order of the patterns."""
        one = self.threshold
        zero = (1 << 64) - self.threshold
        chances = [one**ones * zero ** (8 - ones) for ones in range(9)]
        return list(accumulate(chances[octet.bit_count()] for octet in range(256)))

    @cached_property
    def _words(self) -> WordArray:
        """The edges' leading 64 digits, but for the last edge, which is the end."""
        leading = [edge >> (_DIGITS - 64) for edge in self.edges[:-1]]
        return np.array(leading, dtype=np.uint64)

    @cached_property
    def lookup(self) -> npt.NDArray[np.int16]:
        """The pattern of every 16-bit prefix, or −1 where more digits must decide."""
        prefixes = np.arange(2**16, dtype=np.uint64)
        first = prefixes << np.uint64(48)
        last = first | np.uint64(2**48 - 1)

        # A prefix decides unless some edge begins with it: on the edge's own word, too, the
        # digits that follow decide.
        below = np.searchsorted(self._words, first, side="left")
        upto = np.searchsorted(self._words, last, side="right")

        return np.where(below == upto, below, -1).astype(np.int16)

    def draw(self, count: int, source: ByteSource) -> ByteArray:
        """`count` bytes of independent bits."""
        prefixes = np.frombuffer(source.bytes(2 * count), dtype="<u2")
        # three times as quick as indexing by small numbers
        patterns = np.take(self.lookup, prefixes)
        result = patterns.astype(np.uint8)

        pending = np.flatnonzero(patterns < 0)
        if pending.size:
            result[pending] = self._refined(prefixes[pending], source)

        return result

    def _refined(
        self, prefixes: npt.NDArray[np.uint16], source: ByteSource
    ) -> ByteArray:
        """Patterns of prefixes that do not decide, by 48 digits more."""
        drawn = np.frombuffer(source.bytes(8 * len(prefixes)), dtype="<u8")
        leading = prefixes.astype(np.uint64) << np.uint64(48)
        words = leading | drawn >> np.uint64(16)

        after = np.searchsorted(self._words, words, side="right")
        before = np.searchsorted(self._words, words, side="left")
        result = after.astype(np.uint8)

        for index in np.flatnonzero(before != after):  # one word in 2^56 or so
            result[index] = self._exact(int(words[index]), source)

        return result

    def _exact(self, word: int, source: ByteSource) -> int:
        """Draw all the digits there are."""
        left = _DIGITS - 64
        drawn = source.bytes(left // 8)
        digits = word << left | int.from_bytes(drawn, "big")
        return sum(digits >= edge for edge in self.edges[:-1])


@lru_cache(maxsize=64)
def pattern_table(threshold: int) -> PatternTable:
    """Tables are made once per chance."""
    return PatternTable(threshold)


def bernoulli_rows(
    threshold: int, rows: int, bits: int, source: ByteSource | None = None
) -> ByteArray:
    """Rows of independent bits, each with chance exactly threshold/2^64; spare bits are zero."""
    width = -(-bits // 8)
    table = pattern_table(threshold)
    flat = table.draw(rows * width, source or SystemSource())

    packed = flat.reshape(rows, width)
    spare = 8 * width - bits
    if spare:
        packed[:, -1] &= np.uint8(0xFF << spare & 0xFF)

    return packed


def get_bits(packed: ByteArray, columns: IntArray) -> BoolArray:
    """One bit of every row."""
    rows = np.arange(len(packed))
    held = packed[rows, columns >> 3]
    mask = _MASKS[columns & 7]
    return np.asarray(held & mask != 0)


def set_bits(packed: ByteArray, columns: IntArray, values: BoolArray) -> None:
    """Set one bit of every row, in place."""
    rows = np.arange(len(packed))
    at = columns >> 3
    mask = _MASKS[columns & 7]
    held = packed[rows, at]
    packed[rows, at] = np.where(values, held | mask, held & ~mask)


def uniform_sets(
    cells: int, sizes: IntArray, source: ByteSource | None = None
) -> ByteArray:
    """One independent uniform set out of `cells` per size, packed, in rows of 2^k bytes.

    Independent bits of one chance make a set that is uniform given its size; removing uniform
    members, or adding uniform others, until the size is right keeps it so.
    """
    count = len(sizes)
    places = max(1 << (cells - 1).bit_length(), 8)
    packed = np.zeros((count, places // 8), dtype=np.uint8)
    if not count:
        return packed

    # The chance is the same for all blocks of a collection, so that its table is made once.
    source = source or SystemSource()
    share = _aim(int(sizes.max()) / cells, cells)
    rows = bernoulli_rows(int(share * 2.0**64), count, cells, source)
    packed[:, : rows.shape[1]] = rows
    members = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    surplus = members - sizes

    # Others to add are members of the complement to remove.
    every_cell = np.packbits(np.arange(places) < cells)
    complemented = np.where(surplus < 0, np.uint8(255), np.uint8(0))
    turned = complemented[:, None] & every_cell
    packed ^= turned
    _remove_uniform(packed, np.abs(surplus), source)
    packed ^= turned

    return packed


def _aim(share: float, cells: int) -> float:
    """The chance of a bit: half a deviation towards the side on which corrections are found sooner.

    Kept off 0 and 1, where some sets could not be reached.
    """
    spread = (share * (1 - share) / cells) ** 0.5
    aimed = share - np.sign(0.5 - share) * spread / 2
    edge = 1 / (4 * cells)
    return float(np.clip(aimed, edge, 1 - edge))


def _remove_uniform(packed: ByteArray, times: IntArray, source: ByteSource) -> None:
    """In every row, remove so many uniform members, in place.

    Places in the row are drawn one after the other; those that hold no member count as misses.
    """
    flat = packed.reshape(-1)
    width = packed.shape[1]
    places = 8 * width
    word = np.dtype(np.uint16 if places <= 2**16 else np.uint32)
    last = np.array(places - 1, dtype=word)

    rows = np.flatnonzero(times)
    first = rows * width
    left = times[rows].astype(np.int32)

    while left.size:
        count = _ROUNDS * left.size
        drawn = np.frombuffer(source.bytes(count * word.itemsize), dtype=word)
        place = drawn.reshape(_ROUNDS, -1) & last
        masks = np.uint8(128) >> (place & 7).astype(np.uint8)

        for octet, mask in zip(place >> 3, masks, strict=True):
            at = first + octet
            held = np.take(flat, at)
            wanted = -(left > 0).view(np.uint8)
            removed = held & mask & wanted
            flat[at] = held ^ removed
            left -= removed != 0

        # Rows that are done are dropped now and then, not every time.
        keep = left > 0
        left = left[keep]
        first = first[keep]
