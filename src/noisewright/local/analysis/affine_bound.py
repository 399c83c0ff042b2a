"""What no affine estimate from a strategy's reports goes below, from a distribution over types.

Where all N people are of one type u, drawn from π, the counts of reports have second moments
N·D + N(N − 1)QΠQᵀ with D = Diag(Qπ), and N²ΠQᵀ with the table itself. The least mean squared error
of a linear estimate is what is left of N²·tr(MΠ), and with S = Π^½QᵀD⁻¹QΠ^½ that is

    N² Σ_k (1 − s_k)/(1 + (N − 1)s_k) · v_kᵀΠ^½MΠ^½v_k

over the eigenvalues s_k ≤ 1 and eigenvectors v_k of S. Constants are linear in the counts, whose
sum is N; the worst case of an estimate is at least its mean. Where reports are too many to list,
their scores stand in place of counts: D is then their second moment and Q their means.
"""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.local.strategy import IndexStrategy, Strategy

_LISTED_ENTRIES = 2**22
_ROUNDING = 64 * np.finfo(float).eps


def lists_reports(strategy: Strategy) -> bool:
    """Whether estimates may be linear in counts of single reports, not of their scores alone."""
    entries = (
        strategy.outputs * strategy.size
        if isinstance(strategy, IndexStrategy)
        else None
    )
    return entries is not None and entries <= _LISTED_ENTRIES


def affine_bound(
    strategy: Strategy, gram: FloatArray, people: int, prior: FloatArray
) -> float:
    """A number just below the worst squared error of every affine estimate from so many people."""
    told = _told(strategy, prior)
    values, vectors = np.linalg.eigh(told)
    # The sum falls with every eigenvalue: each gives up what rounding can have taken from it.
    values = np.clip(
        values + _ROUNDING * len(values) * max(1.0, float(values[-1])), 0.0, 1.0
    )
    left = (1 - values) / (1 + (people - 1) * values)
    root = np.sqrt(prior)[:, None] * vectors
    sizes = np.maximum(np.einsum("uk,uk->k", root, gram @ root), 0.0)

    return float(people**2 * np.sum(left * sizes)) * (1 - _ROUNDING * len(values))


def _told(strategy: Strategy, prior: FloatArray) -> FloatArray:
    """S: how much of each type one report tells, under the distribution."""
    root = np.sqrt(prior)
    if lists_reports(strategy):
        chances = strategy.dense()
        seen = chances @ prior
        used = seen > 0
        scaled = chances[used] * root / np.sqrt(seen[used])[:, None]
        return scaled.T @ scaled

    means = strategy.information.dense() * root
    values, vectors = np.linalg.eigh(strategy.moment(prior))
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    scaled = (vectors[:, kept] / np.sqrt(values[kept])).T @ means

    return np.asarray(scaled.T @ scaled)
