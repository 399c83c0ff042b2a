"""Kernels for ordered cells under any prior: cells as intervals, a set's gain by rearrangement.

Let cell i be an interval of length π_i on [0, 1], in order, and φ fall with distance, on the line
or round the circle of length one. With T_ij = ∫∫ φ(|x − y|) over cells i and j, a set S of cells is
a set A of measure m = π(S), and 1_SᵀT1_S = ∫∫_{A×A} φ is at most τ(m), its value for an interval of
length m (Riesz). It follows from `rearrangement`: cut all cells into small ones of one length, for
which d neighbours are best, and let that length go to zero. φ may hold a point mass at zero, which
adds c·Diag(π) to T and c·m to τ. With g = T1, ḡ = 1ᵀT1, Z = (I − π1ᵀ)T(I − 1πᵀ), x = 1_S and
h = Σ_{i∈S} (g_i − ḡπ_i), v = 1 + r·x has

    vᵀZv = r²(xᵀTx − 2m·gᵀx + m²ḡ) ≤ r²(τ(m) − m²ḡ) − 2r²m·h,

and prices λ = Λπ − β(g − ḡπ), whose sum is Λ, give (λᵀv)(πᵀv) = Λ(1 + rm)² − rβh(1 + rm). So the
condition of `proof` holds for every set if for all m in [0, 1]

    Λ ≥ [r²(τ(m) − m²ḡ) + h·(rβ(1 + rm) − 2r²m)] / (1 + rm)²

at the largest or the smallest h of sets of measure m, cells taken in part: in order of g_i/π_i. On
pieces where τ is quadratic and h linear, the right-hand side is quadratic in s = 1/(1 + rm), and
lies below its larger end and as much more as its middle is above the mean of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.proof import EPS
from noisewright.local.transform.spectrum import lowered

# beside the ends of pieces, so that middles are little above their neighbours
_NODES = 512
_MARGIN = 2.0**-40


@dataclass(frozen=True, eq=False)
class FallingKernel:
    """φ: a point mass, and steps 1[distance ≤ width] on the line or the circle, weights ≥ 0."""

    point: float
    widths: FloatArray
    circular: FloatArray
    """One for steps round the circle (widths below a half), zero for those on the line."""
    heights: FloatArray

    def matrices(self, prior: FloatArray) -> FloatArray:
        """T of every step; of those round the circle less ππᵀ, which centring takes off."""
        ends = np.concatenate([[0.0], np.cumsum(prior)])
        ends /= ends[-1]
        apart = np.abs(ends[:, None] - ends)
        line = np.array([_integrated(apart, width) for width in self.widths])
        far = [
            _integrated(apart, 1 - width) for width in self.widths[self.circular > 0]
        ]
        if far:
            line[self.circular > 0] -= np.array(far)

        return line

    def interval(self, length: FloatArray) -> FloatArray:
        """τ of every step (row), less m² for those round the circle, as in `matrices`."""
        w = self.widths[:, None]
        m = length[None, :]
        line = np.where(m <= w, m * m, 2 * w * m - w * w)
        beyond = np.where(m <= 1 - w, m * m, 2 * (1 - w) * m - (1 - w) ** 2)
        return line - self.circular[:, None] * beyond


def _integrated(apart: FloatArray, width: float) -> FloatArray:
    """∫∫ 1[|x − y| ≤ width] over all pairs of cells whose ends are so far apart."""
    # The second antiderivative of the step, then differences over both cells.
    h = np.where(apart <= width, apart * apart / 2, width * apart - width * width / 2)
    return h[1:, :-1] + h[:-1, 1:] - h[:-1, :-1] - h[1:, 1:]


@dataclass(frozen=True, eq=False)
class Claim:
    """A kernel, a prior and β: `floor` computes what they prove, whatever they are."""

    kernel: FallingKernel
    prior: FloatArray
    tilt: float

    def witness(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Z and λ with vᵀZv ≤ (λᵀv)(πᵀv) for every two-valued v."""
        prior = self.prior
        heights = self.kernel.heights
        steps = np.tensordot(heights, self.kernel.matrices(prior), 1)
        point = self.kernel.point + _shortfall(
            steps + np.diag(self.kernel.point * prior), prior
        )
        t = (steps + steps.T) / 2 + np.diag(point * prior)
        sums = t.sum(axis=1)
        above = sums - float(sums.sum()) * prior
        limit = self._limit(point, above, float(sums.sum()), epsilon)
        z = t - np.outer(prior, sums) - np.outer(sums, prior)
        z += float(sums.sum()) * np.outer(prior, prior)

        return ((z + z.T) / 2), (limit * prior - self.tilt * above)

    def _limit(
        self, point: float, above: FloatArray, total: float, epsilon: float
    ) -> float:
        """Λ."""
        r = expm1(epsilon)
        beta = self.tilt
        prior = self.prior
        order = np.argsort(above / prior)
        ends = np.concatenate([[0.0], np.cumsum(prior[order])])
        low = np.concatenate([[0.0], np.cumsum(above[order])])
        high = np.concatenate([[0.0], np.cumsum(above[order][::-1])])
        flips = beta / (r * (2 - beta)) if beta < 2 else -1.0
        pieces = [ends, 1 - ends, self.kernel.widths, 1 - self.kernel.widths, [flips]]
        nodes = np.concatenate([*pieces, np.linspace(0, 1, _NODES)])
        s = np.unique(1 / (1 + r * nodes[(nodes >= 0) & (nodes <= 1)]))

        def ratio(s: FloatArray) -> FloatArray:
            m = np.clip((1 / s - 1) / r, 0.0, 1.0)
            gain = point * m + self.kernel.heights @ self.kernel.interval(m)
            slope = r * beta / s - 2 * r * r * m
            extreme = np.where(
                slope > 0,
                np.interp(m, 1 - ends[::-1], high),
                np.interp(m, ends, low),
            )
            sizes = point * m + self.kernel.heights.sum() * m * m + abs(total) * m * m
            rounding = _MARGIN * (sizes + np.abs(extreme * slope) / r**2)
            # Entries of T are differences of numbers up to one.
            rounding += 16 * len(prior) ** 2 * EPS * float(self.kernel.heights.sum())

            return np.asarray(
                (r * r * (gain - m * m * total + rounding) + extreme * slope) * s * s
            )

        at = ratio(s)
        between = ratio((s[1:] + s[:-1]) / 2)
        bulge = np.maximum(between - (at[1:] + at[:-1]) / 2, 0.0)
        return float((np.maximum(at[1:], at[:-1]) + bulge).max()) * (1 + _MARGIN)

    def floor(self, gram: FloatArray, epsilon: float) -> float:
        """The proven floor under the worst-case variance; −∞ where it says nothing."""
        z, prices = self.witness(epsilon)
        limit = float(prices.sum()) * (1 + 8 * len(prices) * EPS)
        prior = self.prior
        root, known, together = centred_root(gram, prior)
        inner = root @ z @ root.T
        values = np.linalg.eigvalsh((inner + inner.T) / 2)
        size = float(np.diagonal(inner).max(initial=0.0))
        moment = (
            float(np.sqrt(lowered(values, size)).sum()) ** 2 / limit
            if limit > 0
            else 0.0
        )

        return moment - known - _MARGIN * (moment + together)


def _shortfall(t: FloatArray, prior: FloatArray) -> float:
    """The point mass that makes Z ⪰ 0: vᵀZv is at least its least eigenvalue times Σπv²."""
    sums = t.sum(axis=1)
    z = (
        t
        - np.outer(prior, sums)
        - np.outer(sums, prior)
        + float(sums.sum()) * np.outer(prior, prior)
    )
    root = np.sqrt(prior)
    values = np.linalg.eigvalsh((z + z.T) / 2 / root[:, None] / root)

    return float(max(-values[0], 0.0) + 1e-12 * np.abs(values).max())


def centred_root(
    gram: FloatArray, prior: FloatArray
) -> tuple[FloatArray, float, float]:
    """R with RᵀR at most the centred Gram matrix, Σπ of its diagonal, and Σπ‖We_u‖²."""
    mean = gram @ prior
    centred = gram - mean[:, None] - mean + float(prior @ mean)
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    values = lowered(values, float(np.abs(np.diagonal(gram)).max()))
    some = values > 0
    root = np.sqrt(values[some])[:, None] * vectors[:, some].T
    known = max(float(prior @ np.diagonal(centred)), 0.0)

    return (root), known, float(prior @ np.diagonal(gram))
