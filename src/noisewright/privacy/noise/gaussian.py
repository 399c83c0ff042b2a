"""The exact privacy of Gaussian noise (Balle and Wang 2018 [016]), its inverses, and zCDP.

Everything depends on the ratio μ = sensitivity / σ. A Gaussian release of ratio μ is (ε, δ) private
exactly when δ >= Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ). With a = ε/μ - μ/2, b = ε/μ + μ/2 and the Mills
ratio R = Q/φ this is φ(a)(R(a) - R(b)), free of overflow, and it is evaluated in proven
enclosures: what is returned is rounded to the safe side, so the claim holds in exact arithmetic.

Where only zCDP is known, ρ gives (ε, δ) for every α > 1 with
δ = e^((α-1)(αρ-ε)) (1-1/α)^α / (α-1) (Canonne, Kamath and Steinke 2020 [018], Proposition 12 and
Corollary 13). Any α is sound, so floats find a good one and 40-digit decimals (their exp and ln are
correctly rounded) state the bound, rounded outwards.
In logarithms, with x = α - 1:  ln δ = x((1+x)ρ - ε) + c(x),  c(x) = x ln x - (1+x) ln(1+x),
convex in x, so a sign change of its slope (1+2x)ρ - ε - ln(1+1/x) is the best order.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p

from noisewright.privacy.exact.proven import exp_minus, mills_ratio, root_half_pi
from noisewright.privacy.exact.rounding import (
    bracket,
    float_above,
    positive,
    probability,
    root_below,
)

_RELATIVE_BITS = 60  # width of an enclosure of δ relative to δ
_SMALLEST_BITS = 1100  # δ below 2^-1100 lies under the smallest float
# ratios below 2^-256, for which no noise can be drawn, get a coarse bound
_COARSE_BITS = 256
_DIGITS = 50
_TANH_FROM = Fraction(1, 10**9)
# far above the rounding of _DIGITS digits, far below that of a float
_SLACK = Decimal("1e-30")


@lru_cache(maxsize=4096)
def gaussian_delta_enclosure(
    epsilon: Fraction, ratio: Fraction
) -> tuple[Fraction, Fraction]:
    """Enclose the least δ at which a Gaussian release of this ratio is (ε, δ) private."""
    if ratio < Fraction(1, 1 << _COARSE_BITS):
        # δ is at most that of ε = 0, 2Φ(μ/2) - 1 < 2μ/5
        return Fraction(0), ratio * 2 / 5

    shift = epsilon / ratio
    half = ratio / 2
    a = shift - half
    b = shift + half
    if a * a > 2 * _SMALLEST_BITS:
        tiny = Fraction(1, 1 << _SMALLEST_BITS)
        return (Fraction(0), tiny) if a > 0 else (1 - tiny, Fraction(1))

    precision = 128
    depth = int(a * a)
    while True:
        lo, hi = _delta_at(a, b, precision, depth)
        if (hi - lo) << _RELATIVE_BITS <= lo or precision > 1 << 14:
            scale = 1 << (precision + depth)
            return Fraction(max(lo, 0), scale), Fraction(min(hi, scale), scale)
        precision *= 2


def _delta_at(a: Fraction, b: Fraction, precision: int, depth: int) -> tuple[int, int]:
    """Enclose δ in units of 2^-(precision + depth); e^(-a²/2) alone needs the depth."""
    exp_lo, exp_hi = exp_minus(a * a / 2, precision + depth)
    c_lo, c_hi = root_half_pi(precision)
    near = mills_ratio(abs(a), precision)
    far = mills_ratio(b, precision)
    if a >= 0:
        difference = max(near[0] - far[1], 0), max(near[1] - far[0], 0)
        return exp_lo * difference[0] // (2 * c_hi), -(
            -exp_hi * difference[1] // (2 * c_lo)
        )

    one = 1 << (precision + depth)  # R(a) = sqrt(2π) e^(a²/2) - R(-a)
    total = near[0] + far[0], near[1] + far[1]
    return one + (-exp_hi * total[1] // (2 * c_lo)), one - exp_lo * total[0] // (
        2 * c_hi
    )


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """Return the least δ for which ratio = sensitivity/σ is (ε, δ) private, rounded up."""
    exact_epsilon = Fraction(0) if epsilon == 0 else positive("epsilon", epsilon)
    return float_above(
        gaussian_delta_enclosure(exact_epsilon, positive("ratio", ratio))[1]
    )


@lru_cache(maxsize=1024)
def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity/σ that is (ε, δ) private, rounded down."""
    exact_epsilon = positive("epsilon", epsilon)
    exact_delta = probability("delta", delta)

    def private(ratio: float) -> bool:
        return (
            gaussian_delta_enclosure(exact_epsilon, Fraction(ratio))[1] <= exact_delta
        )

    return bracket(private, min(epsilon, 1.0))[0]


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the least σ that makes a release of this L2 sensitivity (ε, δ) private."""
    exact = positive("sensitivity", sensitivity)
    return float_above(exact / Fraction(gaussian_ratio(epsilon, delta)))


def gaussian_epsilon(delta: float, ratio: float) -> float:
    """Return the least ε for which ratio = sensitivity/σ is (ε, δ) private, rounded up."""
    exact_delta = probability("delta", delta)
    exact_ratio = positive("ratio", ratio)

    def too_small(epsilon: float) -> bool:
        return gaussian_delta_enclosure(Fraction(epsilon), exact_ratio)[1] > exact_delta

    if not too_small(0.0):
        return 0.0
    return bracket(too_small, ratio)[1]


@lru_cache(maxsize=4096)
def pure_to_zcdp(epsilon: float) -> float:
    """Return the least ρ that pure ε implies, ε tanh(ε/2) <= ε²/2 [017], rounded up.

    Of pure mechanisms randomized response loses most: D_α = ln(cosh(u)/cosh(ε/2))/(α-1) with
    u = (α-1/2)ε. As ln cosh √v is concave in v = u², it lies below its tangent at v = ε²/4, which
    says D_α <= α ε tanh(ε/2), with equality as α falls to one.
    """
    exact = positive("epsilon", epsilon)
    if exact < _TANH_FROM:  # the difference is below the rounding of a float
        return float_above(exact**2 / 2)

    with localcontext(prec=_DIGITS):
        decay = (-Decimal(exact.numerator) / Decimal(exact.denominator)).exp()
        tanh = Fraction((1 - decay) / (1 + decay)) * (1 + Fraction(_SLACK))

    return float_above(min(exact * tanh, exact**2 / 2))


def gaussian_sigma_for_rho(rho: float, sensitivity: float = 1.0) -> float:
    """Return a σ = sensitivity/√(2ρ) of a ρ-zCDP Gaussian release, rounded up.

    The ratio is rounded down first, so that as a float it still keeps ρ.
    """
    ratio = root_below(2 * positive("rho", rho))
    return float_above(positive("sensitivity", sensitivity) / Fraction(ratio))


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
    low = -45.0
    high = 65.0
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
