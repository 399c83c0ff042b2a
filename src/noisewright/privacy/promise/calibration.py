"""From a budget and a sensitivity to the noise that keeps it, and to shares of it.

Gaussian releases compose exactly: ratios μ = sensitivity/σ add in squares, which is what ρ = μ²/2
adds up. So a budget (ε, δ) is split as the ρ of the one Gaussian release that it allows, and no
conversion loses anything. Pure budgets are split in ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import cast

from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import (
    SCALE_LIMIT,
    float_above,
    float_below,
    positive,
)
from noisewright.privacy.noise.gaussian import gaussian_sigma, gaussian_sigma_for_rho
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.budget import Contribution, Privacy

_LEAST = 1e-24  # of the squared errors to weigh: everything gets some budget
_MARGIN = 1 - Fraction(1, 2**45)  # far above the rounding of shares


def calibrate(
    privacy: Privacy, *, l1: float | None = None, l2: float | None = None
) -> NoiseLaw:
    """Return the law, of the kind `privacy` takes, with the least scale that keeps it.

    `l1` and `l2` bound, in grid steps, how far one neighbour moves the measured integer vector.
    Pure privacy takes a discrete Laplace law from `l1`; the others an exactly rounded Gaussian from
    `l2`, which is post-processing of the continuous Gaussian mechanism as the data lie on the grid.
    """
    epsilon = cast("float", privacy.epsilon)  # a Privacy without rho has it
    if privacy.kind == "pure":
        exact = _needed("l1", l1, "pure privacy")
        return NoiseLaw(
            "discrete-laplace", _drawable(privacy, exact / Fraction(epsilon))
        )

    exact = _needed("l2", l2, "Gaussian noise")
    if privacy.rho is not None:
        sigma = gaussian_sigma_for_rho(privacy.rho)
    else:
        sigma = gaussian_sigma(epsilon, cast("float", privacy.delta))

    return NoiseLaw("rounded-gaussian", _drawable(privacy, exact * Fraction(sigma)))


def _drawable(privacy: Privacy, scale: Fraction) -> float:
    """Return the scale, rounded up, if noise of it can be drawn."""
    if 1 / SCALE_LIMIT <= scale <= SCALE_LIMIT:
        return float_above(scale)

    name = "epsilon" if privacy.rho is None else "rho"
    remedy = "choose it larger" if scale > 1 else "choose it smaller"
    if privacy.kind != "approximate":  # the scale falls as 1/ε, or as 1/√ρ
        power = 1 if privacy.kind == "pure" else 2
        middle = Fraction(getattr(privacy, name)) * scale**power
        reach = Fraction(SCALE_LIMIT) ** power
        remedy = (
            f"choose it between {_short(middle / reach)} and {_short(middle * reach)}"
        )

    raise InvalidParameter(
        name,
        getattr(privacy, name),
        f"needs noise of {_short(scale)} grid steps, and draws are exact from 2^-40 to 2^40",
        remedy,
    )


def _short(exact: Fraction) -> str:
    """Return a number in words, even where it is beyond all floats."""
    return f"{Decimal(exact.numerator) / Decimal(exact.denominator):.3g}"


def _needed(name: str, sensitivity: float | None, what: str) -> Fraction:
    if sensitivity is None:
        rule = f"must be given: {what} is calibrated by it"
        raise InvalidParameter(name, None, rule)
    return positive(name, sensitivity, "a measurement nobody can move needs no noise")


def splittable(privacy: Privacy) -> Privacy:
    """The same budget in the unit in which shares of it add up exactly."""
    if privacy.kind != "approximate":
        return privacy
    sigma = Fraction(calibrate(privacy, l2=1.0).scale)
    return Privacy(rho=float_below(1 / (2 * sigma**2)), neighbours=privacy.neighbours)


def row_budget(privacy: Privacy, contribution: Contribution) -> Privacy:
    """The budget of one row where a person moves so many times as much and `privacy` is theirs.

    Noise for one row under ε/k, or under ρ/k², is the noise for k times that under ε or ρ; under ρ
    the square is the contribution's own, which is less than k² where rows are kept apart. A margin
    covers the rounding of ratios, so that k times the loss of a row, as a float, still keeps the
    whole.
    """
    rows = contribution.rows
    if rows == 1:
        return privacy
    require(
        privacy.neighbours == "add-remove",
        "neighbours",
        privacy.neighbours,
        f"tells nothing of how many rows a person has, and up to {rows} count",
        "plan for add-remove; half that budget is kept when people are replaced",
    )

    whole = splittable(privacy)
    if whole.rho is not None:
        rho = float_below(Fraction(whole.rho) / contribution.square * _MARGIN)
        return Privacy(rho=rho, neighbours="add-remove")

    assert whole.epsilon is not None
    epsilon = float_below(Fraction(whole.epsilon) / rows * _MARGIN)
    return Privacy(epsilon=epsilon, neighbours="add-remove")


def split(privacy: Privacy, shares: Sequence[float]) -> list[Privacy]:
    """Budgets in these proportions that together keep `privacy`."""
    exact = [Fraction(share) for share in shares]
    require(
        exact and min(exact) > 0,
        "shares",
        list(shares),
        "must be positive",
        "one per measurement",
    )

    whole = splittable(privacy)
    name = "epsilon" if whole.rho is None else "rho"
    amount = Fraction(getattr(whole, name))
    total = sum(exact)
    portions = [float_below(amount * (share / total) * _MARGIN) for share in exact]

    return [
        Privacy(neighbours=whole.neighbours, **{name: portion}) for portion in portions
    ]


def least_error_shares(costs: Sequence[float], privacy: Privacy) -> tuple[float, ...]:
    """Shares that make the sum of `costs`, each over its share of the budget, least.

    `costs` are squared errors under the whole budget: they fall with the square of ε, or with ρ.
    """
    power = 1 / 3 if privacy.kind == "pure" else 1 / 2
    largest = max(costs) or 1.0  # nothing to weigh where no noise is left
    raw = [max(cost / largest, _LEAST) ** power for cost in costs]
    return tuple(value / sum(raw) for value in raw)
