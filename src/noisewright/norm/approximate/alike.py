"""Approximate norms of workloads whose cells are all alike, from programs over orbits of rows.

Parities have a closed form; marginals of like attributes depend on matches; and, shifts being
free, intervals are the arcs of a circle: the complement of an arc is an arc again, of which the
indicator differs by sign and a constant. Each gives an approximation and a witness written out,
which are checked as if nobody knew where they came from.
"""

from __future__ import annotations

from collections import Counter
from functools import singledispatch
from math import comb

import numpy as np

from noisewright.arrays import FloatArray, IndexArray
from noisewright.norm.approximate.box import Box, Pair
from noisewright.norm.approximate.marginal_norm import marginal_orbits
from noisewright.norm.approximate.orbit_program import (
    Orbit,
    OrbitSolution,
    solve_orbits,
)
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Ranges
from noisewright.workload.kinds.marginals import AllMarginals, Marginals
from noisewright.workload.kinds.parity import Parity

MOST_ENTRIES = 2**23
"""Of matrices that are written out."""

# points; longer circles take longer than a search among all their arcs
_MOST_ON_A_CIRCLE = 48


@singledispatch
def alike_pair(
    workload: Workload, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    """An approximation, a witness and the rounds they took; None where cells are not all alike."""
    return None


@alike_pair.register
def _parities(
    workload: Parity, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    """k distinct parities: all entries shrink alike, and the matrix is its own witness."""
    matrix = workload.dense()
    kept = 1.0 if shift else 0.0  # the constant parity is free with shifts
    proof = matrix - kept * (matrix.min(axis=1, keepdims=True) == 1) * matrix
    near = max(0.0, 1 - entrywise) * matrix
    shifts = np.where(proof.any(axis=1), 0.0, -near[:, 0])
    return _pair(near + shifts[:, None], shifts, matrix, entrywise, shift, proof), 0


def _pair(
    approximation: FloatArray,
    shifts: FloatArray,
    matrix: FloatArray,
    entrywise: float,
    shift: bool,
    proof: FloatArray,
    rows: FloatArray | None = None,
) -> Pair:
    """With the witness in the form that the box asks for."""
    used = proof.any(axis=1).astype(float) if rows is None else rows
    a = used / max(used.sum(), 1.0) if rows is None else rows
    a = np.maximum(a, 1e-300)
    b = np.full(matrix.shape[1], 1 / matrix.shape[1])
    box = Box(matrix - entrywise, matrix + entrywise, shift)
    if not approximation.any():
        proof = np.zeros_like(matrix)

    return Pair(approximation, shifts, box.witness(proof, a, b))


@alike_pair.register
def _marginals(
    workload: Marginals, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    sizes = workload.sizes
    tables = workload.tables
    alike = (
        workload.is_identity and len(set(sizes)) == 1 and set(workload.weights) == {1.0}
    )
    counts = Counter(map(len, tables))
    whole = all(count == comb(len(sizes), width) for width, count in counts.items())
    if not alike or not whole or len(set(tables)) < len(tables):
        return None

    patterns = [
        (list(t), p) for t in tables for p in np.ndindex(*(sizes[i] for i in t))
    ]
    return _by_matches(workload, patterns, entrywise, shift, tolerance)


@alike_pair.register
def _all_marginals(
    workload: AllMarginals, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    sizes = workload.sizes
    if len(set(sizes)) > 1:
        return None

    patterns = []
    for digits in np.ndindex(*(n + 1 for n in sizes)):  # zero stands for all values
        table = tuple(i for i, digit in enumerate(digits) if digit)
        patterns.append((list(table), tuple(digits[i] - 1 for i in table)))

    return _by_matches(workload, patterns, entrywise, shift, tolerance)


def _by_matches(
    workload: Workload,
    patterns: list[tuple[list[int], tuple[int, ...]]],
    entrywise: float,
    shift: bool,
    tolerance: float,
) -> tuple[Pair, int] | None:
    """Rows of one width are alike, and their entries depend on how many attributes match."""
    sizes: tuple[int, ...] = workload.sizes  # type: ignore[attr-defined]
    if workload.size < 2 or sizes[0] < 2:
        return None

    cells = np.stack(np.unravel_index(np.arange(workload.size), sizes), axis=1)
    matches = np.stack(
        [
            (cells[:, list(table)] == np.array(pattern, dtype=int)).sum(axis=1)
            for table, pattern in patterns
        ]
    )
    widths = np.array([len(table) for table, _ in patterns])
    kinds = sorted(set(widths.tolist()))
    orbits = marginal_orbits(len(sizes), sizes[0], kinds, shift)
    number = {width: k for k, width in enumerate(kinds)}
    which = np.array([number[width] for width in widths.tolist()])
    best = solve_orbits(orbits, entrywise, tolerance / 10)

    return _written(workload, which, matches, orbits, best, entrywise, shift)


def _written(
    workload: Workload,
    which: IndexArray,
    points: IndexArray,
    orbits: list[Orbit],
    best: OrbitSolution,
    entrywise: float,
    shift: bool,
) -> tuple[Pair, int]:
    """Rows by their orbit and the point of every entry."""
    near = np.empty(points.shape)
    proof = np.zeros(points.shape)
    rows = np.zeros(len(points))
    constants = np.zeros(len(points))

    for k, orbit in enumerate(orbits):
        own = np.flatnonzero(which == k)
        near[own] = (orbit.kernel @ best.coefficients[k])[points[own]]
        constants[own] = best.coefficients[k][0] if shift else 0.0
        counts = np.bincount(points[own[0]], minlength=len(orbit.target))
        proof[own] = (best.weights[k] / np.maximum(counts, 1))[points[own]] / len(own)
        rows[own] = best.shares[k] / len(own)

    matrix = workload.dense()
    shifted = near - constants[:, None]
    pair = _pair(
        shifted, -constants, matrix, entrywise, shift, proof, rows / rows.sum()
    )

    return pair, best.rounds


@alike_pair.register
def _intervals(
    workload: Ranges, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    """With free shifts the intervals are arcs of a circle, and lengths up to half of it orbits."""
    n = workload.size
    if not shift or not 4 <= n <= _MOST_ON_A_CIRCLE:
        return None

    orbits = arc_orbits(n)
    best = solve_orbits(orbits, entrywise, tolerance / 10)
    matrix = workload.dense()
    near = np.empty(matrix.shape)
    proof = np.zeros(matrix.shape)
    constants = np.zeros(len(matrix))
    rows = np.zeros(len(matrix))
    first, last = np.triu_indices(n)
    cells = np.arange(n)
    place = np.zeros((n, n), dtype=np.int64)
    place[first, last] = np.arange(len(first))

    for row, (i, j) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        length = j - i + 1
        if length == n:
            near[row], constants[row] = 1.0, 1.0
            continue

        inside = length <= n // 2
        k = (length if inside else n - length) - 1
        start = i if inside else (j + 1) % n
        values = (orbits[k].kernel @ best.coefficients[k])[
            _distance(cells, start, k + 1, n)
        ]
        near[row] = values if inside else 1 - values
        constant = float(best.coefficients[k][0])
        constants[row] = constant if inside else 1 - constant

    for k, weights in enumerate(best.weights):
        if not weights.any():
            continue
        length = k + 1
        counts = np.bincount(_distance(cells, 0, length, n), minlength=len(weights))
        for start in range(n):
            own = (weights / counts)[_distance(cells, start, length, n)] / n
            end = start + length - 1
            wraps = end >= n  # the complement is then an interval, of the opposite sign
            row = int(place[end - n + 1, start - 1] if wraps else place[start, end])
            proof[row] += -own if wraps else own
            rows[row] += best.shares[k] / n

    shifted = near - constants[:, None]
    pair = _pair(
        shifted, -constants, matrix, entrywise, shift, proof, rows / rows.sum()
    )
    return pair, best.rounds


def arc_orbits(size: int) -> list[Orbit]:
    """Arcs of every length up to half a circle: even functions about their middle, by cosines."""
    orbits = []
    for length in range(1, size // 2 + 1):
        distances = np.unique(_twice_distance(np.arange(size), 0, length, size)) / 2
        kernel = np.cos(
            2 * np.pi * np.outer(distances, np.arange(size // 2 + 1)) / size
        )
        used = np.flatnonzero(np.abs(kernel).max(axis=0) > 1e-9)
        kernel = kernel[:, used]
        target = (distances <= (length - 1) / 2).astype(float)
        scales = np.ones(len(used))
        scales[0] = 0.0
        orbits.append(Orbit(kernel, np.linalg.solve(kernel, target), scales, used))

    return orbits


def _twice_distance(
    cells: IndexArray, start: int, length: int, size: int
) -> IndexArray:
    """Around the circle from the middle of an arc, in halves of a cell."""
    away = np.abs(2 * cells - (2 * start + length - 1)) % (2 * size)
    return np.asarray(np.minimum(away, 2 * size - away))


def _distance(cells: IndexArray, start: int, length: int, size: int) -> IndexArray:
    """The same as a place in the list of all distances that occur."""
    return _twice_distance(cells, start, length, size) // 2
