"""Noise in the shape of a ball: density ∝ e^(-‖z‖/scale) in d dimensions, rounded exactly.

For whole data that one person moves by at most r in Euclidean length, noise of scale r/ε is
ε-private: ‖z‖ differs by at most r between neighbours. A draw is Gamma(d)·scale along a uniform
direction; a sum of 2d squared Gaussians is twice a Gamma(d), and a direction is a vector of
Gaussians over its length, so all of it follows from 3d Gaussians. What is added is their true
value, rounded: each number is known to a proven error at first, and one that lies too near a half
is decided with more bits of all Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.privacy.exact.proven import GAUSSIAN_ERROR
from noisewright.privacy.exact.rounding import checked_scale, root_above
from noisewright.privacy.noise.source import ByteSource, SystemSource
from noisewright.privacy.noise.wishart import Gaussians, Interval, rounded_alike

_UNIT = 2.0**-52  # twice the rounding of one operation on floats
_ROOT_BITS = 400  # of square roots in integers, far beyond the bits of any Gaussian
_SMALL_ERROR = 1e-3  # relative; squares of smaller ones are far below themselves


def ball_noise(
    radius_square: int,
    epsilon: Fraction,
    dimension: int,
    source: ByteSource | None = None,
) -> IntArray:
    """So many whole numbers, exactly rounded noise for vectors moved by √radius_square at most."""
    ball = _Ball(radius_square, epsilon, dimension)
    scale = Fraction(root_above(Fraction(radius_square))) / epsilon
    checked_scale("scale", scale * dimension)

    gaussians = Gaussians.drawn((3 * dimension,), source or SystemSource())
    values, margin = ball.in_floats(gaussians.values)
    nearest = np.rint(values)
    result = nearest.astype(np.int64)

    # Told by what is sure, so that a number which is no number is decided too.
    sure = np.abs(values - nearest) < 0.5 - margin
    for place in np.flatnonzero(~sure):
        result[place] = ball.rounded(gaussians, int(place))

    return result


@dataclass(frozen=True)
class _Ball:
    """How far people move the vector at most, squared, and what hides that."""

    radius_square: int
    epsilon: Fraction
    dimension: int

    def in_floats(self, gaussians: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The numbers in floats, and how far at most they are from the true ones."""
        direction = gaussians[: self.dimension]
        squares = []
        relative_error = 0.0
        for part in (direction, gaussians[self.dimension :]):
            square = float((part**2).sum())
            slack = GAUSSIAN_ERROR * (2 * float(np.abs(part).sum()) + len(part))
            relative_error += slack / max(square, 1e-300) + (len(part) + 4) * _UNIT
            squares.append(square)

        length_square, twice_gamma = squares
        scale = float(np.sqrt(float(self.radius_square))) / float(self.epsilon)
        factor = scale * twice_gamma / 2 / np.sqrt(length_square)
        values = factor * direction

        # Twice the first order covers the second where errors are small; else all is decided.
        if relative_error >= _SMALL_ERROR:
            return values, np.full(self.dimension, np.inf)
        error = np.abs(values) * (relative_error + 8 * _UNIT)
        return values, 2 * (error + factor * GAUSSIAN_ERROR)

    def rounded(self, gaussians: Gaussians, place: int) -> int:
        """One number, rounded, with as many bits of all Gaussians as that takes."""
        while True:
            size = rounded_alike(self._enclosed(gaussians, place))
            if size is not None:
                return size if gaussians.signs[place] > 0 else -size
            for key in range(3 * self.dimension):
                gaussians.refine((key,))

    def _enclosed(self, gaussians: Gaussians, place: int) -> Interval:
        """Bounds of the size of one number."""
        ends = [gaussians.enclosure((key,)) for key in range(3 * self.dimension)]
        squares = [(low * low, high * high) for low, high in ends]
        length_low, length_high = _sum(squares[: self.dimension])
        gamma_low, gamma_high = _sum(squares[self.dimension :])

        low, high = ends[place]
        low *= gamma_low / 2 / self.epsilon
        low *= _root(self.radius_square / length_high)[0]
        if length_low == 0:
            return low, low + 1  # nothing is known of the direction yet

        high *= gamma_high / 2 / self.epsilon
        high *= _root(self.radius_square / length_low)[1]
        return low, high


def _sum(parts: list[Interval]) -> Interval:
    """Bounds of a sum."""
    low = sum((part[0] for part in parts), Fraction(0))
    high = sum((part[1] for part in parts), Fraction(0))
    return low, high


def _root(value: Fraction) -> Interval:
    """Bounds of a square root."""
    scaled = (value.numerator << 2 * _ROOT_BITS) // value.denominator
    root = isqrt(scaled)
    one = 1 << _ROOT_BITS
    return Fraction(root, one), Fraction(root + 2, one)
