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
from noisewright.workload.linear.interactions import Table

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
    proof = matrix
    if shift:  # the constant parity is free
        constant = matrix.min(axis=1, keepdims=True) == 1
        proof = np.where(constant, 0.0, matrix)

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
    """With the witness in the form that the box asks for; rows that it uses weigh alike."""
    if rows is None:
        rows = proof.any(axis=1).astype(float)
        rows = rows / max(rows.sum(), 1.0)

    a = np.maximum(rows, 1e-300)
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
    counts = Counter(map(len, tables))
    whole = all(count == comb(len(sizes), width) for width, count in counts.items())
    plain = workload.is_identity and set(workload.weights) == {1.0}
    if not plain or not whole or len({*sizes}) > 1 or len({*tables}) < len(tables):
        return None

    patterns: list[Pattern] = []
    for table in tables:
        shape = [sizes[i] for i in table]
        patterns += [(table, values) for values in np.ndindex(*shape)]

    return _by_matches(workload, sizes, patterns, entrywise, shift, tolerance)


@alike_pair.register
def _all_marginals(
    workload: AllMarginals, entrywise: float, shift: bool, tolerance: float
) -> tuple[Pair, int] | None:
    sizes = workload.sizes
    if len(set(sizes)) > 1:
        return None

    patterns: list[Pattern] = []
    for digits in np.ndindex(*(n + 1 for n in sizes)):  # zero stands for all values
        table = tuple(i for i, digit in enumerate(digits) if digit)
        patterns.append((table, tuple(digits[i] - 1 for i in table)))

    return _by_matches(workload, sizes, patterns, entrywise, shift, tolerance)


Pattern = tuple[Table, tuple[int, ...]]
"""Some attributes and a value of each: the cells that one query of a table counts."""


def _by_matches(
    workload: Workload,
    sizes: tuple[int, ...],
    patterns: list[Pattern],
    entrywise: float,
    shift: bool,
    tolerance: float,
) -> tuple[Pair, int] | None:
    """Rows of one width are alike, and their entries depend on how many attributes match."""
    if workload.size < 2 or sizes[0] < 2:
        return None

    cells = np.stack(np.unravel_index(np.arange(workload.size), sizes), axis=1)
    matches = np.empty((len(patterns), workload.size), dtype=np.int64)
    for row, (table, values) in enumerate(patterns):
        matches[row] = (cells[:, list(table)] == np.array(values, dtype=int)).sum(
            axis=1
        )

    widths, which = np.unique(
        [len(table) for table, _ in patterns], return_inverse=True
    )
    orbits = marginal_orbits(len(sizes), sizes[0], widths.tolist(), shift)
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
        alike = np.flatnonzero(which == k)
        c = best.coefficients[k]
        near[alike] = (orbit.kernel @ c)[points[alike]]
        constants[alike] = c[0] if shift else 0.0
        counts = np.bincount(points[alike[0]], minlength=len(orbit.target))
        weights = best.weights[k] / np.maximum(counts, 1)
        proof[alike] = weights[points[alike]] / len(alike)
        rows[alike] = best.shares[k] / len(alike)

    pair = _pair(
        near - constants[:, None],
        -constants,
        workload.dense(),
        entrywise,
        shift,
        proof,
        rows / rows.sum(),
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

    orbits = _arc_orbits(n)
    best = solve_orbits(orbits, entrywise, tolerance / 10)
    near, constants = _arc_values(n, orbits, best)
    proof, rows = _arc_witness(n, best)
    pair = _pair(
        near - constants[:, None],
        -constants,
        workload.dense(),
        entrywise,
        shift,
        proof,
        rows / rows.sum(),
    )
    return pair, best.rounds


def _arc_values(
    n: int, orbits: list[Orbit], best: OrbitSolution
) -> tuple[FloatArray, FloatArray]:
    """The approximation of every interval, and the constant in it."""
    first, last = np.triu_indices(n)
    near = np.empty((len(first), n))
    constants = np.zeros(len(first))
    cells = np.arange(n)
    for row, (i, j) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        length = j - i + 1
        if length == n:
            near[row] = constants[row] = 1.0
            continue

        # A long interval is everything less the arc that is left.
        inside = length <= n // 2
        arc = length if inside else n - length
        c = best.coefficients[arc - 1]
        places = _distance(cells, i if inside else (j + 1) % n, arc, n)
        values = (orbits[arc - 1].kernel @ c)[places]
        constant = float(c[0])
        near[row] = values if inside else 1 - values
        constants[row] = constant if inside else 1 - constant

    return near, constants


def _arc_witness(n: int, best: OrbitSolution) -> tuple[FloatArray, FloatArray]:
    """The witness, and the weight of every interval."""
    first, last = np.triu_indices(n)
    proof = np.zeros((len(first), n))
    rows = np.zeros(len(first))
    cells = np.arange(n)
    place = np.zeros((n, n), dtype=np.int64)
    place[first, last] = np.arange(len(first))
    for length, (weights, share) in enumerate(
        zip(best.weights, best.shares, strict=True), start=1
    ):
        if not weights.any():
            continue

        counts = np.bincount(_distance(cells, 0, length, n), minlength=len(weights))
        for start in range(n):
            values = (weights / counts)[_distance(cells, start, length, n)] / n
            end = start + length - 1
            wraps = end >= n  # the complement is then an interval, of the opposite sign
            row = int(place[end - n + 1, start - 1] if wraps else place[start, end])
            proof[row] += -values if wraps else values
            rows[row] += share / n

    return proof, rows


def _arc_orbits(size: int) -> list[Orbit]:
    """Arcs of every length up to half a circle: even functions about their middle, by cosines."""
    orbits = []
    waves = np.arange(size // 2 + 1)
    for length in range(1, size // 2 + 1):
        distances = np.unique(_twice_distance(np.arange(size), 0, length, size)) / 2
        kernel = np.cos(2 * np.pi * np.outer(distances, waves) / size)
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
