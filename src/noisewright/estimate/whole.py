"""Tables of whole numbers of people near fractional ones, judged by the sums that were asked.

Whole numbers made better one person at a time, each moved from one cell to another.

A move is taken where the squares by which sums stray become less, those of one or more counting
above all, and where none strays further than the worst one did. Work is counted in rounds; the
same input gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.estimate.rounding import (
    Sums,
    controlled_rounding,
)


def whole_near(
    values: FloatArray,
    sums: Sums,
) -> IntArray:
    """Whole numbers of people whose sums stray least from those of `values` (≥ 0, on a grid).

    Each sum strays by less than one where some flow has them all; else by less than the number of
    sums that a cell counts towards, where programs are small enough (`controlled_rounding`); else
    by what the search leaves (`exchanges`).
    """
    kinds = _Alike.of(values, sums)
    whole = controlled_rounding(kinds.values, kinds.sums)
    if whole is None:
        whole = evenly_rounded(kinds.values, kinds.sums)

    strayed = kinds.strayed(whole)
    if np.abs(strayed).max(initial=0.0) >= 1:
        whole = exchange_people(whole, strayed, kinds.sums)

    return shared_out(whole, kinds.of_cell)


def flow_rounding(
    values: FloatArray,
    sums: Sums,
) -> IntArray | None:
    """Whole numbers of people whose sums stray by less than one; None where none are found."""
    kinds = _Alike.of(values, sums)
    whole = controlled_rounding(kinds.values, kinds.sums)
    if whole is None or np.abs(kinds.strayed(whole)).max(initial=0.0) >= 1:
        return None
    return shared_out(whole, kinds.of_cell)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Cells that all sums treat alike, added up: what they hold one by one nobody asked."""

    of_cell: IntArray
    values: FloatArray
    sums: Sums

    @classmethod
    def of(
        cls,
        values: FloatArray,
        sums: Sums,
    ) -> _Alike:
        firsts, kinds = cells_alike(sums)
        together = np.asarray(np.bincount(kinds, values), dtype=np.float64)
        return cls(kinds, together, sums.of_cells(firsts))

    def strayed(self, whole: IntArray) -> FloatArray:
        """How far every sum is from what it was."""
        return np.asarray(self.sums.near @ (whole - self.values))


def cells_alike(sums: Sums) -> tuple[IntArray, IntArray]:
    """The first cell of every kind that all sums treat alike, and the kind of every cell."""
    from scipy.sparse import csc_array, vstack

    columns = csc_array(vstack([sums.near, sums.exact], format="csc"))
    # Equal columns add up equal numbers in equal order; others agree with chance 2^-100 a pair.
    draws = np.random.default_rng(0).random((2, columns.shape[0]))
    prints = (columns.T @ draws[0]) + 1j * (columns.T @ draws[1])
    _, firsts, kinds = np.unique(prints, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))

    return firsts[order], ranks[kinds.ravel()]


def shared_out(
    whole: IntArray,
    kinds: IntArray,
) -> IntArray:
    """The people of every kind over its cells, as evenly as whole numbers are."""
    members = np.bincount(kinds, minlength=len(whole))
    everyone, extra = np.divmod(whole, np.maximum(members, 1))
    order = np.argsort(kinds, kind="stable")
    starts = np.cumsum(members) - members
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) - np.repeat(starts, members)
    # The cells that get one more lie at even distances among those of their kind.
    before = places * extra[kinds] // members[kinds]
    after = (places + 1) * extra[kinds] // members[kinds]

    return np.asarray(everyone[kinds] + after - before)


_MOST_SPELLS = 40  # half or double changes nothing at 400 and 1,500 cells
_SPELL = 50
"""Spells of so many looks at all cells."""
_WORTHWHILE = 0.9
"""A spell goes on to the next where it leaves at most this share of the squares."""
_PATIENCE = 8
"""Rounds in a row without a single move after which there seem to be none left."""
# cells that people leave, or go to, in one round: those that promise most
_STEEPEST = 64
_OTHERS = 64
"""Cells that people leave, or go to, in one round: those that promise most, and any others."""
_BEYOND_ONE = 9.0
"""Weight of a sum that strays by one or more, beside the 1 of others."""
# of the squares: smaller ones are rounding; half or double changes nothing at 400 and 1,500 cells
_GAIN = 1e-6


def evenly_rounded(
    values: FloatArray,
    sums: Sums,
) -> IntArray:
    """Whole numbers next to every value: runs of cells, in their order, stray by less than one.

    Cells that the exact sums tell apart are rounded apart, so that these come out where the values
    of each kind add up to whole numbers.
    """
    whole = np.floor(values).astype(np.int64)
    for kind in _kinds_of_exact(sums):
        fractions = values[kind] - whole[kind]
        ends = np.rint(fractions.sum()) - np.cumsum(fractions[::-1])[::-1]
        # The same threshold everywhere: cumulative sums, and their differences, go to a neighbour.
        steps = np.diff(np.floor(np.append(ends, np.rint(fractions.sum())) + 0.5))
        whole[kind] += steps.astype(np.int64)

    return whole


def _kinds_of_exact(sums: Sums) -> list[IntArray]:
    """Cells by the exact sums that they count towards."""
    _, kinds = np.unique(sums.exact.toarray(), axis=1, return_inverse=True)
    order = np.argsort(kinds.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(kinds.ravel()))[:-1]
    return list(np.split(order, ends))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Moves of one person from some cells to others."""

    sources: IntArray
    goals: IntArray


def exchange_people(
    whole: IntArray,
    strayed: FloatArray,
    sums: Sums,
) -> IntArray:
    """The numbers after all moves found by which sums stray less than they do, `strayed`.

    Exact sums are kept, and none strays further than the worst one did. It ends as soon as none
    strays by one or more.
    """
    most = max(1.0, float(np.abs(strayed).max(initial=0.0)))
    search = _Search(
        whole.copy(),
        strayed.copy(),
        _csc_of(sums.near),
        most,
    )
    kinds = _kinds_of_exact(sums)
    rng = np.random.default_rng(0)  # only to look at other cells every time
    squares = np.inf

    for _ in range(_MOST_SPELLS):
        if not search.spell(kinds, rng) or search.squares > _WORTHWHILE * squares:
            break
        squares = search.squares

    return search.whole


def _csc_of(matrix: Any) -> Any:
    """The matrix by columns."""
    from scipy.sparse import csc_array

    return csc_array(matrix)


@dataclass(frozen=True, eq=False)
class _Search:
    """Numbers and how far their sums stray, changed in place."""

    whole: IntArray
    strayed: FloatArray
    columns: Any
    most: float
    """How far sums may stray on the way."""

    @property
    def worst(self) -> float:
        """How far the sum is that strays most."""
        return float(np.abs(self.strayed).max(initial=0.0))

    @property
    def squares(self) -> float:
        """What moves make less."""
        return float(self.strayed @ self.strayed)

    def spell(
        self,
        kinds: list[IntArray],
        rng: np.random.Generator,
    ) -> bool:
        """Some rounds; whether there may be more to gain."""
        idle = 0
        for _ in range(_SPELL):
            if self.worst < 1 or idle == _PATIENCE:
                return False
            moved = [self.round(kind, rng) for kind in kinds]
            idle = 0 if any(moved) else idle + 1

        return True

    def round(
        self,
        kind: IntArray,
        rng: np.random.Generator,
    ) -> bool:
        """Move people among cells of a kind; whether anything moved."""
        weights = np.where(np.abs(self.strayed) >= 1, 1 + _BEYOND_ONE, 1.0)
        slopes = (self.columns.T @ (weights * self.strayed))[kind]
        filled = np.flatnonzero(self.whole[kind] > 0)
        if not len(filled):
            return False

        sources = kind[filled[_chosen(-slopes[filled], rng)]]
        goals = kind[_chosen(slopes, rng)]
        pairs = _best_pairs(
            self.columns,
            weights,
            self.strayed,
            sources,
            goals,
        )
        moves = zip(
            pairs.sources.tolist(),
            pairs.goals.tolist(),
            strict=True,
        )

        return sum(self._move(weights, source, goal) for source, goal in moves) > 0

    def _move(
        self,
        weights: FloatArray,
        source: int,
        goal: int,
    ) -> bool:
        """Make a move if it still gains after those before it."""
        if self.whole[source] == 0 or source == goal:
            return False

        (left, less), (joined, more) = (
            self._column(source),
            self._column(goal),
        )
        strayed = self.strayed
        before_left = strayed[left]
        before_joined = strayed[joined]
        gain = weights[left] @ (less * (less - 2 * before_left))
        strayed[left] -= less
        gain += weights[joined] @ (more * (more + 2 * strayed[joined]))
        strayed[joined] += more
        if gain < -_GAIN and not (
            _pushed(strayed[left], before_left, self.most)
            or _pushed(strayed[joined], before_joined, self.most)
        ):
            self.whole[source] -= 1
            self.whole[goal] += 1
            return True

        strayed[left] = before_left
        strayed[joined] = before_joined
        return False

    def _column(self, cell: int) -> tuple[IntArray, FloatArray]:
        """The sums that a cell counts towards, and how often."""
        entries = slice(
            self.columns.indptr[cell],
            self.columns.indptr[cell + 1],
        )
        return self.columns.indices[entries], self.columns.data[entries]


def _pushed(
    after: FloatArray,
    before: FloatArray,
    most: float,
) -> bool:
    """Whether a sum strays at least as far as any may, and further than before."""
    far = np.abs(after)
    return bool(((far >= most) & (far > np.abs(before))).any())


def _chosen(
    slopes: FloatArray,
    rng: np.random.Generator,
) -> IntArray:
    """The places of least slope, not always the first of equals, and some others."""
    if len(slopes) <= _STEEPEST:
        return np.arange(len(slopes))

    last = np.partition(slopes, _STEEPEST - 1)[_STEEPEST - 1]
    below = np.flatnonzero(slopes < last)
    equal = np.flatnonzero(slopes == last)
    turned = np.roll(equal, int(rng.integers(len(equal))))[: _STEEPEST - len(below)]
    others = rng.integers(len(slopes), size=_OTHERS)

    return np.unique(np.concatenate([below, turned, others]))


def _best_pairs(
    columns: Any,
    weights: FloatArray,
    strayed: FloatArray,
    sources: IntArray,
    goals: IntArray,
) -> _Pairs:
    """For every source the goal that gains most, the best first."""
    out = columns[:, sources]
    into = columns[:, goals]
    weighted_out = out.multiply(weights[:, None])
    weighted_into = into.multiply(weights[:, None])
    slope = (weighted_into.T @ strayed)[None, :] - (weighted_out.T @ strayed)[:, None]
    shared = (weighted_out.T @ into).toarray()
    squares = (
        _squares(weighted_out, out)[:, None] + _squares(weighted_into, into)[None, :]
    )
    gains = 2 * slope + squares - 2 * shared
    best = np.argmin(gains, axis=1)
    found = gains[np.arange(len(sources)), best]
    order = np.argsort(found, kind="stable")
    order = order[found[order] < -_GAIN]
    # Of moves to one cell only the best is likely to gain still after the others.
    order = order[np.sort(np.unique(best[order], return_index=True)[1])]

    return _Pairs(sources[order], goals[best[order]])


def _squares(
    weighted: Any,
    plain: Any,
) -> FloatArray:
    return np.asarray(weighted.multiply(plain).sum(axis=0)).ravel()
