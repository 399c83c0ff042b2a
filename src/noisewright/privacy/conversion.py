"""From one definition of privacy to another, always to the safe side.

ρ-zCDP gives (ε, δ) for every α > 1 with δ = e^((α-1)(αρ-ε)) (1-1/α)^α / (α-1) (Canonne, Kamath and
Steinke 2020 [018], Proposition 12 and Corollary 13). Any α is sound, so floats find a good one and
40-digit decimals (their exp and ln are correctly rounded) state the bound, rounded outwards.
In logarithms, with x = α - 1:  ln δ = x((1+x)ρ - ε) + c(x),  c(x) = x ln x - (1+x) ln(1+x),
convex in x, so a sign change of its slope (1+2x)ρ - ε - ln(1+1/x) is the best order.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, log, log1p

from noisewright.privacy.rounding import float_above, root_above
from noisewright.privacy.rules import positive, probability

_DIGITS = 50
_SLACK = Decimal("1e-30")  # far above the rounding of _DIGITS digits, far below that of a float


def pure_to_zcdp(epsilon: float) -> float:
    """Return the ρ = ε²/2 that pure ε implies (Bun and Steinke 2016 [017]), rounded up."""
    return float_above(positive("epsilon", epsilon) ** 2 / 2)


def gaussian_rho(ratio: float) -> float:
    """Return the ρ = μ²/2 of Gaussian noise with μ = sensitivity/σ, rounded up."""
    return float_above(positive("ratio", ratio) ** 2 / 2)


def gaussian_sigma_for_rho(rho: float, sensitivity: float = 1.0) -> float:
    """Return the least σ = sensitivity/√(2ρ) of a ρ-zCDP Gaussian release, rounded up."""
    return root_above(positive("sensitivity", sensitivity) ** 2 / (2 * positive("rho", rho)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an ε for which ρ-zCDP implies (ε, δ), rounded up."""
    positive("rho", rho), probability("delta", delta)
    x = Decimal(_best_order(lambda x: x * rho - log1p(1 / x) - _float_price(x, delta)))
    with localcontext(prec=_DIGITS):
        price = _price(x, delta)
        least = (1 + x) * Decimal(rho) + price
        least += _SLACK * (1 + (1 + x) * Decimal(rho) + abs(price))
    return max(0.0, float_above(Fraction(least)))


def _best_order(slope: Callable[[float], float]) -> float:
    """Return x = α - 1 where the slope changes from negative to positive."""
    low, high = -45.0, 65.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(exp(middle)) < 0 else (low, middle)
    return exp(low)


def _offset(x: Decimal) -> Decimal:
    return x * (x.ln() - (1 + x).ln()) - (1 + x).ln()


def _price(x: Decimal, delta: float) -> Decimal:
    """Return what δ adds to αρ at order α = 1 + x to make ε."""
    return (_offset(x) - Decimal(delta).ln()) / x


def _float_price(x: float, delta: float) -> float:
    return -log1p(1 / x) - (log1p(x) + log(delta)) / x
