"""How often one answer is told above another that is larger: what choosing the largest rests on.

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

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.approximate.linear_answers import LinearAnswers

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
        chances = np.exp(-people * self._exponents(behind - self.bias))
        np.fill_diagonal(chances, 0.0)
        return float(chances.sum(axis=0).max())

    def _exponents(self, room: FloatArray) -> FloatArray:
        """(v/b²) H(mb/v), zero where the bias leaves no room."""
        v = np.maximum(self.second, _LEAST)
        b = np.maximum(self.reach, _LEAST)
        u = np.maximum(room, 0.0) * b / v
        skew = np.clip(self.third / (v * b), 0.0, 1.0)

        x = np.log1p(u)  # the best x where the skewness is the largest there can be

        for _ in range(_NEWTON_STEPS):
            slope = np.expm1(x) - (1 - skew) * x**2 / 2
            x -= (slope - u) / (np.exp(x) - (1 - skew) * x)

        cumulant = np.expm1(x) - x - (1 - skew) * x**3 / 6
        return np.asarray(np.maximum(v / b**2 * (u * x - cumulant), 0.0))


def comparisons(answers: LinearAnswers, matrix: FloatArray) -> Comparisons | None:
    """All pairs of answers to a matrix; None where they are too many to be worked out."""
    outputs, cells = answers.chances.shape
    if answers.queries**2 * outputs * cells > MOST_WORK:
        return None
    return _worked_out(answers, np.asarray(matrix, dtype=np.float64).tobytes())


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
        own = products.diagonal()
        thrice = (weighted * numbers**2).sum(axis=1)
        third = thrice[:, None] - thrice - 3 * (cubes - cubes.T)
        mean = means[:, cell, None] - means[:, cell]

        second = np.maximum(second, own[:, None] + own - 2 * products)
        cubed = np.maximum(cubed, third)
        excess = np.maximum(excess, third - reach**2 * mean)
        bias = np.maximum(bias, away[:, cell, None] - away[:, cell])

    return Comparisons(second, np.minimum(cubed, excess), reach, bias)
