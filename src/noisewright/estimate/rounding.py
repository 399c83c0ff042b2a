"""Whole numbers of people for which every sum that was asked for stays near what it was.

Largest remainders of cells know nothing of the sums that cells are asked in: where many cells have
the same fraction, the first ones get all that is left over. Here the sums themselves are held
between the whole numbers next to them, by linear programs whose unknowns are the fractions of
cells. A vertex of these is whole wherever the sums form a flow: cells alone, tables with their
margins, values within levels, cumulative counts or ranges, tables that overlap in a chain. So there
no sum moves by one or more, and of all such roundings it is the one that moves answers least, in
squares.

Elsewhere some fractions are left. Those that came out whole are kept, a sum with the fewest
fractions left is no longer held, and the rest is solved again (J. Beck and T. Fiala, Integer-making
theorems, Discrete Applied Mathematics 3, 1981). Let every cell count towards at most t sums of more
than one cell. A vertex has at most as many fractions as sums that bind, so that one of those
has at most t of them: it stood between its whole numbers when it was let go, and less than t can be
added to it or taken from it after that. **No sum moves by t or more.** The number of people is one
of these sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import Any

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray

_FINEST = 16
"""Sums of all cells are within 2^-17 of what they were before cells were put on a grid."""
_EXACT = 2.0**52  # up to which sums of multiples of the grid are exact
_MOST_ENTRIES = 2**16
"""Of a linear program, which is built in a moment then."""
_MOST_PIVOTS = 2500
"""Of its simplex, 0.3 s at most: flows over 20,000 cells take 1,200, 1,000 cells in pairs 1,800."""
# within which a vertex counts as whole; the solver's own tolerance is 1e-7
_WHOLE = 1e-6
_TIE = 2.0**-10  # what the order among equals costs, beside what squares do
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it spread most evenly in [0, 1)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over cells, one per row: such as should stay near, and such as must come out."""

    near: Any
    exact: Any
    values: FloatArray
    """What the exact ones come to: whole numbers."""

    def of_cells(self, cells: IntArray) -> Sums:
        """The same sums over some of the cells."""
        return Sums(self.near[:, cells], self.exact[:, cells], self.values)


def on_grid(values: FloatArray) -> FloatArray:
    """The nearest multiples of a power of two, so fine that sums of them hardly move.

    Sums of them are exact, so that what lies between two whole numbers is told without doubt.
    """
    cells = np.count_nonzero(values)
    total = float(np.abs(values).sum())
    fine = 2.0 ** (_FINEST + int(cells).bit_length())
    coarse = 2.0 ** floor(log2(_EXACT / max(total, 1.0)))
    step = 1 / min(fine, coarse)
    return np.rint(values / step) * step


def _even_order(count: int) -> FloatArray:
    """A number in [0, 1) for each of so many equals: any run of them spreads evenly."""
    return np.asarray((np.arange(1, count + 1) * _GOLDEN) % 1.0)


def controlled_rounding(
    values: FloatArray,
    sums: Sums,
) -> IntArray | None:
    """Whole numbers next to every value that keep the exact sums, the others as said above.

    `values` lie on the grid. None where the programs are too large, or where nothing next to the
    values keeps the exact sums.
    """
    whole = np.floor(values)
    left = np.flatnonzero(values - whole)
    targets = sums.near @ values
    held = np.diff(sums.near.indptr) > 1
    costs = _costs(sums.near, targets)
    if not held.any() and sums.exact.nnz == sums.exact.shape[1]:
        return _cheapest_first(whole, left, costs, float(sums.values[0]))

    while len(left):
        program = _Program.of(sums.of_cells(left), held)
        vertex = program.vertex(
            costs[left],
            np.floor(targets) - sums.near @ whole,
            np.ceil(targets) - sums.near @ whole,
            sums.values - sums.exact @ whole,
        )
        if vertex is None:
            return None

        done = np.abs(vertex - np.rint(vertex)) < _WHOLE
        whole[left[done]] += np.rint(vertex[done])
        left = left[~done]
        # only the exact sums are left, and are no flow
        if len(left) and not held.any():
            return None

        held = _without_fewest(sums.near[:, left], held)

    result = whole.astype(np.int64)
    return result if np.array_equal(sums.exact @ result, sums.values) else None


def _cheapest_first(
    whole: FloatArray,
    left: IntArray,
    costs: FloatArray,
    people: float,
) -> IntArray | None:
    """Cells by themselves, and so many people in all: those up that cost least."""
    missing = round(people - float(whole.sum()))
    if not 0 <= missing <= len(left):
        return None
    whole[left[np.argsort(costs[left], kind="stable")[:missing]]] += 1
    return whole.astype(np.int64)


def _costs(
    near: Any,
    targets: FloatArray,
) -> FloatArray:
    """What a person more in each cell adds to the squares by which the sums move.

    From f above a whole number, going up costs (1 − f)² and going down f²: the difference is
    linear.
    """
    fractions = targets - np.floor(targets)
    steps = np.where(fractions > 0, 1 - 2 * fractions, 0.0)
    return np.asarray(near.T @ steps + _TIE * _even_order(near.shape[1]))


def _without_fewest(
    near: Any,
    held: BoolArray,
) -> BoolArray:
    """The sums still held: one of a single fraction holds itself, those of fewest are let go."""
    counts = np.diff(near.indptr)
    held = held & (counts > 1)
    fewest = counts[held].min(initial=len(counts) + near.shape[1])
    return np.asarray(held & (counts > fewest))


@dataclass(frozen=True, eq=False)
class _Program:
    """Fractions of cells between 0 and 1, sums of which are held between whole numbers."""

    near: Any
    held: BoolArray
    exact: Any
    kept: BoolArray

    @classmethod
    def of(
        cls,
        sums: Sums,
        held: BoolArray,
    ) -> _Program:
        kept = np.diff(sums.exact.indptr) > 0
        return cls(
            sums.near[held],
            held,
            sums.exact[kept],
            kept,
        )

    def vertex(
        self,
        costs: FloatArray,
        below: FloatArray,
        above: FloatArray,
        exact: FloatArray,
    ) -> FloatArray | None:
        """The vertex of least cost; None where there is no point at all, or it takes long."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        if self.near.nnz + len(costs) > _MOST_ENTRIES:
            return None

        solved = linprog(
            costs,
            A_ub=vstack([self.near, -self.near], format="csr"),
            b_ub=np.concatenate([above[self.held], -below[self.held]]),
            A_eq=self.exact,
            b_eq=exact[self.kept],
            bounds=(0, 1),
            method="highs-ds",
            options={"maxiter": _MOST_PIVOTS},
        )
        return solved.x if solved.status == 0 else None
