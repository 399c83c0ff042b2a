"""Differences of Wishart matrices, added to whole numbers and rounded exactly.

For rows of length at most r, Σxxᵀ + G - H is ε-private, G and H sums of d + 1 outer products of
N(0, c·I) vectors, c = r²/2ε where a person is added and r²/ε where one is replaced. With d + 1
degrees of freedom G has a density ∝ e^(-tr G/2c) on the matrices G ⪰ 0, so G - H has the density
f(A) ∝ e^(tr A/2c)·Pr[P ⪰ A], P with density ∝ e^(-tr P/c) there. For B ⪰ 0, Pr[P ⪰ A - B] lies
between Pr[P ⪰ A] and e^(tr B/c)·Pr[P ⪰ A], hence |log f(A - xxᵀ)/f(A)| <= ‖x‖²/2c. (d outer
products are not enough: at d = 1 the density would be infinite at zero.)

What is released is that sum, rounded to whole multiples of a step: of true Gaussians, not of
floats. Each is known to a proven error at first; an entry that lies too near a half is decided
with more bits of its Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

import numpy as np

from noisewright.arrays import FloatArray, IntArray, ObjectArray
from noisewright.privacy.exact.proven import (
    GAUSSIAN_ERROR,
    gaussian_quantile,
    two_sided_tail,
)
from noisewright.privacy.noise.source import (
    FIRST_BITS,
    MORE_BITS,
    ByteSource,
    SystemSource,
    uniform_words,
    with_more_bits,
)

_UNIT = 2.0**-52  # twice the rounding of one operation on floats
_NEARLY = Fraction(GAUSSIAN_ERROR) / 2  # so a float between the ends keeps the error
Interval = tuple[Fraction, Fraction]


def add_wishart_difference(
    exact: IntArray, scale: Fraction, step: int, source: ByteSource | None = None
) -> IntArray:
    """Draw round((exact + scale·(G - H))/step) for G, H of unit variance, symmetric and exact."""
    dimension = len(exact)
    shape = (2, dimension + 1, dimension)
    gaussians = Gaussians.drawn(shape, source or SystemSource())
    plus, minus = gaussians.values
    difference = plus.T @ plus - minus.T @ minus

    whole, rest = np.divmod(exact, step)
    ratio = float(scale / step)
    moved = rest / step + ratio * difference
    margin = ratio * _product_errors(gaussians.values)
    margin += 4 * _UNIT * (1 + np.abs(moved))

    nearest = np.rint(moved)
    result = whole + nearest.astype(np.int64)
    doubtful = np.abs(moved - nearest) >= 0.5 - margin
    for a, b in np.argwhere(np.triu(doubtful)):
        exactly = Fraction(int(exact[a, b]), step)
        result[a, b] = gaussians.rounded(int(a), int(b), exactly, scale / step)

    upper = np.triu(result)
    return np.asarray(upper + np.triu(result, 1).T)


def _product_errors(values: FloatArray) -> FloatArray:
    """How far the sums of products of Gaussians, in floats, are from the true ones at most."""
    sums = np.abs(values).sum(axis=(0, 1))
    squares = (values**2).sum(axis=(0, 1))
    # Rounding of a sum of products is below their number times that of one, whatever the order.
    products = 2 * len(values[0]) + 8
    error = GAUSSIAN_ERROR * (sums[:, None] + sums + products)
    error += products * _UNIT * np.sqrt(np.outer(squares, squares))
    return np.asarray(error)


def rounded_alike(ends: Interval) -> int | None:
    """The whole number to which both ends are rounded, halves upwards; None where they differ."""
    low, high = (floor(end + Fraction(1, 2)) for end in ends)
    return low if low == high else None


@dataclass(eq=False)
class Gaussians:
    """Standard Gaussians whose bits are drawn as comparisons need them."""

    source: ByteSource
    values: FloatArray
    numerators: ObjectArray
    signs: IntArray
    bits: dict[tuple[int, ...], int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, shape: tuple[int, ...], source: ByteSource) -> Gaussians:
        words = uniform_words(int(np.prod(shape)), source).reshape(shape)
        first = words >> np.uint64(1)
        signs = 1 - 2 * (words & np.uint64(1)).astype(np.int64)
        values, within = gaussian_quantile(first.ravel())
        gaussians = cls(source, values.reshape(shape), first.astype(object), signs)

        for place in np.argwhere(~within.reshape(shape)):
            key = tuple(int(i) for i in place)
            low, high = gaussians.enclosure(key)
            # Far out, 63 bits tell a quantile less well.
            while high - low > _NEARLY:
                gaussians.refine(key)
                low, high = gaussians.enclosure(key)

            gaussians.values[key] = float((low + high) / 2)

        gaussians.values *= signs
        return gaussians

    def refine(self, key: tuple[int, ...]) -> None:
        """Draw more bits of one of them."""
        self.numerators[key] = with_more_bits(int(self.numerators[key]), self.source)
        self.bits[key] = self.bits.get(key, FIRST_BITS) + MORE_BITS

    def enclosure(self, key: tuple[int, ...]) -> Interval:
        """Bounds of |z| that hold for all that its bits leave open."""
        numerator = int(self.numerators[key])
        if numerator == 0:  # its size is not known at all yet
            self.refine(key)
            return self.enclosure(key)

        bits = self.bits.get(key, FIRST_BITS)
        low, _ = _quantile(Fraction(numerator + 1, 1 << bits), bits)
        _, high = _quantile(Fraction(numerator, 1 << bits), bits)
        return low, high

    def rounded(self, a: int, b: int, exact: Fraction, ratio: Fraction) -> int:
        """The entry (a, b), rounded, with as many bits as that takes."""
        rows = range(self.values.shape[1])
        while True:
            low = high = exact
            for part, sign in ((0, 1), (1, -1)):
                for row in rows:
                    product = self._product((part, row, a), (part, row, b))
                    ends = sorted(sign * ratio * end for end in product)
                    low += ends[0]
                    high += ends[1]

            whole = rounded_alike((low, high))
            if whole is not None:
                return whole

            for part in (0, 1):
                for row in rows:
                    for column in {a, b}:
                        self.refine((part, row, column))

    def _product(self, key: tuple[int, ...], other: tuple[int, ...]) -> Interval:
        """Bounds of the product of two of them, or of the square of one."""
        x = self._signed(key)
        y = self._signed(other)
        if key == other:
            squares = x[0] ** 2, x[1] ** 2
            return Fraction(0) if x[0] < 0 < x[1] else min(squares), max(squares)

        ends = [p * q for p in x for q in y]
        return min(ends), max(ends)

    def _signed(self, key: tuple[int, ...]) -> Interval:
        low, high = self.enclosure(key)
        if self.signs[key] > 0:
            return low, high
        return -high, -low


def _quantile(u: Fraction, bits: int) -> Interval:
    """Enclose z with Pr(|Z| >= z) = u, by bisection from below and above in enclosed tails."""
    precision = bits + 64
    one = 1 << precision
    low = Fraction(0)
    high = Fraction(1)

    def above(z: Fraction) -> bool | None:
        """Whether z is above the quantile; None where the enclosure cannot tell."""
        tail = two_sided_tail(z, precision)
        if Fraction(tail[1], one) < u:
            return True
        return False if Fraction(tail[0], one) > u else None

    while above(high) is False:
        low = high
        high = 2 * high

    for _ in range(bits + 8):
        middle = (low + high) / 2
        side = above(middle)
        if side is None:
            break
        if side:
            high = middle
        else:
            low = middle

    return low, high
