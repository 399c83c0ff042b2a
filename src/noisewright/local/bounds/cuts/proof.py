"""A proof for any workload by cuts, and its check.

The condition of `proof`, vᵀZv ≤ (λᵀv)(πᵀv) for v = 1 + r·x and every indicator x of a set, is here
one inequality for sets of all sizes. As quadratic forms in (1, x), let

    (λᵀv)(πᵀv) − vᵀZv = N(1, x) + Σ_i d_i(x_i² − x_i) + Σ_{i<j} 2E_ij x_i x_j
                        + Σ_b u_b (bᵀx − c_b)(bᵀx − c_b − 1),

with E ≥ 0 and u ≥ 0, b and c whole. For x of zeros and ones the second term vanishes, and the
third and fourth are at least zero (a product of neighbouring whole numbers), so that the inequality
holds if N is positive semidefinite. If N falls short by δ in the coordinates z = (x − p)/√(p(1−p)),
for any p between 0 and 1, then N + δ(1 + Σz_i²) does not, and 1 + Σz_i² is linear in x of zeros and
ones: prices that rise by τ each pay for it, as (τ1ᵀv)(πᵀv) ≥ τ(n + r·1ᵀx).

Nothing is believed: N is what is left over when all the rest is taken off, its least eigenvalue is
proved by a Cholesky factorization, and every rounding is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf
from typing import ClassVar

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.errors import require
from noisewright.local.bounds.proof import (
    EPS,
    Layout,
    Proof,
    largest_eigenvalue,
    symmetric,
)

MOST_CELLS = 128
_LARGEST = 2**20  # whole numbers in cuts, whose products stay exact by far
_EDGE = 1e-6


@dataclass(frozen=True, eq=False)
class CutProof(Proof):
    """d, E, the cuts b, c with weights u, and p."""

    kind = "cuts"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "squares": (np.float64, 1),
        "pairs": (np.float32, 1),
        "vectors": (np.int64, 2),
        "offsets": (np.int64, 1),
        "weights": (np.float64, 1),
        "centre": (np.float64, 1),
    }
    squares: FloatArray
    pairs: Array
    """The upper triangle of E, row by row, in single precision; its diagonal does not count."""
    vectors: IntArray
    offsets: IntArray
    weights: FloatArray
    centre: FloatArray

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n = self.size
        cuts = len(self.weights)
        return {
            "squares": (n,),
            "pairs": (n * (n + 1) // 2,),
            "vectors": (cuts, n),
            "offsets": (cuts,),
            "weights": (cuts,),
            "centre": (n,),
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.pairs.min() >= 0 and self.weights.min(initial=0.0) >= 0,
            "pairs, weights",
            "arrays",
            "must not be negative",
        )
        require(
            self.centre.min() >= _EDGE and self.centre.max() <= 1 - _EDGE,
            "centre",
            "array",
            "must be between 0 and 1",
        )

        for name in ("vectors", "offsets"):
            whole = getattr(self, name)
            require(
                whole.dtype == np.int64
                and not ((whole < -_LARGEST) | (whole > _LARGEST)).any(),
                name,
                "array",
                "must be small whole numbers",
            )

    def rise(self, epsilon: float) -> float:
        return raised(self, epsilon)


def raised(proof: CutProof, epsilon: float) -> float:
    """What prices must rise by, in sum, for every set to meet the condition."""
    n = proof.size
    r = expm1(epsilon)
    form, sizes = _left_over(proof, r)
    p = proof.centre
    width = np.sqrt(p * (1 - p))
    change = np.zeros((n + 1, n + 1))
    change[0, 0], change[1:, 0] = 1.0, p
    change[np.arange(1, n + 1), np.arange(1, n + 1)] = width
    inner = change.T @ form @ change
    bound = change.T @ sizes @ change
    terms = 2 * n + proof.factor.shape[1] + len(proof.weights) + 32
    rounding = 4 * terms * EPS * float(np.linalg.norm(bound))
    short = largest_eigenvalue(-(inner + inner.T) / 2) + rounding
    if not 0 < short < inf:
        return 0.0 if short <= 0 else inf

    constant = 1 + float((p * p / width**2).sum())
    slope = float(((1 - 2 * p) / width**2).max())
    return float(short * n * max(constant / n, slope / r, 0.0) * (1 + 64 * n * EPS))


def _left_over(proof: CutProof, r: float) -> tuple[FloatArray, FloatArray]:
    """N, and sums of the sizes of the numbers that its entries are sums of."""
    n = proof.size
    y = proof.factor
    prices = proof.prices
    prior = proof.prior
    sides = np.outer(prices, prior)
    heights = np.outer(np.abs(prices), prior)
    lift = np.column_stack([np.ones(n), r * np.eye(n)])  # v = lift (1, x)
    form = lift.T @ ((sides + sides.T) / 2 - y @ y.T) @ lift
    size = lift.T @ ((heights + heights.T) / 2 + np.abs(y) @ np.abs(y).T) @ lift
    taken = np.zeros((n + 1, n + 1))
    inside = np.arange(1, n + 1)
    taken[1:, 1:] = symmetric(proof.pairs.astype(np.float64), n)
    taken[inside, inside] = proof.squares
    taken[0, 1:] = taken[1:, 0] = -proof.squares / 2
    low = np.column_stack([-proof.offsets, proof.vectors]).astype(np.float64)
    high = low - np.eye(n + 1)[0]
    cut = low.T @ (proof.weights[:, None] * high)
    cut_size = np.abs(low).T @ (proof.weights[:, None] * np.abs(high))
    form = form - taken - (cut + cut.T) / 2
    size = size + np.abs(taken) + (cut_size + cut_size.T) / 2

    return (form), (size)
