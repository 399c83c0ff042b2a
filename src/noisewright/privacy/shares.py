"""One budget split among several measurements, with nothing lost and nothing overspent.

Gaussian releases compose exactly: ratios μ = sensitivity/σ add in squares, which is what ρ = μ²/2
adds up. So a budget (ε, δ) is split as the ρ of the one Gaussian release that it allows, and no
conversion loses anything. Pure budgets are split in ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from noisewright.errors import InvalidParameter
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.rounding import float_below

_LEAST = 1e-24  # of the squared errors to weigh: everything gets some budget
_MARGIN = 1 - Fraction(1, 2**45)  # far above the rounding of shares


def splittable(privacy: Privacy) -> Privacy:
    """The same budget in the unit in which shares of it add up exactly."""
    if privacy.kind != "approximate":
        return privacy
    sigma = Fraction(calibrate(privacy, l2=1.0).scale)
    return Privacy(rho=float_below(1 / (2 * sigma**2)), neighbours=privacy.neighbours)


def split(privacy: Privacy, shares: Sequence[float]) -> list[Privacy]:
    """Budgets in these proportions that together keep `privacy`."""
    exact = [Fraction(share) for share in shares]
    if not exact or min(exact) <= 0:
        raise InvalidParameter("shares", list(shares), "must be positive", "one per measurement")
    whole = splittable(privacy)
    name = "epsilon" if whole.rho is None else "rho"
    amount = Fraction(getattr(whole, name))
    total = sum(exact)
    portions = [float_below(amount * (share / total) * _MARGIN) for share in exact]
    return [Privacy(neighbours=whole.neighbours, **{name: portion}) for portion in portions]


def least_error_shares(costs: Sequence[float], privacy: Privacy) -> tuple[float, ...]:
    """Shares that make the sum of `costs`, each over its share of the budget, least.

    `costs` are squared errors under the whole budget: they fall with the square of ε, or with ρ.
    """
    power = 1 / 3 if privacy.kind == "pure" else 1 / 2
    largest = max(costs) or 1.0  # nothing to weigh where no noise is left
    raw = [max(cost / largest, _LEAST) ** power for cost in costs]
    return tuple(value / sum(raw) for value in raw)
