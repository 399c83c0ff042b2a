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
from noisewright.local.bounds.centring import symmetrised
from noisewright.local.bounds.proof import (
    EPS,
    Layout,
    Proof,
    check_not_negative,
    largest_eigenvalue,
    symmetric,
)

MOST_CELLS = 128
"""Only bounds time: a search takes a spectrum over all cells in every round."""

_LARGEST = 2**20
"""Of whole numbers in cuts, whose products stay exact by far."""

_EDGE = 1e-6
"""How near p may come to 0 and 1, where its coordinates end."""


@dataclass(frozen=True, eq=False)
class CutProof(Proof):
    """d, E, the cuts b, c with weights u, and p."""

    kind = "cuts"
    most_cells = MOST_CELLS
    layout: ClassVar[Layout] = {
        "squares": (np.float64, "n"),
        "pairs": (np.float32, "t"),
        "vectors": (np.int64, "cn"),
        "offsets": (np.int64, "c"),
        "weights": (np.float64, "c"),
        "centre": (np.float64, "n"),
    }
    squares: FloatArray
    pairs: Array
    """The upper triangle of E, row by row, in single precision; its diagonal does not count."""
    vectors: IntArray
    offsets: IntArray
    weights: FloatArray
    centre: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "pairs", "weights")
        edge = np.minimum(self.centre, 1 - self.centre).min()
        require(edge >= _EDGE, "centre", "array", "must be between 0 and 1")

        for name in ("vectors", "offsets"):
            whole = getattr(self, name)
            small = (np.clip(whole, -_LARGEST, _LARGEST) == whole).all()
            fits = whole.dtype == np.int64 and small
            require(fits, name, "array", "must be small whole numbers")

    def rise(self, epsilon: float) -> float:
        """By the least eigenvalue of N in the coordinates z."""
        n = self.size
        r = expm1(epsilon)
        p = self.centre
        variance = p * (1 - p)

        # (1, x) = change (1, z).
        change = np.diag(np.append(1.0, np.sqrt(variance)))
        change[1:, 0] = p
        form, bound = self._left_over(r)
        inner = change.T @ form @ change

        terms = 2 * n + self.factor.shape[1] + len(self.weights)
        sizes = change.T @ bound @ change
        rounding = 4 * (terms + 32) * EPS * float(np.linalg.norm(sizes))
        short = largest_eigenvalue(-symmetrised(inner)) + rounding
        if short <= 0:
            return 0.0
        if not short < inf:
            return inf

        # 1 + Σz² = constant + slopeᵀx on x of zeros and ones; τ(n + r·1ᵀx) pays for both.
        constant = 1 + np.sum(p * p / variance)
        slope = np.max((1 - 2 * p) / variance)
        price = short * max(constant / n, slope / r, 0.0)
        return float(n * price * (1 + 64 * n * EPS))

    def _left_over(self, r: float) -> tuple[FloatArray, FloatArray]:
        """N, and sums of the sizes of the numbers that its entries are sums of."""
        n = self.size
        phi, bound = self.condition()

        # v = lift (1, x).
        lift = np.column_stack([np.ones(n), r * np.eye(n)])
        form = -lift.T @ phi @ lift
        size = lift.T @ bound @ lift

        # d and E.
        taken = np.zeros((n + 1, n + 1))
        taken[1:, 1:] = symmetric(self.pairs, n)
        inside = np.arange(1, n + 1)
        taken[inside, inside] = self.squares
        taken[0, 1:] = -self.squares / 2
        taken[1:, 0] = -self.squares / 2

        # Cuts, each a product of bᵀx − c and bᵀx − c − 1.
        low = np.column_stack([-self.offsets, self.vectors])
        low = low.astype(np.float64)
        high = low.copy()
        high[:, 0] -= 1.0
        weights = self.weights[:, None]
        cut = low.T @ (weights * high)
        cut_size = np.abs(low).T @ (weights * np.abs(high))

        form = form - taken - symmetrised(cut)
        size = size + np.abs(taken) + symmetrised(cut_size)
        return form, size
