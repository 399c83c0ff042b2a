"""The ε of many releases fixed in advance, by the distribution of their privacy loss.

Gaussian noise of ratio μ loses a normal amount; a pure release loses at most what randomized
response at its ε does, ±ε; losses of independent releases add. Where these sums have few values,
they are listed (`loss_atoms`): the ε is exact, given ε_i alone, but for rounding up.

Of more, M(z) = e^(μ²z(z+1)/2) Π cosh((z+½)ε_i)/cosh(ε_i/2) is the moment function of the sum, and
the releases together are (ε, δ) private when

    δ >= E(1 - e^(ε - loss))₊ = 1/2πi ∫ e^(-zε) M(z) / (z(z+1)) dz   along Re z = c > 0.

On the line where the integrand is least, the trapezoid rule is exact but for terms that are all
positive, so that it errs on the safe side, and they are made negligible. Where there is little
Gaussian noise, a little is added: the ε is then at most what it says. The sum is done in floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, inf, isfinite, log, log1p, pi, sqrt

import numpy as np

from noisewright.arrays import ComplexArray, FloatArray
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.promise.loss_atoms import LEAST_DELTA, LossAtoms
from noisewright.privacy.promise.spend import Gaussian, Promise, Spend

_NEGLIGIBLE = 32.0  # in logarithms, far below the rounding of floats
_WORK = 400_000  # factors evaluated, at most
_AT_ONCE = 100_000  # of them
_SLACK = 1e-10  # relative, of δ: far above the rounding of floats
_DIGITS = 400  # of 1 − δ, so that the smallest floats are seen beside one
_SMALLEST = 2.0**-1022  # no promise is of ε = 0
_STEPS = 40


def composed_epsilon(spend: Spend, delta: float) -> float:
    """The least ε at `delta` known for all losses together, chosen before any was seen.

    It is exact but for rounding up where the losses have few values or Gaussian noise is enough;
    else the truth is at most this. One release alone keeps the ε that it states. It is no larger
    than `spend.promise(delta).epsilon`, and no promise for releases that were chosen after seeing
    earlier answers: those need a filter.
    """
    probability("delta", delta)
    promised = spend.promise(delta).epsilon
    assert promised is not None
    losses = _Losses(spend)
    left = losses.left(delta)
    if left < LEAST_DELTA or not losses.several:
        return promised

    if losses.atoms is not None:
        return min(promised, max(losses.atoms.epsilon(left, promised), _SMALLEST))

    found = losses.epsilon(left) * (1 + 1e-12)
    return min(promised, found) if isfinite(found) and found > 0 else promised


class _Losses:
    """The moment function of the losses of a spend."""

    def __init__(self, spend: Spend) -> None:
        self.square = float(Fraction(spend.mu) ** 2)
        pure: Counter[float] = Counter()
        self.deltas: list[float] = []  # of promises that may fail

        for loss in spend.losses:
            if isinstance(loss, Gaussian):
                continue
            pure[loss.epsilon if isinstance(loss, Promise) else loss.ratio] += 1
            if isinstance(loss, Promise) and loss.delta:
                self.deltas.append(loss.delta)

        self.atoms = LossAtoms.of(pure, spend.mu)
        self.pure = np.array(list(pure), dtype=float)
        self.times = np.array(list(pure.values()), dtype=float)
        self.several = pure.total() + (self.square > 0) > 1

    def left(self, delta: float) -> float:
        """The δ that is left where no promise fails: 1 − (1 − δ)/Π(1 − δ_i), rounded down."""
        with localcontext(prec=_DIGITS):
            sure = Decimal(1)
            for failing in self.deltas:
                sure *= 1 - Decimal(failing)
            left = 1 - (1 - Decimal(delta)) / sure
        return float(left) * (1 - _SLACK)

    def log_moment(self, z: ComplexArray) -> ComplexArray:
        """ln M, up to whole turns."""
        total = self.square * z * (z + 1) / 2
        if not len(self.pure):
            return np.asarray(total)

        rest = self.times * (np.log1p(np.exp(-self.pure)) + self.pure / 2)
        many = max(_AT_ONCE // len(self.pure), 1)
        for start in range(0, len(z), many):
            w = (z[start : start + many, None] + 0.5) * self.pure
            total[start : start + many] += (
                w + np.log1p(np.exp(-2 * w))
            ) @ self.times - rest.sum()

        return np.asarray(total)

    def real(self, c: float) -> float:
        """ln M at a real point."""
        return float(self.log_moment(np.array([c], dtype=np.complex128))[0].real)

    def bound(self, c: float, delta: float) -> float:
        """An ε at δ by the moment at c alone."""
        return (self.real(c) - log(c) - log1p(c) - log(delta)) / c

    def epsilon(self, delta: float) -> float:
        """Where the integral meets δ."""
        c = _least(lambda c: self.bound(c, delta))
        epsilon = self.bound(c, delta)
        step = 2 * pi / self._period(c, epsilon, delta)
        most = max(_WORK // max(len(self.pure), 1), 1024)
        least = 2 * _NEGLIGIBLE / (most * step) ** 2
        if self.square < least:  # too little to make the integrand fall off
            self.square = least
            c = _least(lambda c: self.bound(c, delta))
            epsilon = self.bound(c, delta)

        reach = sqrt(2 * (_NEGLIGIBLE + log(1 + 1 / c)) / self.square)
        heights = step * np.arange(min(most, int(reach / step) + 2))
        z = np.asarray(c + 1j * heights, dtype=np.complex128)
        logs = np.asarray(self.log_moment(z) - np.log(z) - np.log1p(z))
        weights = np.where(np.arange(len(z)) == 0, 0.5, 1.0) * step / pi

        return _meeting(z, logs, weights, epsilon, delta)

    def _period(self, c: float, epsilon: float, delta: float) -> float:
        """How far apart the terms that the trapezoid rule adds must lie to be negligible."""
        below = (_NEGLIGIBLE - log(delta)) / c
        further = [c * 2.0**k + 1 for k in range(1, 12)]
        above = min(
            (self.real(far) - far * epsilon - log(delta) + _NEGLIGIBLE) / (far - c)
            for far in further
        )

        return max(below, above, 1.0)


def _meeting(
    z: ComplexArray,
    logs: ComplexArray,
    weights: FloatArray,
    epsilon: float,
    delta: float,
) -> float:
    """The ε at which the sum is δ: Newton's steps on its logarithm, kept within a bracket."""
    low = -inf
    high = inf
    for _ in range(_STEPS):
        terms = weights * np.exp(logs - z * epsilon)
        value = float(terms.real.sum())
        slope = -float((z * terms).real.sum())
        if not (value > 0 and slope < 0):
            return inf
        low, high = (epsilon, high) if value > delta else (low, epsilon)
        step = (log(delta) - log(value)) * value / slope
        if abs(step) <= 1e-12 * max(1.0, abs(epsilon)):
            return epsilon + max(step, 0.0)
        epsilon += step
        if not low < epsilon < high:
            epsilon = (low + high) / 2 if isfinite(high - low) else epsilon

    return high


def _least(function: Callable[[float], float]) -> float:
    """The c > 0 at which a function with one valley is least, by golden sections of ln c."""
    low = log(1e-6)
    high = log(1e7)
    golden = (sqrt(5) - 1) / 2
    while high - low > 1e-3:
        left = high - golden * (high - low)
        right = low + golden * (high - low)
        if function(exp(left)) < function(exp(right)):
            high = right
        else:
            low = left

    return exp((low + high) / 2)
