"""Cells that can be swapped in pairs: matrices that this leaves unchanged, in two halves.

If a relabelling g of cells, each its own inverse's image, leaves the centred Gram matrix as it is,
some best proof is left as it is too: the mean of a proof and its image is one. Such a matrix has
invariant subspaces: vectors with x_gi = x_i and vectors with x_gi = −x_i. Two eigenproblems of half
the size take a quarter of the time. Only a search uses this; a check does not know of it.

In the order first cells of pairs, their partners, cells alone, such a matrix and its halves are

    [near  far   side ]      even [near + far   √2·side]
    [far   near  side ]           [√2·sideᵀ     alone  ]
    [sideᵀ sideᵀ alone]      odd   near − far
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray

_ROOT = 2**0.5
"""Of the two cells of a pair: makes a sum over both a unit vector."""

_EQUAL = 1e-9
"""Of the largest entry: Gram matrices of symmetric workloads differ by rounding."""


@dataclass(frozen=True)
class Folding:
    """Of cells in an order with one of each pair first, then their partners, then the rest."""

    pairs: int
    alone: int

    @classmethod
    def none(cls, cells: int) -> Folding:
        """No cell has a partner."""
        return cls(0, cells)

    @property
    def sides(self) -> tuple[int, ...]:
        """How many dimensions each of the subspaces has."""
        if not self.pairs:
            return (self.alone,)
        return (self.pairs + self.alone, self.pairs)

    def halves(self, stack: FloatArray) -> tuple[FloatArray, ...]:
        """Invariant symmetric matrices (the last two axes) within each of the two subspaces."""
        if not self.pairs:
            return (stack,)

        first = slice(self.pairs)
        partners = slice(self.pairs, 2 * self.pairs)
        alone = slice(2 * self.pairs, None)
        near = stack[..., first, first]
        far = stack[..., first, partners]

        above = _ROOT * stack[..., first, alone]
        below = _ROOT * stack[..., alone, first]
        rows = [
            [near + far, above],
            [below, stack[..., alone, alone]],
        ]
        return np.block(rows), near - far

    def whole(self, halves: tuple[FloatArray, ...]) -> FloatArray:
        """The matrices whose halves these are."""
        if len(halves) == 1:
            return halves[0]

        even, odd = halves
        both = slice(self.pairs)
        alone = slice(self.pairs, None)
        sums = even[..., both, both]
        near = (sums + odd) / 2
        far = (sums - odd) / 2

        above = even[..., both, alone] / _ROOT
        below = np.swapaxes(above, -1, -2)
        rows = [
            [near, far, above],
            [far, near, above],
            [below, below, even[..., alone, alone]],
        ]
        return np.block(rows)

    def vectors(self, x: FloatArray) -> tuple[FloatArray, ...]:
        """An invariant vector within each of the two subspaces: zero in the second."""
        if not self.pairs:
            return (x,)

        sums = _ROOT * x[: self.pairs]
        alone = x[2 * self.pairs :]
        return np.append(sums, alone), np.zeros(self.pairs)

    def spread(self, columns: tuple[FloatArray, ...]) -> FloatArray:
        """Columns within the two subspaces, side by side over all cells."""
        if len(columns) == 1:
            return columns[0]

        even, odd = columns
        both = even[: self.pairs] / _ROOT
        apart = odd / _ROOT
        nothing = np.zeros((self.alone, odd.shape[1]))
        rows = [
            [both, apart],
            [both, -apart],
            [even[self.pairs :], nothing],
        ]
        return np.block(rows)

    def averaged(self, array: FloatArray) -> FloatArray:
        """The mean of a matrix or vector over cells and its image."""
        swap = np.arange(len(array))
        swap[: self.pairs] += self.pairs
        swap[self.pairs : 2 * self.pairs] -= self.pairs
        image = array[np.ix_(*[swap] * array.ndim)]
        return np.asarray((array + image) / 2)

    # --- eigenvalues ------------------------------------------------------------------------------

    def negative_part(self, stack: FloatArray) -> FloatArray:
        """Σ max(−λ, 0)·qqᵀ over eigenvalues λ and their vectors q."""
        parts = map(negative_part, self.halves(stack))
        return self.whole(tuple(parts))

    def largest(self, stack: FloatArray) -> FloatArray:
        """The largest eigenvalue of each matrix."""
        spectra = map(np.linalg.eigvalsh, self.halves(stack))
        tops = [values[..., -1] for values in spectra]
        return np.asarray(np.max(tops, axis=0))


def negative_part(stack: FloatArray) -> FloatArray:
    """The same without a folding."""
    values, vectors = np.linalg.eigh(stack)
    roots = np.sqrt(np.maximum(-values, 0.0))
    rooted = vectors * roots[..., None, :]
    return np.asarray(rooted @ np.swapaxes(rooted, -1, -2))


def folding_of(gram: FloatArray) -> tuple[IntArray, Folding]:
    """An order of cells and the folding with the fewest cells alone that leaves a matrix as it is.

    Tried are the relabellings that cells of products can have: an axis reversed, two equal ones
    swapped.
    """
    n = len(gram)
    cells = np.arange(n)
    centred = gram - gram.mean(axis=0)
    centred = centred - centred.mean(axis=1)[:, None]
    largest = np.abs(centred).max(initial=0.0)
    allowed = _EQUAL * float(largest)

    # A random vector's image tells most relabellings apart, in n² steps each.
    probe = np.random.default_rng(0).standard_normal(n)
    image = centred @ probe
    best = cells
    fewest = n

    for swap in _relabellings(n):
        alone = int((swap == cells).sum())
        if alone >= fewest:
            continue
        moved = centred @ probe[swap] - image[swap]
        if np.abs(moved).max() > allowed * n:
            continue
        moved = centred[np.ix_(swap, swap)] - centred
        if np.abs(moved).max() <= allowed:
            best = swap
            fewest = alone

    first = np.flatnonzero(cells < best)
    itself = np.flatnonzero(cells == best)
    order = np.concatenate([first, best[first], itself])
    return order.astype(np.int64), Folding(len(first), fewest)


def _relabellings(n: int) -> Iterator[IntArray]:
    """Relabellings of cells in a grid that are their own inverses."""
    cells = np.arange(n)
    for before in _divisors(n):
        for axis in _divisors(n // before)[1:]:
            after = n // before // axis
            grid = cells.reshape(before, axis, after)
            yield grid[:, ::-1].ravel()

            if after % axis == 0:
                square = cells.reshape(before, axis, axis, after // axis)
                yield square.swapaxes(1, 2).ravel()


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]
