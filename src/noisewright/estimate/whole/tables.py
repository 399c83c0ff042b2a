"""Tables of whole numbers of people near fractional ones, judged by the sums that were asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.estimate.whole.exchanges import evenly_rounded, exchanged
from noisewright.estimate.whole.rounding import Sums, controlled_rounding


def whole_near(values: FloatArray, sums: Sums) -> IntArray:
    """Whole numbers of people whose sums stray least from those of `values` (≥ 0, on a grid).

    Each sum strays by less than one where some flow has them all; else by less than the number of
    sums that a cell counts towards, where programs are small enough (`controlled_rounding`); else
    by what the search leaves (`exchanges`).
    """
    kinds = _Kinds.of(values, sums)
    whole = controlled_rounding(kinds.values, kinds.sums)
    if whole is None:
        whole = evenly_rounded(kinds.values, kinds.sums)

    strayed = kinds.strayed(whole)
    if np.abs(strayed).max(initial=0.0) >= 1:
        whole = exchanged(whole, strayed, kinds.sums)

    return shared_out(whole, kinds.of_cell)


def flow_rounding(values: FloatArray, sums: Sums) -> IntArray | None:
    """Whole numbers of people whose sums stray by less than one; None where none are found."""
    kinds = _Kinds.of(values, sums)
    whole = controlled_rounding(kinds.values, kinds.sums)
    if whole is None or np.abs(kinds.strayed(whole)).max(initial=0.0) >= 1:
        return None
    return shared_out(whole, kinds.of_cell)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Cells that all sums treat alike, added up: what they hold one by one nobody asked."""

    of_cell: IntArray
    values: FloatArray
    sums: Sums

    @classmethod
    def of(cls, values: FloatArray, sums: Sums) -> _Kinds:
        firsts, kinds = alike(sums)
        together = np.asarray(np.bincount(kinds, values), dtype=np.float64)
        return cls(kinds, together, sums.of_cells(firsts))

    def strayed(self, whole: IntArray) -> FloatArray:
        """How far every sum is from what it was."""
        return np.asarray(self.sums.near @ (whole - self.values))


def alike(sums: Sums) -> tuple[IntArray, IntArray]:
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


def shared_out(whole: IntArray, kinds: IntArray) -> IntArray:
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
