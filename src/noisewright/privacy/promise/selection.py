"""Which of the values that people hold may be told: optimal partition selection.

A value that c people hold is released with probability π(c). Adding a person changes c by one, so
(ε, δ) asks of every step that π(c+1) <= e^ε π(c) + δ and 1 − π(c) <= e^ε (1 − π(c+1)) + δ, and of
a value that nobody holds that π(0) = 0. The largest such π is reached step by step [043]: no other
way to select by counts keeps more at any c.

Probabilities are whole multiples of 2^-128, rounded so that both inequalities hold exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property

import msgspec
import numpy as np

from noisewright.arrays import BoolArray
from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import positive, probability
from noisewright.privacy.noise.source import ByteSource, SystemSource

# of a probability: rounding one takes 2^-128 from it, far below any δ allowed
_BITS = 128
_WHOLE = 2**_BITS
_BYTES = _BITS // 8
_DIGITS = 60  # of exponentials: twenty more than a probability has
_LARGEST_EPSILON = 1e5  # whose exponential decimals hold
_LEAST_EPSILON = 1e-5  # about a million steps until every value is released


class Selection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Optimal probabilities for (epsilon, delta), where a person adds one to one count."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        if self.epsilon > _LARGEST_EPSILON:
            rule = f"must be at most {_LARGEST_EPSILON:g}"
            raise InvalidParameter("epsilon", self.epsilon, rule, "it hides nobody")

        require(
            self.epsilon >= _LEAST_EPSILON and self.delta * _WHOLE >= 2**20,
            "epsilon",
            self.epsilon,
            f"must be at least {_LEAST_EPSILON:g}, and delta above 1e-32",
            "allow more",
        )

    @cached_property
    def numerators(self) -> tuple[int, ...]:
        """π(0), π(1), … in multiples of 2^-128, up to the first that is one."""
        grown = _exponential(self.epsilon, above=False)
        shrunk = _exponential(-self.epsilon, above=True)
        slack = int(Fraction(self.delta) * _WHOLE)
        steps = [0]

        while steps[-1] < _WHOLE:
            last = steps[-1]
            by_growth = last * grown.numerator // grown.denominator + slack
            left = max(0, _WHOLE - last - slack)
            by_shrinking = _WHOLE - -(-left * shrunk.numerator // shrunk.denominator)
            steps.append(min(by_growth, by_shrinking, _WHOLE))

        return tuple(steps)

    def chance(self, count: int) -> float:
        """The probability that a value which so many people hold is released."""
        return float(Fraction(self.numerators[min(count, self.certain)], _WHOLE))

    @property
    def certain(self) -> int:
        """The least number of people whose value is always released."""
        return len(self.numerators) - 1

    def select(
        self, counts: Sequence[int], source: ByteSource | None = None
    ) -> BoolArray:
        """Draw, for every count, whether its value is released."""
        drawn = (source or SystemSource()).bytes(_BYTES * len(counts))
        kept = np.zeros(len(counts), dtype=np.bool_)
        for i, count in enumerate(counts):
            uniform = int.from_bytes(drawn[i * _BYTES : (i + 1) * _BYTES], "little")
            kept[i] = uniform < self.numerators[min(int(count), self.certain)]

        return kept


def _exponential(exponent: float, above: bool) -> Fraction:
    """e to the exponent, rounded to one side by far more than the error of sixty digits."""
    with localcontext() as context:
        context.prec = _DIGITS
        value = Fraction(Decimal(exponent).exp())
    margin = Fraction(1, 10 ** (_DIGITS - 5))
    return value * (1 + margin if above else 1 - margin)
