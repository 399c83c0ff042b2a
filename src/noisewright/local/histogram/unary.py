"""Unary encodings [025, 026]: one randomised bit per cell."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.fixedpoint import (
    WORD,
    exponential,
    odds_threshold,
)
from noisewright.local.histogram.centred import CentredStrategy, PlainStrategy, Support
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Flip
from noisewright.local.randomizer.specification import Nodes, Place
from noisewright.local.reports.tallies import FlipTally
from noisewright.local.strategy import Arrays, Settings


@dataclass(frozen=True)
class UnaryEncoding(PlainStrategy, CentredStrategy):
    """One bit per cell, each randomised on its own.

    `symmetric` is basic RAPPOR: truth and lie with odds e^{ε/2} in every bit. Otherwise a one is
    kept with chance 1/2 and a zero flipped with chance 1/(1+e^ε): the optimised encoding.

    Sets are counted by weights that depend on their size (see `tallies`), and the formulas are
    those of the weights in use.
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

    @classmethod
    def restored(
        cls, place: Place, settings: Settings, arrays: Arrays
    ) -> UnaryEncoding:
        law = place.node(Flip)
        return cls(
            law.cells, settings["epsilon"], int(law.own) + int(law.other) == WORD
        )

    @cached_property
    def support(self) -> Support:
        """Bits are independent."""
        p, q = (t / WORD for t in self.thresholds)
        return Support(p, q, p * q, q * q)

    @cached_property
    def _moments(self) -> tuple[float, float, float]:
        """The slope, and g and 1 + h times its square: sums over the sizes of the other cells.

        Every difference between the own cell and another is p − q times a mean over the rest.
        """
        (p, q), counted = (t / WORD for t in self.thresholds), self.collector
        assert isinstance(counted, FlipTally)
        c = counted.weights.astype(np.float64)
        two = _binomial(self.size - 2, q)
        three = _binomial(max(self.size - 3, 0), q)

        def mean(chances: FloatArray, values: FloatArray, members: int) -> float:
            return float(chances @ values[members : members + len(chances)])

        slope = (p - q) * mean(two, c, 1)
        other = q * (p * mean(two, c**2, 2) + (1 - p) * mean(two, c**2, 1))
        if self.size == 2:
            return (
                slope,
                other,
                (p - q) * mean(two, c**2, 1) - 2 * p * q * mean(two, c**2, 2),
            )

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
    lambda problem: UnaryEncoding(
        problem.listed_cells, problem.epsilon, symmetric=True
    ),
)

UNARY = LocalMechanism(
    "unary",
    "one bit per cell, zeros better hidden",
    lambda problem: UnaryEncoding(problem.listed_cells, problem.epsilon),
)
