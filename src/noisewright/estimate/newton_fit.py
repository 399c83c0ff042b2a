"""Non-negative least squares by proximal steps, each solved by Newton's method in its dual.

To minimise ½Σ w_i(r_i·x − y_i)² over x ≥ 0, a proximal step of length σ from x has the dual

    min_u  ½Σ u_i²/w_i + y·u + ‖max(x − σRᵀu, 0)‖²/2σ

with one unknown per query, not per cell, and the second derivative 1/w + σR_A R_Aᵀ over the cells A
that stay above zero. Queries that overlap in many ways make descent over cells take thousands of
steps; this takes less than a hundred. Declared sums are queries of infinite weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IndexArray
from noisewright.workload.base import Workload
from noisewright.workload.structure import Structure, Term

MOST_QUERIES = 2500
"""Unknowns of the dual, whose second derivative is written out."""

_MOST_ENTRIES = 2**25  # of the queries that are not zero, a few hundred MB
# entries of the queries of one term, which are written out once: 128 MB
_MOST_DENSE = 2**24
_SPARSE = 0.1
"""Share of entries that are not zero up to which products of sparse matrices take no longer than
dense ones: between 0.05 and 0.1 at 1,440, 2,880 and 20,000 cells, and 50 times as long at 1."""
_PROXIMAL_STEPS = 30  # each ten times as long as the one before: the last has no end
# of one proximal step, which starts from the multipliers of the one before
_NEWTON_STEPS = 40
_LONGER = 10.0  # how much longer every proximal step is than the one before
_DECLARED = 1e-9  # of the mean curvature: what stands for infinite weight
_SHORTEST = 1e-6  # share of a Newton step that is tried: below, rounding decides
_INNER = 1e-9  # of the answers: how near to its optimum a proximal step is solved
_DAMPING = 1e-9, 1e-6, 1e-3, 1.0
"""Shares of the largest curvature that are added where Newton's own step leads far astray: where
all cells of a declared sum are at zero, nothing but its slack of 10^-9 holds its multiplier."""
_FAR = 1e6  # times what is near enough: there rounding is no reason to stop


@dataclass(frozen=True, eq=False)
class Rows:
    """Queries as sparse columns over cells, with what they should be and how much that weighs.

    `columns` has a row per cell and a column per query; `slack` is 1/weight.
    """

    columns: Any
    values: FloatArray
    slack: FloatArray

    def images(self, x: FloatArray) -> FloatArray:
        """What the queries are of a histogram."""
        return np.asarray(self.columns.T @ x)


def gathered_rows(
    workload: Workload,
    answers: FloatArray,
    weights: FloatArray,
    inside: IndexArray,
) -> Rows | None:
    """The queries over the cells `inside`, those that weigh nothing left out; None if too many.

    More queries than cells are brought down to as many as there are cells, by the Gram matrix,
    unless they have fewer entries that are not zero.
    """
    rows = _written_out(workload, answers, weights, inside)
    if workload.queries <= workload.size or workload.size > MOST_QUERIES:
        return rows
    if rows is not None and rows.columns.nnz <= _SPARSE * workload.size**2:
        return rows

    return _reduced(workload, answers, weights, inside)


def _written_out(
    workload: Workload,
    answers: FloatArray,
    weights: FloatArray,
    inside: IndexArray,
) -> Rows | None:
    """The queries as they are; None if too many."""
    from scipy.sparse import csr_array, hstack

    kept = np.flatnonzero(weights)
    if len(kept) > MOST_QUERIES:
        return None

    parts = []
    for term in workload.structure.terms:
        part = _spread(term, workload.structure)
        if part is None:
            return None
        parts.append(part)
        if sum(p.nnz for p in parts) > _MOST_ENTRIES:
            return None

    columns = csr_array(hstack(parts, format="csc")[:, kept])[inside]
    return Rows(columns, answers[kept], 1 / weights[kept])


def _spread(
    term: Term,
    structure: Structure,
) -> Any:
    """The queries of a term over all cells; None where there are too many entries."""
    from scipy.sparse import csr_array

    small = term.inner
    if small.queries * small.size > _MOST_DENSE:
        return None

    rows = csr_array(term.weight * small.dense().T)
    if rows.nnz * (structure.workload.size / small.size) > _MOST_ENTRIES:
        return None

    numbers = np.arange(small.size).reshape(
        [structure.sizes[i] for i in term.attributes]
    )
    shape = [s if i in term.attributes else 1 for i, s in enumerate(structure.sizes)]
    cells = np.broadcast_to(numbers.reshape(shape), structure.sizes).reshape(-1)

    return rows[cells]


def _reduced(
    workload: Workload,
    answers: FloatArray,
    weights: FloatArray,
    inside: IndexArray,
) -> Rows:
    """The same sum of squares, up to a constant, from no more rows than there are cells."""
    from scipy.sparse import csr_array

    values, vectors = np.linalg.eigh(workload.weighted_gram(weights))
    strong = values > 1e-12 * values[-1]
    lengths = np.sqrt(values[strong])
    vectors = vectors[:, strong]
    pulled = np.asarray(workload.rmatvec(weights * answers), dtype=np.float64)
    targets = (vectors.T @ pulled) / lengths

    return Rows(
        csr_array((vectors * lengths)[inside]),
        targets,
        np.ones(len(lengths)),
    )


def with_declared(
    rows: Rows,
    sums: FloatArray,
    values: FloatArray,
) -> Rows:
    """Sums over cells that must come out, as queries of (nearly) infinite weight."""
    from scipy.sparse import csr_array, hstack

    if not len(sums):
        return rows

    slack = _DECLARED * float(rows.slack.min(initial=1.0)) * np.ones(len(sums))
    columns = csr_array(hstack([rows.columns, csr_array(sums.T)], format="csr"))
    return Rows(
        columns,
        np.append(rows.values, values),
        np.append(rows.slack, slack),
    )


def newton_fit(
    rows: Rows,
    start: FloatArray,
    tolerance: float,
) -> tuple[FloatArray, int]:
    """The best x ≥ 0, and the Newton steps it took.

    Ends when the objective is within `tolerance` of its least value, by convexity: the gradient at
    the end of a proximal step is what the step moved over its length.
    """
    x = start
    u = np.zeros(len(rows.values))
    used = 0
    length = 100 / _largest_curvature(rows)

    for _ in range(_PROXIMAL_STEPS):
        step = _Proximal(rows, x, length)
        u, count = step.solve(u)
        moved = step.point(u)
        used += count
        gap = (
            float(np.linalg.norm(moved - x)) * 2 * float(np.linalg.norm(moved)) / length
        )
        x = moved
        if gap <= tolerance:
            break
        length *= _LONGER

    return x, used


class _Proximal:
    """The dual of one proximal step."""

    def __init__(
        self,
        rows: Rows,
        start: FloatArray,
        length: float,
    ) -> None:
        self.rows = rows
        self.start = start
        self.length = length
        self.enough = _INNER * (
            1 + float(np.linalg.norm(rows.values / np.sqrt(rows.slack.max())))
        )

    def point(self, u: FloatArray) -> FloatArray:
        """The histogram that belongs to multipliers."""
        return np.asarray(
            np.maximum(self.start - self.length * (self.rows.columns @ u), 0.0)
        )

    def cost(
        self,
        u: FloatArray,
        x: FloatArray,
    ) -> float:
        """What the multipliers make least."""
        rows = self.rows
        linear = 0.5 * float(rows.slack @ u**2) + float(rows.values @ u)
        return linear + float(x @ x) / (2 * self.length)

    def solve(self, u: FloatArray) -> tuple[FloatArray, int]:
        """The multipliers of the step, and how many Newton steps found them."""
        rows = self.rows
        x = self.point(u)
        for done in range(_NEWTON_STEPS):
            slope = rows.slack * u + rows.values - rows.images(x)
            missed = float(np.linalg.norm(slope / np.sqrt(rows.slack.max())))
            if missed <= self.enough:
                return u, done

            lower = self._lower(u, x, slope, far=missed > _FAR * self.enough)
            if lower is None:  # rounding lets nothing fall any further
                return u, done

            u = lower
            x = self.point(lower)

        return u, _NEWTON_STEPS

    def _lower(
        self,
        u: FloatArray,
        x: FloatArray,
        slope: FloatArray,
        *,
        far: bool,
    ) -> FloatArray | None:
        """Multipliers of less cost, by Newton's step or, far from the end, by a damped one."""
        cost = self.cost(u, x)
        for damping in (0.0, *_DAMPING) if far else (0.0,):
            try:
                direction = self._direction(x > 0, slope, damping)
            except np.linalg.LinAlgError:  # singular but for rounding
                continue
            falls = float(slope @ direction)
            share = 1.0
            while share > _SHORTEST:
                trial = u + share * direction
                if self.cost(trial, self.point(trial)) <= cost + 1e-4 * share * falls:
                    return trial
                share /= 2

        return None

    def _direction(
        self,
        above: BoolArray,
        slope: FloatArray,
        damping: float,
    ) -> FloatArray:
        from scipy.linalg import cho_factor, cho_solve

        curvature = self.length * _gram(self.rows.columns[above])
        diagonal = np.diag_indices(len(slope))
        curvature[diagonal] += self.rows.slack
        curvature[diagonal] *= 1 + 1e-13  # sums of cells that all are empty
        if damping:
            curvature[diagonal] += damping * self.length * self.largest

        return -(cho_solve(cho_factor(curvature, check_finite=False), slope))

    @cached_property
    def largest(self) -> float:
        """At least the largest curvature that cells can give."""
        squares = self.rows.columns.multiply(self.rows.columns).sum(axis=0)
        return float(squares.sum())


def _gram(columns: Any) -> FloatArray:
    """Products of all columns, by those of dense matrices where few entries are zero."""
    if columns.nnz > _SPARSE * columns.shape[0] * columns.shape[1]:
        columns = columns.toarray()
        return np.asarray(columns.T @ columns)

    return np.asarray((columns.T @ columns).toarray())


def _largest_curvature(rows: Rows) -> float:
    """Estimate of the largest eigenvalue of RᵀDR."""
    weights = np.minimum(
        1 / rows.slack,
        1 / max(float(np.median(rows.slack)), 1e-300),
    )

    def image(x: FloatArray) -> FloatArray:
        return np.asarray(rows.columns @ (weights * rows.images(x)))

    return max(largest_eigenvalue(image, rows.columns.shape[0], 20), 1e-300)


def largest_eigenvalue(
    image: Callable[[FloatArray], FloatArray],
    size: int,
    steps: int,
) -> float:
    """Of a matrix with no negative one, from below, by powers of it from a fixed start."""
    vector = np.random.default_rng(0).random(size) + 0.1
    value = 0.0
    for _ in range(steps):
        vector = image(vector / max(float(np.linalg.norm(vector)), 1e-300))
        value = float(np.linalg.norm(vector))

    return value
