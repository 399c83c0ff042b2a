"""From a promise and a sensitivity to the noise that keeps it, and back."""

from __future__ import annotations

import sys
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
        return _laplace(epsilon, _needed("l1", l1, "pure privacy"))
    sensitivity = float_above(_needed("l2", l2, "Gaussian noise"))
    if privacy.rho is not None:
        sigma = gaussian_sigma_for_rho(privacy.rho, sensitivity)
    else:
        sigma = gaussian_sigma(epsilon, cast("float", privacy.delta), sensitivity)
    return NoiseLaw("rounded-gaussian", sigma)


def _laplace(epsilon: float, l1: Fraction) -> NoiseLaw:
    scale = float_above(l1 / Fraction(epsilon))
    if not 1 / SCALE_LIMIT <= scale <= SCALE_LIMIT:
        least, most = float(l1) / SCALE_LIMIT, float(l1) * SCALE_LIMIT
        raise InvalidParameter(
            "epsilon",
            epsilon,
            f"needs noise of {scale:.3g} grid steps, and draws are exact from 2^-40 to 2^40",
            f"choose it between {least:.3g} and {most:.3g}",
        )
    return NoiseLaw("discrete-laplace", scale)


def guarantee(
    law: NoiseLaw,
    *,
    l1: float | None = None,
    l2: float | None = None,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
) -> Privacy:
    """Return the promise that noise of this law keeps for a vector moved by at most l1 or l2.

    Gaussian laws are stated in zCDP, or, for the rounded Gaussian with `delta`, by the exact ε.
    """
    scale = Fraction(law.scale)
    if law.law == "discrete-laplace":
        epsilon = float_above(_needed("l1", l1, "Laplace noise") / scale)
        return Privacy(epsilon=epsilon, neighbours=neighbours)
    ratio = _needed("l2", l2, "Gaussian noise") / scale
    if delta is None or law.law == "discrete-gaussian":
        return Privacy(rho=float_above(ratio**2 / 2), delta=delta, neighbours=neighbours)
    epsilon = max(gaussian_epsilon(delta, float_above(ratio)), sys.float_info.min)
    return Privacy(epsilon=epsilon, delta=delta, neighbours=neighbours)


def _needed(name: str, sensitivity: float | None, what: str) -> Fraction:
    if sensitivity is None:
        raise InvalidParameter(name, None, f"must be given: {what} is calibrated by it")
    return positive(name, sensitivity, "a measurement nobody can move needs no noise")
