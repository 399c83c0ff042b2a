"""What one ε-LDP report tells about which of two families people come from, at most.

A pair v of distributions (λ_v, μ_v), v drawn from weights π and unknown to those who report, gives
a report o the chances a and b. With the squared Hellinger distance 1 − ρ_v = ½ Σ_o (√a − √b)², the
chance of telling the pair apart from N independent reports is √(1 − ρ_v^{2N}) at most, so that by
Jensen's inequality

    E_v[true − false alarms] ≤ √(1 − exp(2N·E_v ln ρ_v)),

and (√a − √b)² ≤ (a − b)²/(4·min(a, b)). A row of chances is z(1 + r g) with r = e^ε − 1, 0 ≤ g ≤ 1
and Σz ≤ 1, so that a − b = z r⟨g, M_v⟩ with M_v = λ_v − μ_v. Let ν be a distribution over cells and
κ such that Mᵀ Diag(π) M ⪯ κ·Diag(ν); then E_v⟨g, M_v⟩² ≤ κ·Var_ν g, since M_v sums to zero.

* *Any pairs*: a, b ≥ z and Var g ≤ ¼, so that E_v Σ(a − b)²/min(a, b) ≤ κ r²/4.
* *One reference*: where λ_v, μ_v ≥ s_v ν, a and b are at least s_v z(1 + r m), m the mean of g
  under ν. With κ of the rows M_v/√s_v and Var g ≤ m(1 − m), each report adds at most
  κ r² m(1 − m)/(1 + r m)² ≤ κ r²/(4e^ε) = κ sinh²(ε/2) for each share z(1 + r m) of all reports.

The *information* below is that bound on E_v Σ(a − b)²/min(a, b) ≥ 8·E_v(1 − ρ_v). Since a report
shrinks total variation by tanh(ε/2) and |√a − √b|/(√a + √b) ≤ tanh(ε/4), no 1 − ρ_v is above
tanh(ε/2)·tanh(ε/4) times the distance of the pair, which bounds −ln ρ_v over 1 − ρ_v.
"""

from __future__ import annotations

import math

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
