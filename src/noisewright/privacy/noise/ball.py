"""Noise in the shape of a ball: density ∝ e^(-‖z‖/scale) in d dimensions, rounded exactly.

For whole data that one person moves by at most r in Euclidean length, noise of scale r/ε is
ε-private: ‖z‖ differs by at most r between neighbours. A draw is Gamma(d)·scale along a uniform
direction; a sum of 2d squared Gaussians is twice a Gamma(d), and a direction is a vector of
Gaussians over its length, so all of it follows from 3d Gaussians. What is added is their true
value, rounded: each number is known to a proven error at first, and one that lies too near a half
is decided with more bits of all Gaussians.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.privacy.exact.proven import GAUSSIAN_ERROR
from noisewright.privacy.exact.rounding import checked_scale, root_above
from noisewright.privacy.noise.source import ByteSource, SystemSource
from noisewright.privacy.noise.wishart import Gaussians

Interval = tuple[Fraction, Fraction]

_UNIT = 2.0**-52  # twice the rounding of one operation on floats
# of square roots in the exact path, far beyond the bits of any Gaussian there
_ROOT_BITS = 400


def ball_noise(
    radius_square: int,
    epsilon: Fraction,
    dimension: int,
    source: ByteSource | None = None,
) -> IntArray:
    """So many whole numbers, exactly rounded noise for vectors moved by √radius_square at most."""
    checked_scale(
        "scale", Fraction(root_above(Fraction(radius_square))) / epsilon * dimension
    )
    gaussians = Gaussians.drawn((3 * dimension,), source or SystemSource())
    values, margin = _nearly(gaussians.values, radius_square, epsilon, dimension)
    nearest = np.rint(values)
    result = nearest.astype(np.int64)

    for place in np.flatnonzero(~(np.abs(values - nearest) < 0.5 - margin)):
        result[place] = _decided(
            gaussians, int(place), radius_square, epsilon, dimension
        )

    return result


def _nearly(
    gaussians: FloatArray, radius_square: int, epsilon: Fraction, dimension: int
) -> tuple[FloatArray, FloatArray]:
    """The numbers in floats, and how far at most they are from the true ones."""
    direction = gaussians[:dimension]
    rest = gaussians[dimension:]
    lengths = []
    wrong = 0.0
    for part in (direction, rest):
        square = float((part**2).sum())
        slack = GAUSSIAN_ERROR * (2 * float(np.abs(part).sum()) + len(part))
        wrong += slack / max(square, 1e-300) + (len(part) + 4) * _UNIT
        lengths.append(square)

    scale = float(np.sqrt(float(radius_square))) / float(epsilon)
    factor = scale * lengths[1] / 2 / np.sqrt(lengths[0])
    values = factor * direction
    # Twice the first order covers the second where what is wrong is small; else all is decided.
    margin = 2 * (np.abs(values) * (wrong + 8 * _UNIT) + factor * GAUSSIAN_ERROR)

    return values, margin if wrong < 1e-3 else np.full(dimension, np.inf)


def _decided(
    gaussians: Gaussians,
    place: int,
    radius_square: int,
    epsilon: Fraction,
    dimension: int,
) -> int:
    """One number, rounded, with as many bits of all Gaussians as that takes."""
    while True:
        low, high = _enclosed(gaussians, place, radius_square, epsilon, dimension)
        ends = [(end + Fraction(1, 2)).__floor__() for end in (low, high)]
        if ends[0] == ends[1]:
            size = ends[0]
            return size if gaussians.signs[place] > 0 else -size
        for key in range(3 * dimension):
            gaussians.refine((key,))


def _enclosed(
    gaussians: Gaussians,
    place: int,
    radius_square: int,
    epsilon: Fraction,
    dimension: int,
) -> Interval:
    """Bounds of the size of one number."""
    ends = [gaussians.enclosure((key,)) for key in range(3 * dimension)]
    squares = [(low * low, high * high) for low, high in ends]
    length = _sum(squares[:dimension])
    gamma = _sum(squares[dimension:])
    low = ends[place][0] * gamma[0] / 2 / epsilon * _root(radius_square / length[1])[0]
    if length[0] == 0:
        return low, low + 1  # nothing is known of the direction yet

    return low, ends[place][1] * gamma[1] / 2 / epsilon * _root(
        radius_square / length[0]
    )[1]


def _sum(parts: list[Interval]) -> Interval:
    return sum((p[0] for p in parts), Fraction(0)), sum(
        (p[1] for p in parts), Fraction(0)
    )


def _root(value: Fraction) -> Interval:
    """Bounds of a square root."""
    scaled = (value.numerator << 2 * _ROOT_BITS) // value.denominator
    root = isqrt(scaled)
    one = 1 << _ROOT_BITS
    return Fraction(root, one), Fraction(root + 2, one)
