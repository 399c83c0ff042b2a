"""People without whom no protocol does a known task, with explicit constants: closed forms.

What a report tells is bounded in `telling`. All families here are a share 1 − t of one reference,
uniform over cells, and differ in the rest: c = sinh²(ε/2) times κ/(1 − t). Thresholds and tables
are told apart pair by pair as there.

Naming which of K equally likely ones is the truth: non-interactive protocols by Fano's inequality,
since the mutual information adds up over people [001, L4]; it does not where what is asked follows
from earlier reports. There the divergence from one common reference does [001, L3]: the right
answer is given by chance in 1/K, and more often by √(N c κ/2) at most (Pinsker). Mutual information
is at most the mean divergence from the reference itself, which takes no 1/(1 − t).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from noisewright.errors import require, unknown_name
from noisewright.local.bounds.people.telling import (
    pair_constant,
    people_needed,
    people_to_tell,
    reference_constant,
)
from noisewright.local.fixedpoint import check_epsilon
from noisewright.norm.approximate.marginal_norm import marginal_norm

Protocols = Literal["non-interactive", "sequential"]

_TOLERANCES = (1.0, 2.0, 4.0)
"""Multiples of the error at which witnesses for tables are taken; the best one counts."""

_REACHES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Shares of all points that a threshold's families reach on both sides; the best one counts."""

_ROUNDING = 1e-9
"""Share by which κ of tables rises: above what its sums of rounded weights lose."""


def parity_people(
    parities: int,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
    protocols: Protocols = "non-interactive",
) -> int:
    """People without whom no protocol names the parity that labels agree with.

    One of K distinct non-constant parities has correlation α with a bit, all others none: κ = α²/K.
    """
    check_errors(alpha, epsilon, beta, most=1.0)
    require(parities >= 2, "parities", parities, "must be two or more")
    kappa = alpha**2 / parities
    return _people_to_name(parities, kappa, alpha, epsilon, beta, protocols)


def selection_people(
    coordinates: int,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
    protocols: Protocols = "sequential",
) -> int:
    """People without whom no protocol names a coordinate whose mean is within α of the largest.

    One of d coordinates is a coin of chance ½ + α (and a little), all others fair: κ = 4α²/d.
    """
    check_errors(alpha, epsilon, beta, most=0.5)
    require(coordinates >= 2, "coordinates", coordinates, "must be two or more")
    kappa = 4 * alpha**2 / coordinates
    return _people_to_name(coordinates, kappa, 2 * alpha, epsilon, beta, protocols)


def _people_to_name(
    count: int,
    kappa: float,
    tilt: float,
    epsilon: float,
    beta: float,
    protocols: Protocols,
) -> int:
    """People who name one of so many with chance 1 − β, each tilted from one uniform reference."""
    known = ("non-interactive", "sequential")
    if protocols not in known:
        raise unknown_name("protocols", protocols, "is no class of protocols", known)

    beyond_chance = max(0.0, 1 - beta - 1 / count)
    needed = 2 * beyond_chance**2 / _information(kappa, tilt, epsilon)
    if protocols == "non-interactive":
        fano = (1 - beta) * math.log(count) - math.log(2)
        needed = max(needed, fano / (reference_constant(epsilon) * kappa))

    return people_needed(needed)


def _information(
    kappa: float,
    tilt: float,
    epsilon: float,
) -> float:
    """Of a report, where families are a share 1 − tilt of a uniform reference, and the rest."""
    any_pairs = pair_constant(epsilon) * kappa
    if tilt >= 1:
        return any_pairs
    return min(any_pairs, reference_constant(epsilon) * kappa / (1 - tilt))


def threshold_people(
    points: int,
    alpha: float,
    *,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> int:
    """People without whom no non-interactive protocol answers all thresholds within α.

    About a threshold that may be any with m points on both sides, a share 2α of chances ∝ 1/(k − ½)
    at distance k ≤ m on the left, or on the right. Differences are a Toeplitz matrix whose
    symbol is at most F = 4Σ sin((2k − 1)π/2m)/(2k − 1), so that κ = n/(n − 2m + 1)·(2αF/H)² with
    H = Σ 1/(k − ½): people grow with log²(points)/α².
    """
    check_errors(alpha, epsilon, beta, most=0.5)
    require(points >= 2, "points", points, "must be two or more")

    reaches = {max(1, int(points * share)) for share in _REACHES}
    reaches |= {1, points // 2}
    kappa = min(threshold_kappa(points, reach, alpha) for reach in reaches)
    return _people_to_tell(kappa, 2 * alpha, epsilon, beta)


def threshold_kappa(
    points: int,
    reach: int,
    alpha: float,
) -> float:
    """κ of the families about thresholds with so many points on both sides."""
    odd = 2 * np.arange(1, reach + 1) - 1
    sines = np.sin(odd * (math.pi / (2 * reach)))
    symbol = 4 * float((sines / odd).sum()) * (1 + 1e-12)
    total = float(np.sum(2 / odd))

    thresholds = points - 2 * reach + 1
    return points / thresholds * (2 * alpha * symbol / total) ** 2


def marginal_people(
    attributes: int,
    ways: int,
    alpha: float,
    *,
    values: int = 2,
    epsilon: float = 1.0,
    beta: float = 0.05,
) -> int:
    """People without whom no non-interactive protocol answers all tables of `ways` within α.

    From the symmetric witness y of the shifted approximate norm: κ = (2α·γ2*(y)/(y·target))², all
    rows alike, where the families of a row are the positive and the negative part of its witness.
    """
    check_errors(alpha, epsilon, beta, most=0.5)
    people = []
    for multiple in _TOLERANCES:
        family = _table_family(attributes, ways, values, alpha, multiple * alpha)
        if family is not None:
            people.append(_people_to_tell(*family, epsilon, beta))

    require(people, "alpha", alpha, "is too large for anything to be proved")
    return max(people)


def _table_family(
    attributes: int,
    ways: int,
    values: int,
    alpha: float,
    entrywise: float,
) -> tuple[float, float] | None:
    """κ and the share in which families differ; None where they differ by less than 2α."""
    norm = marginal_norm(attributes, ways, entrywise, values=values, shift=True)
    (orbit,) = norm.orbits
    (y,) = norm.certificate.weights
    if not y.any():
        return None

    # Families have as many people on both sides.
    y = y.copy()
    y[int(np.abs(y).argmax())] -= math.fsum(y)

    gain = abs(float(y @ orbit.target))
    share = alpha * float(np.abs(y).sum()) * (1 + _ROUNDING) / max(gain, 1e-300)
    if share >= 1:
        return None

    images = orbit.kernel.T @ y
    sizes = np.abs(images[orbit.costly]) / orbit.scales[orbit.costly]
    kappa = (2 * alpha * float(sizes.max()) / gain * (1 + _ROUNDING)) ** 2
    return kappa, share


def _people_to_tell(
    kappa: float,
    tilt: float,
    epsilon: float,
    beta: float,
) -> int:
    """People who tell two families apart with errors of at most β both ways."""
    information = _information(kappa, tilt, epsilon)
    return people_to_tell(information, tilt, epsilon, beta)


def check_errors(
    alpha: float,
    epsilon: float,
    beta: float,
    most: float,
) -> None:
    """Refuse budgets, errors and chances of failure of which nothing is known."""
    check_epsilon(epsilon)
    rule = f"must lie between 0 and {most:g}"
    require(0 < alpha <= most, "alpha", alpha, rule, "try 0.05")
    require(0 < beta < 0.5, "beta", beta, "must lie between 0 and 0.5", "try 0.05")
