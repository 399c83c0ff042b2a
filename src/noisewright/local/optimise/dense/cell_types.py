"""Types of cells: what no query tells apart is searched as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray

_DIGITS = 9  # of products with random vectors, by which types are told apart
# Added before rounding, less than a digit and of no round number: few products lie halfway between.
_OFFSET = 0.314159e-9
_TINY = 1e-300  # no division by zero where nothing is asked


@dataclass(frozen=True, eq=False)
class CellTypes:
    """Cells that no query tells apart are of one type, and a search over types loses nothing.

    If W has equal columns at two cells, M = PMP for the mean P over the cells of each type, and
    giving all cells of a type the mean of their chances turns X into PXP. The inverse of a
    compression is at most the compression of the inverse, so no error rises.
    """

    of_cell: IntArray
    """The type of every cell."""
    first_cells: IntArray
    """The first cell of every type, in the order of cells."""

    @classmethod
    def of(cls, gram: FloatArray) -> CellTypes:
        """The types of a Gram matrix: equal rows, told by their products with random vectors.

        Rows that differ have equal products only by a coincidence of nine digits in all of them.
        """
        random = np.random.default_rng(0).standard_normal((len(gram), 3))
        image = gram @ random
        scale = max(float(np.abs(image).max(initial=0.0)), _TINY)
        # Rounding after a shift: equal numbers but for the last bit round alike almost surely.
        keys = np.round(image / scale + _OFFSET, _DIGITS)
        _, first_cells, of_cell = np.unique(
            keys, axis=0, return_index=True, return_inverse=True
        )
        # Types in the order of their cells: runs of cells and mirror images go by it.
        order = np.argsort(first_cells)

        return cls(np.argsort(order)[of_cell.ravel()], first_cells[order])

    @property
    def count(self) -> int:
        """Number of types."""
        return len(self.first_cells)

    def merged_gram(self, gram: FloatArray) -> FloatArray:
        """The Gram matrix over types."""
        return gram[np.ix_(self.first_cells, self.first_cells)]

    def merged(self, prior: FloatArray) -> FloatArray:
        """A distribution over cells, summed over types."""
        return np.bincount(self.of_cell, prior, minlength=self.count).astype(np.float64)

    def spread(self, merged: FloatArray, prior: FloatArray) -> FloatArray:
        """A distribution over types, spread over their cells as `prior` is."""
        return np.asarray(prior * (merged / self.merged(prior))[self.of_cell])
