"""Randomized response [023], the true cell or any other, and subset selection [027, 028].

A subset is a random set of cells, as bits or by its number in a list.

Subset selection meets the bound on unbiased linear estimates of histograms (see `bound`). There are
exponentially many reports; they are counted by cell and never enumerated.

Unary encodings [025, 026]: one randomised bit per cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, exp, isqrt
from typing import Self

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.bounds.trace import contrast_limit
from noisewright.local.fixedpoint import WORD, exponential, odds_threshold
from noisewright.local.histogram.centred import (
    CentredStrategy,
    FavouringStrategy,
    PlainStrategy,
    Support,
)
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Flip, Owner, Rows, Same, Subset
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.reports.sets import FlipTally
from noisewright.local.storage import Stored, whole_number
from noisewright.local.strategy import IndexStrategy


@dataclass(frozen=True)
class RandomizedResponse(
    FavouringStrategy, PlainStrategy, CentredStrategy, IndexStrategy
):
    """Report the truth with odds e^ε against each other cell."""

    size: int
    epsilon: float

    kind = "randomized-response"

    @property
    def favoured(self) -> tuple[int, int]:
        """The true cell."""
        return 1, self.size

    def express(self, nodes: Nodes) -> int:
        return nodes.favour(self.threshold, Same(cells=self.size))

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        return cls(stored.cells, stored.epsilon)

    @cached_property
    def support(self) -> Support:
        """A report supports its own cell alone."""
        own = self.threshold / WORD
        return Support(own, (1 - own) / (self.size - 1), 0.0, 0.0)


@dataclass(frozen=True)
class SubsetSelection(FavouringStrategy, PlainStrategy, CentredStrategy):
    """Report a set of `chosen` cells, e^ε times likelier when it holds the true one.

    With `chosen` near n/(1+e^ε) it meets the lower bound on the histogram exactly.
    """

    size: int
    epsilon: float
    chosen: int = 0

    kind = "subset-selection"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen == 0:
            best = best_subset_size(self.size, self.epsilon)
            object.__setattr__(self, "chosen", best)

        whole_number("chosen", self.chosen, 1, self.size - 1)

    @property
    def favoured(self) -> tuple[int, int]:
        """Sets with the true cell to those without are as `chosen` cells to the rest of them."""
        return self.chosen, self.size

    def express(self, nodes: Nodes) -> int:
        threshold = str(self.threshold)
        return nodes.add(Subset(cells=self.size, size=self.chosen, threshold=threshold))

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        law = stored.node(Subset)
        return cls(law.cells, stored.epsilon, law.size)

    @cached_property
    def support(self) -> Support:
        """Given whether the true cell is in, the others are a uniform set."""
        n = self.size
        d = self.chosen
        p = self.threshold / WORD
        other = (d - p) / (n - 1)
        own_pair = p * (d - 1) / (n - 1)
        other_pair = 0.0
        if n > 2:
            other_pair = (d - 1) * (d - 2 * p) / ((n - 1) * (n - 2))

        return Support(p, other, own_pair, other_pair)


@dataclass(frozen=True)
class ListedSubsets(PlainStrategy, CentredStrategy, IndexStrategy):
    """Subset selection over few cells: the report is the set's number in a list of all sets."""

    size: int
    epsilon: float

    kind = "listed-subsets"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sets.outputs is None:
            raise TooLarge(
                f"the subsets of {self.size} cells are too many to be listed"
            )

    @cached_property
    def sets(self) -> SubsetSelection:
        """The same law, reporting bits."""
        return SubsetSelection(self.size, self.epsilon)

    @cached_property
    def _membership(self) -> IntArray:
        held = np.zeros((self.outputs, self.size), dtype=np.int64)
        sets = combinations(range(self.size), self.sets.chosen)
        for row, members in enumerate(sets):
            held[row, list(members)] = 1

        return held

    @property
    def outputs(self) -> int:
        """Number of sets."""
        return comb(self.size, self.sets.chosen)

    def express(self, nodes: Nodes) -> int:
        owner: Owner = Rows.of(self._membership.T == 1)
        if self.sets.chosen == 1:  # sets in order are the cells in order
            owner = Same(cells=self.size)

        return nodes.favour(self.sets.threshold, owner)

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        return cls(stored.cells, stored.epsilon)

    @property
    def support(self) -> Support:
        """That of the sets."""
        return self.sets.support

    def supporters(self, tally: IntArray) -> IntArray:
        """How many reported sets hold each cell."""
        return tally @ self._membership


def best_subset_size(size: int, epsilon: float) -> int:
    """The set size that tells cells apart best: a whole number next to n/(1+e^ε)."""
    near = int(size / (1 + exp(epsilon)))
    candidates = sorted(min(max(count, 1), size - 1) for count in (near, near + 1))
    return max(candidates, key=lambda count: contrast_limit(size, epsilon, count))


def top_cells(scores: FloatArray, count: int) -> BoolArray:
    """In every row, the `count` cells with the largest scores."""
    chosen = np.zeros(scores.shape, dtype=bool)
    last = min(count, scores.shape[1] - 1)
    order = np.argpartition(-scores, last, axis=1)
    np.put_along_axis(chosen, order[:, :count], True, axis=1)
    return chosen


RANDOMIZED_RESPONSE = LocalMechanism(
    "randomized-response",
    "the true cell, or any other",
    lambda problem: RandomizedResponse(problem.listed_cells, problem.epsilon),
)

SUBSET_SELECTION = LocalMechanism(
    "subset-selection",
    "a random set of cells",
    lambda problem: SubsetSelection(problem.listed_cells, problem.epsilon),
)


# --- unary ----------------------------------------------------------------------------------------


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
        together = factor.numerator + factor.denominator
        other = -(-WORD * factor.denominator // together)
        return WORD // 2, other

    @property
    def _law(self) -> Flip:
        own, other = map(str, self.thresholds)
        return Flip(cells=self.size, own=own, other=other)

    def express(self, nodes: Nodes) -> int:
        return nodes.add(self._law)

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        law = stored.node(Flip)
        symmetric = int(law.own) + int(law.other) == WORD
        return cls(law.cells, stored.epsilon, symmetric)

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
        p, q = (threshold / WORD for threshold in self.thresholds)
        weights = FlipTally(self._law).weights.astype(np.float64)
        squares = weights**2

        def mean(values: FloatArray, others: int, members: int) -> float:
            """Of the weights of sets with some members, and those of so many other cells."""
            chances = _binomial(others, q)
            return float(chances @ values[members : members + len(chances)])

        two = self.size - 2
        slope = (p - q) * mean(weights, two, 1)
        alone = mean(squares, two, 1)
        together = mean(squares, two, 2)
        other = q * (p * together + (1 - p) * alone)
        if two == 0:
            gained = (p - q) * alone - 2 * p * q * together
            return slope, other, gained

        three = self.size - 3
        pair_alone = mean(squares, three, 2)
        pair = q**2 * (p * mean(squares, three, 3) + (1 - p) * pair_alone)
        gained = (p - q) * (alone - 2 * q * pair_alone)

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
    scaled = value.numerator * scale**2 // value.denominator
    return Fraction(isqrt(scaled), scale)


def _binomial(trials: int, chance: float) -> FloatArray:
    """Chances of 0 … trials successes."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(trials + 1)
    rest = trials - k
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(rest + 1)
    chances = xlogy(k, chance) + xlog1py(rest, -chance)
    law = np.exp(ways + chances)

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
