"""A proof for any workload, set size by set size, and its check.

Some best report says "e^ε if you are in S, 1 if not": v = 1 + r·1_S, r = e^ε − 1. For a
distribution π, prices λ and Z = YYᵀ, suppose vᵀZv ≤ (λᵀv)(πᵀv) for every set S. With the
information X = Σ_S μ_S v_S v_Sᵀ/(πᵀv_S), where Σ_S μ_S v_S = 1, that gives tr(ZX) ≤ 1ᵀλ, and by
Cauchy–Schwarz tr(MX⁻¹)·tr(ZX) ≥ ‖WY‖_*², so that no strategy's worst-case variance is below

    ‖W(I − π1ᵀ)Y‖_*² / 1ᵀλ − Σ_u π_u ‖W(e_u − π)‖².

The condition is checked for all sets of d cells at once, d = 1 … n. With x = 1_S and
Φ = Z − (λπᵀ + πλᵀ)/2, s = Φ1, σ = 1ᵀΦ1, any ν, and any symmetric E without a negative entry,

    vᵀΦv = r²xᵀΦx + 2r·sᵀx + σ ≤ xᵀGx ≤ d·λmax(G),
    G = r²Φ + Diag(2r·s + σ/d) + (ν1ᵀ + 1νᵀ)/2 − d·Diag(ν) + E,

since ‖x‖² = 1ᵀx = d, the terms in ν cancel, and xᵀEx ≥ 0. What is left above zero is paid for by
prices: λ + κc, with c even or π, takes κ(cᵀv)(πᵀv) off.

Nothing here is believed: E is kept as its upper triangle, Z as its factor, λmax is proved by a
Cholesky factorization, and every rounding is counted. A proof that is wrong proves less, not more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, inf

import numpy as np

from noisewright.errors import FileFormatError, InvalidParameter, refusing
from noisewright.local.reading import stored
from noisewright.local.strategy import IntArray
from noisewright.workload.base import Array, FloatArray

MOST_CELLS = 256
EPS = 2.0**-52
_MARGIN = 2.0**-40  # of the two numbers whose difference a floor is: far above their own rounding
_WIDENINGS = (1.0, 16.0, 256.0, 2.0**16, 2.0**28)


@dataclass(frozen=True, eq=False)
class SetProof:
    """What proves a floor: π, Y, λ, and ν and E for some set sizes, in between interpolated."""

    prior: FloatArray
    factor: FloatArray
    prices: FloatArray
    sizes: IntArray
    tilts: FloatArray
    excess: Array
    """Upper triangles of E, row by row, one row per size, in single precision."""

    def __post_init__(self) -> None:
        n = len(self.prior)
        shapes = {
            "prior": (n,),
            "factor": (n, self.factor.shape[-1]),
            "prices": (n,),
            "sizes": (len(self.sizes),),
            "tilts": (len(self.sizes), n),
            "excess": (len(self.sizes), n * (n + 1) // 2),
        }
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or not np.isfinite(array).all() or not array.size:
                raise InvalidParameter(name, f"{array.shape}", f"must be finite, of shape {shape}")
        if self.prior.min() < 0 or abs(float(self.prior.sum()) - 1.0) > 1e-9:
            raise InvalidParameter("prior", "array", "must be a distribution")
        if (np.diff(self.sizes) <= 0).any() or self.sizes[0] < 1 or self.sizes[-1] > n:
            raise InvalidParameter("sizes", "array", f"must rise between 1 and {n}")
        if self.excess.min() < 0:
            raise InvalidParameter("excess", "array", "must not be negative")

    @classmethod
    def of(cls, arrays: Mapping[str, Array], cells: int) -> SetProof:
        """The proof in a file: any numbers of its form, for it proves what it proves."""
        if cells > MOST_CELLS:
            raise FileFormatError(f"a proof over {cells} cells is too large; plan again")
        with refusing("the proof is incomplete or damaged"):
            return cls(
                stored(arrays, "prior", np.float64, (cells,)),
                stored(arrays, "factor", np.float64, (cells, None)),
                stored(arrays, "prices", np.float64, (cells,)),
                stored(arrays, "sizes", np.int64, (None,)),
                stored(arrays, "tilts", np.float64, (None, cells)),
                stored(arrays, "excess", np.float32, (None, None)),
            )

    @property
    def size(self) -> int:
        return len(self.prior)

    def multipliers(self, cells: int) -> tuple[FloatArray, FloatArray]:
        """ν and E for sets of so many cells: on the line between the two nearest sizes kept."""
        after = int(np.searchsorted(self.sizes, cells))
        low, high = max(after - 1, 0), min(after, len(self.sizes) - 1)
        gap = float(self.sizes[high] - self.sizes[low])
        share = (cells - float(self.sizes[low])) / gap if gap else 0.0
        tilt = (1 - share) * self.tilts[low] + share * self.tilts[high]
        packed = (1 - share) * self.excess[low].astype(np.float64)
        packed += share * self.excess[high]
        return np.asarray(tilt), symmetric(packed, self.size)


def symmetric(packed: FloatArray, n: int) -> FloatArray:
    """The matrix with this upper triangle."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = packed
    return np.asarray(matrix + np.triu(matrix, 1).T)


def proved_variance(proof: SetProof, gram: FloatArray, epsilon: float) -> float:
    """The floor under the worst-case variance that a proof proves; −∞ where it proves nothing."""
    n = len(gram)
    if proof.size != n:
        raise InvalidParameter("proof", proof.size, f"must be over {n} cells")
    unit = float(np.trace(gram)) / n
    if not 0.0 < unit < inf:
        return -inf
    prices = proof.prices
    total = float(prices.sum()) + n * EPS * float(np.abs(prices).sum())
    limit = total + repair(proof, epsilon)
    if not 0 < limit < inf:
        return -inf
    m, prior, y = gram / unit, proof.prior, proof.factor
    mean = m @ prior
    centred = m - mean[:, None] - mean[None, :] + float(prior @ mean)
    inner = y.T @ centred @ y
    reach = np.abs(m).max(initial=0.0) * 4.0 * np.abs(y).sum(axis=0)  # bounds |Yᵀ||M| entries
    noise = 16 * (2 * n + len(reach)) * EPS * float(reach @ np.abs(y).sum(axis=0))
    values = np.maximum(np.linalg.eigvalsh((inner + inner.T) / 2) - noise, 0.0)
    moment = float(np.sqrt(values).sum()) ** 2 / limit
    known = max(float(prior @ np.diagonal(centred)), 0.0)
    together = float(prior @ np.diagonal(m))
    return unit * (moment - known - _MARGIN * (moment + together))


@dataclass(frozen=True, eq=False)
class _Condition:
    """vᵀΦv for all sets of one size, bounded from above with all that rounding may hide."""

    proof: SetProof
    epsilon: float
    phi: FloatArray
    bound: FloatArray
    """An upper bound on the numbers that Φ is made of, entry by entry."""

    @classmethod
    def of(cls, proof: SetProof, epsilon: float) -> _Condition:
        y, prices, prior = proof.factor, proof.prices, proof.prior
        phi = y @ y.T - (np.outer(prices, prior) + np.outer(prior, prices)) / 2
        heights = np.outer(np.abs(prices), prior)
        bound = np.abs(y) @ np.abs(y).T + (heights + heights.T) / 2
        return cls(proof, epsilon, (phi + phi.T) / 2, bound)

    @property
    def _rounding(self) -> float:
        """Relative to the numbers in a sum: their count, twice over."""
        columns: int = self.proof.factor.shape[1]
        return 2 * (self.proof.size + columns + 16) * EPS

    def single(self) -> FloatArray:
        """Of every cell by itself."""
        r, sums, bounds = expm1(self.epsilon), self.phi.sum(axis=1), self.bound.sum(axis=1)
        values = r * r * np.diagonal(self.phi) + 2 * r * sums + float(sums.sum())
        sizes = r * r * np.diagonal(self.bound) + 2 * r * bounds + float(bounds.sum())
        return np.asarray(values + self._rounding * sizes)

    def whole(self) -> float:
        """Of all cells together."""
        growth = 1 + expm1(self.epsilon)
        rounding = self._rounding * float(self.bound.sum())
        return growth * growth * (float(self.phi.sum()) + rounding)

    def of_size(self, d: int) -> float:
        """Of any d cells."""
        n, r, (tilt, excess) = self.proof.size, expm1(self.epsilon), self.proof.multipliers(d)
        sums, bounds = self.phi.sum(axis=1), self.bound.sum(axis=1)
        g = r * r * self.phi + (tilt[:, None] + tilt[None, :]) / 2 + excess
        g[np.diag_indices(n)] += 2 * r * sums + float(sums.sum()) / d - d * tilt
        size = float(
            r * r * np.linalg.norm(self.bound)
            + (n**0.5 + d) * np.linalg.norm(tilt)
            + np.linalg.norm(excess)
            + 2 * r * bounds.max()
            + bounds.sum() / d
        )
        return d * (largest_eigenvalue(g) + self._rounding * size)


def largest_eigenvalue(matrix: FloatArray) -> float:
    """An upper bound on the largest eigenvalue of a symmetric matrix, proved; ∞ where it fails.

    If cI − G has a Cholesky factor in floating point, the exact product of that factor with its
    transpose differs from it by at most (n+1)·ε·tr(cI − G), so G has no eigenvalue beyond c and
    that much.
    """
    n = len(matrix)
    top = float(np.linalg.eigvalsh(matrix)[-1])
    diagonal = np.diagonal(matrix)
    slack = 8 * (n + 2) * EPS * float(np.abs(top - diagonal).sum() + n * abs(top) + 1e-300)
    for widening in _WIDENINGS:
        shift = top + widening * slack
        try:
            np.linalg.cholesky(shift * np.eye(n) - matrix)
        except np.linalg.LinAlgError:
            continue
        return shift + (widening + 1) * slack
    return inf


def repair(proof: SetProof, epsilon: float) -> float:
    """κ: what prices must rise by, in sum, for every set to meet the condition."""
    n, r, prior = proof.size, expm1(epsilon), proof.prior
    condition = _Condition.of(proof, epsilon)
    single = condition.single()
    ordered = np.sort(prior)
    least = 1 + r * np.cumsum(ordered)  # the smallest and the largest πᵀv of d cells
    most = 1 + r * np.cumsum(ordered[::-1])
    even = 1 + r * np.arange(1, n + 1) / n
    excess = np.array(
        [single.max(), *(condition.of_size(d) for d in range(2, n)), condition.whole()][:n]
    )
    if n == 1:
        return 0.0
    above = excess > 0
    by_even = excess / (even * np.where(above, least, most))
    by_prior = excess / np.where(above, least, most) ** 2
    own = 1 + r * prior
    by_even[0] = (single / (even[0] * own)).max()
    by_prior[0] = (single / own**2).max()
    least_rise = min(float(by_even.max()), float(by_prior.max()))
    return float(least_rise + 8 * n * EPS * abs(least_rise))
