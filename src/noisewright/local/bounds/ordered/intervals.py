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

from collections.abc import Callable
from dataclasses import dataclass
from math import expm1

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.bounds.centring import centred_at, symmetrised
from noisewright.local.bounds.proof import EPS, MARGIN
from noisewright.local.transform.spectrum import lowered_eigenvalues

_NODES = 512
"""Beside the ends of pieces, so that middles are little above their neighbours: half or double
changes the fourth digit of a floor."""

_LEAST_EIGENVALUE = 1e-12
"""Of the largest: above the rounding of the eigenvalues of a kernel."""


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
        ends = _sums_from_zero(prior)
        ends /= ends[-1]
        distances = np.abs(ends[:, None] - ends)
        matrices = []
        for width, circular in zip(self.widths, self.circular, strict=True):
            matrix = _integrated(distances, width)
            if circular:
                matrix = matrix - _integrated(distances, 1 - width)
            matrices.append(matrix)
        return np.array(matrices)

    def interval(self, length: FloatArray) -> FloatArray:
        """τ of every step (row), less m² for those round the circle, as in `matrices`."""

        def on_line(width: FloatArray) -> FloatArray:
            longer = width * (2 * length - width)
            return np.where(length <= width, length**2, longer)

        near = self.widths[:, None]
        beyond = self.circular[:, None] * on_line(1 - near)
        return on_line(near) - beyond


def _sums_from_zero(values: FloatArray) -> FloatArray:
    """0 and all partial sums."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _integrated(distances: FloatArray, width: float) -> FloatArray:
    """∫∫ 1[|x − y| ≤ width] over all pairs of cells whose ends are so far apart."""
    # The second antiderivative of the step, then differences over both cells.
    inside = distances * distances / 2
    outside = width * distances - width * width / 2
    h = np.where(distances <= width, inside, outside)
    return -np.diff(np.diff(h, axis=0), axis=1)


def _centred(t: FloatArray, prior: FloatArray) -> FloatArray:
    """Z = (I − π1ᵀ)T(I − 1πᵀ)."""
    sums = t.sum(axis=1)
    sides = np.outer(prior, sums)
    even = float(sums.sum()) * np.outer(prior, prior)
    return symmetrised(t - sides - sides.T + even)


@dataclass(frozen=True, eq=False)
class Claim:
    """A kernel, a prior and β: `floor` computes what they prove, whatever they are."""

    kernel: FallingKernel
    prior: FloatArray
    tilt: float

    def witness(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Z and λ with vᵀZv ≤ (λᵀv)(πᵀv) for every two-valued v."""
        prior = self.prior
        kernel = self.kernel
        steps = np.tensordot(kernel.heights, kernel.matrices(prior), 1)
        steps = symmetrised(steps)

        # The point mass grows until Z ⪰ 0.
        short = _shortfall(steps + np.diag(kernel.point * prior), prior)
        point = kernel.point + short
        t = steps + np.diag(point * prior)

        sums = t.sum(axis=1)
        total = float(sums.sum())
        above = sums - total * prior
        limit = self._limit(point, above, total, epsilon)
        prices = np.asarray(limit * prior - self.tilt * above)
        return _centred(t, prior), prices

    def _limit(
        self,
        point: float,
        above: FloatArray,
        total: float,
        epsilon: float,
    ) -> float:
        """Λ, from g − ḡπ and ḡ."""
        r = expm1(epsilon)
        kernel = self.kernel

        # Cells in order of g_i/π_i: the smallest and the largest h of any measure.
        order = np.argsort(above / self.prior)
        ends = _sums_from_zero(self.prior[order])
        smallest = _sums_from_zero(above[order])
        largest = _sums_from_zero(above[order][::-1])

        # Entries of T are differences of numbers up to one.
        height = float(kernel.heights.sum())
        entries = 16 * len(self.prior) ** 2 * EPS * height

        def ratio(s: FloatArray) -> FloatArray:
            """The right-hand side at s = 1/(1 + rm)."""
            m = np.clip((1 / s - 1) / r, 0.0, 1.0)
            gain = point * m + kernel.heights @ kernel.interval(m)
            gain = gain - m * m * total

            slope = r * self.tilt / s - 2 * r * r * m
            high = np.interp(m, 1 - ends[::-1], largest)
            low = np.interp(m, ends, smallest)
            sums = slope * np.where(slope > 0, high, low)

            sizes = point * m + (height + abs(total)) * m * m
            sizes = sizes + np.abs(sums) / r**2
            gain = gain + MARGIN * sizes + entries
            return np.asarray((r * r * gain + sums) * s * s)

        return _highest(ratio, self._nodes(ends, r)) * (1 + MARGIN)

    def _nodes(self, ends: FloatArray, r: float) -> FloatArray:
        """Where pieces end on which τ is quadratic and h linear, and more between: all s."""
        # The factor of h changes sign at `flip`.
        rest = 2 - self.tilt
        flip = self.tilt / (r * rest) if rest > 0 else -1.0
        widths = self.kernel.widths
        even = np.linspace(0, 1, _NODES)
        half = np.concatenate([ends, widths])
        m = np.concatenate([half, 1 - half, [flip], even])
        inside = m[(m >= 0) & (m <= 1)]
        return np.unique(1 / (1 + r * inside))

    def floor(self, gram: FloatArray, epsilon: float) -> float:
        """The proven floor under the worst-case variance; −∞ where it says nothing."""
        z, prices = self.witness(epsilon)
        rounding = 8 * len(prices) * EPS
        limit = float(prices.sum()) * (1 + rounding)
        root, known, mean_square = centred_root(gram, self.prior)

        moment = fidelity(root, z) ** 2 / limit if limit > 0 else 0.0
        return moment - known - MARGIN * (moment + mean_square)


def _highest(ratio: Callable[[FloatArray], FloatArray], nodes: FloatArray) -> float:
    """The largest value of a function that is quadratic between nodes."""
    values = ratio(nodes)
    middles = ratio((nodes[1:] + nodes[:-1]) / 2)
    means = (values[1:] + values[:-1]) / 2
    bulge = np.maximum(middles - means, 0.0)
    larger = np.maximum(values[1:], values[:-1])
    return float((larger + bulge).max())


def _shortfall(t: FloatArray, prior: FloatArray) -> float:
    """The point mass that makes Z ⪰ 0: vᵀZv is at least its least eigenvalue times Σπv²."""
    root = np.sqrt(prior)
    z = _centred(t, prior)
    values = np.linalg.eigvalsh(z / root[:, None] / root)
    rounding = _LEAST_EIGENVALUE * np.abs(values).max()
    return float(max(-values[0], 0.0) + rounding)


def fidelity(root: FloatArray, z: FloatArray) -> float:
    """tr(RZRᵀ)^½, rounded down."""
    inner = root @ z @ root.T
    largest = np.diagonal(inner).max(initial=0.0)
    values = np.linalg.eigvalsh(symmetrised(inner))
    return float(np.sqrt(lowered_eigenvalues(values, float(largest))).sum())


def centred_root(
    gram: FloatArray, prior: FloatArray
) -> tuple[FloatArray, float, float]:
    """R with RᵀR at most the centred Gram matrix, Σπ of its diagonal, and Σπ‖We_u‖²."""
    centred = centred_at(gram, prior)
    values, vectors = np.linalg.eigh(centred)
    squares = np.diagonal(gram)
    values = lowered_eigenvalues(values, float(np.abs(squares).max()))

    some = values > 0
    root = (vectors[:, some] * np.sqrt(values[some])).T
    known = max(float(prior @ np.diagonal(centred)), 0.0)
    return root, known, float(prior @ squares)
