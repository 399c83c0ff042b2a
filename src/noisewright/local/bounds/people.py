"""People without whom no protocol does a known task, with explicit constants: closed forms.

What one ε-LDP report tells is bounded in `telling` by κ, where Mᵀ Diag(π) M ⪯ κ·Diag(ν) and M_v are
the differences of the distributions. All families here are a share 1 − t of one reference, uniform
over cells, and differ in the rest: c = sinh²(ε/2) times κ/(1 − t). Thresholds and tables are told
apart pair by pair as there.

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

from noisewright.errors import InvalidParameter, require, unknown_name
from noisewright.local.fixedpoint import check_epsilon
from noisewright.norm.approximate.marginal_norm import marginal_norm

_ROUNDING = 1e-12


def pair_constant(epsilon: float) -> float:
    """Information of a report over κ, for any pairs."""
    return math.expm1(epsilon) ** 2 / 4


def reference_constant(epsilon: float) -> float:
    """The same where all pairs are near one reference, with κ of M_v/√s_v."""
    return math.sinh(epsilon / 2) ** 2


def people_to_tell(
    information: float, distance: float, epsilon: float, beta: float
) -> int:
    """People from whom pairs are told apart with errors of at most β both ways, at the least.

    `distance` is the largest total variation of a pair.
    """
    needed = -math.log(4 * beta * (1 - beta))
    return max(
        1, math.ceil(needed / _loss(information, distance, epsilon) * (1 - _ROUNDING))
    )


def advantage(
    people: int, information: float, distance: float, epsilon: float
) -> float:
    """True less false alarms, on average over pairs, are at most this."""
    return math.sqrt(-math.expm1(-people * _loss(information, distance, epsilon)))


def _loss(information: float, distance: float, epsilon: float) -> float:
    """No less than −2·E_v ln ρ_v of one report: −ln(1 − u) ≤ u·(−ln(1 − U)/U) for u ≤ U."""
    most = math.tanh(epsilon / 2) * math.tanh(epsilon / 4) * min(1.0, distance)
    secant = -math.log1p(-most) / most if most > 0 else 1.0
    return secant * information / 4


_MOST_CELLS = 1024
"""In pairs of which the bound is proved; more would not raise it by much."""


def assouad_bound(size: int, people: int, *, epsilon: float = 1.0) -> float:
    """Squared error summed over cells, against the population, that no protocol goes below.

    Assouad over an even number s ≤ n of cells in pairs with chances (1 ± δτ)/s: the largest over
    s and δ of (δ²/s)(1 − √(1 − ρ²)), ρ = ρ₁^N, by the exact mean affinity ρ̄ of two-valued rows and
    −ln ρ₁ ≤ (1 − ρ̄)(−ln ρ_*)/(1 − ρ_*), ρ_* the least affinity of one pair.
    """
    check_epsilon(epsilon)
    require(
        size >= 2 and people >= 1,
        "size",
        size,
        "must be two cells or more, for one person or more",
    )

    best = 0.0
    even = min(size - size % 2, _MOST_CELLS)
    for cells in sorted(
        {2, even, *(c for c in (2**k for k in range(1, 11)) if c <= even)}
    ):
        # Errors stop falling with δ where people tell pairs apart: δ²N about s².
        typical = cells / math.sqrt(people) / math.expm1(epsilon)
        for delta in {
            min(1.0, typical * factor) for factor in (0.3, 0.6, 1.0, 1.5, 2.2, 3.2, 5.0)
        }:
            loss = people * _pair_loss(cells, delta, epsilon)
            kept = math.exp(-2 * loss)  # ρ²
            best = max(best, delta**2 / cells * (1 - math.sqrt(max(0.0, 1 - kept))))

    return best * (1 - 1e-9)


def _pair_loss(cells: int, delta: float, epsilon: float) -> float:
    """A number above −ln ρ₁ of the best non-interactive strategy."""
    r = math.expm1(epsilon)
    pairs = cells // 2
    h = r * delta / cells
    # 1 − ρ̄: the largest over rows that hold one cell of some pairs. A pair held whole would only
    # raise a, and a − √(a² − h²) over the row's mean falls with it.
    gain = 0.0

    for split in range(1, pairs + 1):
        signs = 2 * np.arange(split) - (split - 1)
        ways = np.array([math.comb(split - 1, i) for i in range(split)], dtype=float)
        mean = 1 + r / cells * split
        a = mean + r / cells * delta * signs
        lost = (
            float(np.sum(ways * (a - np.sqrt(np.maximum(a**2 - h**2, 0.0)))))
            / ways.sum()
        )
        gain = max(gain, split / pairs * lost / mean)

    least = math.sqrt(1 - (r * delta / (cells + r)) ** 2)
    return gain * (-math.log(least)) / (1 - least) * (1 + 1e-9)


def van_trees_bound(size: int, people: int, *, epsilon: float = 1.0) -> float:
    """Squared error summed over cells, against the population, by a Dirichlet(a) prior.

    (s − 1)²/(N·I + J), J = (s − 1)(sa − 1)(sa − 2)/(a − 2), I the most that a report tells about
    the chances: over two-valued rows with d own cells, r²(d(s − d)/s)E[1/(1 + r p(S))]/(1 + rd/s).
    """
    from scipy.special import hyp2f1

    check_epsilon(epsilon)
    require(
        size >= 3 and people >= 1,
        "size",
        size,
        "must be three cells or more, for one person or more",
    )

    s = size
    r = math.expm1(epsilon)
    best = 0.0
    for a in 2 + np.geomspace(0.05, 200, 25):
        d = np.arange(1, s)
        # E 1/(1 + r·Beta(x, y)) = ₂F₁(1, x; x + y; −r)
        mean = hyp2f1(1.0, a * d, a * s, -r)
        told = float(np.max(r**2 * d * (s - d) / s * mean / (1 + r * d / s)))
        prior = (s - 1) * (s * a - 1) * (s * a - 2) / (a - 2)
        best = max(best, (s - 1) ** 2 / (people * told + prior))

    return best * (1 - 1e-9)


Protocols = Literal["non-interactive", "sequential"]
_MULTIPLES = 1.0, 2.0, 4.0


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
    _check(alpha, epsilon, beta, most=1.0)
    require(parities >= 2, "parities", parities, "must be two or more")
    return _naming(parities, alpha**2 / parities, alpha, epsilon, beta, protocols)


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
    _check(alpha, epsilon, beta, most=0.5)
    require(coordinates >= 2, "coordinates", coordinates, "must be two or more")
    kappa = 4 * alpha**2 / coordinates
    return _naming(coordinates, kappa, 2 * alpha, epsilon, beta, protocols)


def _naming(
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

    lucky = 2 * max(0.0, 1 - beta - 1 / count) ** 2
    needed = lucky / _information(kappa, tilt, epsilon)
    if protocols == "non-interactive":
        fano = (1 - beta) * math.log(count) - math.log(2)
        needed = max(needed, fano / (reference_constant(epsilon) * kappa))

    return max(1, math.ceil(needed * (1 - 1e-12)))


def _information(kappa: float, tilt: float, epsilon: float) -> float:
    """Of a report, where families are a share 1 − tilt of a uniform reference, and the rest."""
    free = pair_constant(epsilon) * kappa
    if tilt >= 1:
        return free
    return min(free, reference_constant(epsilon) * kappa / (1 - tilt))


def threshold_people(
    points: int, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> int:
    """People without whom no non-interactive protocol answers all thresholds within α.

    About a threshold that may be any with m points on both sides, a share 2α of chances ∝ 1/(k − ½)
    at distance k ≤ m on the left, or on the right. Differences are a Toeplitz matrix whose
    symbol is at most F = 4Σ sin((2k − 1)π/2m)/(2k − 1), so that κ = n/(n − 2m + 1)·(2αF/H)² with
    H = Σ 1/(k − ½): people grow with log²(points)/α².
    """
    _check(alpha, epsilon, beta, most=0.5)
    require(points >= 2, "points", points, "must be two or more")

    reach = {
        max(1, int(points * share))
        for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
    }
    kappa = min(threshold_kappa(points, m, alpha) for m in reach | {1, points // 2})
    return _telling(kappa, 2 * alpha, epsilon, beta)


def threshold_kappa(points: int, reach: int, alpha: float) -> float:
    """κ of the families about thresholds with so many points on both sides."""
    odd = 2 * np.arange(1, reach + 1) - 1
    heights = np.sin(odd * (math.pi / (2 * reach))) / odd
    length = float(np.sum(2 / odd))
    symbol = 4 * float(heights.sum()) * (1 + 1e-12)

    return points / (points - 2 * reach + 1) * (2 * alpha * symbol / length) ** 2


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
    _check(alpha, epsilon, beta, most=0.5)
    families = [
        _marginals(attributes, ways, values, alpha, m * alpha) for m in _MULTIPLES
    ]
    people = [
        _telling(*family, epsilon, beta) for family in families if family is not None
    ]
    require(people, "alpha", alpha, "is too large for anything to be proved")

    return max(people)


def _marginals(
    attributes: int, ways: int, values: int, alpha: float, entrywise: float
) -> tuple[float, float] | None:
    """κ and the share in which families differ; None where they differ by less than 2α."""
    norm = marginal_norm(attributes, ways, entrywise, values=values, shift=True)
    (orbit,), (y,) = norm.orbits, norm.certificate.weights
    if not y.any():
        return None

    y = y.copy()
    # families have as many people on both sides
    y[int(np.abs(y).argmax())] -= math.fsum(y)
    gain = abs(float(y @ orbit.target))
    share = alpha * float(np.abs(y).sum()) * (1 + 1e-9) / max(gain, 1e-300)
    if share >= 1:
        return None

    images = orbit.kernel.T @ y
    sizes = np.abs(images[orbit.costly]) / orbit.scales[orbit.costly]
    return (2 * alpha * float(sizes.max()) / gain * (1 + 1e-9)) ** 2, share


def _telling(kappa: float, tilt: float, epsilon: float, beta: float) -> int:
    """People who tell two families apart with errors of at most β both ways."""
    information = _information(kappa, tilt, epsilon)
    return people_to_tell(information, tilt, epsilon, beta)


def _check(alpha: float, epsilon: float, beta: float, most: float) -> None:
    check_epsilon(epsilon)
    if not 0 < alpha <= most:
        raise InvalidParameter(
            "alpha", alpha, f"must lie between 0 and {most:g}", "try 0.05"
        )
    require(0 < beta < 0.5, "beta", beta, "must lie between 0 and 0.5", "try 0.05")
