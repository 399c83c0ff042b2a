"""How far means of bounded numbers stray from what they estimate: Bennett's form of Bernstein.

For independent X_k with variance at most v on average and X_k − E X_k ≤ b,
Pr[mean − E ≥ t] ≤ exp(−N (v/b²) h(bt/v)), h(u) = (1 + u)ln(1 + u) − u. It implies Bernstein's
exp(−Nt²/(2(v + bt/3))) and holds for people drawn from a population as for people as they are.

How often one answer is told above another that is larger: what choosing the largest rests on.

Let D be what one report adds to the difference of two answers, |D| ≤ b, and let the first answer
lie below the second by m at least. E D ≤ −m, E D² ≤ v and E D³ ≤ t are linear in the people, and

    E e^{λD} ≤ 1 − λm + (v/b²)(e^x − 1 − x − x³/6) + (t/b³) x³/6,    x = λb,

because (cosh y − 1)/y² and (sinh y − y − y³/6)/y⁵ grow with |y|. So the first answer is told above
the second with chance exp(−N (v/b²) H(mb/v)) at most, where w = t/(vb) and

    H(u) = max over x of ux − (e^x − 1 − x − (1 − w) x³/6).

This is Bennett's bound with the third moment as it is, not as large as it can be. As E D < 0, t may
be the largest of E D³ − b² E D as well, which is zero where D is one of −b, 0 and b.

Both answers are in one report, so that what they have in common counts for nothing; told apart one
by one, each may stray by half of m only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.privacy.exact.rounding import positive, probability

if TYPE_CHECKING:
    from noisewright.local.vector.linear_answers import LinearAnswers


_STEPS = 60  # halvings of an interval: beyond, doubles do not tell its ends apart
_MOST_PEOPLE = 2**62
"""Beyond it nobody is counted: machine words hold twice as many."""

# squares of it and of its inverse, and weights beside them, are floats
_LEAST_ERROR = 1e-50


@dataclass(frozen=True)
class MaxError:
    """All answers, as shares of people, within `error` of the truth but with probability `beta`."""

    error: float
    beta: float = 0.05

    def __post_init__(self) -> None:
        positive("max_error", self.error, "0.05 is 5 in a hundred")
        if not _LEAST_ERROR <= self.error <= 1 / _LEAST_ERROR:
            rule = f"must lie between {_LEAST_ERROR:g} and {1 / _LEAST_ERROR:g}"
            raise InvalidParameter(
                "max_error", self.error, rule, "0.05 is 5 in a hundred"
            )

        check_beta(self.beta)


@dataclass(frozen=True, eq=False)
class Tails:
    """Per query: the variance of one report's number, its range both ways, and the bias both ways.

    `above` limits how far one number exceeds its mean, `below` how far it falls short of it;
    `over` and `under` are how far the mean itself can lie above and below the truth.
    """

    variance: FloatArray
    above: FloatArray
    below: FloatArray
    over: FloatArray
    under: FloatArray

    @property
    def bias(self) -> FloatArray:
        """The largest bias of every query."""
        return np.maximum(self.over, self.under)

    def failure(self, error: float, people: int) -> float:
        """A bound on the chance that any query is further than `error` from the truth."""
        above, below = self.chances(error, people)
        return float(above.sum() + below.sum())

    def chances(self, error: float, people: int) -> tuple[FloatArray, FloatArray]:
        """Bounds on the chances that each query is `error` above, and below, the truth."""
        above = self._exceed(error - self.over, self.above, people)
        below = self._exceed(error - self.under, self.below, people)
        return above, below

    def _exceed(self, room: FloatArray, reach: FloatArray, people: int) -> FloatArray:
        known = reach <= 0  # one number that never moves
        v = np.maximum(np.where(known, 1.0, self.variance), 1e-300)
        b = np.where(known, 1.0, reach)
        u = np.maximum(room, 0.0) * b / v
        h = (1 + u) * np.log1p(u) - u
        chance = np.exp(-people * (v / b**2) * h)
        chance[known & (room >= 0)] = 0.0

        return np.asarray(chance)

    def error(self, people: int, beta: float) -> float:
        """With probability 1 − β at least, all queries are this near the truth."""
        check_beta(beta)
        require(people >= 1, "people", people, "must be a whole number >= 1")

        low = 0.0
        reach = np.maximum(self.above, self.below)
        high = float(np.max(self.bias + reach, initial=0.0))
        if self.failure(high, people) > beta:
            return high  # no mean strays further than one number can

        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self.failure(middle, people) <= beta:
                high = middle
            else:
                low = middle

        return high

    def people_for(self, error: float, beta: float) -> int:
        """The fewest people for which `error` holds."""
        check_beta(beta)
        bias = float(self.bias.max(initial=0.0))
        require(
            error > bias,
            "error",
            error,
            f"must be above the bias {bias:.4g}",
            "allow a larger one",
        )

        low = 0
        high = 1

        while self.failure(error, high) > beta:
            low = high
            high = 2 * high
            if high > _MOST_PEOPLE:
                raise TooLarge(
                    f"an error of {error:g} needs more than {_MOST_PEOPLE:.1e} people"
                )

        while high - low > 1:
            middle = (low + high) // 2
            if self.failure(error, middle) <= beta:
                high = middle
            else:
                low = middle

        return high


def biases(targets: FloatArray, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far targets lie above and below a matrix, at most, in every row."""
    away = targets - matrix
    above = away.max(axis=1)
    below = -away.min(axis=1)
    return np.maximum(above, 0.0), np.maximum(below, 0.0)


def check_beta(beta: float) -> float:
    """Refuse chances of failure outside (0, 1)."""
    probability("beta", beta, "0.05 is customary")
    return float(beta)


# --- comparisons ----------------------------------------------------------------------------------


MOST_WORK = 2**37
"""Pairs × reports × columns: half a minute of one processor, at most, for half the people."""

_NEWTON_STEPS = 8  # from below, for a convex function: beyond, nothing moves
_LEAST = 1e-100  # of pairs of one answer with itself, which never lead one another


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Per pair (i, j): largest second and third moments and range of D, and what bias adds to it.

    All of them are of answer i less answer j, over all people there can be.
    """

    second: FloatArray
    third: FloatArray
    reach: FloatArray
    bias: FloatArray

    def failure(self, behind: float, people: int) -> float:
        """At most the chance that an answer leads which lies `behind` the largest, or further."""
        exponents = self._exponents(behind - self.bias)
        chances = np.exp(-people * exponents)
        np.fill_diagonal(chances, 0.0)
        return float(chances.sum(axis=0).max())

    def _exponents(self, room: FloatArray) -> FloatArray:
        """(v/b²) H(mb/v), zero where the bias leaves no room."""
        v = np.maximum(self.second, _LEAST)
        b = np.maximum(self.reach, _LEAST)
        u = np.maximum(room, 0.0) * b / v
        missing = 1 - np.clip(self.third / (v * b), 0.0, 1.0)

        x = np.log1p(u)  # the best x where the skewness is the largest there can be

        for _ in range(_NEWTON_STEPS):
            slope = np.expm1(x) - missing * x**2 / 2
            curvature = np.exp(x) - missing * x
            x -= (slope - u) / curvature

        cumulant = np.expm1(x) - x - missing * x**3 / 6
        exponents = v / b**2 * (u * x - cumulant)

        return np.asarray(np.maximum(exponents, 0.0))


def comparisons(answers: LinearAnswers, matrix: FloatArray) -> Comparisons | None:
    """All pairs of answers to a matrix; None where they are too many to be worked out."""
    outputs, cells = answers.chances.shape
    if answers.queries**2 * outputs * cells > MOST_WORK:
        return None

    content = np.asarray(matrix, dtype=np.float64).tobytes()
    return _worked_out(answers, content)


# of two protocols the better plan is made anew, with what the other takes
@lru_cache(maxsize=2)
def _worked_out(answers: LinearAnswers, content: bytes) -> Comparisons:
    matrix = np.frombuffer(content).reshape(answers.targets.shape)
    cells = answers.targets.shape[1]
    numbers = answers.targets @ answers.reading
    reach = np.stack([np.abs(row - numbers).max(axis=1) for row in numbers])
    means = numbers @ answers.chances
    away = means - matrix
    second = np.zeros_like(reach)
    bias = np.zeros_like(reach)
    cubed = np.zeros_like(reach)
    excess = np.zeros_like(reach)

    for cell in range(cells):
        weighted = numbers * answers.chances[:, cell]
        products = weighted @ numbers.T
        cubes = (weighted * numbers) @ numbers.T
        squares = products.diagonal()
        thrice = (weighted * numbers**2).sum(axis=1)
        third = thrice[:, None] - thrice - 3 * (cubes - cubes.T)
        mean = means[:, cell, None] - means[:, cell]

        second = np.maximum(second, squares[:, None] + squares - 2 * products)
        cubed = np.maximum(cubed, third)
        excess = np.maximum(excess, third - reach**2 * mean)
        bias = np.maximum(bias, away[:, cell, None] - away[:, cell])

    return Comparisons(second, np.minimum(cubed, excess), reach, bias)
