"""Families of sets that good reports at little privacy belong to: short runs of like cells.

At ε = 6 most reports of the best strategies found for products of prefix sums favour up to four
cells in a row or a column. Ascents reach them from anywhere, but from near by in fewer steps.
"""

from __future__ import annotations

from math import exp

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray

_LEAST_EPSILON = 3.0  # below it reports favour more cells than a run
_SHORTEST = 4
_PER_LIKELY = 2.0
_LONGEST = 16
_NEARLY_AS_LIKE = 1.9
_MOST_STRIDES = 3


def runs(gram: FloatArray, epsilon: float) -> BoolArray:
    """Runs of cells that queries tell apart least, the shortest first; none at small ε."""
    n = len(gram)
    if epsilon < _LEAST_EPSILON or n < 2 * _SHORTEST:
        return np.zeros((0, n), dtype=bool)

    longest = min(
        int(_SHORTEST + _PER_LIKELY * n / (1 + exp(epsilon))), _LONGEST, n // 2
    )
    patterns = []
    for stride in _strides(gram):
        for length in range(1, longest + 1):
            first = np.arange(max(n - (length - 1) * stride, 0))
            rows = np.zeros((len(first), n), dtype=bool)
            for step in range(length):
                rows[np.arange(len(first)), first + step * stride] = True
            patterns.append(rows)

    every = np.unique(np.concatenate(patterns), axis=0)
    return every[np.argsort(every.sum(axis=1), kind="stable")]


def _strides(gram: FloatArray) -> IntArray:
    """Distances between labels of like cells: one on a line, one and a row's length on a grid."""
    n = len(gram)
    steps = np.array([s for s in range(1, n // _SHORTEST + 1) if n % s == 0] or [1])
    diagonal = np.diagonal(gram)
    apart = np.array(
        [
            (diagonal[:-s] + diagonal[s:] - 2 * np.diagonal(gram, s)).mean()
            for s in steps
        ]
    )
    alike = np.argsort(apart, kind="stable")[:_MOST_STRIDES]

    return np.asarray(steps[alike[apart[alike] <= _NEARLY_AS_LIKE * apart[alike[0]]]])
