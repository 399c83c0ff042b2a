"""The law of one draw d: flat on its core |d| <= c, falling like Laplace noise beyond.

What lies inside is r = clip(d, ±c), what is left the excess s = d − r. All sums are exact over the
integers that are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.arrays import Array, FloatArray


@dataclass(frozen=True)
class Tail:
    """Sums over m >= 1 of q^m, m q^m and m² q^m, q = e^(-1/scale)."""

    scale: float

    @cached_property
    def q(self) -> float:
        """The ratio of one step."""
        return float(np.exp(-1 / self.scale))

    @cached_property
    def _complement(self) -> float:
        """1 − q, whose digits are kept where q is near one."""
        return float(-np.expm1(-1 / self.scale))

    def log_beyond(self, x: Array | float) -> FloatArray:
        """ln Σ q^m e^(xm), for |x| below 1/scale."""
        rate = 1 / self.scale - x
        return np.asarray(-rate - np.log(-np.expm1(-rate)))

    def total(self, cores: Array) -> FloatArray:
        """What the weights of a law add up to: one on the core, the tail's on either side."""
        return np.asarray(2.0 * cores + 1 + 2 * self.mass)

    @property
    def mass(self) -> float:
        """Σ q^m."""
        return self.q / self._complement

    @property
    def first(self) -> float:
        """Σ m q^m."""
        return self.q / self._complement**2

    @property
    def second(self) -> float:
        """Σ m² q^m."""
        return self.q * (1 + self.q) / self._complement**3


def log_sinh_ratio(
    x: Array | float,
    width: Array,
) -> FloatArray:
    """ln of Σ e^(xv) over |v| <= c, which is sinh(x·width/2)/sinh(x/2), width = 2c + 1."""
    x = np.maximum(np.abs(x), 1e-12)
    grown = x * width
    ratio = np.log(-np.expm1(-grown)) - np.log(-np.expm1(-x))
    return np.asarray((grown - x) / 2 + ratio)


@dataclass(frozen=True)
class CoreMoments:
    """Second moments of what lies inside cores of so many grid steps, and beyond."""

    cores: FloatArray
    scale: float

    @cached_property
    def _tail(self) -> Tail:
        return Tail(self.scale)

    @cached_property
    def _total(self) -> FloatArray:
        return self._tail.total(self.cores)

    @cached_property
    def inside(self) -> FloatArray:
        """E r²."""
        c = self.cores
        inner = c * (c + 1) * (2 * c + 1) / 6 + c**2 * self._tail.mass
        return np.asarray(2 * inner / self._total)

    @cached_property
    def cross(self) -> FloatArray:
        """E[sr]."""
        return np.asarray(2 * self.cores * self._tail.first / self._total)

    @cached_property
    def beyond(self) -> FloatArray:
        """E s²."""
        return np.asarray(2 * self._tail.second / self._total)

    @property
    def drawn(self) -> FloatArray:
        """E d² = E (s + r)²."""
        return self.beyond + 2 * self.cross + self.inside

    @property
    def pull(self) -> FloatArray:
        """1 + E[sr]/E r²: how hard shares are drawn to rows, where a core alone would draw by 1."""
        return np.asarray(1 + self.cross / np.maximum(self.inside, 1e-12))

    @property
    def slopes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Derivatives of E s², E[sr] and E r² by the core."""
        c = self.cores
        inner = c * c + c + 1 / 6 + 2 * c * self._tail.mass
        return (
            -2 * self.beyond / self._total,
            2 * (self._tail.first - self.cross) / self._total,
            2 * (inner - self.inside) / self._total,
        )
