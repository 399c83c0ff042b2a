"""The ε of many releases fixed in advance, by the distribution of their privacy loss.

Gaussian noise of ratio μ loses a normal amount; a pure release loses at most what randomized
response at its ε does, ±ε; losses of independent releases add. Where these sums have few values,
they are listed (`LossAtoms`): the ε is exact, given ε_i alone, but for rounding up. A pure release
loses +ε or −ε at most, with the chances e^ε/(1 + e^ε) and 1/(1 + e^ε), so k releases at one ε lose
(k − 2j)ε with binomial chances. With Gaussian noise of ratio μ beside them, the releases together
are (ε, δ) private exactly when

    δ >= Σ_a Pr(a) δ_μ(ε − a),   δ_μ(x) = Φ(μ/2 − x/μ) − e^x Φ(−μ/2 − x/μ),   δ_0(x) = (1 − e^x)₊,

summed in floats, every term rounded up by more than it can be wrong.

Of more, M(z) = e^(μ²z(z+1)/2) Π cosh((z+½)ε_i)/cosh(ε_i/2) is the moment function of the sum, and
the releases together are (ε, δ) private when

    δ >= E(1 - e^(ε - loss))₊ = 1/2πi ∫ e^(-zε) M(z) / (z(z+1)) dz   along Re z = c > 0.

On the line where the integrand is least, the trapezoid rule is exact but for terms that are all
positive, so that it errs on the safe side, and they are made negligible. Where there is little
Gaussian noise, a little is added: the ε is then at most what it says. The sum is done in floats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, inf, isfinite, log, log1p, pi, prod, sqrt

import numpy as np

from noisewright.arrays import ComplexArray, FloatArray
from noisewright.privacy.exact.rounding import probability
from noisewright.privacy.promise.budget import SMALLEST_EPSILON
from noisewright.privacy.promise.spend import Spend

MOST_ATOMS = 2**14
"""Values of the loss up to which all are listed: a tenth of a second."""
LEAST_DELTA = 1e-250
"""Below this, chances that underflow could matter."""
_CHANCES_SLACK = 1e-10  # relative; products of 2^14 factors are wrong by 1e-11 at most
_TERM_SLACK = 1e-15  # of a term, for each unit of its logarithm
_SUM_SLACK = 1e-12  # of all losses: what rounding their sums can move
_UNSEEN = -700.0  # a logarithm far below that of the least δ
_HALVINGS = 60  # to the last bit of a float, from any start

_NEGLIGIBLE = 32.0  # in logarithms, far below the rounding of floats
_WORK = 400_000  # factors evaluated, at most
_AT_ONCE = 100_000  # of them
_SLACK = 1e-10  # relative, of δ: far above the rounding of floats
_DIGITS = 400  # of 1 − δ, so that the smallest floats are seen beside one
_STEPS = 40  # of Newton's method; cut short, the upper end of its bracket is taken, which holds


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
        return min(
            promised, max(losses.atoms.epsilon(left, promised), SMALLEST_EPSILON)
        )

    found = losses.epsilon(left) * (1 + 1e-12)
    return min(promised, found) if isfinite(found) and found > 0 else promised


class _Losses:
    """The moment function of the losses of a spend."""

    def __init__(self, spend: Spend) -> None:
        self.square = float(Fraction(spend.mu) ** 2)
        pure: Counter[float] = Counter()
        self.deltas: list[float] = []  # of promises that may fail

        for loss in spend.losses:
            if loss.epsilon:
                pure[loss.epsilon] += 1
            if loss.delta:
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
            block = slice(start, start + many)
            w = (z[block, None] + 0.5) * self.pure
            log_cosh = w + np.log1p(np.exp(-2 * w))
            total[block] += log_cosh @ self.times - rest.sum()

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
        above = inf
        for k in range(1, 12):
            far = c * 2.0**k + 1
            size = self.real(far) - far * epsilon - log(delta) + _NEGLIGIBLE
            above = min(above, size / (far - c))

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
        if value > delta:
            low = epsilon
        else:
            high = epsilon

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


@dataclass(frozen=True, eq=False)
class LossAtoms:
    """The values that pure losses add up to, their chances, and the ratio of the Gaussian noise."""

    losses: FloatArray
    chances: FloatArray
    mu: float

    @classmethod
    def of(cls, pure: Mapping[float, int], mu: float) -> LossAtoms | None:
        """Those of so many releases at each ε; None where there are too many to list."""
        if prod(times + 1 for times in pure.values()) > MOST_ATOMS:
            return None

        losses = np.zeros(1)
        chances = np.ones(1)
        for epsilon, times in pure.items():
            lied = np.arange(times + 1)
            losses = np.add.outer(losses, (times - 2.0 * lied) * epsilon).ravel()
            chances = np.multiply.outer(chances, _binomial(times, epsilon)).ravel()

        return cls(losses, chances, mu)

    def epsilon(self, delta: float, known: float) -> float:
        """The least ε at δ, rounded up; `known` is one at which the releases are private."""
        low = 0.0
        high = known
        if self.delta(low) <= delta:
            return low

        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.delta(middle) > delta:
                low = middle
            else:
                high = middle

        return high + _SUM_SLACK * float(self.losses.max(initial=0.0))

    def delta(self, epsilon: float) -> float:
        """The δ at which the releases are private at an ε, rounded up."""
        beyond = epsilon - self.losses
        terms = (
            _gaussian(beyond, self.mu)
            if self.mu
            else -np.expm1(np.minimum(beyond, 0.0))
        )
        return float(self.chances @ terms) * (1 + _CHANCES_SLACK)


def _binomial(times: int, epsilon: float) -> FloatArray:
    """Chances that so many of the releases lose −ε, by ratios from the likeliest number on."""
    lied = np.arange(1, times + 1)
    ratios = (times + 1 - lied) / lied * np.exp(-epsilon)
    likeliest = int((ratios > 1).sum())
    fewer = np.cumprod(1 / ratios[:likeliest][::-1])[::-1]
    more = np.cumprod(ratios[likeliest:])
    chances = np.concatenate([fewer, [1.0], more])

    return np.asarray(chances / chances.sum())


def _gaussian(x: FloatArray, mu: float) -> FloatArray:
    """δ_μ(x), rounded up: its two terms may be wrong by their logarithms' rounding."""
    from scipy.special import log_ndtr

    with np.errstate(over="ignore"):  # of noise so small that it is none
        near = log_ndtr(mu / 2 - x / mu)
        far = log_ndtr(-mu / 2 - x / mu)

    seen = near > _UNSEEN
    x = x[seen]
    near = near[seen]
    far = far[seen]

    slack = _TERM_SLACK * (16 + np.abs(x) + np.abs(near) + np.abs(far))
    upper = np.zeros(len(seen))
    upper[seen] = np.minimum(np.exp(near + slack) - np.exp(x + far - slack), 1.0)

    return upper
