"""Real strategies onto an integer grid, without moving their row space.

A strategy is written A = C·B with B an integer basis of the needed row space and only C is rounded,
so least squares stays unbiased; sensitivity and reconstruction are then taken from the integers.

Noise is drawn up to 2^40 grid steps, whatever the budget. Integer factors of more bits are closer
to the real strategy, and the noise grows with them. So the bits that all factors of a block may
have together depend on the noise that a budget asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.workload import (
    Identity,
    Prefix,
    Ranges,
    Total,
    Weighted,
    Workload,
)
from noisewright.workload.structure import Term

USUAL_BITS = 36
"""Bits of all factors together where a budget asks for noise of scale one."""

# up to which small integers are kept as they are: identity, total and sums of few cells
_EXACT_ENTRIES = 64
_AUGMENT = 0.01  # raises the squared sensitivity by 1e-4: far below what anyone can see


def quantise(
    strategy: FloatArray,
    workload: Workload,
    bits: int,
) -> IntArray:
    """Integer strategy close to a multiple of `strategy`, whose row space holds the workload's."""
    exact = small_integers(strategy)
    if exact is not None:
        return exact

    basis = integer_basis(workload)
    if basis is None and not _full_rank(workload):
        weakest = _AUGMENT * np.linalg.norm(strategy, axis=0).max()
        strategy = np.concatenate([strategy, weakest * np.eye(strategy.shape[1])])

    if basis is None:
        return integer_multiple(strategy, bits)

    return (
        integer_multiple(
            strategy @ np.linalg.pinv(basis.astype(np.float64)),
            bits,
        )
        @ basis
    )


def integer_basis(workload: Workload) -> IntArray | None:
    """Independent integer rows that span the workload's rows; None when the cells themselves do."""
    if isinstance(workload, Weighted):
        return integer_basis(workload.inner)
    if isinstance(workload, Total):
        return np.ones((1, workload.cells), dtype=np.int64)
    if _full_rank(workload):
        return None

    gram = workload.gram().dense()
    used = np.flatnonzero(np.diagonal(gram))
    # some cells in no query
    if used.size < len(gram) and _positive(gram[np.ix_(used, used)]):
        return np.eye(len(gram), dtype=np.int64)[used]

    rows = np.unique(workload.dense(), axis=0)
    whole = (rows == np.rint(rows)).all()
    if not whole or np.abs(rows).max() > 2**20:
        return None

    return rows[_independent(rows)].astype(np.int64)


def _independent(rows: FloatArray) -> list[int]:
    from scipy.linalg import qr

    _, r, order = qr(rows.T, mode="economic", pivoting=True)
    strengths = np.abs(np.diagonal(r))
    rank = int((strengths > 1e-9 * strengths[0]).sum())
    return sorted(int(i) for i in order[:rank])


def _full_rank(workload: Workload) -> bool:
    if isinstance(workload, Identity | Prefix | Ranges):
        return True
    if isinstance(workload, Total):
        return workload.cells == 1
    return _positive(workload.gram().dense())


def _positive(gram: FloatArray) -> bool:
    values = np.linalg.eigvalsh(gram)
    return bool(values.size and values[0] > 1e-9 * values[-1])


def small_integers(strategy: FloatArray) -> IntArray | None:
    """The strategy itself when it is a multiple of small integers, as identity and total are."""
    entries = np.abs(strategy)
    smallest = entries[entries > 1e-12 * entries.max()].min()
    scaled = strategy / smallest
    nearest = np.rint(scaled)
    if np.abs(nearest).max() > _EXACT_ENTRIES or np.abs(scaled - nearest).max() > 1e-9:
        return None
    return np.asarray(nearest, dtype=np.int64)


def integer_multiple(
    matrix: FloatArray,
    bits: int,
) -> IntArray:
    """A multiple of a real matrix in integers of so many bits, columns as long as before.

    To the nearest integers some columns would grow and others shrink, and the longest of them
    decides the noise. So the entries closest to a tie are rounded the other way until every column
    has its length back, or just less.
    """
    scaled = matrix * (2.0**bits / np.abs(matrix).max())
    nearest = np.rint(scaled)
    if np.abs(nearest).max() >= 2**31:
        raise TooLarge(f"quantisation to {bits} bits is too fine; use at most 30")

    excess = (nearest**2).sum(axis=0) - (scaled**2).sum(axis=0)
    for j, too_long in enumerate(excess):
        _restore(nearest[:, j], scaled[:, j], float(too_long))

    return np.asarray(nearest, dtype=np.int64)


def _restore(
    column: FloatArray,
    exact: FloatArray,
    excess: float,
) -> None:
    """Move entries of a rounded column to their other neighbour until it is no longer too long."""
    grown = np.abs(column) - np.abs(exact)
    outward = np.sign(exact) * (1.0 if excess < 0 else -1.0)
    for k in np.argsort(-np.abs(grown)):
        if (grown[k] > 0) != (excess > 0) or grown[k] == 0:
            continue
        change = 2 * column[k] * outward[k] + 1
        if excess < 0 and excess + change > 0:
            continue
        column[k] += outward[k]
        excess += change
        if excess <= 0 and change < 0:
            return


def grid_bits(unit_noise: float) -> int:
    """Bits of all factors together for a budget whose noise has this scale at sensitivity one."""
    return min(USUAL_BITS + 2, floor(USUAL_BITS - log2(unit_noise)))


def bits_each(
    total: float,
    factors: int,
    most: int,
) -> int:
    """Bits of every one of so many factors; at least three, that rounding says anything at all."""
    return max(3, min(most, floor(total / max(1, factors))))


def contrast_bits(
    total: int,
    terms: Sequence[Term],
    sizes: Sequence[int],
    most: int,
) -> int:
    """Bits of contrasts over the largest terms: columns are longer than entries, shares small."""
    spare = 6
    bits = [
        bits_each(
            total - spare - sum(ceil(log2(sizes[i])) / 2 for i in term.attributes),
            len(term.attributes),
            most,
        )
        for term in terms
    ]
    return min(bits, default=most)
