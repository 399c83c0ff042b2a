"""Attributes whose totals and contrasts are coupled: their part of D_b^½ M D_b^½.

In the basis (√b_i, complement) every factor is [[g, cᵀ], [c, H]]. Small problems are built densely.
Large ones have the shape of an arrow: two largest tables never meet in a third, so the blocks of
the largest tables are coupled to smaller ones only. With H diagonalised they are eliminated, and
the trace of the square root follows from traces of resolvents of the few that remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.central.gaussian.product_families import Family, Indices, Table
from noisewright.workload.base import FloatArray
from noisewright.workload.gram import downward_closure
from noisewright.workload.tensor import kron_all

CoupledTerms = tuple[tuple[Table, tuple[int, ...], float], ...]
"""Tables of coupled attributes, the kinds asked of them, and their squared weights."""

_STEP = 1.5  # of the trapezoidal rule in log s: its error is e^(-2π²/1.5), below the margin
_BELOW, _ABOVE = 18.0, 20.0  # how far beyond the spectrum, in log s; what is cut off is positive
_MARGIN = 1e-5


@dataclass(frozen=True, eq=False)
class Parts:
    """One kind in the basis (u, complement): g, c, H; `level` is h when H = hI and c = 0."""

    g: float
    c: FloatArray
    h: FloatArray
    level: float | None


def split_kind(gram: FloatArray, weights: FloatArray) -> Parts:
    """A Gram matrix weighted by b, in the basis (√b, complement)."""
    root = np.sqrt(weights / weights.sum())
    scaled = root[:, None] * gram * root
    basis = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))[0]
    basis[:, 0] = root
    turned = basis.T @ scaled @ basis
    g, c, h = float(turned[0, 0]), turned[1:, 0], (turned[1:, 1:] + turned[1:, 1:].T) / 2
    level = float(h[0, 0]) if len(h) else 0.0
    flat = bool(np.abs(c).max(initial=0.0) <= 1e-12 * g)
    flat = flat and bool(np.abs(h - level * np.eye(len(h))).max(initial=0.0) <= 1e-12 * g)
    return Parts(g, c, h, level if flat else None)


def closure(terms: CoupledTerms) -> list[Table]:
    """All interactions of the tables."""
    return list(downward_closure([table for table, _, _ in terms]))


def dimension(family: Family, blocks: Sequence[Table]) -> int:
    """Number of coordinates of some interactions."""
    return int(sum(np.prod([family.sizes[i] - 1 for i in t]) for t in blocks))


def dense(
    family: Family, parts: Sequence[Parts], terms: CoupledTerms, blocks: Sequence[Table]
) -> FloatArray:
    """N over some interactions of coupled attributes, block by block."""
    lengths = [int(np.prod([family.sizes[i] - 1 for i in t])) for t in blocks]
    ends = np.cumsum([0, *lengths])
    matrix = np.zeros((ends[-1], ends[-1]))
    place = {t: slice(ends[k], ends[k + 1]) for k, t in enumerate(blocks)}
    for table, kinds, weight in terms:
        inside = [t for t in blocks if set(t) <= set(table)]
        for first in inside:
            for second in inside:
                pieces = [
                    _piece(parts[k], i in first, i in second)
                    for i, k in zip(table, kinds, strict=True)
                ]
                matrix[place[first], place[second]] += weight * kron_all(pieces)
    return matrix


def _piece(part: Parts, left: bool, right: bool) -> FloatArray:
    if left and right:
        return part.h
    if left:
        return part.c[:, None]
    return part.c[None, :] if right else np.array([[part.g]])


def largest_tables(terms: CoupledTerms) -> list[Table] | None:
    """Tables contained in no other; None where one of them is asked in two ways."""
    count = Counter(table for table, _, _ in terms)
    largest = [t for t in count if not any(set(t) < set(other) for other in count)]
    return None if any(count[table] > 1 for table in largest) else largest


def arrow_nuclear(
    family: Family,
    parts: Sequence[Parts],
    terms: CoupledTerms,
    largest: Sequence[Table],
    without_total: bool = False,
) -> float:
    """A number just below tr N^½, the blocks of the largest tables eliminated.

    √λ = (1/π)∫ λ/(λ+s) s^-½ ds, by the trapezoidal rule in log s, which converges exponentially.
    """
    removed = set(largest)
    kept = [t for t in closure(terms) if t not in removed and (t or not without_total)]
    core = dense(family, parts, terms, kept)
    ends = np.cumsum([0, *(dimension(family, [t]) for t in kept)])
    place = {t: np.arange(ends[k], ends[k + 1]) for k, t in enumerate(kept)}
    tips = [_Tip.of(parts, t, k, w, place) for t, k, w in terms if t in removed]
    top = max([float(np.trace(core))] + [float(tip.diagonal.max()) for tip in tips])
    low = min([top] + [float(tip.diagonal.min()) for tip in tips if tip.diagonal.min() > 0])
    total = 0.0
    for t in np.arange(np.log(low) - _BELOW, np.log(top) + _ABOVE, _STEP):
        s = float(np.exp(t))
        schur, second = core + s * np.eye(len(core)), np.eye(len(core))
        outer = 0.0
        for tip in tips:
            inverse = 1 / (tip.diagonal + s)
            outer += float((tip.diagonal * inverse).sum())
            scaled = tip.coupling * inverse
            schur[np.ix_(tip.rows, tip.rows)] -= scaled @ tip.coupling.T
            second[np.ix_(tip.rows, tip.rows)] += scaled @ scaled.T
        inner = len(core) - s * float(np.trace(np.linalg.solve(schur, second)))
        total += (outer + inner) * float(np.exp(t / 2))
    return total * _STEP / np.pi * (1 - _MARGIN)


@dataclass(frozen=True, eq=False)
class _Tip:
    """A largest table in the eigenbasis of its own factors, and its coupling to the core."""

    rows: Indices
    coupling: FloatArray
    diagonal: FloatArray

    @classmethod
    def of(
        cls,
        parts: Sequence[Parts],
        table: Table,
        kinds: Sequence[int],
        weight: float,
        place: dict[Table, Indices],
    ) -> _Tip:
        eigen = [np.linalg.eigh(parts[k].h) for k in kinds]
        values = [np.maximum(e.eigenvalues, 0.0) for e in eigen]
        diagonal = weight * kron_all([v[None, :] for v in values]).ravel()
        rows, coupling = [np.zeros(0, dtype=np.int64)], [np.zeros((0, diagonal.size))]
        for block, numbers in place.items():
            if set(block) <= set(table):
                pieces = [
                    e.eigenvectors * v if i in block else parts[k].c[None, :] @ e.eigenvectors
                    for i, k, e, v in zip(table, kinds, eigen, values, strict=True)
                ]
                rows.append(numbers)
                coupling.append(weight * kron_all(pieces))
        return cls(np.concatenate(rows), np.concatenate(coupling), diagonal)
