"""Tables of coupled attributes: their interactions as one matrix, or as an arrow's.

Two largest tables never meet in a third, so that the blocks of the largest tables are coupled to
smaller ones only: they are eliminated, and traces of resolvents of the few that remain are left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.gaussian.product_designs import Family, Table
from noisewright.stages import stage
from noisewright.workload.linear.interactions import downward_closure
from noisewright.workload.linear.tensor import column_kron, kron_all

CoupledTerms = tuple[tuple[Table, tuple[int, ...], float], ...]
"""Tables of coupled attributes, the kinds asked of them, and their squared weights."""

Eigen = Any  # the named pair of values and vectors that numpy gives

# of the trapezoidal rule in log s: its error is e^(-2π²/1.5), below the margin
_STEP = 1.5
# how far beyond the spectrum, in log s; what is cut off is positive
_BELOW = 18.0
_ABOVE = 20.0  # the same beyond its upper end
# taken off: above the error of the trapezoidal rule and the rounding of its sum
_ARROW_MARGIN = 1e-5


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
    g = float(turned[0, 0])
    c = turned[1:, 0]
    h = (turned[1:, 1:] + turned[1:, 1:].T) / 2
    level = float(h[0, 0]) if len(h) else 0.0
    flat = bool(np.abs(c).max(initial=0.0) <= 1e-12 * g)
    flat = flat and bool(
        np.abs(h - level * np.eye(len(h))).max(initial=0.0) <= 1e-12 * g
    )

    return Parts(
        g,
        c,
        h,
        level if flat else None,
    )


def interactions_of_tables(terms: CoupledTerms) -> list[Table]:
    """All interactions of the tables."""
    return list(downward_closure([table for table, _, _ in terms]))


def interaction_dimension(family: Family, blocks: Sequence[Table]) -> int:
    """Number of coordinates of some interactions."""
    return int(sum(np.prod([family.sizes[i] - 1 for i in t]) for t in blocks))


def dense_coupling(
    family: Family,
    parts: Sequence[Parts],
    terms: CoupledTerms,
    blocks: Sequence[Table],
) -> FloatArray:
    """N over some interactions of coupled attributes, block by block."""
    ends = np.cumsum([0, *(interaction_dimension(family, [t]) for t in blocks)])
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


def _piece(
    part: Parts,
    left: bool,
    right: bool,
) -> FloatArray:
    if left and right:
        return part.h
    if left:
        return part.c[:, None]
    return part.c[None, :] if right else np.array([[part.g]])


def largest_tables(terms: CoupledTerms) -> list[Table] | None:
    """Tables contained in no other; None where one of them is asked in two ways."""
    count = Counter(table for table, _, _ in terms)
    sets = {table: frozenset(table) for table in count}
    holding: dict[int, list[frozenset[int]]] = defaultdict(list)

    for table_set in sets.values():
        for attribute in table_set:
            holding[attribute].append(table_set)

    longest = max(map(len, count), default=0)

    def is_largest(table_set: frozenset[int]) -> bool:
        if len(table_set) == longest:
            return True

        # Whatever contains the table is among those that hold its rarest attribute.
        others = min(
            (holding[a] for a in table_set),
            key=len,
            default=list(sets.values()),
        )
        return not any(
            len(other) > len(table_set) and table_set < other for other in others
        )

    largest = [table for table, table_set in sets.items() if is_largest(table_set)]
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
    stage(f"proving a bound over {len(removed):,} tables")
    others = [
        block
        for block in interactions_of_tables(terms)
        if block not in removed and (block or not without_total)
    ]
    core = dense_coupling(family, parts, terms, others)
    ends = np.cumsum([0, *(interaction_dimension(family, [block]) for block in others)])
    place = {block: np.arange(*ends[k : k + 2]) for k, block in enumerate(others)}

    kinds = {kind for _, asked, _ in terms for kind in asked}
    eigen = {kind: np.linalg.eigh(parts[kind].h) for kind in kinds}
    tips = [_Tip.of(parts, eigen, term, place) for term in terms if term[0] in removed]
    stacks = [_Tips.of(alike, len(core)) for alike in _by_shape(tips)]

    tops = [
        float(np.trace(core)),
        *(float(tips.diagonal.max()) for tips in stacks),
    ]
    positive = [tips.diagonal[tips.diagonal > 0] for tips in stacks]
    lows = [float(values.min()) for values in positive if values.size]
    first = np.log(min([max(tops), *lows])) - _BELOW
    steps = np.arange(first, np.log(max(tops)) + _ABOVE, _STEP)
    total = sum(_integrand(core, stacks, float(np.exp(t))) for t in steps)

    return total * _STEP / np.pi * (1 - _ARROW_MARGIN)


def _integrand(core: FloatArray, stacks: Sequence[_Tips], s: float) -> float:
    """√s·tr N(N + s)⁻¹: of the largest tables by themselves, and by their Schur complement."""
    schur = core + s * np.eye(len(core))
    second = np.eye(len(core))
    outer = 0.0

    for tips in stacks:
        inverse = 1 / (tips.diagonal + s)
        outer += float((tips.diagonal * inverse).sum())
        scaled = tips.coupling * inverse[:, None, :]
        schur -= tips.added(scaled @ tips.coupling.swapaxes(1, 2))
        second += tips.added(scaled @ scaled.swapaxes(1, 2))

    inner = len(core) - s * float(np.trace(np.linalg.solve(schur, second)))
    return (outer + inner) * float(np.sqrt(s))


@dataclass(frozen=True, eq=False)
class _Tip:
    """A largest table in the eigenbasis of its own factors, and its coupling to the core."""

    rows: IntArray
    coupling: FloatArray
    diagonal: FloatArray

    @classmethod
    def of(
        cls,
        parts: Sequence[Parts],
        eigen: Mapping[int, Eigen],
        term: tuple[Table, tuple[int, ...], float],
        place: Mapping[Table, IntArray],
    ) -> _Tip:
        table, kinds, weight = term
        values = [np.maximum(eigen[kind].eigenvalues, 0.0) for kind in kinds]
        diagonal = weight * column_kron(values)
        rows = [np.zeros(0, dtype=np.int64)]
        coupling = [np.zeros((0, diagonal.size))]

        for block in _contained(table, place):
            pieces = []
            for i, kind, value in zip(table, kinds, values, strict=True):
                vectors = eigen[kind].eigenvectors
                inside = i in block
                pieces.append(
                    vectors * value if inside else parts[kind].c[None] @ vectors
                )
            rows.append(place[block])
            coupling.append(weight * kron_all(pieces))

        return cls(np.concatenate(rows), np.concatenate(coupling), diagonal)


def _contained(table: Table, place: Mapping[Table, IntArray]) -> list[Table]:
    """The tables of the core that lie in a table."""
    if 2 ** len(table) > len(place):
        return [block for block in place if set(block) <= set(table)]
    subsets = (block for k in range(len(table) + 1) for block in combinations(table, k))
    return [block for block in subsets if block in place]


def _by_shape(tips: Sequence[_Tip]) -> list[list[_Tip]]:
    """Tables whose couplings have the same shape, to be handled together."""
    groups: dict[tuple[int, ...], list[_Tip]] = defaultdict(list)
    for tip in tips:
        groups[tip.coupling.shape].append(tip)
    return list(groups.values())


@dataclass(frozen=True, eq=False)
class _Tips:
    """Largest tables of one shape: an axis more than one of them has."""

    places: IntArray
    """Where the entries of each own matrix lie in that of the core, one after the other."""
    coupling: FloatArray
    diagonal: FloatArray
    size: int

    @classmethod
    def of(cls, tips: Sequence[_Tip], size: int) -> _Tips:
        rows = np.array([tip.rows for tip in tips])
        places = (rows[:, :, None] * size + rows[:, None, :]).ravel()
        coupling = np.array([tip.coupling for tip in tips])

        return cls(
            places,
            coupling,
            np.array([tip.diagonal for tip in tips]),
            size,
        )

    def added(self, matrices: FloatArray) -> FloatArray:
        """The sum of matrices over the core that each have entries of their own tables alone."""
        flat = np.bincount(self.places, matrices.ravel(), self.size**2)
        return flat.reshape(self.size, self.size).astype(np.float64)
