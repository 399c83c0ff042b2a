"""From a promise and a sensitivity to the noise that keeps it, and back."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from typing import cast

from noisewright.errors import InvalidParameter
from noisewright.privacy.budget import Neighbours, Privacy
from noisewright.privacy.conversion import gaussian_sigma_for_rho
from noisewright.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from noisewright.privacy.law import NoiseLaw
from noisewright.privacy.noise import SCALE_LIMIT
from noisewright.privacy.rounding import float_above
from noisewright.privacy.rules import positive


def calibrate(privacy: Privacy, *, l1: float | None = None, l2: float | None = None) -> NoiseLaw:
    """Return the law, of the kind `privacy` takes, with the least scale that keeps it.

    `l1` and `l2` bound, in grid steps, how far one neighbour moves the measured integer vector.
    Pure privacy takes a discrete Laplace law from `l1`; the others an exactly rounded Gaussian from
    `l2`, which is post-processing of the continuous Gaussian mechanism as the data lie on the grid.
    """
    epsilon = cast("float", privacy.epsilon)  # a Privacy without rho has it
    if privacy.kind == "pure":
        exact = _needed("l1", l1, "pure privacy")
        return NoiseLaw("discrete-laplace", _drawable(privacy, exact / Fraction(epsilon)))
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
        middle, reach = (
            Fraction(getattr(privacy, name)) * scale**power,
            Fraction(SCALE_LIMIT) ** power,
        )
        remedy = f"choose it between {_short(middle / reach)} and {_short(middle * reach)}"
    raise InvalidParameter(
        name,
        getattr(privacy, name),
        f"needs noise of {_short(scale)} grid steps, and draws are exact from 2^-40 to 2^40",
        remedy,
    )


def _short(exact: Fraction) -> str:
    """Return a number in words, even where it is beyond all floats."""
    return f"{Decimal(exact.numerator) / Decimal(exact.denominator):.3g}"


def guarantee(
    law: NoiseLaw,
    *,
    l1: float | None = None,
    l2: float | None = None,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
) -> Privacy:
    """Return the promise that noise of this law keeps for a vector moved by at most l1 or l2.

    Gaussian noise is stated in zCDP, or, with `delta`, by the exact ε.
    """
    scale = Fraction(law.scale)
    if law.law == "discrete-laplace":
        epsilon = float_above(_needed("l1", l1, "Laplace noise") / scale)
        return Privacy(epsilon=epsilon, neighbours=neighbours)
    ratio = _needed("l2", l2, "Gaussian noise") / scale
    if delta is None:
        return Privacy(rho=float_above(ratio**2 / 2), neighbours=neighbours)
    epsilon = max(gaussian_epsilon(delta, float_above(ratio)), sys.float_info.min)
    return Privacy(epsilon=epsilon, delta=delta, neighbours=neighbours)


def _needed(name: str, sensitivity: float | None, what: str) -> Fraction:
    if sensitivity is None:
        raise InvalidParameter(name, None, f"must be given: {what} is calibrated by it")
    return positive(name, sensitivity, "a measurement nobody can move needs no noise")
