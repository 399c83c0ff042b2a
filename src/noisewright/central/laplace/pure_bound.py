"""A lower bound on the error of linear strategies with Laplace noise, from L1 sensitivity itself.

Let W = RA with columns of A of L1 norm at most one, X = AᵀA, G = WᵀW, and M any k × n matrix.

1. ‖R‖² ≥ tr(G X⁻¹) ≥ tr(H Y⁻¹) for H = MGMᵀ, Y = MXMᵀ. Eigenvalues in opposite order and Hölder's
   inequality give tr(H Y⁻¹) ≥ (tr H^⅓)³/(tr Y^½)²: the cube-root rule for sharing a budget in L1.
2. tr Y^½ is the nuclear norm of AMᵀ, convex in A, so it is largest where every column of A is ± a
   unit vector: cells in groups g, one row p_g = M s_g each, s_g the signs on g.
3. With r groups the nuclear norm is Σ_g u_g·p_g for some U = (u_g) with UᵀU ⪯ I of rank r, hence at
   most tr_r Λ + Σ_g φ(p_g) for any Λ ≻ 0: tr_r sums the r largest eigenvalues, and φ(p), the
   maximum of u·p − uᵀΛu over |u| ≤ 1, is at most ¼pᵀ(Λ + μI)⁻¹p + μ for every μ ≥ 0; μ is chosen
   by the group's size.
4. The form ¼pᵀ(Λ + μI)⁻¹p = s_gᵀBs_g is at most the sum over cells of g of the |g| largest entries
   |B_jk| of their row: every cell then counts for itself, and the sum over cells with r groups,
   Σ_j 1/|g_j| = r, is bounded by a Lagrangian.

M = G^α for a few α, and Λ follows M cut off at one of its eigenvalues: whatever they are, the
result is a bound. It is seldom below the one from L2 sensitivity (which is never above L1), but it
can be: the larger of both is used. Means of higher powers of the errors are no smaller. Noise of
another law, also pure, may do better: this is a bound for independent Laplace noise on Ax.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np

from noisewright.arrays import FloatArray, IntArray

LARGEST = 1024
"""Cells up to which the bound is computed; more are averaged in blocks first."""

NAME = "L1 sensitivity: nuclear norm over groups of cells"
# of G; the middle five alone give the same bounds of three workloads of 32 to 64 cells
_EXPONENTS = (
    0.1,
    0.15,
    0.2,
    0.225,
    0.25,
    0.275,
    0.3,
    0.35,
    0.4,
    0.5,
    1.0,
)
# place of ¼ among them, from which the search climbs
_FIRST = 4
_QUICK = 256  # cells up to which exponents are searched; beyond, one does
_LARGE_EXPONENT = 0.22  # half or double lowers the bound of prefix:300 by 28 and 42 %
_CUTS = (
    10,
    7,
)  # eigenvalues at which Λ is cut off: at few cells, at many
# μ besides zero, at few cells and at many: half as many lose 1.5 to 13 %, twice gain .2 to 1.4 %
_SHIFTS = (8, 6)
_FACTORS = (1.0, 1.4, 0.8)  # of the weights that suit equal groups
_SMALL = 128  # cells up to which all of them are tried
# of the Lagrangian: half as many lose .3 to 1.1 %, twice as many gain .2 to .5 %
_MULTIPLIERS = 60
_AT_ONCE = 2**16  # numbers that stay near the processor
_MARGIN = 1e-9  # far above what rounding does to sums of non-negative numbers
_LOST = 1e-13  # of the largest eigenvalue: what an eigensolver may get wrong


def pure_bound(gram: FloatArray, queries: int) -> float:
    """A lower bound on the root mean square error at L1 sensitivity one and unit variance."""
    gram = _averaged(gram)
    if len(gram) > _QUICK:
        best = _with_exponent(*_spectrum(gram), _LARGE_EXPONENT)
    else:
        best = _searched(np.asarray(gram, dtype=np.float64).tobytes(), len(gram))
    return float(np.sqrt(best / queries)) * (1 - _MARGIN)


def _spectrum(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues above zero, rounding taken off, from the largest down, and their vectors."""
    values, vectors = np.linalg.eigh(gram)
    values = values[::-1] - _LOST * len(gram) * values[-1]
    positive = values > 0
    return values[positive], vectors[:, ::-1][:, positive]


@lru_cache(maxsize=16)  # the same queries are planned under budget after budget
def _searched(content: bytes, size: int) -> float:
    """The best over exponents, for the entries of a Gram matrix."""
    values, vectors = _spectrum(np.frombuffer(content).reshape(size, size))
    return _climb(lambda place: _with_exponent(values, vectors, _EXPONENTS[place]))


def _climb(value: Callable[[int], float]) -> float:
    """The best value over places in a row, from the first outwards as long as it grows."""
    best = value(_FIRST)
    for step in (1, -1):
        place = _FIRST + step
        while 0 <= place < len(_EXPONENTS) and (reached := value(place)) > best:
            best = reached
            place = place + step

    return best


def _averaged(gram: FloatArray) -> FloatArray:
    """The Gram of WEᵀ with E averaging neighbours: AEᵀ keeps to the L1 ball, and R is the same."""
    size = len(gram)
    if size <= LARGEST:
        return gram

    edges = np.linspace(0, size, LARGEST + 1).astype(np.int64)
    counts = np.diff(edges)
    sums = np.add.reduceat(
        np.add.reduceat(gram, edges[:-1], axis=0), edges[:-1], axis=1
    )

    return sums / counts[:, None] / counts


def _with_exponent(
    values: FloatArray,
    vectors: FloatArray,
    exponent: float,
) -> float:
    """(tr H^⅓)³ over the squared bound on the nuclear norm, for M = G^exponent."""
    scales = (values / values[0]) ** exponent
    numerator = float(np.cbrt(scales**2 * values).sum()) ** 3
    return numerator / nuclear_bound(scales, vectors) ** 2


def nuclear_bound(scales: FloatArray, vectors: FloatArray) -> float:
    """At least ‖AMᵀ‖_* for M = Diag(scales)·vectorsᵀ and any A with columns in the L1 ball.

    The scales fall; the vectors, one per scale, need not be orthogonal.
    """
    size = len(vectors)
    groups = np.arange(1.0, size + 1)
    sizes = _group_sizes(size)
    best = np.full(size, np.inf)
    cuts = sorted(
        {round(count) for count in np.geomspace(1, size, _CUTS[size > _QUICK])}
    )

    for count, factor in product(cuts, _FACTORS if size <= _SMALL else _FACTORS[:1]):
        cut = np.maximum(scales, scales[min(count, len(scales)) - 1])
        weights = factor * np.sqrt(size / count) * cut / 2
        shares = _cell_shares(
            scales,
            vectors,
            weights,
            sizes,
            float(np.sqrt(count)),
        )
        traces = np.cumsum(np.concatenate([weights, np.zeros(size - len(weights))]))
        best = np.minimum(best, traces + _shared_by(shares, sizes[0], groups))

    return float(best.max())


def _group_sizes(size: int) -> tuple[IntArray, IntArray]:
    """Ranges of group sizes, least and largest of each: single sizes first, then wider ranges."""
    last = [1]
    while last[-1] < size:
        last.append(min(size, max(last[-1] + 1, int(1.2 * last[-1]))))
    largest = np.array(last)
    return np.concatenate([[1], largest[:-1] + 1]), largest


def _cell_shares(
    scales: FloatArray,
    vectors: FloatArray,
    weights: FloatArray,
    sizes: tuple[IntArray, IntArray],
    reach: float,
) -> FloatArray:
    """What a cell in a group of each range of sizes adds at most to Σ_g φ(p_g)."""
    least, largest = sizes
    shares = np.full((len(vectors), len(least)), np.inf)
    steps = _SHIFTS[len(vectors) > _QUICK]

    for shift in [
        0.0,
        *(weights[0] * np.geomspace(0.2, max(1.0, reach), steps)),
    ]:
        form = (vectors * (scales**2 / (weights + shift))) @ vectors.T / 4
        entries = np.abs(form)
        entries.sort(axis=1)
        sums = np.cumsum(entries[:, ::-1], axis=1)[:, largest - 1] + shift / least
        better = sums.mean(axis=0) < shares.mean(axis=0)
        shares[:, better] = sums[:, better]

    return shares


def _shared_by(
    shares: FloatArray,
    least: IntArray,
    groups: FloatArray,
) -> FloatArray:
    """Σ_j share_j(m_j) over sizes m_j with Σ_j 1/m_j = r, bounded for every number r of groups."""
    multipliers = (
        np.concatenate([[0.0], np.geomspace(1e-4, 1e3, _MULTIPLIERS)]) * shares.max()
    )
    relaxed = np.empty(len(multipliers))
    step = max(1, _AT_ONCE // shares.size)

    for start in range(0, len(multipliers), step):
        part = multipliers[start : start + step, None, None]
        relaxed[start : start + step] = (shares + part / least).max(axis=2).sum(axis=1)

    return np.asarray((relaxed[:, None] - multipliers[:, None] * groups).min(axis=0))
