"""Exact noise on the integers, fast: almost every draw is decided in floats with a proven margin.

A magnitude |k| is the number of m >= 1 with U <= S(m), where S(m) = Pr(|k| >= m) is the law's
survival function and U a uniform real number, known to 63 bits at first. `proven` turns these
bits into S^-1(U) with a proven error; unless that lies within the error of a step of S, the draw is
decided. The few others are decided in integer enclosures of S, drawing more bits of U as needed.
So every probability is exactly that of the stated law: nothing rests on a floating-point library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from math import prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray, WordArray
from noisewright.errors import InvalidParameter
from noisewright.privacy.exact.proven import (
    GAUSSIAN_ERROR,
    GAUSSIAN_REACH,
    LOGARITHM_ERROR,
    Enclosure,
    exp_minus,
    gaussian_quantile,
    log_two_over_one_plus_exp_minus,
    minus_log,
    two_sided_tail,
)
from noisewright.privacy.exact.rounding import checked_scale
from noisewright.privacy.noise.source import (
    FIRST_BITS,
    MORE_BITS,
    ByteSource,
    SystemSource,
    uniform_words,
    with_more_bits,
)

Size = int | tuple[int, ...]
Scale = float | Fraction

# draws handled at once, so that work arrays stay in the processor's cache
_BATCH = 1 << 16
# of an enclosure beyond those of the number compared: one in 2^32 comparisons needs more bits
_GUARD_BITS = 32


def rounded_gaussian(
    sigma: Scale, size: Size, source: ByteSource | None = None
) -> IntArray:
    """Draw round(G) with G exactly N(0, σ²); a float σ is taken as the rational it stores."""
    law = _RoundedGaussian(checked_scale("sigma", sigma))
    return _draw(law, size, source)


def discrete_laplace(
    scale: Scale, size: Size, source: ByteSource | None = None
) -> IntArray:
    """Draw integers k with probability proportional to e^(-|k|/scale), exactly."""
    law = _DiscreteLaplace(checked_scale("scale", scale))
    return _draw(law, size, source)


def geometric(scale: Scale, size: Size, source: ByteSource | None = None) -> IntArray:
    """Draw integers k >= 0 with Pr(k >= m) = e^(-m/scale), exactly."""
    law = _Geometric(checked_scale("scale", scale))
    return np.abs(_draw(law, size, source))


def _count(size: Size) -> int:
    count = prod(size) if isinstance(size, tuple) else size
    if count < 0:
        raise InvalidParameter("size", size, "must not be negative")
    return count


class _Law(ABC):
    """A symmetric law on the integers, known by its survival function."""

    @abstractmethod
    def survival(self, m: int, precision: int) -> Enclosure:
        """Enclose Pr(|k| >= m) for m >= 1."""

    @abstractmethod
    def magnitudes(self, bits: WordArray) -> tuple[FloatArray, BoolArray]:
        """Return |k| for uniforms known to 63 bits, and where it is beyond doubt."""


class _RoundedGaussian(_Law):
    def __init__(self, sigma: Fraction) -> None:
        self.exact = sigma
        self.sigma = float(sigma)

    def survival(self, m: int, precision: int) -> Enclosure:
        edge = m - Fraction(1, 2)
        return two_sided_tail(edge / self.exact, precision)

    def magnitudes(self, bits: WordArray) -> tuple[FloatArray, BoolArray]:
        z, within_reach = gaussian_quantile(bits)
        y = self.sigma * z
        k = np.rint(y)
        sure = np.abs(y - k) < 0.5 - self.sigma * GAUSSIAN_ERROR
        k[~within_reach] = GAUSSIAN_REACH * self.sigma  # where the exact search begins
        return k, sure & within_reach


class _Geometric(_Law):
    offset = 0.0  # what is added to -ln u

    def __init__(self, scale: Fraction) -> None:
        self.exact = scale
        self.scale = float(scale)

    def survival(self, m: int, precision: int) -> Enclosure:
        """Enclose e^(-m/s)."""
        return exp_minus(m / self.exact, precision)

    def magnitudes(self, bits: WordArray) -> tuple[FloatArray, BoolArray]:
        """Return the floor of s(offset - ln u), which counts the m with u <= S(m)."""
        logarithm, enough = minus_log(bits)
        y = self.scale * (logarithm + self.offset)
        sure = np.abs(y - np.rint(y)) > self.scale * LOGARITHM_ERROR
        return np.floor(y), enough & sure


class _DiscreteLaplace(_Geometric):
    def __init__(self, scale: Fraction) -> None:
        super().__init__(scale)
        # u <= S(m) as long as m <= s(ln(2/(1 + e^(-1/s))) - ln u).
        self.offset = log_two_over_one_plus_exp_minus(1 / scale)

    def survival(self, m: int, precision: int) -> Enclosure:
        """Enclose 2 e^(-m/s) / (1 + e^(-1/s))."""
        one = 1 << precision
        step = exp_minus(1 / self.exact, precision)
        power = super().survival(m, precision)
        doubled = [end << (precision + 1) for end in power]

        low = doubled[0] // (one + step[1])
        high = -(-doubled[1] // (one + step[0]))
        return low, high


class Uniform:
    """A uniform real number in [0, 1] that learns more of its bits when a comparison needs them."""

    def __init__(self, first: int, source: ByteSource) -> None:
        self._numerator = first
        self._bits = FIRST_BITS
        self._source = source

    def at_most(self, bound: Callable[[int], Enclosure]) -> bool:
        """Compare with a number that `bound` encloses at any precision asked for."""
        while True:
            lo, hi = bound(self._bits + _GUARD_BITS)
            if (self._numerator + 1) << _GUARD_BITS <= lo:
                return True
            if self._numerator << _GUARD_BITS >= hi:
                return False
            self._numerator = with_more_bits(self._numerator, self._source)
            self._bits += MORE_BITS


def _draw(law: _Law, size: Size, source: ByteSource | None) -> IntArray:
    source = source or SystemSource()
    result = np.empty(_count(size), dtype=np.int64)
    for start in range(0, result.size, _BATCH):
        part = result[start : start + _BATCH]
        words = uniform_words(part.size, source)
        bits = words >> np.uint64(1)
        magnitudes, sure = law.magnitudes(bits)
        part[:] = magnitudes

        for position in np.flatnonzero(~sure):
            uniform = Uniform(int(bits[position]), source)
            part[position] = _exact_magnitude(law, uniform, int(magnitudes[position]))

        # The lowest bit of a word is its sign.
        negative = (words & np.uint64(1)).astype(bool)
        np.negative(part, out=part, where=negative)

    return result.reshape(size)


def _exact_magnitude(law: _Law, uniform: Uniform, guess: int) -> int:
    """Count the m >= 1 with U <= S(m): gallop away from a guess, then bisect."""

    def reaches(m: int) -> bool:
        return m <= 0 or uniform.at_most(lambda precision: law.survival(m, precision))

    low = high = guess
    step = 1
    while not reaches(low):
        high = low
        low = low - step
        step = 2 * step

    step = 1
    while high == low or reaches(high):
        low = high
        high = high + step
        step = 2 * step

    while high - low > 1:
        middle = (low + high) // 2
        if reaches(middle):
            low = middle
        else:
            high = middle

    return max(low, 0)
