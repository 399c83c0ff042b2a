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
_DIGITS = 50  # of decimals: more than twice those of a float
# below, ε tanh(ε/2) and ε²/2 differ by less than a float tells
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
        narrow = (hi - lo) << _RELATIVE_BITS <= lo
        if narrow or precision > 1 << 14:
            one = 1 << (precision + depth)
            return Fraction(max(lo, 0), one), Fraction(min(hi, one), one)
        precision *= 2


def _delta_at(a: Fraction, b: Fraction, precision: int, depth: int) -> tuple[int, int]:
    """Enclose δ in units of 2^-(precision + depth); e^(-a²/2) alone needs the depth."""
    exp_lo, exp_hi = exp_minus(a * a / 2, precision + depth)
    root_lo, root_hi = root_half_pi(precision)
    near_lo, near_hi = mills_ratio(abs(a), precision)
    far_lo, far_hi = mills_ratio(b, precision)

    if a >= 0:
        difference_lo = max(near_lo - far_hi, 0)
        difference_hi = max(near_hi - far_lo, 0)
        lo = exp_lo * difference_lo // (2 * root_hi)
        hi = -(-exp_hi * difference_hi // (2 * root_lo))
        return lo, hi

    # R(a) = sqrt(2π) e^(a²/2) - R(-a)
    one = 1 << (precision + depth)
    lo = one + (-exp_hi * (near_hi + far_hi) // (2 * root_lo))
    hi = one - exp_lo * (near_lo + far_lo) // (2 * root_hi)
    return lo, hi


def gaussian_delta(epsilon: float, ratio: float) -> float:
    """Return the least δ for which ratio = sensitivity/σ is (ε, δ) private, rounded up."""
    exact_epsilon = Fraction(0) if epsilon == 0 else positive("epsilon", epsilon)
    exact_ratio = positive("ratio", ratio)
    return float_above(gaussian_delta_enclosure(exact_epsilon, exact_ratio)[1])


@lru_cache(maxsize=1024)
def gaussian_ratio(epsilon: float, delta: float) -> float:
    """Return the largest sensitivity/σ that is (ε, δ) private, rounded down."""
    exact_epsilon = positive("epsilon", epsilon)
    exact_delta = probability("delta", delta)

    def private(ratio: float) -> bool:
        _, needed = gaussian_delta_enclosure(exact_epsilon, Fraction(ratio))
        return needed <= exact_delta

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
        _, needed = gaussian_delta_enclosure(Fraction(epsilon), exact_ratio)
        return needed > exact_delta

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
    coarse = exact**2 / 2
    if exact < _TANH_FROM:
        return float_above(coarse)

    with localcontext(prec=_DIGITS):
        decay = (-Decimal(exact.numerator) / Decimal(exact.denominator)).exp()
        tanh = Fraction((1 - decay) / (1 + decay))
        tanh *= 1 + Fraction(_SLACK)

    return float_above(min(exact * tanh, coarse))


def gaussian_sigma_for_rho(rho: float, sensitivity: float = 1.0) -> float:
    """Return a σ = sensitivity/√(2ρ) of a ρ-zCDP Gaussian release, rounded up.

    The ratio is rounded down first, so that as a float it still keeps ρ.
    """
    ratio = root_below(2 * positive("rho", rho))
    return float_above(positive("sensitivity", sensitivity) / Fraction(ratio))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an ε for which ρ-zCDP implies (ε, δ), rounded up."""
    positive("rho", rho)
    probability("delta", delta)
    x = Decimal(_best_order(rho, delta))
    with localcontext(prec=_DIGITS):
        price = _price(x, delta)
        loss = (1 + x) * Decimal(rho)
        least = loss + price
        least += _SLACK * (1 + loss + abs(price))

    return max(0.0, float_above(Fraction(least)))


def _best_order(rho: float, delta: float) -> float:
    """Return x = α - 1 where the slope of ε in the order changes from negative to positive."""
    # in logarithms of x
    low = -45.0
    high = 65.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _slope(exp(middle), rho, delta) < 0 else (low, middle)
        )

    return exp(low)


def _slope(x: float, rho: float, delta: float) -> float:
    """Return x times the slope of ε at the order 1 + x."""
    step = log1p(1 / x)
    price = -step - (log1p(x) + log(delta)) / x
    return x * rho - step - price


def _price(x: Decimal, delta: float) -> Decimal:
    """Return what δ adds to αρ at order α = 1 + x to make ε."""
    offset = x * (x.ln() - (1 + x).ln()) - (1 + x).ln()
    return (offset - Decimal(delta).ln()) / x
