"""Values are selected with the largest probabilities that (ε, δ) allows, and exactly with those."""

from fractions import Fraction
from itertools import pairwise
from math import exp, sqrt

import mpmath
import numpy as np
import pytest

from noisewright.errors import InvalidParameter
from noisewright.privacy.promise.selection import Selection

BUDGETS = [
    (1.0, 1e-5),
    (0.1, 1e-9),
    (3.0, 0.01),
    (0.5, 0.3),
    (20.0, 1e-12),
    (0.01, 1e-6),
]
UNIT = 2**128


def certainly(epsilon: float) -> tuple[Fraction, Fraction]:
    """e^ε from below and above, by interval arithmetic of another library."""
    with mpmath.workdps(80):
        mpmath.iv.dps = 80
        value = mpmath.iv.exp(mpmath.iv.mpf(epsilon))
        return tuple(  # type: ignore[return-value]
            Fraction(int(mpmath.floor(mpmath.mpf(end) * mpmath.mpf(2) ** 300)), 2**300)
            for end in (value.a, value.b)
        )


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_every_step_keeps_the_promise_exactly(epsilon: float, delta: float) -> None:
    steps = [Fraction(n, UNIT) for n in Selection(epsilon, delta).numerators]
    growth = certainly(epsilon)[0] * (1 - Fraction(1, 2**200))  # below e^ε
    slack = Fraction(delta)
    assert steps[0] == 0  # never a value that nobody holds
    assert steps[-1] == 1
    for few, more in pairwise(steps):
        assert few <= more
        for a, b in ((few, more), (more, few)):
            assert a <= growth * b + slack
            assert 1 - a <= growth * (1 - b) + slack


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_step_could_be_larger(epsilon: float, delta: float) -> None:
    """The recursion in floats: what any selection by counts can reach at most."""
    selection = Selection(epsilon, delta)
    best = 0.0
    for people in range(1, selection.certain + 1):
        best = min(
            exp(epsilon) * best + delta, 1 - exp(-epsilon) * (1 - best - delta), 1.0
        )
        assert selection.chance(people) == pytest.approx(best, rel=1e-9)
    assert selection.chance(10**9) == 1


def test_values_appear_as_often_as_they_should() -> None:
    """20,000 draws at each of 5 counts; five deviations are exceeded once in 350,000 runs."""

    class Seeded:
        def __init__(self) -> None:
            self.rng = np.random.default_rng(7)

        def bytes(self, count: int) -> bytes:
            return self.rng.bytes(count)

    selection, source, draws = Selection(0.7, 0.02), Seeded(), 20_000
    for people in (0, 1, 3, 5, selection.certain):
        told = int(selection.select([people] * draws, source).sum())
        chance = selection.chance(people)
        assert abs(told - draws * chance) <= 5 * sqrt(draws * chance * (1 - chance))


def test_budgets_too_small_to_reach_certainty_are_refused() -> None:
    for epsilon, delta in (
        (1e-6, 1e-9),
        (1.0, 1e-40),
        (0.0, 0.1),
        (1.0, 0.0),
        (1.0, 1.0),
    ):
        with pytest.raises(InvalidParameter):
            Selection(epsilon, delta)
