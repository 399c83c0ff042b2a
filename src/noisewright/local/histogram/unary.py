"""Unary encodings [025, 026]: one randomised bit per cell."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np
import numpy.typing as npt

from noisewright.local.fixedpoint import (
    WORD,
    bernoulli,
    exponential,
    odds_threshold,
)
from noisewright.local.histogram.bits import bernoulli_rows, set_bits
from noisewright.local.histogram.centred import Support
from noisewright.local.histogram.plain import PlainStrategy
from noisewright.local.histogram.sets import SetStrategy, held_by
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Flip
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.strategy import IntArray
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import Array, FloatArray

_UNIT = 2**20
"""What a member of a set of the usual size counts."""


@dataclass(frozen=True)
class UnaryEncoding(PlainStrategy, SetStrategy):
    """One bit per cell, each randomised on its own.

    `symmetric` is basic RAPPOR: truth and lie with odds e^{ε/2} in every bit. Otherwise a one is
    kept with chance 1/2 and a zero flipped with chance 1/(1+e^ε): the optimised encoding.

    A member of a small set says more than one of a large set: it counts 1/(n r0 + k (r1 − r0)) in
    a set of k, r1 and r0 being the likelihood ratios of a one and of a zero. That is the best
    linear estimate; weights are whole numbers, and the formulas are those of the weights in use.
    """

    size: int
    epsilon: float
    symmetric: bool = False

    kind = "unary"

    @cached_property
    def thresholds(self) -> tuple[int, int]:
        """Chances of a one, out of 2^64, in the bit of the true cell and in the others."""
        factor = exponential(self.epsilon)
        if self.symmetric:
            root = odds_threshold(_root_below(factor))
            return root, WORD - root
        # Rounded up, so that the odds of a zero never overstate e^ε.
        other = -(-WORD * factor.denominator // (factor.numerator + factor.denominator))
        return WORD // 2, other

    def express(self, nodes: Nodes) -> int:
        own, other = map(str, self.thresholds)
        return nodes.add(Flip(cells=self.size, own=own, other=other))

    @cached_property
    def support(self) -> Support:
        """Bits are independent."""
        p, q = (t / WORD for t in self.thresholds)
        return Support(p, q, p * q, q * q)

    def sample(self, values: IntArray, source: ByteSource | None = None) -> Array:
        """One packed set per value."""
        own, other = self.thresholds
        reports = bernoulli_rows(other, len(values), self.size, source)
        set_bits(reports, values, bernoulli(own, len(values), source))
        return reports

    @cached_property
    def weights(self) -> IntArray:
        """What a member counts, by the size of its set."""
        (p, q), n = (t / WORD for t in self.thresholds), self.size
        high, low = p / q, (1 - p) / (1 - q)
        usual = n * low + (p + (n - 1) * q) * (high - low)
        exact = _UNIT * usual / (n * low + np.arange(n + 1) * (high - low))
        return np.asarray(np.rint(np.clip(exact, 1, _UNIT**2)), dtype=np.int64)

    def tally(self, reports: Array) -> IntArray:
        """Weighted counts of the sets that hold each cell."""
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, len(reports), self.sample_block):
            block = reports[start : start + self.sample_block]
            sizes = np.bitwise_count(block).sum(axis=1, dtype=np.int64)
            order = np.argsort(sizes, kind="stable")
            present, firsts = np.unique(sizes[order], return_index=True)
            for size, members in zip(present, np.split(order, firsts[1:]), strict=True):
                total += self.weights[size] * held_by(block[members], self.size)
        return total

    def possible(self, tally: IntArray, people: int) -> bool:
        """Counts of people who hold each cell, each times a weight."""
        return bool(tally.min() >= 0) and int(tally.max()) <= people * int(self.weights.max())

    @cached_property
    def _moments(self) -> tuple[float, float, float]:
        """The slope, and g and 1 + h times its square: sums over the sizes of the other cells.

        Every difference between the own cell and another is p − q times a mean over the rest.
        """
        (p, q), c = (t / WORD for t in self.thresholds), self.weights.astype(np.float64)
        two, three = _binomial(self.size - 2, q), _binomial(max(self.size - 3, 0), q)

        def mean(chances: FloatArray, values: FloatArray, members: int) -> float:
            return float(chances @ values[members : members + len(chances)])

        slope = (p - q) * mean(two, c, 1)
        other = q * (p * mean(two, c**2, 2) + (1 - p) * mean(two, c**2, 1))
        if self.size == 2:
            return slope, other, (p - q) * mean(two, c**2, 1) - 2 * p * q * mean(two, c**2, 2)
        pair = q**2 * (p * mean(three, c**2, 3) + (1 - p) * mean(three, c**2, 2))
        gained = (p - q) * (mean(two, c**2, 1) - 2 * q * mean(three, c**2, 2))
        return slope, other - pair, gained

    @property
    def slope(self) -> float:
        """What a person adds to their own cell beyond any other."""
        return self._moments[0]

    @cached_property
    def spread(self) -> float:
        """g of the covariance."""
        slope, spread, _ = self._moments
        return spread / slope**2

    @cached_property
    def own_spread(self) -> float:
        """h of the covariance."""
        slope, _, gained = self._moments
        return gained / slope**2 - 1.0

    def plausible(self, reports: Array, deviations: float) -> npt.NDArray[np.bool_]:
        """Sets of about the usual size: a set of all cells would vote for everything."""
        p, q = self.support.own, self.support.other
        held = np.bitwise_count(reports).sum(axis=1, dtype=np.int64)
        mean, variance = p + (self.size - 1) * q, p * (1 - p) + (self.size - 1) * q * (1 - q)
        return np.asarray(np.abs(held - mean) <= deviations * variance**0.5)

    @property
    def outputs(self) -> int | None:
        """Number of bit patterns, when few."""
        return 1 << self.size if self.size <= 16 else None

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of bit patterns `start` to `stop`, the first cell being the highest bit."""
        if self.outputs is None:
            return super().rows(start, stop)
        p, q = self.support.own, self.support.other
        shifts = np.arange(self.size - 1, -1, -1)
        bits = (np.arange(start, stop)[:, None] >> shifts) & 1
        others = np.where(bits, q, 1 - q)
        own = np.where(bits, p, 1 - p)
        return np.asarray(others.prod(axis=1, keepdims=True) / others * own)


def _root_below(value: Fraction) -> Fraction:
    """A rational just below the square root."""
    scale = 1 << 128
    return Fraction(isqrt(value.numerator * scale**2 // value.denominator), scale)


def _binomial(trials: int, chance: float) -> FloatArray:
    """Chances of 0 … trials successes."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    law = np.exp(ways + xlogy(k, chance) + xlog1py(trials - k, -chance))
    return np.asarray(law / law.sum())


RAPPOR = LocalMechanism(
    "rappor",
    "one bit per cell, truth and lie alike",
    lambda problem: UnaryEncoding(problem.listed_cells, problem.epsilon, symmetric=True),
)

UNARY = LocalMechanism(
    "unary",
    "one bit per cell, zeros better hidden",
    lambda problem: UnaryEncoding(problem.listed_cells, problem.epsilon),
)
