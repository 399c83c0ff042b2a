"""The privacy loss of few releases, value by value.

A pure release loses +ε or −ε at most, with the chances e^ε/(1 + e^ε) and 1/(1 + e^ε), so k releases
at one ε lose (k − 2j)ε with binomial chances, and releases at several ε lose the sums of these.
With Gaussian noise of ratio μ beside them, the releases together are (ε, δ) private exactly when

    δ >= Σ_a Pr(a) δ_μ(ε − a),   δ_μ(x) = Φ(μ/2 − x/μ) − e^x Φ(−μ/2 − x/μ),   δ_0(x) = (1 − e^x)₊.

The sum is done in floats, every term rounded up by more than it can be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from noisewright.arrays import FloatArray

MOST_ATOMS = 2**14
"""Values of the loss up to which all are listed: a tenth of a second."""

LEAST_DELTA = 1e-250
"""Below this, chances that underflow could matter."""

_CHANCES_SLACK = 1e-10  # relative; products of 2^14 factors are wrong by 1e-11 at most
_TERM_SLACK = 1e-15  # of a term, for each unit of its logarithm
_SUM_SLACK = 1e-12  # of all losses: what rounding their sums can move
_UNSEEN = -700.0  # a logarithm far below that of the least δ
_HALVINGS = 60


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
