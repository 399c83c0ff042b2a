"""Slow, obvious privacy: arbitrary-precision laws, quantiles and divergences (mpmath)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from random import Random

import mpmath
import numpy as np

from noisewright.privacy.exact.rounding import float_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.budget import Neighbours, Privacy
from noisewright.privacy.promise.spend import Gaussian, Laplace, Spend

PRECISION = 400


class SeededSource:
    """Reproducible bytes, for tests alone."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.bytes(count)


class ScriptedSource:
    """Chosen words first, then a chosen filling; counts the bytes it gave."""

    def __init__(self, words: Iterable[int], filling: int | Random = 0) -> None:
        self._script = b"".join(word.to_bytes(8, "little") for word in words)
        self._filling = filling
        self.given = 0

    def bytes(self, count: int) -> bytes:
        start, self.given = self.given, self.given + count
        scripted = self._script[start : self.given]
        missing = count - len(scripted)
        if isinstance(self._filling, Random):
            return scripted + self._filling.randbytes(missing)
        return scripted + bytes([self._filling]) * missing


def rational(value: float | Fraction) -> mpmath.mpf:
    exact = Fraction(value)
    return mpmath.mpf(exact.numerator) / exact.denominator


def rounded_gaussian_survival(sigma: float | Fraction) -> Callable[[int], mpmath.mpf]:
    """Pr(|round(G)| >= m)."""
    return lambda m: mpmath.erfc((2 * m - 1) / (2 * mpmath.sqrt(2) * rational(sigma)))


def discrete_laplace_survival(scale: float | Fraction) -> Callable[[int], mpmath.mpf]:
    """Pr(|k| >= m)."""
    inverse = 1 / Fraction(scale)
    return lambda m: (
        2 * mpmath.exp(-rational(m * inverse)) / (1 + mpmath.exp(-rational(inverse)))
    )


def exact_magnitude(
    survival: Callable[[int], mpmath.mpf], low: int, high: int, bits: int
) -> int:
    """#{m >= 1: U <= S(m)} for U anywhere in [low, high]/2^bits; demands that the answer is one."""
    with mpmath.workprec(PRECISION):
        answers = [_count(survival, mpmath.ldexp(end, -bits)) for end in (low, high)]
    assert answers[0] == answers[1], "the bits do not decide this draw"
    return answers[0]


def _count(survival: Callable[[int], mpmath.mpf], u: mpmath.mpf) -> int:
    high = 1
    while u <= survival(high):
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if u <= survival(middle) else (low, middle)
    return low


def cell_probabilities(survival: Callable[[int], mpmath.mpf], reach: int) -> np.ndarray:
    """Pr(k) for |k| <= reach, as floats, from k = -reach."""
    with mpmath.workprec(PRECISION):
        tails = [mpmath.mpf(1), *(survival(m) for m in range(1, reach + 2))]
        positive = [float((tails[m] - tails[m + 1]) / 2) for m in range(1, reach + 1)]
        centre = float(tails[0] - tails[1])
    return np.array([*positive[::-1], centre, *positive])


def hockey_stick(cells: np.ndarray, shift: int, epsilon: float) -> float:
    """Sum of max(0, P(k) - e^epsilon P(k - shift)): the exact delta of a shift on the grid."""
    moved = np.zeros_like(cells)
    moved[shift:] = cells[: len(cells) - shift]
    return float(np.maximum(cells - np.exp(epsilon) * moved, 0).sum())


def gaussian_delta(epsilon: float, ratio: float, digits: int = 60) -> mpmath.mpf:
    """The textbook condition of the analytic Gaussian mechanism."""
    with mpmath.workdps(digits):
        e, m = rational(epsilon), rational(ratio)
        # e^ε grows and both tails shrink: enough digits for the cancellation
        with mpmath.extradps(int(e) + 700):
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(
                -m / 2 - e / m
            )


def guarantee(
    law: NoiseLaw,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
) -> Privacy:
    """What noise of this law promises for a vector moved by at most l1 or l2."""
    pure = law.law == "discrete-laplace"
    ratio = float_above(Fraction(l1 if pure else l2) / Fraction(law.scale))
    return Spend(neighbours, (Laplace(ratio) if pure else Gaussian(ratio),)).promise(
        delta
    )
