"""Cells that can be swapped in pairs: matrices that this leaves unchanged, in two halves.

If a relabelling g of cells, each its own inverse's image, leaves the centred Gram matrix as it is,
some best proof is left as it is too: the mean of a proof and its image is one. Such a matrix has
invariant subspaces: vectors with x_gi = x_i and vectors with x_gi = −x_i. Two eigenproblems of half
the size take a quarter of the time. Only a search uses this; a check does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray

_ROOT = 2**0.5
_EQUAL = 1e-9


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
        return (self.pairs + self.alone, self.pairs) if self.pairs else (self.alone,)

    def halves(self, stack: FloatArray) -> tuple[FloatArray, ...]:
        """Invariant symmetric matrices (the last two axes) within each of the two subspaces."""
        h = self.pairs
        if not h:
            return (stack,)

        near = stack[..., :h, :h]
        far = stack[..., :h, h : 2 * h]
        even = np.empty(
            (*stack.shape[:-2], h + self.alone, h + self.alone), stack.dtype
        )
        even[..., :h, :h] = near + far
        even[..., :h, h:] = _ROOT * stack[..., :h, 2 * h :]
        even[..., h:, :h] = _ROOT * stack[..., 2 * h :, :h]
        even[..., h:, h:] = stack[..., 2 * h :, 2 * h :]

        return even, (near - far)

    def whole(self, halves: tuple[FloatArray, ...]) -> FloatArray:
        """The matrices whose halves these are."""
        if len(halves) == 1:
            return halves[0]

        (even, odd), h = halves, self.pairs
        n = 2 * h + self.alone
        stack = np.empty((*even.shape[:-2], n, n), even.dtype)
        near = (even[..., :h, :h] + odd) / 2
        far = (even[..., :h, :h] - odd) / 2
        stack[..., :h, :h] = stack[..., h : 2 * h, h : 2 * h] = near
        stack[..., :h, h : 2 * h] = stack[..., h : 2 * h, :h] = far
        side = even[..., :h, h:] / _ROOT
        stack[..., :h, 2 * h :] = stack[..., h : 2 * h, 2 * h :] = side
        stack[..., 2 * h :, :h] = stack[..., 2 * h :, h : 2 * h] = np.swapaxes(
            side, -1, -2
        )
        stack[..., 2 * h :, 2 * h :] = even[..., h:, h:]

        return stack

    def vectors(self, x: FloatArray) -> tuple[FloatArray, ...]:
        """An invariant vector within each of the two subspaces: zero in the second."""
        h = self.pairs
        if not h:
            return (x,)
        return np.concatenate([_ROOT * x[:h], x[2 * h :]]), np.zeros(h)

    def spread(self, columns: tuple[FloatArray, ...]) -> FloatArray:
        """Columns within the two subspaces, side by side over all cells."""
        if len(columns) == 1:
            return columns[0]

        (even, odd), h = columns, self.pairs
        upper = np.hstack([even[:h] / _ROOT, odd / _ROOT])
        lower = np.hstack([even[:h] / _ROOT, -odd / _ROOT])
        rest = np.hstack([even[h:], np.zeros((self.alone, odd.shape[1]))])

        return np.vstack([upper, lower, rest])

    def averaged(self, array: FloatArray) -> FloatArray:
        """The mean of a matrix or vector over cells and its image."""
        swap = np.arange(len(array))
        h = self.pairs
        swap[:h], swap[h : 2 * h] = swap[h : 2 * h].copy(), swap[:h].copy()
        image = array[swap] if array.ndim == 1 else array[np.ix_(swap, swap)]
        return (array + image) / 2

    # --- eigenvalues ------------------------------------------------------------------------------

    def negative_part(self, stack: FloatArray) -> FloatArray:
        """Σ max(−λ, 0)·qqᵀ over eigenvalues λ and their vectors q."""
        return self.whole(tuple(_negative_part(half) for half in self.halves(stack)))

    def largest(self, stack: FloatArray) -> FloatArray:
        """The largest eigenvalue of each matrix."""
        tops = [np.linalg.eigvalsh(half)[..., -1] for half in self.halves(stack)]
        return np.asarray(np.max(tops, axis=0))


def _negative_part(stack: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(stack)
    rooted = vectors * np.sqrt(np.maximum(-values, 0.0))[..., None, :]
    return np.asarray(rooted @ np.swapaxes(rooted, -1, -2))


def folding_of(gram: FloatArray) -> tuple[IntArray, Folding]:
    """An order of cells and the folding with the fewest cells alone that leaves a matrix as it is.

    Tried are the relabellings that cells of products can have: an axis reversed, two equal ones
    swapped.
    """
    n = len(gram)
    best = np.arange(n)
    cells = n
    centred = gram - gram.mean(axis=0)
    centred = centred - centred.mean(axis=1)[:, None]
    probe = np.random.default_rng(0).standard_normal(n)
    image = centred @ probe
    size = float(np.abs(centred).max(initial=0.0)) * n

    for swap in _relabellings(n):
        alone = int((swap == np.arange(n)).sum())
        if (
            alone >= cells
            or np.abs(centred @ probe[swap] - image[swap]).max() > _EQUAL * size
        ):
            continue
        if np.abs(centred[np.ix_(swap, swap)] - centred).max() <= _EQUAL * size / n:
            best = swap
            cells = alone

    first = np.flatnonzero(np.arange(n) < best)
    alone_cells = np.flatnonzero(np.arange(n) == best)
    order = np.concatenate([first, best[first], alone_cells])

    return order.astype(np.int64), Folding(len(first), cells)


def _relabellings(n: int) -> Iterator[IntArray]:
    """Relabellings of cells in a grid that are their own inverses."""
    cells = np.arange(n)
    for before in (d for d in range(1, n + 1) if n % d == 0):
        for axis in (d for d in range(2, n // before + 1) if n // before % d == 0):
            after = n // before // axis
            yield cells.reshape(before, axis, after)[:, ::-1].ravel()
            if after % axis == 0:
                square = cells.reshape(before, axis, axis, after // axis)
                yield square.swapaxes(1, 2).ravel()
