"""Factorizations checked the slow and obvious way: dense matrices, plain SVD, no shared code."""

from __future__ import annotations

import math

import numpy as np

from noisewright.arrays import FloatArray


def nuclear_bound(
    matrix: FloatArray, norm: float, a: FloatArray | None, b: FloatArray
) -> float:
    """The dual value at weights (a, b), made feasible first, as a p-th mean over queries."""
    queries = len(matrix)
    assert (b >= 0).all()
    b = b / b.sum()
    if norm == 2:
        assert a is None
        a = np.ones(queries)
    else:
        assert a is not None
        assert (a >= 0).all()
        exponent = 1.0 if math.isinf(norm) else norm / (norm - 2)
        a = a / np.sum(a**exponent) ** (1 / exponent)
    scaled = np.sqrt(a)[:, None] * matrix * np.sqrt(b)
    total = float(np.linalg.svd(scaled, compute_uv=False).sum())
    return total if math.isinf(norm) else total * queries ** (-1 / norm)


def value(strategy: FloatArray, reconstruction: FloatArray, norm: float) -> float:
    """The p-th mean of the row lengths of R times the longest column of A."""
    lengths = np.linalg.norm(reconstruction, axis=1)
    longest = float(np.linalg.norm(strategy, axis=0).max())
    if math.isinf(norm):
        return longest * float(lengths.max())
    return longest * float(np.mean(lengths**norm)) ** (1 / norm)
