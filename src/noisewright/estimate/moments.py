"""Noisy matrices of second moments, brought back to what second moments can be."""

from __future__ import annotations

import numpy as np

from noisewright.workload.base import FloatArray


def to_simplex(values: FloatArray, total: float) -> FloatArray:
    """The nearest non-negative values whose sum is at most `total`."""
    positive = np.maximum(values, 0.0)
    if positive.sum() <= total:
        return np.asarray(positive)
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.asarray(np.maximum(values - excess[last], 0.0))


def possible_moments(matrix: FloatArray, trace: float) -> FloatArray:
    """The nearest symmetric matrix with no negative direction and at most this trace.

    Second moments of rows no longer than √trace are such; the noisy ones need not be.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * to_simplex(values, trace)) @ vectors.T)


def above_noise(matrix: FloatArray, edge: float, trace: float) -> FloatArray:
    """Directions whose moments stand out of the noise, whose largest eigenvalue is about `edge`.

    What is left of the trace is spread evenly over the others, where it does least harm.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = np.where(values > edge, values, 0.0)
    rest = values == kept
    left = max(0.0, min(trace, float(values.sum())) - float(kept.sum()))
    if (~rest).any():
        kept = np.where(rest, kept, left / (~rest).sum())
    return np.asarray((vectors * to_simplex(kept, trace)) @ vectors.T)
