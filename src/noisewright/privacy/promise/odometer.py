"""What may be said of a budget at any time one stops, though plans followed earlier answers.

A filter promises its whole budget. For less, eleven filters are run side by side, each with half
the limit of the one before and an eleventh of δ: what is used lies within one of them, and the
answers given while it does are answers of that filter. So for every set S of transcripts, whatever
the rule of stopping, P(S) <= E_Q[e^ε 1_S] + δ with the ε that was shown when it stopped
(docs/concepts/adaptive.md).
"""

from __future__ import annotations

from fractions import Fraction

from noisewright.privacy.exact.rounding import float_above, float_below, root_above
from noisewright.privacy.noise.gaussian import gaussian_epsilon, zcdp_epsilon
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.filters import Amounts, Limits

_LEVELS = 11
_TINY = 2.0**-1022  # a promise has a positive ε


def odometer(
    limits: Limits, used: Amounts, budget: Privacy, delta: float | None
) -> Privacy:
    """What holds for all that was used so far; ρ where no δ is named, in its own sense."""
    relation = budget.neighbours
    if not used.most:
        epsilon = max(float_above(used.pure), _TINY)
        failing = float_above(used.delta)
        return Privacy(epsilon, failing or None, neighbours=relation)

    if delta is None:
        return Privacy(rho=float_above(used.most), neighbours=relation)

    left = Fraction(delta) - Fraction(limits.delta)
    if left <= 0:
        return budget

    cap = limits.amounts.most
    for _ in range(_LEVELS - 1):
        if used.most > cap / 2:
            break
        cap /= 2

    epsilon = _converted(limits, cap, float_below(left / _LEVELS))
    total = float_above(Fraction(epsilon) + used.pure)
    return Privacy(max(total, _TINY), delta, neighbours=relation)


def _converted(limits: Limits, cap: Fraction, delta: float) -> float:
    if limits.rule == "gaussian":
        return gaussian_epsilon(delta, root_above(cap))
    return zcdp_epsilon(float_above(cap), delta)
