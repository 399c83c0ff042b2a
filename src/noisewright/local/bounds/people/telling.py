"""What one report tells about which of two distributions the data come from, and what follows.

Pairs of distributions v are drawn by weights π, and reports are made without knowing v. With the
differences M_v of the pairs and a reference ν, what an ε-LDP report tells is bounded by κ, where
Mᵀ Diag(π) M ⪯ κ·Diag(ν): a row of a strategy is z(1 + (e^ε − 1)g) with 0 ≤ g ≤ 1, and Σz ≤ 1.
"""

from __future__ import annotations

import math

_ROUNDING = 1e-12
"""By which a number of people is lowered before it is rounded up: above what logarithms lose."""


def pair_constant(epsilon: float) -> float:
    """Information of a report over κ, for any pairs."""
    return math.expm1(epsilon) ** 2 / 4


def reference_constant(epsilon: float) -> float:
    """The same where all pairs are near one reference, with κ of M_v/√s_v."""
    return math.sinh(epsilon / 2) ** 2


def people_needed(ratio: float) -> int:
    """The whole number of people that a bound asks for, at least one."""
    return max(1, math.ceil(ratio * (1 - _ROUNDING)))


def people_to_tell(
    information: float,
    distance: float,
    epsilon: float,
    beta: float,
) -> int:
    """People from whom pairs are told apart with errors of at most β both ways, at the least.

    `distance` is the largest total variation of a pair.
    """
    needed = -math.log(4 * beta * (1 - beta))
    return people_needed(needed / _affinity_loss(information, distance, epsilon))


def advantage(
    people: int,
    information: float,
    distance: float,
    epsilon: float,
) -> float:
    """True less false alarms, on average over pairs, are at most this."""
    loss = people * _affinity_loss(information, distance, epsilon)
    return math.sqrt(-math.expm1(-loss))


def _affinity_loss(
    information: float,
    distance: float,
    epsilon: float,
) -> float:
    """No less than −2·E_v ln ρ_v of one report: −ln(1 − u) ≤ u·(−ln(1 − U)/U) for u ≤ U."""
    most = math.tanh(epsilon / 2) * math.tanh(epsilon / 4) * min(1.0, distance)
    secant = -math.log1p(-most) / most if most > 0 else 1.0
    return secant * information / 4
