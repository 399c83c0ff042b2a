"""Probabilities as whole numbers, rounded so that ε holds exactly for the numbers in use.

A client compares a uniform word with whole-number thresholds, so the law it follows is rational and
known to the last bit; privacy is then a comparison of whole numbers with a lower bound on e^ε, and
the analysis works on the very same probabilities.

The whole numbers and bits that specifications are made of, and the refusal of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from math import prod
from numbers import Real
from operator import lshift
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from noisewright.arrays import BoolArray, IntArray, WordArray
from noisewright.errors import InvalidParameter, require
from noisewright.privacy.noise.source import (
    ByteSource,
    SystemSource,
    uniform_integers,
    uniform_words,
)

WORD = 1 << 64
"""Thresholds and weights are out of this many."""

UNIT = 1 << 62
"""Columns of a `weigh` sum to this."""

EXACT = 1 << 53
"""Numbers in JSON stay below this, so that every language reads them alike."""

MOST_CELLS = 1 << 62
"""Numbers of cells fit machine words, and so do sums of two of them."""

Count = Annotated[int, Meta(ge=1, lt=EXACT)]
Natural = Annotated[int, Meta(ge=0, lt=EXACT)]
Whole = Annotated[int, Meta(gt=-EXACT, lt=EXACT)]
Digits = Annotated[str, Meta(pattern=r"\A(?:0|[1-9][0-9]{0,39})\Z")]
"""A whole number that may reach 2^53 and beyond, in decimal."""

LARGEST_EPSILON = 40.0
"""Above this, one threshold in 2^64 can no longer tell the two sides apart."""

LARGEST_PLANNED = 16.0
"""Above this no plan is made: errors fall as e^-ε, and floats round by 1e-16 of what they are the
difference of, which is 1e-9 of them here, as much as values and their bounds may disagree."""

SMALLEST_EPSILON = 1e-6
"""Below this, chances that differ are lost in the rounding of those that do not."""

_DIGITS = Context(prec=60)
_MARGIN = Decimal(10) ** -58


def check_epsilon(epsilon: float) -> float:
    """Refuse budgets that are no positive number, or beyond what fixed point can honour."""
    if isinstance(epsilon, Real) and not isinstance(epsilon, bool):
        value = float(epsilon) if abs(epsilon) <= LARGEST_EPSILON else 0.0
        if value >= SMALLEST_EPSILON:
            return value

    rule = f"must lie between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}"
    raise InvalidParameter("epsilon", epsilon, rule, "try a value near 1")


def check_planned(epsilon: float) -> float:
    """Refuse budgets at which the errors that a plan states would be rounding alone."""
    value = check_epsilon(epsilon)
    if value > LARGEST_PLANNED:
        raise InvalidParameter(
            "epsilon",
            epsilon,
            f"must be <= {LARGEST_PLANNED:g} in a plan without a curator",
            "above it a report hides next to nothing, and its errors are lost in rounding",
        )

    return value


def exponential(epsilon: float) -> Fraction:
    """A rational just below e^ε, right to 57 digits."""
    value = _DIGITS.exp(Decimal(epsilon))
    return Fraction(_DIGITS.multiply(value, 1 - _MARGIN))


def floor_times(epsilon: float, low: IntArray) -> IntArray:
    """Largest whole numbers at most e^ε·low, exactly; no more than 2^62, the most a chance is."""
    factor = exponential(epsilon)
    distinct, inverse = np.unique(low, return_inverse=True)
    largest = [
        value * factor.numerator // factor.denominator for value in distinct.tolist()
    ]
    capped = np.array([min(value, UNIT) for value in largest], dtype=np.int64)

    return capped[inverse].reshape(low.shape)


def odds_threshold(odds: Fraction) -> int:
    """Largest a with a/(2^64 − a) <= odds: the chance a/2^64 that never overstates the odds."""
    together = odds.numerator + odds.denominator
    threshold = WORD * odds.numerator // together
    return min(threshold, WORD - 1)


def bernoulli(threshold: int, size: int, source: ByteSource | None = None) -> BoolArray:
    """Independent draws, each true with chance exactly threshold/2^64.

    A uniform word is compared with the threshold byte by byte, most significant first; the next
    byte is drawn only where all so far are equal, so one byte a draw is almost always enough.
    """
    source = source or SystemSource()
    digits = threshold.to_bytes(8, "big")
    first = np.frombuffer(source.bytes(size), dtype=np.uint8)
    result = first < digits[0]
    tied = np.flatnonzero(first == digits[0])

    for digit in digits[1:]:
        if not tied.size:
            break
        octets = np.frombuffer(source.bytes(tied.size), dtype=np.uint8)
        result[tied] = octets < digit
        tied = tied[octets == digit]

    return result


def integers_below(bound: int, size: int, source: ByteSource | None = None) -> IntArray:
    """Independent whole numbers, exactly uniform on 0 … bound−1, from as few bytes as serve.

    Words are multiplied by the bound and their high half is kept; the few low halves that would
    make some number likelier are redrawn.
    """
    if bound <= 1:
        return np.zeros(size, dtype=np.int64)
    if bound > 1 << 24:
        return uniform_integers(bound, size, source).astype(np.int64)

    source = source or SystemSource()
    bits = 16 if bound <= 1 << 10 else 32
    word = np.dtype(f"<u{bits // 8}")
    wide = np.dtype(f"u{bits // 4}")
    factor = np.array(bound, dtype=wide)
    shift = np.array(bits, dtype=wide)
    mask = np.array((1 << bits) - 1, wide)
    surplus = np.array((1 << bits) % bound, wide)

    def draw(count: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        words = np.frombuffer(source.bytes(count * word.itemsize), dtype=word)
        return np.asarray(np.multiply(words, factor, dtype=wide))

    product = draw(size)
    pending = np.flatnonzero((product & mask) < surplus)

    while pending.size:
        product[pending] = draw(pending.size)
        pending = pending[(product[pending] & mask) < surplus]

    return np.asarray(product >> shift, dtype=np.int64)


def categorical(
    cumulative: WordArray, size: int, source: ByteSource | None = None
) -> IntArray:
    """Indices drawn with chances given by upper thresholds out of 2^64 (the last is implied)."""
    words = uniform_words(size, source)
    return np.searchsorted(cumulative, words, side="right").astype(np.int64)


def whole_weights(weights: npt.ArrayLike) -> list[int]:
    """Weights as whole numbers that sum to 2^64 exactly, each within one of its share."""
    values = np.asarray(weights, dtype=np.float64)
    require(
        values.ndim == 1
        and values.size
        and np.isfinite(values).all()
        and values.min() >= 0,
        "weights",
        values.shape,
        "must be finite, >= 0 and not empty",
    )

    # As whole numbers on the finest grid that any of them needs: the same as fractions, but quick.
    fractions, exponents = np.frexp(values)
    mantissas = (fractions * 2.0**53).astype(np.int64)
    finest = exponents[values > 0].min(initial=0)
    shifts = (exponents - finest).clip(0)
    exact = list(map(lshift, mantissas.tolist(), shifts.tolist()))
    total = sum(exact)
    require(total > 0, "weights", 0, "must not all be zero", "give one positive weight")

    upto = [cumulative * WORD // total for cumulative in accumulate(exact, initial=0)]
    return [above - below for below, above in pairwise(upto)]


def thresholds(whole: list[int]) -> WordArray:
    """Upper thresholds of all but the last of whole-number weights that sum to 2^64."""
    upper = [min(total, WORD - 1) for total in accumulate(whole[:-1])]
    return np.array(upper, dtype=np.uint64)


# --- whole numbers --------------------------------------------------------------------------------


class Shape(NamedTuple):
    """What a node takes and gives: cells, values of the report's number, bytes after the number."""

    cells: int
    outcomes: int
    payload: int = 0


class Part(
    msgspec.Struct,
    frozen=True,
    dict=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
):
    """Anything in a specification: immutable, strict, and checked when it is made."""


class Node(Part, tag_field="op", frozen=True):
    """A primitive; `children` are the places of the nodes that it leads to."""

    @property
    def children(self) -> tuple[int, ...]:
        """None for a law."""
        return ()

    @property
    def continuous(self) -> bool:
        """Whether a law's noise is a real number that is rounded."""
        return False

    def shape(self, below: Sequence[Shape]) -> Shape:
        """What the node takes and gives, from the shapes of its children."""
        raise NotImplementedError


def numbers(digits: Sequence[str]) -> tuple[int, ...]:
    """The whole numbers that decimals stand for."""
    return tuple(map(int, digits))


def check_threshold(name: str, digits: str) -> None:
    """Refuse a chance of nothing, of one or of more."""
    if not 0 < int(digits) < WORD:
        raise InvalidParameter(name, digits, "must lie in 1..2^64-1")


def check_weights(weights: Sequence[int]) -> None:
    """Refuse chances that do not sum to one; a place without a chance keeps its number."""
    if sum(weights) != WORD:
        raise InvalidParameter("weights", len(weights), "must sum to 2^64 exactly")


def cells_of(sizes: Sequence[int]) -> int:
    """Number of cells of attributes of these sizes."""
    require(
        0 < len(sizes) <= 64 and min(sizes) >= 1,
        "sizes",
        len(sizes),
        "must be 1 to 64 counts",
    )
    cells = prod(sizes)
    require(cells <= MOST_CELLS, "sizes", len(sizes), "must multiply to at most 2^62")

    return cells


def check_bits(name: str, bits: bytes, count: int) -> None:
    """Refuse bits of another number; those that fill up the last byte are zero."""
    spare = (1 << (-count % 8)) - 1
    fits = len(bits) == -(-count // 8) and not bits[-1] & spare
    rule = f"must be {count} bits, then zeros to a whole byte"
    require(fits, name, f"{len(bits)} bytes", rule)


def bit_count(bits: bytes) -> int:
    """Number of ones."""
    return int.from_bytes(bits, "big").bit_count()
