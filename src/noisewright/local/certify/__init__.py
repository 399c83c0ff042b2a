"""How few people unbiased linear estimates need: floors from kernels that no pattern can exploit.

The best strategy's rows take two values, so a report is a set S of cells (the likelier ones), and
X = Σ_S μ_S v vᵀ/(1ᵀv) with v = 1 + (e^ε−1)1_S and Σ μ_S v = 1. For any kernel K ⪰ 0 with K1 = 0
and any λ such that vᵀKv ≤ (λᵀv)(1ᵀv) for every S,

    tr(M X⁻¹) − 1ᵀM1/n  ≥  ‖M^½ K^½‖_*² / tr(K X)  ≥  ‖M^½ K^½‖_*² / 1ᵀλ,

whatever the ε-LDP strategy. K = I gives the trace bound of `bound`. Better kernels need a proof
that no set gains too much from them: `delsarte` has one by linear programming for families of
tables and parities, `ordered` one by rearrangement for ordered cells.
"""

from __future__ import annotations
