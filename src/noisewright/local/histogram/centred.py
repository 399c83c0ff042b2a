"""Histogram mechanisms: every cell is treated alike, so a few numbers say everything.

A report *supports* a set of cells; T is its indicator. Under type u a cell is supported with chance
p if it is u and q if not; two cells together with chance p2 (one is u) or q2 (neither is). Then

    x̂ = N/n + (T − T̄)/(p − q),     X = a(I − 11ᵀ/n) + 11ᵀ,     Cov = gP + h (Pe_u)(Pe_u)ᵀ

per person of type u, with P = I − 11ᵀ/n: nothing over the cells is ever inverted or enumerated.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.local.analysis.information import CentredInformation, Information
from noisewright.local.fixedpoint import check_epsilon, exponential, odds_threshold
from noisewright.local.storage import whole_number
from noisewright.local.strategy import Strategy, check_dense
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram


@dataclass(frozen=True)
class Support:
    """Chances that a report supports cells, given its person's type."""

    own: float
    other: float
    own_pair: float
    other_pair: float

    @property
    def gap(self) -> float:
        """p − q."""
        return self.own - self.other


class CentredStrategy(Strategy):
    """A strategy whose statistic is how many reports support each cell."""

    @property
    def alike(self) -> bool:
        """Whether any three cells are supported together as any others are."""
        return True

    @property
    @abstractmethod
    def support(self) -> Support:
        """Chances of support, exactly those that clients use."""

    def supporters(self, tally: IntArray) -> IntArray:
        """Number of reports that support each cell: the statistic itself, unless told."""
        return tally

    # g and h of the covariance, and the slope of the score in T.

    @property
    def slope(self) -> float:
        """What a person adds to their own cell's statistic beyond any other's, on average."""
        return self.support.gap

    @cached_property
    def spread(self) -> float:
        """g: variance on differences between cells that are not the person's own."""
        apart = self.support.other - self.support.other_pair
        return apart / self.support.gap**2

    @cached_property
    def own_spread(self) -> float:
        """h: what the person's own cell adds."""
        support = self.support
        pairs = support.own_pair - support.other_pair
        return (support.gap - 2 * pairs) / support.gap**2 - 1.0

    @cached_property
    def contrast(self) -> float:
        """a: information on differences between cells, the inverse of their mean second moment."""
        # tr of P Cov_u P + (Pe_u)(Pe_u)ᵀ is (n−1)(g + (1+h)/n).
        own = (1.0 + self.own_spread) / self.size
        return 1.0 / (self.spread + own)

    @cached_property
    def information(self) -> Information:
        """X = a(I − 11ᵀ/n) + 11ᵀ."""
        return CentredInformation(self.size, self.contrast)

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ s with s = 1 + a(T − T̄)/(p − q)."""
        supporters = self.supporters(tally)
        away = supporters - supporters.mean()
        return np.asarray(people + self.contrast / self.slope * away)

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_u x_u E[s sᵀ | u]."""
        check_dense(self.size)
        a = self.contrast
        total = histogram.sum()
        centred = histogram - histogram.mean()
        covariance = self.covariance(histogram) + _centred_diagonal(histogram)
        cross = centred[:, None] + centred[None, :]

        return np.asarray(total + a * cross + a**2 * covariance)

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """E[sᵀ S s | u]."""
        return self.energy_of(np.diagonal(quadratic), quadratic.sum(axis=1))

    def energy_of(self, diagonal: FloatArray, image: FloatArray) -> FloatArray:
        """The same from the diagonal of S and S1 alone."""
        a = self.contrast
        mean = image.mean()
        trace = float(diagonal.sum()) - mean
        own = (1 + self.own_spread) * _centred_squares(diagonal, image)

        linear = image.sum() + 2 * a * (image - mean)
        squares = self.spread * trace + own

        return np.asarray(linear + a**2 * squares)

    def type_variances(self, gram: Gram) -> FloatArray:
        """g tr(PMP) + h (Pe_u)ᵀM(Pe_u)."""
        image = gram.matvec(np.ones(self.size))
        own = _centred_squares(gram.diagonal(), image)
        trace = gram.trace() - float(image.mean())
        return np.asarray(self.spread * trace + self.own_spread * own)

    def query_variances(self, workload: Workload, histogram: FloatArray) -> FloatArray:
        """N g |w − w̄|² + h Σ_u x_u (w_u − w̄)² for every query w, without a matrix over cells."""
        ones = np.ones(self.size)
        total = histogram.sum()
        mean = workload.matvec(ones) / self.size
        norms = workload.row_squares(ones) - self.size * mean**2

        answers = workload.matvec(histogram)
        own = workload.row_squares(histogram) - 2 * mean * answers
        own = own + total * mean**2

        return np.asarray(self.spread * total * norms + self.own_spread * own)

    def worst_of_each(self, queries: FloatArray) -> FloatArray:
        """max_u g |w − w̄|² + h (w_u − w̄)² for every query (row) w."""
        squares = (queries - queries.mean(axis=1, keepdims=True)) ** 2
        own = (self.own_spread * squares).max(axis=1)
        return np.asarray(self.spread * squares.sum(axis=1) + own)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """N g P + h P Diag(x) P."""
        check_dense(self.size)
        n = self.size
        total = histogram.sum()
        centred = np.eye(n) - 1.0 / n
        own = self.own_spread * _centred_diagonal(histogram)

        return np.asarray(self.spread * total * centred + own)


def _centred_diagonal(x: FloatArray) -> FloatArray:
    """P Diag(x) P."""
    mean = x / len(x)
    shared = mean[:, None] + mean
    return np.asarray(np.diag(x) - shared + mean.mean())


def _centred_squares(diagonal: FloatArray, image: FloatArray) -> FloatArray:
    """(Pe_u)ᵀM(Pe_u) for every u, from the diagonal of M and M1."""
    size = len(image)
    return np.asarray(diagonal - 2 * image / size + image.mean() / size)


def check_cells(size: int) -> int:
    """Refuse domains in which there is nothing to learn."""
    cells = whole_number("size", size)
    if cells < 2:
        remedy = "with one cell every answer follows from the number of people: "
        remedy += "collect nothing"
        raise InvalidParameter("size", size, "must be a whole number >= 2", remedy)

    return cells


class FavouringStrategy(Strategy):
    """Every person has as many outcomes of their own, each e^ε times likelier than any other."""

    @property
    @abstractmethod
    def favoured(self) -> tuple[int, int]:
        """Number of outcomes that are one's own, and of all."""

    @cached_property
    def threshold(self) -> int:
        """Chance of an own outcome, out of 2^64."""
        own, every = self.favoured
        odds = exponential(self.epsilon) * Fraction(own, every - own)
        return odds_threshold(odds)


class PlainStrategy(Strategy):
    """A strategy over cells whose dataclass fields are plain numbers, and all there is to it."""

    def __post_init__(self) -> None:
        check_cells(self.size)
        check_epsilon(self.epsilon)
